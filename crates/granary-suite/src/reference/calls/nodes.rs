//! Calls on nodes.

use super::R;
use crate::reference::{File, Last, Place, RefProcess, View};
use granary_fs::{FileKind, FsError, mode};
use granary_units::{Dest, Payload};
use granary_vfs::{Access, Fd, OpenFlags};

impl RefProcess {
    pub(super) fn with<T>(&mut self, f: impl FnOnce(&mut View<'_>) -> R<T>) -> R<T> {
        let fs = &mut *self.fs.lock();
        f(&mut View { fs, me: &self.me })
    }

    pub(super) fn file(&mut self, fd: Fd) -> R<&mut File> {
        self.me.files.get_mut(&fd.0).ok_or(FsError::BadFd)
    }

    pub(super) fn make_at(
        &mut self,
        path: &[u8],
        kind: FileKind,
        bits: u16,
        rdev: u32,
        target: &[u8],
    ) -> R<()> {
        self.with(|v| {
            let Place { dir, last, slash } = v.parent(path)?;
            let Last::Name(name) = last else { return Err(FsError::Exists) };
            if v.fs.at(dir).names.contains_key(&name) {
                return Err(FsError::Exists);
            }
            if slash && kind != FileKind::Dir {
                return Err(FsError::NoEntry);
            }
            v.make(dir, &name, kind, bits, rdev, target).map(|_| ())
        })
    }

    pub(super) fn chmod_node(v: &mut View<'_>, ino: u64, bits: u16) -> R<()> {
        if !v.owns(ino) {
            return Err(FsError::NotPermitted);
        }
        let keeps = v.root() || v.in_group(v.fs.at(ino).gid);
        let bits = bits & 0o7777 & if keeps { 0o7777 } else { !mode::SGID };
        v.fs.at_mut(ino).mode = bits;
        Ok(())
    }

    pub(super) fn chown_path(
        &mut self,
        path: &[u8],
        follow: bool,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> R<()> {
        self.with(|v| {
            let ino = v.find(path, follow)?;
            let (old, bits) = ((v.fs.at(ino).uid, v.fs.at(ino).gid), v.fs.at(ino).mode);
            let mine = old.0 == v.me.cred.uid;
            let uid_ok = uid.is_none_or(|u| mine && u == old.0);
            let gid_ok = gid.is_none_or(|g| mine && (g == old.1 || v.in_group(g)));
            let allowed = v.root() || (uid_ok && gid_ok);
            if !allowed {
                return Err(FsError::NotPermitted);
            }
            v.strip(ino, true);
            if v.fs.at(ino).mode != bits && !v.owns(ino) {
                v.fs.at_mut(ino).mode = bits;
                return Err(FsError::NotPermitted);
            }
            // Linux changes owner and mode together, and then looks whether the caller is in the new group.
            let stripped = v.fs.at(ino).mode != bits;
            let keeps = v.root() || v.in_group(gid.unwrap_or(old.1));
            let n = v.fs.at_mut(ino);
            if stripped && !keeps {
                n.mode &= !mode::SGID;
            }
            n.uid = uid.unwrap_or(n.uid);
            n.gid = gid.unwrap_or(n.gid);
            Ok(())
        })
    }

    pub(super) fn install(&mut self, ino: u64, flags: OpenFlags) -> Fd {
        let fd = (0..).find(|n| !self.me.files.contains_key(n)).expect("a free number");
        self.me.files.insert(fd, File { ino, flags, pos: 0 });
        Fd(fd)
    }

    pub(super) fn link_ino(v: &mut View<'_>, ino: u64, new: &[u8]) -> R<()> {
        let Place { dir, last, slash } = v.parent(new)?;
        let Last::Name(name) = last else { return Err(FsError::Exists) };
        if v.fs.at(dir).names.contains_key(&name) {
            return Err(FsError::Exists);
        }
        if slash || v.fs.at(dir).nlink == 0 {
            return Err(FsError::NoEntry);
        }
        v.may(dir, Access::WRITE | Access::EXEC)?;
        if v.fs.is_dir(ino) {
            return Err(FsError::NotPermitted);
        }
        if v.fs.at(ino).nlink == 0 && !v.fs.at(ino).unnamed {
            return Err(FsError::NoEntry);
        }
        if v.fs.at(ino).nlink >= v.fs.limits.max_links {
            return Err(FsError::TooManyLinks);
        }
        let node = v.fs.at_mut(ino);
        (node.nlink, node.unnamed) = (node.nlink + 1, false);
        v.fs.at_mut(dir).names.insert(name, ino);
        Ok(())
    }

    pub(super) fn open_ino(v: &mut View<'_>, path: &[u8], flags: OpenFlags, bits: u16) -> R<(u64, bool)> {
        if !flags.contains(OpenFlags::CREAT) {
            return Ok((v.find(path, !flags.contains(OpenFlags::NOFOLLOW))?, false));
        }
        let exclusive = flags.contains(OpenFlags::EXCL);
        let (mut from, mut path, mut links) = (v.me.cwd, path.to_vec(), 0);
        loop {
            let Place { dir, last, slash } = v.place(from, &path, &mut links)?;
            let Last::Name(name) = last else {
                return Err(if exclusive { FsError::Exists } else { FsError::IsDir });
            };
            if slash {
                return Err(FsError::IsDir);
            }
            let Some(&ino) = v.fs.at(dir).names.get(&name) else {
                let bits = bits & 0o7777 & !v.me.umask;
                return Ok((v.make(dir, &name, FileKind::File, bits, 0, b"")?, true));
            };
            match v.fs.at(ino).kind {
                _ if exclusive => return Err(FsError::Exists),
                FileKind::Symlink if !flags.contains(OpenFlags::NOFOLLOW) => {
                    links += 1;
                    if links > 40 {
                        return Err(FsError::Loop);
                    }
                    (from, path) = (dir, v.fs.at(ino).target.clone());
                }
                FileKind::Dir => return Err(FsError::IsDir),
                _ => return Ok((ino, false)),
            }
        }
    }

    pub(super) fn read_at(&mut self, fd: Fd, mut dest: Dest<'_>, pos: Option<u64>) -> R<usize> {
        let File { ino, flags, pos: own } = self.file(fd)?.clone();
        if !flags.reads() {
            return Err(FsError::BadFd);
        }
        let pos = pos.unwrap_or(own);
        self.with(|v| {
            let node = v.fs.at(ino);
            if node.kind == FileKind::Dir {
                return Err(FsError::IsDir);
            }
            let len = node.content.size().saturating_sub(pos).min(dest.len() as u64) as usize;
            if let Dest::Bytes(out) = dest.part(0, len) {
                out.copy_from_slice(&node.content.read(pos, len));
            }
            Ok(len)
        })
    }

    /// Returns where the write ended, too.
    pub(super) fn write_at(&mut self, fd: Fd, data: Payload<'_>, pos: Option<u64>) -> R<(usize, u64)> {
        let File { ino, flags, pos: own } = self.file(fd)?.clone();
        if !flags.writes() {
            return Err(FsError::BadFd);
        }
        let pos = pos.unwrap_or(own);
        if data.is_empty() {
            return Ok((0, pos));
        }
        self.with(|v| {
            let append = flags.contains(OpenFlags::APPEND);
            let pos = if append { v.fs.at(ino).content.size() } else { pos };
            let max = v.fs.limits.max_file_size;
            if pos >= max {
                return Err(FsError::TooBig);
            }
            let len = data.len().min((max - pos) as usize);
            v.strip(ino, false);
            v.fs.at_mut(ino).content.write(pos, data.part(0, len));
            Ok((len, pos + len as u64))
        })
    }
}
