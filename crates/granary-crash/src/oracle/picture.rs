//! [`Picture`]: all that a file system shows, a line for each name: a snapshot shows the same for ever.

use super::attributes::digest;
use granary_fs::{FileKind, FsError, Result};
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix, Stat};
use std::collections::BTreeMap;

/// Differences that are told.
const TOLD: usize = 8;

/// See the module. Access times are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture(BTreeMap<Vec<u8>, String>);

impl Picture {
    /// What `process` sees.
    ///
    /// # Errors
    /// Of any call.
    pub(crate) fn of<P: Posix>(process: &mut P) -> Result<Picture> {
        let mut picture = Picture::default();
        let mut todo = vec![b"/".to_vec()];
        while let Some(path) = todo.pop() {
            let Stat { ino, attr } = process.lstat(&path)?;
            let content = match attr.kind {
                FileKind::Dir => {
                    for entry in process.list(&path)? {
                        if entry.name != b"." && entry.name != b".." {
                            let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
                            todo.push([&path, slash, &entry.name].concat());
                        }
                    }
                    Vec::new()
                }
                FileKind::File => whole(process, &path, attr.size)?,
                FileKind::Symlink => process.readlink(&path)?,
                _ => Vec::new(),
            };
            let xattrs = match process.listxattr(&path) {
                Ok(names) => {
                    let value = |name: Vec<u8>| process.getxattr(&path, &name).map(|value| (name, value));
                    names.into_iter().map(value).collect::<Result<BTreeMap<_, _>>>()?
                }
                Err(FsError::NotSupported) => BTreeMap::new(),
                Err(e) => return Err(e),
            };
            let xattrs: Vec<u8> =
                xattrs.into_iter().flat_map(|(name, value)| [name, value].concat()).collect();
            let sums = [content, xattrs].map(|bytes| digest(b"", &bytes).unwrap_or_default());
            let line = format!(
                "{:?} {} of mode {:o}, owner {}:{}, {} links, {} bytes {:x}, attributes {:x}, changed at {:?} and {:?}",
                attr.kind,
                ino.0,
                attr.mode,
                attr.uid,
                attr.gid,
                attr.nlink,
                attr.size,
                sums[0],
                sums[1],
                attr.mtime,
                attr.ctime
            );
            picture.0.insert(path, line);
        }
        Ok(picture)
    }

    /// What differs in a later one.
    pub(crate) fn differences(&self, later: &Picture) -> Vec<String> {
        let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let was = self.0.iter().filter_map(|(path, was)| match later.0.get(path) {
            Some(is) if is == was => None,
            Some(is) => Some(format!("{}: was {was}; is {is}", name(path))),
            None => Some(format!("{} is missing: was {was}", name(path))),
        });
        let new = later.0.keys().filter(|path| !self.0.contains_key(*path));
        was.chain(new.map(|path| format!("{} is new", name(path)))).take(TOLD).collect()
    }
}

fn whole<P: Posix>(process: &mut P, path: &[u8], size: u64) -> Result<Vec<u8>> {
    let fd = process.open(path, OpenFlags::RDONLY, 0)?;
    let mut bytes = vec![0; size as usize];
    let mut at = 0;
    while at < bytes.len() {
        match process.pread(fd, Dest::Bytes(&mut bytes[at..]), at as u64)? {
            0 => break,
            n => at += n,
        }
    }
    process.close(fd)?;
    bytes.truncate(at);
    Ok(bytes)
}
