//! Extended attributes in the reference, written after man xattr(7) and not after [`granary_vfs::Vfs`].

use super::View;
use granary_fs::{FileKind, FsError, Result, SetXattr, mode};
use granary_vfs::Access;

impl View<'_> {
    /// Whether the caller may use attribute `name` of `ino`.
    fn may_xattr(&self, ino: u64, name: &[u8], writes: bool, removes: bool) -> Result<()> {
        let n = self.fs.at(ino);
        let text = String::from_utf8_lossy(name);
        let plain = n.kind == FileKind::File || n.kind == FileKind::Dir;
        match text.split_once('.') {
            Some(("user" | "trusted" | "security", "")) => Err(FsError::Invalid),
            Some(("user", _)) => {
                if !plain {
                    return Err(if writes { FsError::NotPermitted } else { FsError::NoAttribute });
                }
                let sticky = n.kind == FileKind::Dir && n.mode & mode::STICKY != 0;
                if writes && sticky && !self.owns(ino) {
                    return Err(FsError::NotPermitted);
                }
                self.may(ino, if writes { Access::WRITE } else { Access::READ })
            }
            Some(("trusted", _)) if self.root() => Ok(()),
            Some(("trusted", _)) => Err(if writes { FsError::NotPermitted } else { FsError::NoAttribute }),
            Some(("security", _)) if writes && !self.root() => Err(FsError::NotPermitted),
            Some(("security", _)) => Ok(()),
            Some(("system", "posix_acl_access" | "posix_acl_default")) => {
                if n.kind == FileKind::Symlink {
                    return Err(FsError::NotSupported);
                }
                if writes && !self.owns(ino) {
                    return Err(FsError::NotPermitted);
                }
                let default = text.ends_with("default");
                let misplaced = writes && !removes && default && n.kind != FileKind::Dir;
                if misplaced { Err(FsError::Access) } else { Ok(()) }
            }
            _ => Err(FsError::NotSupported),
        }
    }

    pub(super) fn getxattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        let ino = self.find(path, true)?;
        check(name)?;
        self.may_xattr(ino, name, false, false)?;
        self.fs.at(ino).xattrs.get(name).cloned().ok_or(FsError::NoAttribute)
    }

    pub(super) fn setxattr(&mut self, path: &[u8], name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let ino = self.find(path, true)?;
        check(name)?;
        if value.len() > 65536 {
            return Err(FsError::TooLong);
        }
        self.may_xattr(ino, name, true, false)?;
        let exists = self.fs.at(ino).xattrs.contains_key(name);
        match how {
            SetXattr::Create if exists => return Err(FsError::Exists),
            SetXattr::Replace if !exists => return Err(FsError::NoAttribute),
            _ => {}
        }
        self.fs.at_mut(ino).xattrs.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    pub(super) fn removexattr(&mut self, path: &[u8], name: &[u8]) -> Result<()> {
        let ino = self.find(path, true)?;
        check(name)?;
        self.may_xattr(ino, name, true, true)?;
        if !self.fs.at(ino).xattrs.contains_key(name) {
            return Err(FsError::NoAttribute);
        }
        self.fs.at_mut(ino).xattrs.remove(name);
        Ok(())
    }

    pub(super) fn listxattr(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let names = self.fs.at(self.find(path, true)?).xattrs.keys();
        Ok(names.filter(|n| self.root() || !n.starts_with(b"trusted.")).cloned().collect())
    }
}

fn check(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > 255 { Err(FsError::Range) } else { Ok(()) }
}
