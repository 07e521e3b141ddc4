//! Files that are in persistent memory alone: made there, until they leave it for good.
//!
//! ```text
//!   made with O_DIRECT and O_SYNC (or as `mode` and `extensions` say)      names and owners are persistent
//!        │                                                                memory's, too
//!        │ unlink, rename to a free name, chmod, write, ... stay here
//!        v link, attributes, rename over something, fallocate, no room, little use
//!   below: a lower file is made ── bytes, size, times, owner ── fsync ── the inode's name slot away, fence
//! ```
//!
//! Such a file is a tiered one of whose bytes the lower file has none (`limit` 0), and which has no lower
//! file. Its inode holds its name.
//!
//! Its directory is the lower file system's. A file entered there must not outlive the directory, nor take
//! the last name of a file that lives on below. So an fsync below comes first where the directory may not be
//! durable. It also comes first where the directory lost a name by a rename, by the removal of one of several
//! links, or of a directory. Otherwise a power failure brings back under the name only a file that a move had
//! begun, or one that was removed for good: recovery removes it, of whichever kind it is. As soon as the file
//! gives its name up, nothing removes it: an fsync below comes before that.
//!
//! Source: SPFS's released code, files of `INODE_PM`; sheet of states "pm". The release lacks recovery, a
//! rename between the tiers, listing after a mount, leaving persistent memory.

use crate::factor::FULL;
use crate::fs::Spfs;
use crate::layout::alone::{self, Alone, NamePlace};
use crate::layout::inode;
use crate::layout::inode::{CTIME, Identity, Inode as Stored};
use crate::node::{self, Node, Residence};
use crate::options::Mode;
use granary_device::Structure;
use granary_fs::{Call, Created, FileKind, FsError, Ino, Inode, Loaded, NewNode, Rename, Result, flag};
use granary_vfs::{Change, NodeRef, SetTime};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The attribute that is an access list.
const ACCESS: &[u8] = b"system.posix_acl_access";

