//! Whole trees: taken through the calls, and compared.

use super::Shown;
use granary_fs::{FileKind, FsError, Ino, Result};
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix};
use std::collections::BTreeMap;

/// A whole tree: the entry of each path. Directories end with a slash.
pub type Snapshot = BTreeMap<Vec<u8>, TreeEntry>;

/// An entry of a tree.
#[derive(Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Attributes.
    pub shown: Shown,
    /// Content, or a symbolic link's target.
    pub content: Vec<u8>,
    /// The first path (in order) of the same inode: hard links.
    pub first: Vec<u8>,
    /// Extended attributes, sorted by name; none of a symbolic link.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for TreeEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.content.iter().take(40).map(|&b| b as char).collect::<String>();
        write!(f, "{:?}, {} bytes {text:?}, ", self.shown, self.content.len())?;
        write!(f, "first {:?}", String::from_utf8_lossy(&self.first))?;
        let short = |b: &[u8]| String::from_utf8_lossy(&b[..b.len().min(20)]).into_owned();
        self.xattrs
            .iter()
            .try_for_each(|(n, v)| write!(f, ", {:?}={} bytes {:?}", short(n), v.len(), short(v)))
    }
}

/// Takes the whole tree, as root.
///
/// # Errors
/// Any call's.
pub fn snapshot(p: &mut impl Posix) -> Result<Snapshot> {
    p.set_cred(granary_fs::Cred::ROOT);
    let mut all = Snapshot::new();
    let mut first: BTreeMap<Ino, Vec<u8>> = BTreeMap::new();
    let mut todo = vec![b"/".to_vec()];
    while let Some(path) = todo.pop() {
        let stat = p.lstat(&path)?;
        let mut content = Vec::new();
        let mut key = path.clone();
        match stat.attr.kind {
            FileKind::Dir => {
                if path != b"/" {
                    key.push(b'/');
                }
                let mut names: Vec<_> = p.list(&path)?.into_iter().map(|e| e.name).collect();
                names.sort();
                // Reversed: the stack then gives them back in order.
                for name in names.iter().rev().filter(|n| !matches!(&n[..], b"." | b"..")) {
                    todo.push([&key[..], &name[..]].concat());
                }
            }
            FileKind::File => {
                let fd = p.open(&path, OpenFlags::RDONLY, 0)?;
                content.resize(stat.attr.size as usize, 0);
                let mut done = 0;
                while done < content.len() {
                    let n = p.pread(fd, Dest::Bytes(&mut content[done..]), done as u64)?;
                    if n == 0 {
                        break;
                    }
                    done += n;
                }
                content.truncate(done);
                p.close(fd)?;
            }
            FileKind::Symlink => content = p.readlink(&path)?,
            _ => {}
        }
        let xattrs = if stat.attr.kind == FileKind::Symlink { Vec::new() } else { xattrs(p, &path)? };
        let first = first.entry(stat.ino).or_insert_with(|| key.clone()).clone();
        all.insert(key, TreeEntry { shown: Shown::of(&stat), content, first, xattrs });
    }
    Ok(all)
}

/// All extended attributes; none where the file system has no such thing.
fn xattrs(p: &mut impl Posix, path: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = match p.listxattr(path) {
        Err(FsError::NotSupported) => Vec::new(),
        other => other?,
    };
    names.sort();
    names.into_iter().map(|n| p.getxattr(path, &n).map(|v| (n, v))).collect()
}

/// The first difference between two trees, as a sentence.
///
/// # Errors
/// That sentence; or the call that failed.
pub fn compare_trees(ours: &mut impl Posix, expected: &mut impl Posix) -> Result<(), String> {
    let take = |t: Result<Snapshot>, whose| t.map_err(|e| format!("cannot take {whose} tree: {e}"));
    let (a, b) = (take(snapshot(ours), "our")?, take(snapshot(expected), "the expected")?);
    difference(&a, &b).map_or(Ok(()), Err)
}

/// The first difference, if any.
pub(super) fn difference(ours: &Snapshot, expected: &Snapshot) -> Option<String> {
    let paths: std::collections::BTreeSet<_> = ours.keys().chain(expected.keys()).collect();
    paths.into_iter().find_map(|path| {
        let (a, b) = (ours.get(path), expected.get(path));
        (a != b).then(|| {
            let at = match (a, b) {
                (Some(a), Some(b)) => {
                    let at = a.content.iter().zip(&b.content).position(|(x, y)| x != y);
                    at.map(|at| (at, a.content[at], b.content[at]))
                }
                _ => None,
            };
            let path = String::from_utf8_lossy(path);
            format!(
                "{path:?} is {a:?}\nand should be {b:?}\n(content first differs at, is and should be: {at:?})"
            )
        })
    })
}
