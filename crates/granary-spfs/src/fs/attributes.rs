//! Attributes are the lower file system's, but for size and times of a tiered file.

use crate::layout::inode::{CTIME, MTIME};
use crate::node::{self, State, below};
use crate::{Spfs, pair};
use granary_vfs::{Attributes, Call, Change, FsError, Inode, Result, SetAttr, SetTime, Time, flag};

impl Attributes for Spfs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let (node, call) = (node::of(inode), &call.as_root());
        let lower = node.below()?;
        let time = |time: Option<Time>| time.map_or(SetTime::Omit, SetTime::At);
        let &SetAttr { mode, uid, gid, size, flags, .. } = set;
        let (atime, mtime) = (time(set.atime), time(set.mtime));
        let all = Change { mode, uid, gid, size, atime, mtime, flags, chown: false };
        let fixed = set.flags.is_some_and(|flags| flags & flag::FIXED != 0);
        let mut state = node.write();
        if fixed {
            // Nothing could be written below any more.
            self.demote_locked(node, &lower, &mut state, true)?;
        }
        node.touch();
        match &mut *state {
            State::Bypass => self.lower.setattr(call, &lower, &all)?,
            State::Tiered(t) => {
                if size.is_some_and(|size| size > self.lower.features().max_file_size) {
                    return Err(FsError::TooBig);
                }
                let rest = Change { size: None, ..all };
                if rest != Change::NOTHING {
                    self.lower.setattr(call, &lower, &rest)?;
                }
                if let Some(size) = size {
                    self.resize(call, &lower, t, size)?;
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
        self.follow_as(inode, &lower, &state);
        Ok(())
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.atime = call.time);
        // The vfs above has decided that it moves; below nobody reads for a program.
        let below = below(inode)?;
        self.lower.vfs().fs().touch_atime(call, &below)
    }

    fn getxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        if name == pair::NAME {
            return Ok(None);
        }
        self.lower.getxattr(&call.as_root(), &below(inode)?, name)
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        if name == pair::NAME {
            return Err(FsError::NotPermitted);
        }
        node::of(inode).touch();
        self.lower.setxattr(&call.as_root(), &below(inode)?, name, value)?;
        self.follow(inode)
    }

    fn listxattr(&self, call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        let mut names = self.lower.listxattr(&call.as_root(), &below(inode)?)?;
        names.retain(|name| name != pair::NAME);
        Ok(names)
    }

    fn generation(&self, inode: &Inode) -> u32 {
        below(inode).map_or(0, |node| self.lower.generation(&node))
    }
}