impl Spfs {
    /// Whether a new node is to be in persistent memory alone.
    pub(crate) fn is_made_alone(&self, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> bool {
        let extension = || {
            let last = name.iter().rposition(|b| *b == b'.').map(|dot| &name[dot + 1..]);
            last.is_some_and(|last| self.options.extensions.iter().any(|e| e.as_bytes() == last))
        };
        let asked = match self.options.mode {
            Mode::Disk => false,
            Mode::Pm => true,
            Mode::Tiering => new.direct_sync || extension(),
        };
        // In a directory that only grows its times cannot be set.
        asked && new.kind == FileKind::File && dir.view(|a| a.flags & flag::FIXED == 0)
    }

    /// Makes a file in persistent memory.
    ///
    /// # Errors
    /// `NoSpace`: there is no room for it; the devices', the lower file system's.
    pub(crate) fn create_alone(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        name: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Created> {
        if self.store.clusters.used_percent() > self.options.demote_above {
            return Err(FsError::NoSpace);
        }
        self.pair(call)?;
        self.settle_names(call, node::of(dir))?;
        let place = self.take_name(dir, name)?;
        let alone = Alone {
            place: Some(place.clone()),
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
            atime: call.time,
        };
        // Tells two lives of a number apart: by when they began.
        let generation = (granary_sim::now().0 >> 10) as u32;
        // Not one that a file has which has left: that is known by it still.
        let of = Identity { ino: alone::ino(self.made_alone.fetch_add(1, Relaxed)), generation };
        let made = Stored {
            identity: of,
            size: 0,
            limit: 0,
            last: None,
            mtime: call.time,
            ctime: call.time,
            factor: FULL,
            undo: None,
        };
        self.stamp(call, dir)?;
        let tier = self.store.create_alone(&made, alone)?;
        self.index.lock().insert(of, (tier.number, FULL));
        self.children.lock().enter(&place, of.ino);
        let node = Arc::new(Node::alone(Residence::Tiered(Box::new(tier))));
        node.adopted.store(true, Relaxed);
        self.nodes.lock().insert(of.ino, node.clone());
        let attr = self.attr(&node, &node.read())?;
        Ok(Created { ino: Ino(of.ino), loaded: Loaded { attr, private: Arc::new(node) } })
    }

    /// A name that nothing has, for a file that is here alone. Its last owner's removal may not be durable
    /// below: that comes first when this file gives the name up ([`Spfs::clear`]).
    fn take_name(&self, dir: &Inode, name: &[u8]) -> Result<NamePlace> {
        let place = NamePlace { dir: self.identity(&node::below(dir)?), name: name.to_vec() };
        if node::of(dir).may_bring_back() {
            self.leftovers.lock().insert(place.clone());
        }
        Ok(place)
    }

    /// A name comes or goes here: the directory below says when. That is durable with an fsync of the
    /// directory, and with a sync.
    fn stamp(&self, call: &Call<'_>, dir: &Inode) -> Result<()> {
        let times = Change { mtime: SetTime::At(call.time), ..Change::NOTHING };
        let _seen = self.directories.read();
        self.lower.setattr(call, &node::below(dir)?, &times)?;
        self.follow(dir)
    }

    /// Removes the name of a file that is in persistent memory alone; says whether it is one.
    pub(crate) fn unlink_alone(&self, call: &Call<'_>, dir: &Inode, inode: &Inode) -> Result<bool> {
        let mut state = node::of(inode).write();
        let Residence::Tiered(t) = &mut *state else { return Ok(false) };
        let Some((_, alone)) = &mut t.alone else { return Ok(false) };
        alone.place.iter().try_for_each(|place| self.clear(call, place))?;
        self.stamp(call, dir)?;
        let mut b = self.store.pm.batch();
        Alone::put_no_name(&mut b, t.number)?;
        b.put_u64(inode::at(t.number, CTIME), call.time.0 as u64, Structure::Inode)?;
        b.fence()?;
        if let Some(place) = alone.place.take() {
            self.children.lock().remove(&place);
        }
        t.ctime = call.time;
        self.follow_as(inode, &state);
        Ok(true)
    }

    /// Renames a file that is in persistent memory alone to a name that nothing has; says whether it is one.
    pub(crate) fn rename_alone(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<bool> {
        let mut state = node::of(r.inode).write();
        let Residence::Tiered(t) = &mut *state else { return Ok(false) };
        let Some((of, alone)) = &mut t.alone else { return Ok(false) };
        alone.place.iter().try_for_each(|place| self.clear(call, place))?;
        self.settle_names(call, node::of(r.to_dir))?;
        self.stamp(call, r.from_dir)?;
        self.stamp(call, r.to_dir)?;
        let to = self.take_name(r.to_dir, r.to)?;
        self.store.rename(t.number, &to)?;
        let from = alone.place.replace(to.clone());
        {
            let mut children = self.children.lock();
            from.iter().for_each(|from| children.remove(from));
            children.enter(&to, of.ino);
        }
        t.ctime = call.time;
        self.store.put_fields(t.number, &[(CTIME, call.time.0 as u64)])?;
        self.follow_as(r.inode, &state);
        Ok(true)
    }

    /// The lower node of an inode, which gets one if it has none.
    ///
    /// # Errors
    /// As [`Spfs::come_down`].
    pub(crate) fn grounded(&self, inode: &Inode) -> Result<NodeRef> {
        let node = node::of(inode);
        if node.is_alone() {
            self.come_down(node, &mut node.write(), true)?;
        }
        node.below()
    }

    /// A file that is in persistent memory alone leaves it: it becomes a file below, in bypass. Nothing where
    /// it has one already.
    ///
    /// # Errors
    /// `Busy` where somebody wants it and `wait` is not set; `NotSupported` for one without a name where the
    /// lower file system has no such files; the lower file system's. It is as before then.
    pub(crate) fn come_down(&self, node: &Node, state: &mut Residence, wait: bool) -> Result<()> {
        let Residence::Tiered(t) = state else { return Ok(()) };
        let Some((of, alone)) = t.alone.clone() else { return Ok(()) };
        self.store.load_chain(t)?;
        let dir = match &alone.place {
            Some(place) => self.lower.node(Ino(place.dir.ino))?,
            None => self.lower.root(),
        };
        let new = NewNode {
            kind: FileKind::File,
            mode: alone.mode,
            uid: alone.uid,
            gid: alone.gid,
            rdev: 0,
            target: b"",
            direct_sync: false,
        };
        // To the lower file system this is when the file was last changed.
        let call = &Call::kernel(t.ctime);
        let below = match &alone.place {
            Some(place) => {
                self.remove_leftover(call, &dir, place)?;
                self.unseen(&dir, |call| self.lower.create(call, &dir, &place.name, &new))?
            }
            None => self.lower.create_unnamed(call, &dir, &new)?,
        };
        let written =
            self.disown(call, &below, &alone).and_then(|()| self.write_down(node, &below, t, t.ctime, wait));
        if let Err(e) = written {
            alone.place.iter().for_each(|place| self.take_back(&dir, place));
            return Err(e);
        }
        if let Some(place) = &alone.place {
            self.leftovers.lock().remove(place);
        }
        {
            let mut children = self.children.lock();
            children.moved(of.ino, below.ino().0);
            alone.place.iter().for_each(|place| children.remove(place));
        }
        self.store.free(t, of)?;
        node.land(below);
        self.became_bypass(node, state, of);
        Ok(())
    }

    /// A new file below has what the directory hands on: an access list, perhaps the group. This one was made
    /// before, with what it had from the directory then.
    fn disown(&self, call: &Call<'_>, below: &NodeRef, alone: &Alone) -> Result<()> {
        match self.lower.getxattr(call, below, ACCESS) {
            Ok(None) | Err(FsError::NotSupported) => {}
            // A file that has one is below.
            Ok(Some(_)) => self.lower.setxattr(call, below, ACCESS, None)?,
            Err(e) => return Err(e),
        }
        let own = Change {
            mode: Some(alone.mode),
            uid: Some(alone.uid),
            gid: Some(alone.gid),
            atime: SetTime::At(alone.atime),
            ..Change::NOTHING
        };
        self.lower.setattr(call, below, &own)
    }
}
