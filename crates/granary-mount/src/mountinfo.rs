//! Mounts and their places, from `/proc/self/mountinfo`: answers without a request to the file system in
//! question.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The type that our mounts have in the mount table.
pub const FS_TYPE: &str = "fuse.granary";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Number of the mount; unique while it exists.
    pub id: u64,
    /// Device, as "major:minor".
    pub device: String,
    /// Where.
    pub mount_point: PathBuf,
    /// Type, for example `ext4`, or `fuse.granary` for ours.
    pub fs_type: String,
    /// The source of the mount.
    pub source: String,
    /// Nothing can be changed through it, because the mount or the file system is read-only.
    pub read_only: bool,
}

/// The topmost mount on exactly this directory (an absolute path without links).
///
/// # Errors
/// The mount table cannot be read.
pub fn find(dir: &Path) -> io::Result<Option<MountEntry>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|&b| b == b'\n').filter_map(parse).rfind(|m| m.mount_point == dir))
}

/// Where something is mounted from, for example what is on `/dev/loop3`; the topmost such mount.
///
/// # Errors
/// The mount table cannot be read.
pub fn of_source(source: &str) -> io::Result<Option<MountEntry>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|&b| b == b'\n').filter_map(parse).rfind(|m| m.source == source))
}

/// Whether a process sees a mount of ours whose source `is` this; `None` where it cannot be looked at.
pub fn sees(process: u32, is: impl Fn(&str) -> bool) -> Option<bool> {
    let table = fs::read(format!("/proc/{process}/mountinfo")).ok()?;
    Some(entries(&table).any(|m| m.fs_type == FS_TYPE && is(&m.source)))
}

/// Where all mounts of ours are that this process sees; none where it cannot look.
pub fn all_ours() -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    entries(&table).filter(|m| m.fs_type == FS_TYPE).map(|m| m.mount_point).collect()
}

/// Where a file system that is unmounted here is still mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The directory, as those see it who see that mount.
    pub mount_point: PathBuf,
    /// A process that sees it; none where we do, too.
    pub process: Option<u32>,
}

/// A mount of this device that this process sees, or else one in the mount namespace of another process, as
/// far as those tell us. A [`MountEntry::device`] is unique on the machine at any one time. Soon after an
/// unmount it may be that of something else, so our type and the source have to be the same.
pub fn mounted_elsewhere(device: &str, source: &str) -> Option<Elsewhere> {
    find_anywhere(|m| m.device == device && m.fs_type == FS_TYPE && m.source == source)
}

fn find_anywhere(wanted: impl Fn(&MountEntry) -> bool) -> Option<Elsewhere> {
    let look = |process: &str| {
        let table = fs::read(format!("/proc/{process}/mountinfo")).ok()?;
        let found = table.split(|&b| b == b'\n').filter_map(parse).rfind(&wanted)?;
        Some(found.mount_point)
    };
    if let Some(mount_point) = look("self") {
        return Some(Elsewhere { mount_point, process: None });
    }
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let mut seen: HashSet<PathBuf> = namespace("self").into_iter().collect();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(process) = name.parse::<u32>() else { continue };
        // One look for each namespace.
        if namespace(&name).is_some_and(|namespace| seen.insert(namespace))
            && let Some(mount_point) = look(&name)
        {
            return Some(Elsewhere { mount_point, process: Some(process) });
        }
    }
    None
}

/// The mounts of a table.
pub(crate) fn entries(table: &[u8]) -> impl Iterator<Item = MountEntry> {
    table.split(|&b| b == b'\n').filter_map(parse)
}

/// Whether a list of options has this one.
fn has(options: &[u8], option: &[u8]) -> bool {
    options.split(|&b| b == b',').any(|one| one == option)
}

/// A line: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let dash = fields.iter().position(|f| f == b"-")?;
    let text = |f: &[u8]| String::from_utf8_lossy(&unescape(f)).into_owned();
    Some(MountEntry {
        id: text(fields.first()?).parse().ok()?,
        device: text(fields.get(2)?),
        mount_point: PathBuf::from(OsString::from_vec(unescape(fields.get(4)?))),
        fs_type: text(fields.get(dash + 1)?),
        source: text(fields.get(dash + 2)?),
        read_only: [fields.get(5), fields.get(dash + 3)].into_iter().flatten().any(|f| has(f, b"ro")),
    })
}

/// The kernel writes blanks, tabs, newlines and backslashes as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let code = field
            .get(at + 1..at + 4)
            .filter(|d| field[at] == b'\\' && d.iter().all(|c| (b'0'..=b'7').contains(c)));
        match code {
            Some(d) => {
                out.push(d.iter().fold(0u8, |n, c| n.wrapping_mul(8).wrapping_add(c - b'0')));
                at += 4;
            }
            None => {
                out.push(field[at]);
                at += 1;
            }
        }
    }
    out
}

/// Whether the directory is a mount of ours, by the mount table.
///
/// # Errors
/// The mount table cannot be read.
pub fn ours(dir: &Path) -> io::Result<Option<MountEntry>> {
    Ok(find(dir)?.filter(|m| m.fs_type == FS_TYPE))
}

/// The path without links and dots, found without asking anything that is mounted on its last component.
///
/// # Errors
/// A component above the last does not exist.
pub fn locate(dir: &Path) -> io::Result<PathBuf> {
    match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().as_bytes().is_empty() { Path::new(".") } else { parent };
            let plain = parent.canonicalize()?.join(name);
            if find(&plain)?.is_some() { Ok(plain) } else { dir.canonicalize() }
        }
        _ => dir.canonicalize(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_escapes_and_optional_fields_is_read() {
        let line =
            br"36 35 0:52 / /mnt/a\040b rw,nosuid shared:7 master:1 - fuse.granary ram:bytefs rw,user_id=0";
        let m = parse(line).expect("a good line");
        assert_eq!((m.id, m.device.as_str(), m.fs_type.as_str()), (36, "0:52", FS_TYPE));
        assert_eq!((m.mount_point.as_path(), m.source.as_str()), (Path::new("/mnt/a b"), "ram:bytefs"));
        assert!(!m.read_only);
        let read_only = |mount: &str, fs: &str| {
            let line = format!("36 35 0:52 / /mnt {mount} - fuse.granary x {fs}");
            parse(line.as_bytes()).expect("a good line").read_only
        };
        assert!(read_only("ro,nosuid", "rw") && read_only("rw", "ro,user_id=0"));
        assert!(!read_only("rw,errors=ro", "rw,root"));
        assert_eq!(parse(b"no mount"), None);
    }

    #[test]
    fn the_root_is_mounted_and_a_made_up_directory_is_not() {
        assert!(find(Path::new("/")).expect("readable").is_some());
        assert_eq!(find(Path::new("/no/such/place")).expect("readable"), None);
        let root = find(Path::new("/")).expect("readable").expect("mounted");
        let there = find_anywhere(|m| m.device == root.device).expect("we see it ourselves");
        assert_eq!(there.process, None);
        assert_eq!(mounted_elsewhere(&root.device, &root.source), None, "it is not one of ours");
    }
}
