//! [`Picture`]: all that a file system shows, a line for each name: a snapshot shows the same for ever.

use super::attributes::digest;
use granary_fs::{Attr, FileKind, FsError, Result};
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix, Stat};
use std::collections::BTreeMap;

/// Differences that are told.
const TOLD: usize = 8;

/// See the module. Access times are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture(BTreeMap<Vec<u8>, String>);

impl Picture {
    /// The tree as `process` sees it.
    ///
    /// # Errors
    /// The first of a call, with the name that it was for.
    pub(crate) fn of<P: Posix>(process: &mut P) -> Result<Picture, String> {
        let mut picture = Picture::default();
        let mut todo = vec![b"/".to_vec()];
        while let Some(path) = todo.pop() {
            let line = line(process, &path, &mut todo);
            let line = line.map_err(|e| format!("{}: {e}", String::from_utf8_lossy(&path)))?;
            picture.0.insert(path, line);
        }
        Ok(picture)
    }
    /// The differences of a later picture.
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

/// The line of one name; what is in a directory is looked at later.
fn line<P: Posix>(process: &mut P, path: &[u8], todo: &mut Vec<Vec<u8>>) -> Result<String> {
    let Stat { ino, attr } = process.lstat(path)?;
    let content = match attr.kind {
        FileKind::Dir => {
            for entry in process.list(path)? {
                if entry.name != b"." && entry.name != b".." {
                    let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
                    todo.push([path, slash, &entry.name].concat());
                }
            }
            Vec::new()
        }
        FileKind::File => whole(process, path, attr.size)?,
        FileKind::Symlink => process.readlink(path)?,
        _ => Vec::new(),
    };
    // Of a symbolic link these calls would go on to where it leads.
    let names = match attr.kind {
        FileKind::Symlink => Ok(Vec::new()),
        _ => process.listxattr(path),
    };
    let xattrs = match names {
        Ok(names) => {
            let value = |name: Vec<u8>| process.getxattr(path, &name).map(|value| (name, value));
            names.into_iter().map(value).collect::<Result<BTreeMap<_, _>>>()?
        }
        Err(FsError::NotSupported) => BTreeMap::new(),
        Err(e) => return Err(e),
    };
    let xattrs: Vec<u8> = xattrs.into_iter().flat_map(|(name, value)| [name, value].concat()).collect();
    let [content, xattrs] = [content, xattrs].map(|bytes| digest(b"", &bytes).unwrap_or_default());
    let Attr { kind, mode, uid, gid, nlink, size, mtime, ctime, .. } = attr;
    Ok(format!(
        "{kind:?} {} of mode {mode:o}, owner {uid}:{gid}, {nlink} links, {size} bytes {content:x}, attributes {xattrs:x}, changed at {mtime:?} and {ctime:?}",
        ino.0
    ))
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
