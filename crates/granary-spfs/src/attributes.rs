//! Attributes are the lower file system's, but for size and times of a tiered file.

use crate::fs::Spfs;
use crate::layout::alone::ATIME;
use crate::layout::inode::{CTIME, MTIME, at};
use crate::node::{self, Residence, below};
use crate::pair;
use granary_device::Structure;
use granary_fs::{Attributes, Call, FsError, Inode, Result, SetAttr, Time, flag};
use granary_vfs::{Change, SetTime};

impl Attributes for Spfs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let (node, call) = (node::of(inode), &call.as_root());
        let time = |time: Option<Time>| time.map_or(SetTime::Omit, SetTime::At);
        let &SetAttr { mode, uid, gid, size, flags, .. } = set;
        let (atime, mtime) = (time(set.atime), time(set.mtime));
        let all = Change { mode, uid, gid, size, atime, mtime, flags, chown: false };
        let fixed = set.flags.is_some_and(|flags| flags & flag::FIXED != 0);
        let _seen = self.seen(inode);
        let mut state = node.write();
        if fixed || set.flags.is_some() && node.is_alone() {
            // Nothing could be written below any more; a file without a lower one has no flags.
            self.demote_locked(node, &mut state, true)?;
        }
        let lower = node.ground()?;
        if lower.is_some() {
            node.touch();
        }
        match &mut *state {
            Residence::Bypass => self.lower.setattr(call, &node.below()?, &all)?,
            Residence::Tiered(t) => {
                let rest = Change { size: None, ..all };
                match &lower {
                    Some(lower) if rest != Change::NOTHING => self.lower.setattr(call, lower, &rest)?,
                    _ => {}
                }
                if let Some(size) = size {
                    self.resize(call, lower.as_ref(), t, size)?;
                }
                let number = t.number;
                if let Some((_, alone)) = &mut t.alone {
                    alone.mode = mode.unwrap_or(alone.mode);
                    alone.uid = uid.unwrap_or(alone.uid);
                    alone.gid = gid.unwrap_or(alone.gid);
                    alone.atime = set.atime.unwrap_or(alone.atime);
                    let mut b = self.store.pm.batch();
                    alone.put_attributes(&mut b, number)?;
                    b.put_u64(at(number, ATIME), alone.atime.0 as u64, Structure::Inode)?;
                    b.fence()?;
                }
                t.mtime = set.mtime.unwrap_or(t.mtime);
                t.ctime = call.time;
                let times = [(MTIME, t.mtime.0 as u64), (CTIME, t.ctime.0 as u64)];
                self.store.put_fields(t.number, &times)?;
            }
        }
        if let Some(atime) = set.atime {
            inode.update(|a| a.atime = atime);
        }
        self.follow_as(inode, &state);
        Ok(())
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.accessed(call.time));
        // The vfs above has decided that it moves; below nobody reads for a program.
        let node = node::of(inode);
        if node.is_alone()
            && let Residence::Tiered(t) = &mut *node.write()
            && let Some((_, alone)) = &mut t.alone
        {
            alone.atime = call.time;
            return self.store.put_fields(t.number, &[(ATIME, call.time.0 as u64)]);
        }
        let below = node.below()?;
        self.lower.vfs().fs().touch_atime(call, &below)
    }

    fn getxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        if name == pair::NAME {
            return Ok(None);
        }
        if node::of(inode).is_alone() {
            // It has none itself, but the lower file system says whether it could: the vfs asks before it
            // changes a mode.
            return self.lower.getxattr(&call.as_root(), &self.lower.root(), name).map(|_| None);
        }
        self.lower.getxattr(&call.as_root(), &below(inode)?, name)
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        if name == pair::NAME {
            return Err(FsError::NotPermitted);
        }
        let below = self.grounded(inode)?;
        let _seen = self.seen(inode);
        let set = self.lower.setxattr(&call.as_root(), &below, name, value);
        node::of(inode).touch();
        set?;
        self.follow(inode)
    }

    fn listxattr(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        if node::of(inode).is_alone() {
            return self.lower.listxattr(&call.as_root(), &self.lower.root()).map(|_| Vec::new());
        }
        let mut names = self.lower.listxattr(&call.as_root(), &below(inode)?)?;
        names.retain(|name| name != pair::NAME);
        Ok(names)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        let node = node::of(inode);
        if node.is_alone()
            && let Residence::Tiered(t) = &*node.read()
            && let Some((of, _)) = &t.alone
        {
            return of.generation;
        }
        node.below().map_or(0, |node| self.lower.generation(&node))
    }
}
