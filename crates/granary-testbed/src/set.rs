//! `--set KEY=VALUE`: finds the key, puts the value there, and says in the testbed's words what is wrong with
//! either.
//!
//! Invariant: a key is set once; what does not fit says what the key takes and what it has.

use crate::error::TestbedError;
use crate::source::{self, NO_SIZE, NO_WORD, NO_WORD_IN_TEXT, plain};
use crate::testbed::{ELSEWHERE, Testbed};
use crate::unset;
use serde::Deserialize;
use toml::{Table, Value};

fn bad(set: &str, message: String) -> TestbedError {
    TestbedError::BadSet { set: set.to_owned(), message }
}

/// Refuses the last of `paths` where one before it is the same; `sets` are what gave them, in order.
pub(super) fn once(sets: &[String], paths: &[String]) -> Result<(), TestbedError> {
    let Some((last, before)) = paths.split_last() else { return Ok(()) };
    match before.iter().position(|path| path == last) {
        None => Ok(()),
        Some(n) => Err(bad(
            &sets[before.len()],
            format!("{last} is set already, by --set {}: leave one out", sets[n]),
        )),
    }
}

/// The testbed of the tree after a `KEY=VALUE`.
pub(super) fn read(tree: &mut Table, set: &str) -> Result<Testbed, TestbedError> {
    Testbed::deserialize(tree.clone()).or_else(|e| match set.split_once('=') {
        // As a word it is refused with the list of those that there are.
        Some((key, value)) if [NO_WORD, NO_WORD_IN_TEXT].contains(&e.message()) => {
            apply(tree, &format!("{key}='{}'", value.trim()), "")?;
            Testbed::deserialize(tree.clone()).map_err(|e| bad(set, plain(e.message())))
        }
        _ => Err(bad(set, plain(e.message()))),
    })
}

/// Applies one `KEY=VALUE` to the tree of the testbed `name`; returns the key's whole path.
///
/// # Errors
/// There is no such key, several could be meant, or it takes no such value.
pub(super) fn apply(tree: &mut Table, set: &str, name: &str) -> Result<String, TestbedError> {
    let (key, value) = set.split_once('=').ok_or_else(|| bad(set, "write KEY=VALUE".to_owned()))?;
    let (key, value) = (key.trim(), value.trim());
    let key = &source::modern(key);
    let path = find(tree, key, name).map_err(|message| bad(set, message))?;
    // A bare word is a string: `atime=noatime`, `size=16k`.
    let parsed = toml::from_str::<Table>(&format!("v = {value}"))
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", &path));
    let mut table = &mut *tree;
    for part in parents.split('.').filter(|p| !p.is_empty()) {
        table = match table.get_mut(part) {
            Some(Value::Table(t)) => t,
            _ => return Err(bad(set, format!("'{part}' is not a section"))),
        };
    }
    let before = table.insert(last.to_owned(), parsed);
    if let Err(e) = Testbed::deserialize(tree.clone())
        && let Some(takes) = takes(e.message())
    {
        let has = before.map_or(String::new(), |v| format!("; it is {v} in {name}"));
        return Err(bad(set, format!("{path} takes {takes}{has}")));
    }
    Ok(path)
}

/// The whole path of `key`.
fn find(tree: &Table, key: &str, name: &str) -> Result<String, String> {
    let mut keys = Vec::new();
    collect_keys(tree, "", &mut keys);
    keys.extend(unset::keys_of(tree));
    let ending = format!(".{key}");
    let matches: Vec<&String> = keys.iter().filter(|k| *k == key || k.ends_with(&ending)).collect();
    match matches.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let last = key.rsplit('.').next().unwrap_or(key);
            if let Some((_, why)) = ELSEWHERE.iter().find(|(key, _)| *key == last) {
                return Err((*why).to_owned());
            }
            let list = format!("`granary testbed show {name} --values` lists them");
            Err(format!("the testbed has no key '{key}'; {}{list}", near(&keys, key, last)))
        }
        many => {
            let all: Vec<&str> = many.iter().map(|k| k.as_str()).collect();
            Err(format!("'{key}' could be {}: write more of the path", all.join(", ")))
        }
    }
}

/// Keys that may have been meant, and what goes on behind them.
fn near(keys: &[String], key: &str, last: &str) -> String {
    let parts = key.split('.').count();
    let end = |path: &str, parts: usize| {
        let all: Vec<&str> = path.split('.').collect();
        all[all.len().saturating_sub(parts)..].join(".")
    };
    let ends: Vec<String> = keys.iter().map(|k| end(k, parts)).collect();
    if let Some(near) = granary_trace::suggest::nearest(key, ends.iter().map(String::as_str)) {
        // As much of the path as tells it from others.
        let meant: Vec<String> = keys
            .iter()
            .filter(|k| end(k, parts) == near)
            .map(|k| {
                let alone = |n: &usize| keys.iter().filter(|other| end(other, *n) == end(k, *n)).count() == 1;
                end(k, (parts..=k.split('.').count()).find(alone).unwrap_or(usize::MAX))
            })
            .map(|k| format!("`{k}`"))
            .collect();
        return format!("did you mean {}? ", meant.join(" or "));
    }
    let having: Vec<&str> = keys.iter().filter(|k| k.contains(last)).map(String::as_str).collect();
    if having.is_empty() { String::new() } else { format!("perhaps {}; ", having.join(", ")) }
}

/// The values that a key takes, where the reader of TOML says that something else stands there.
fn takes(message: &str) -> Option<String> {
    if message == NO_SIZE || message.contains("' is not a size: ") {
        return Some("a size (or bandwidth): a whole number of bytes, or a text such as 16MiB".to_owned());
    }
    let expected = message.strip_prefix("invalid ")?.rsplit_once(", expected ")?.1;
    let wide = message.starts_with("invalid value: integer");
    let most = |most: u64| {
        let beyond = if wide { format!(" up to {most}") } else { String::new() };
        format!("a whole number{beyond}")
    };
    Some(match expected {
        "u8" => most(u8::MAX.into()),
        "u16" => most(u16::MAX.into()),
        "u32" => most(u32::MAX.into()),
        "u64" | "usize" => most(i64::MAX as u64),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        list if list.starts_with("a tuple of size ") || list.starts_with("an array of length ") => {
            format!("a list of {}", list.rsplit(' ').next().unwrap_or_default())
        }
        ours if ours.starts_with("a whole number") => ours.to_owned(),
        _ => return None,
    })
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
