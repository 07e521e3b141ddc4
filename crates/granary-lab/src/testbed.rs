//! [`Testbed`]: a host and its drive, as a TOML file in which every value names its source.
//!
//! ```text
//!   [host]  cores   [host.costs]  [host.vfs]       [drive.link]  [drive.firmware]  [drive.flash...]
//! ```
//!
//! Built-in testbeds are the files of `testbeds/`. `--set KEY=VALUE` changes one value: KEY is a dotted path, or the
//! end of one where that is unambiguous (`nand.read_ns` for `drive.flash.nand.read_ns`).
//!
//! Unknown keys, wrong types and contradictions are refused with the line; nothing is silently ignored.

use crate::error::LabError;
use granary_mssd::DriveConfig;
use granary_sim::HostCosts;
use granary_units::Bytes;
use granary_vfs::VfsConfig;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// A host and its drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testbed {
    /// Short name.
    pub name: String,
    /// One line for lists.
    pub description: String,
    /// The host.
    pub host: Host,
    /// The drive.
    pub drive: DriveConfig,
}

/// The host computer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Cores that tasks share.
    pub cores: usize,
    /// Memory for metadata blocks, beside the page cache.
    pub metadata_cache: Bytes,
    /// What host software costs.
    pub costs: HostCosts,
    /// Page cache, write-back, time stamps.
    #[serde(default)]
    pub vfs: VfsConfig,
}

/// Name and text of each built-in testbed.
const BUILTIN: [(&str, &str); 1] =
    [("bytefs-emulator", include_str!("../../../testbeds/bytefs-emulator.toml"))];

/// The built-in testbeds.
pub fn builtins() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILTIN.into_iter()
}

/// The text of a testbed: a built-in name, or the path of a file.
///
/// # Errors
/// Neither exists; the file cannot be read.
pub fn text(name: &str) -> Result<String, LabError> {
    if let Some((_, text)) = builtins().find(|(n, _)| *n == name) {
        return Ok(text.to_owned());
    }
    if !std::path::Path::new(name).exists() {
        let known: Vec<&str> = builtins().map(|(n, _)| n).collect();
        return Err(LabError::UnknownTestbed { name: name.to_owned(), known: known.join(", ") });
    }
    std::fs::read_to_string(name).map_err(|source| LabError::Io { what: format!("reading {name}"), source })
}

impl Testbed {
    /// Loads a testbed and applies `sets`, each `KEY=VALUE`.
    ///
    /// # Errors
    /// Everything that is wrong with the file or a set, with its place.
    pub fn load(name: &str, sets: &[String]) -> Result<Testbed, LabError> {
        let bad = |message: String| LabError::BadTestbed { file: name.to_owned(), message };
        let mut testbed: Testbed = toml::from_str(&text(name)?).map_err(|e| bad(e.to_string()))?;
        if !sets.is_empty() {
            // Writing the testbed out first makes every key present, also those the file leaves at their default.
            let mut tree = Table::try_from(&testbed).map_err(|e| bad(e.to_string()))?;
            for set in sets {
                apply(&mut tree, set)?;
                testbed = Testbed::deserialize(tree.clone())
                    .map_err(|e| LabError::BadSet { set: set.clone(), message: e.message().to_owned() })?;
            }
        }
        testbed.drive.validate().map_err(|e| bad(e.to_string()))?;
        if testbed.host.cores == 0 {
            return Err(bad("host.cores must be at least 1".to_owned()));
        }
        Ok(testbed)
    }
}

/// Applies one `KEY=VALUE` to the tree.
fn apply(tree: &mut Table, set: &str) -> Result<(), LabError> {
    let bad = |message: String| LabError::BadSet { set: set.to_owned(), message };
    let (key, value) = set.split_once('=').ok_or_else(|| bad("write KEY=VALUE".to_owned()))?;
    let (key, value) = (key.trim(), value.trim());
    let mut keys = Vec::new();
    collect_keys(tree, "", &mut keys);
    let ending = format!(".{key}");
    let matches: Vec<&String> = keys.iter().filter(|k| *k == key || k.ends_with(&ending)).collect();
    let path = match matches.as_slice() {
        [one] => (*one).clone(),
        [] => {
            let last = key.rsplit('.').next().unwrap_or(key);
            let near: Vec<&str> = keys.iter().filter(|k| k.contains(last)).map(String::as_str).collect();
            let hint = if near.is_empty() { String::new() } else { format!("; perhaps {}", near.join(", ")) };
            return Err(bad(format!(
                "the testbed has no key '{key}'{hint}; `granary testbed show` lists them"
            )));
        }
        many => {
            let all: Vec<&str> = many.iter().map(|k| k.as_str()).collect();
            return Err(bad(format!("'{key}' could be {}: write more of the path", all.join(", "))));
        }
    };
    // A bare word is a string: `atime=noatime`, `size=16k`.
    let parsed = toml::from_str::<Table>(&format!("v = {value}"))
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let (last, parents) = path
        .split('.')
        .collect::<Vec<_>>()
        .split_last()
        .map(|(l, p)| (l.to_string(), p.join(".")))
        .expect("a path has a key");
    let mut table = tree;
    for part in parents.split('.').filter(|p| !p.is_empty()) {
        table = match table.get_mut(part) {
            Some(Value::Table(t)) => t,
            _ => return Err(bad(format!("'{part}' is not a section"))),
        };
    }
    table.insert(last, parsed);
    Ok(())
}

/// All dotted paths of values below `table`.
fn collect_keys(table: &Table, prefix: &str, out: &mut Vec<String>) {
    for (k, v) in table {
        let path = if prefix.is_empty() { k.clone() } else { format!("{prefix}.{k}") };
        match v {
            Value::Table(t) => collect_keys(t, &path, out),
            _ => out.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_testbed_loads_under_its_own_name() {
        for (name, _) in builtins() {
            assert_eq!(Testbed::load(name, &[]).expect(name).name, name);
        }
    }

    #[test]
    fn set_reaches_a_value_by_the_end_of_its_path() {
        let t = Testbed::load("bytefs-emulator", &["costs.syscall=123".into(), "page_cache=64MiB".into()])
            .expect("good sets");
        assert_eq!((t.host.costs.syscall.0, t.host.vfs.page_cache), (123, Bytes::mib(64)));
    }

    #[test]
    fn a_wrong_set_says_what_would_be_right() {
        let message =
            |set: &str| Testbed::load("bytefs-emulator", &[set.to_owned()]).expect_err(set).to_string();
        assert!(message("syscal=1").contains("no key 'syscal'"));
        assert!(message("syscall").contains("write KEY=VALUE"));
        assert!(message("costs.syscall=fast").contains("--set costs.syscall=fast: invalid type"));
    }

    #[test]
    fn an_unknown_testbed_lists_the_known_ones() {
        let e = Testbed::load("no-such", &[]).expect_err("unknown").to_string();
        assert!(e.contains("bytefs-emulator"), "{e}");
    }
}
