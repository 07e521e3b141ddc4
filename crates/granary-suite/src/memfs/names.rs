//! Names.

use super::{MemFs, assert_exclusive, assert_locked};
use crate::memfs::state::{Entry, MemInode};
use granary_fs::{
    Attr, Call, Created, DirEntry, FileKind, Ino, Inode, Loaded, Names, NewNode, Rename, Result,
};
use std::sync::Arc;

impl Names for MemFs {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        assert_locked(dir);
        self.fault()?;
        self.step(|s| Ok(s.node(dir).entries.get(name).map(|e| e.ino)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        assert_locked(dir);
        self.step(|s| {
            let node = s.node(dir);
            let mut all: Vec<_> = node.entries.iter().filter(|(_, e)| e.cookie > from).collect();
            all.sort_by_key(|(_, e)| e.cookie);
            for (name, e) in all {
                if !emit(DirEntry { name, ino: e.ino, kind: e.kind, next: e.cookie }) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        self.state.lock().node(dir).last_cookie()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        self.step(|s| Ok(s.node(dir).parent))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        assert_locked(dir);
        self.step(|s| Ok(s.node(dir).entries.is_empty()))
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        self.step(|s| Ok(s.node(inode).target.clone()))
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        assert_exclusive(dir);
        self.fault()?;
        self.step(|s| {
            let is_dir = new.kind == FileKind::Dir;
            let attr = Attr { size: new.target.len() as u64, ..new.attr(call.time) };
            let ino = s.allocate(MemInode::new(attr, dir.ino(), new.target.to_vec()));
            s.enter(dir, name, Entry { ino, kind: new.kind, cookie: 0 });
            s.stamp(dir, call.time, |a| a.nlink += u32::from(is_dir));
            Ok(Created { ino, loaded: Loaded { attr, private: Arc::new(()) } })
        })
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.fault()?;
        self.step(|s| {
            let attr = Attr { nlink: 0, ..new.attr(call.time) };
            let ino = s.allocate(MemInode::new(attr, dir.ino(), Vec::new()));
            Ok(Created { ino, loaded: Loaded { attr, private: Arc::new(()) } })
        })
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        assert_exclusive(dir);
        assert_exclusive(inode);
        self.fault()?;
        self.step(|s| {
            let kind = s.node(inode).attr.kind;
            s.enter(dir, name, Entry { ino: inode.ino(), kind, cookie: 0 });
            s.stamp(dir, call.time, |_| ());
            s.change(inode, |a| a.linked(call.time));
            Ok(())
        })
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        assert_exclusive(dir);
        assert_exclusive(inode);
        self.fault()?;
        self.step(|s| {
            s.take(dir, name, inode);
            s.unlinked(dir, inode, call.time);
            s.stamp(dir, call.time, |_| ());
            Ok(())
        })
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        [r.from_dir, r.to_dir, r.inode].into_iter().chain(r.target).for_each(assert_exclusive);
        self.fault()?;
        self.step(|s| {
            let moved = s.take(r.from_dir, r.from, r.inode);
            let replaced = r.target.map(|t| (t, s.take(r.to_dir, r.to, t)));
            s.enter(r.to_dir, r.to, moved);
            s.moved(r.inode, r.from_dir, r.to_dir);
            match replaced {
                Some((t, entry)) if r.exchange => {
                    s.enter(r.from_dir, r.from, entry);
                    s.moved(t, r.to_dir, r.from_dir);
                    s.change(t, |a| a.changed(call.time));
                }
                Some((t, _)) => s.unlinked(r.to_dir, t, call.time),
                None => {}
            }
            s.change(r.inode, |a| a.changed(call.time));
            s.stamp(r.from_dir, call.time, |_| ());
            s.stamp(r.to_dir, call.time, |_| ());
            Ok(())
        })
    }
}
