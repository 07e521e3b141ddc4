//! [`Limits`]: how much memory this process can still have, and who says so.

use crate::error::BenchError;
use granary_units::Bytes;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};

/// The variable that says how much memory there is, instead of the machine.
const VARIABLE: &str = "GRANARY_MEMORY";

/// Memory that is left, bytes, and who says so; `None`: nobody does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory.
    pub memory: Option<(u64, String)>,
    /// Address space.
    pub address_space: Option<(u64, String)>,
}

impl Limits {
    /// So many bytes of each.
    pub fn of(bytes: u64) -> Limits {
        let both = Some((bytes, VARIABLE.to_owned()));
        Limits { memory: both.clone(), address_space: both }
    }

    /// Those of this process, now.
    ///
    /// # Errors
    /// [`BenchError::Usage`] where the variable that replaces them is no size.
    pub fn here() -> Result<Limits, BenchError> {
        match std::env::var_os(VARIABLE) {
            Some(text) => said(&text.to_string_lossy()),
            None => Ok(Limits::of_machine()),
        }
    }

    fn of_machine() -> Limits {
        let machine = field("/proc/meminfo", "MemAvailable:").map(|has| (has, "MemAvailable".to_owned()));
        Limits {
            memory: [machine, control_group()].into_iter().flatten().min_by_key(|(has, _)| *has),
            address_space: getrlimit(Resource::As).current.map(|most| {
                let used = field("/proc/self/status", "VmSize:").unwrap_or(0);
                (most.saturating_sub(used), "ulimit -v, less what is in use".to_owned())
            }),
        }
    }

    /// Whether the system gives so much in one piece. It is asked only where it may not: the allocator would
    /// keep what it was asked for, and clear it, so that all of it took memory.
    pub(super) fn gives_at_once(&self, bytes: u64) -> bool {
        let few = self.memory.as_ref().is_some_and(|(has, _)| bytes <= *has);
        few || usize::try_from(bytes).is_ok_and(|n| Vec::<u8>::new().try_reserve_exact(n).is_ok())
    }
}

/// The limits that the variable stands for.
fn said(text: &str) -> Result<Limits, BenchError> {
    let bytes = text.parse::<Bytes>();
    let bytes =
        bytes.map_err(|e| BenchError::Usage(format!("{VARIABLE}={text} is no size ({e}): write 6GiB")))?;
    Ok(Limits::of(bytes.0))
}

/// The most memory that this process had so far, bytes, where the system tells.
pub fn peak() -> Option<Bytes> {
    field("/proc/self/status", "VmHWM:").map(Bytes)
}

/// A line `name N kB` of a file of proc(5), bytes.
fn field(file: &str, name: &str) -> Option<u64> {
    number(&std::fs::read_to_string(file).ok()?, name).map(|kib| kib * 1024)
}

fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Memory that the control group of this process (version 2) leaves, and those around it.
fn control_group() -> Option<(u64, String)> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let groups = root.join(own);
    let groups: Vec<PathBuf> =
        groups.ancestors().take_while(|path| path.starts_with(root)).map(Path::to_owned).collect();
    groups
        .iter()
        .filter_map(|group| left(group))
        .min()
        .map(|has| (has, "memory.max of its control group".to_owned()))
}

/// Memory that a control group leaves: its page cache can be had back.
fn left(group: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let cached = read("memory.stat").and_then(|stat| number(&stat, "file ")).unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_no_size_is_an_error() {
        assert_eq!(said("6GiB").expect("a size"), Limits::of(6 << 30));
        let told = said("much").expect_err("refused").to_string();
        assert!(told.contains("GRANARY_MEMORY=much") && told.contains("write 6GiB"), "{told}");
    }

    #[test]
    fn a_control_group_leaves_what_it_has_not_used_and_its_page_cache() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writes");
        write("memory.max", "max\n");
        write("memory.current", "300\n");
        assert_eq!(left(dir.path()), None, "without a limit");
        write("memory.max", "1000\n");
        assert_eq!(left(dir.path()), Some(700));
        write("memory.stat", "anon 100\nfile 200\n");
        assert_eq!(left(dir.path()), Some(900));
        write("memory.max", "50\n");
        assert_eq!(left(dir.path()), Some(0));
    }
}
