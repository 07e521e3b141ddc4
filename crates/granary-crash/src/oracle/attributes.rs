//! Attributes in the model: permission and set-id bits, owners, extended attributes, access lists.
//!
//! ```text
//!   chown   of a file, also by the superuser    takes set-user-ID away, set-group-ID where the group may
//!                                               execute
//!   write   by anybody else                     the same, at a time of its own: the bits go first
//!   access list, set or inherited               the mode follows; the list's value here is its named entries
//! ```
//!
//! Invariants: the mode says what an access list says of owner, mask and others. So a `chmod` of a file with
//! a list changes one thing in the model, and a list that names nobody is none.

use super::model::{Fate, Model, NodeId};
use super::register::Register;
use super::stamp::StampId;
use granary_fs::FileKind;
use std::sync::Arc;

const SUID: u16 = 0o4000;
const SGID: u16 = 0o2000;

/// The attribute that holds a file's access list.
pub(crate) const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// The attribute that holds the list which what is made in a directory gets.
pub(crate) const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// Stands for the value of an extended attribute of this name; `None`: a value that means that there is none.
pub(crate) fn digest(name: &[u8], value: &[u8]) -> Option<u64> {
    if name == ACCESS_LIST { named_entries(value).map(|named| hash(&named)) } else { Some(hash(value)) }
}

fn hash(value: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut h = rustc_hash::FxHasher::default();
    h.write(value);
    h.write_usize(value.len());
    h.finish()
}

/// The entries of an access list that the mode does not show, as bytes; `None` where there are none.
fn named_entries(list: &[u8]) -> Option<Vec<u8>> {
    const USER: u16 = 2;
    const OWNING_GROUP: u16 = 4;
    const GROUP: u16 = 8;
    let (entries, _) = list.get(4..)?.as_chunks::<8>();
    let tag = |e: &[u8; 8]| u16::from_le_bytes([e[0], e[1]]);
    if !entries.iter().any(|e| matches!(tag(e), USER | GROUP)) {
        return None;
    }
    // With a mask the mode does not show the owning group's bits.
    let kept = entries.iter().filter(|e| matches!(tag(e), USER | OWNING_GROUP | GROUP));
    Some(kept.copied().flatten().collect())
}

impl Model {
    /// A change of an extended attribute begins; `value`: its digest, `None` where it is removed.
    pub(crate) fn begin_xattr(&mut self, id: NodeId, name: &[u8], value: Option<u64>) -> StampId {
        let by = self.stamps.begin_timed();
        self.touch(id, by, false);
        let xattrs = &mut Arc::make_mut(&mut self.nodes[id.0 as usize]).xattrs;
        xattrs.entry(name.to_vec()).or_insert_with(|| Register::new(None)).push(&self.stamps, by, value);
        by
    }

    /// It ended.
    pub(crate) fn end_xattr(&mut self, id: NodeId, name: &[u8], by: StampId, fate: Fate) {
        if fate == Fate::Failed
            && let Some(register) = self.node_mut(id).xattrs.get_mut(name)
        {
            register.remove(by);
        }
        self.end(id, by, fate);
    }

    /// A change of permission bits begins.
    pub(crate) fn begin_mode(&mut self, id: NodeId, mode: u16) -> StampId {
        let by = self.stamps.begin_timed();
        self.touch(id, by, false);
        Arc::make_mut(&mut self.nodes[id.0 as usize]).mode.push(&self.stamps, by, Some(mode));
        by
    }

    /// It ended.
    pub(crate) fn end_mode(&mut self, id: NodeId, by: StampId, fate: Fate) {
        if fate == Fate::Failed {
            self.node_mut(id).mode.remove(by);
        }
        self.end(id, by, fate);
    }

    /// A change of owner or group begins.
    pub(crate) fn begin_owner(&mut self, id: NodeId, uid: Option<u32>, gid: Option<u32>) -> StampId {
        let by = self.stamps.begin_timed();
        self.touch(id, by, false);
        let owner = &mut Arc::make_mut(&mut self.nodes[id.0 as usize]).owner;
        let new = owner.current().map(|(u, g)| (uid.unwrap_or(u), gid.unwrap_or(g)));
        owner.push(&self.stamps, by, new);
        self.strip(id, by);
        by
    }

    /// It ended.
    pub(crate) fn end_owner(&mut self, id: NodeId, by: StampId, fate: Fate) {
        if fate == Fate::Failed {
            let node = self.node_mut(id);
            node.owner.remove(by);
            node.mode.remove(by);
        }
        self.end(id, by, fate);
    }

    /// The change that `by` stands for takes the set-id bits of a file away.
    fn strip(&mut self, id: NodeId, by: StampId) {
        let node = Arc::make_mut(&mut self.nodes[id.0 as usize]);
        let Some(mode) = node.mode.current().filter(|_| node.kind != FileKind::Dir) else { return };
        let group = if mode & 0o010 != 0 { SGID } else { 0 };
        let stripped = mode & !(SUID | group);
        if stripped != mode {
            node.mode.push(&self.stamps, by, Some(stripped));
        }
    }

    /// Somebody other than the superuser changes content or size: the bits go, as durable as times.
    pub(crate) fn lose_set_ids(&mut self, id: NodeId, by: StampId) {
        self.strip(id, by.times());
    }

    /// An access list is set: the mode follows.
    pub(crate) fn begin_access_list(&mut self, id: NodeId, value: Option<u64>) -> StampId {
        let by = self.begin_xattr(id, ACCESS_LIST, value);
        Arc::make_mut(&mut self.nodes[id.0 as usize]).mode.push(&self.stamps, by, None);
        by
    }

    /// It ended; the file has this mode now.
    pub(crate) fn end_access_list(&mut self, id: NodeId, by: StampId, mode: Option<u16>) {
        let node = self.node(id);
        let had = |list: &Register<Option<u64>>| list.all_but(by).any(|digest| digest.is_some());
        let has_list =
            node.xattrs.get(ACCESS_LIST).is_some_and(|list| had(list) || list.of(by).flatten().is_some());
        if mode.is_some() && !has_list && node.mode.all_but(by).all(|known| known == mode) {
            // It says what the mode says, and there is none to remove: nothing changes, no time either.
            self.untouch(id, by);
        }
        match mode {
            Some(mode) => self.node_mut(id).mode.settle(by, Some(mode)),
            None => self.node_mut(id).mode.remove(by),
        }
        let fate = if mode.is_some() { Fate::Done } else { Fate::Failed };
        self.end_xattr(id, ACCESS_LIST, by, fate);
    }

    /// A new file has this list from its directory, as a change of its own behind the creation, which moves
    /// no times.
    pub(crate) fn inherited(&mut self, id: NodeId, name: &[u8], value: Option<u64>) {
        let by = self.stamps.begin();
        let xattrs = &mut Arc::make_mut(&mut self.nodes[id.0 as usize]).xattrs;
        xattrs.entry(name.to_vec()).or_insert_with(|| Register::new(None)).push(&self.stamps, by, value);
        self.stamps.end(by);
    }

    /// Which access lists a new file has from its directory is known now.
    pub(crate) fn lists_known(&mut self, id: NodeId) {
        self.node_mut(id).lists_unknown = false;
    }

    /// Whether what is made in the directory gets an access list.
    pub(crate) fn bequeaths(&self, dir: NodeId) -> bool {
        self.node(dir).xattrs.get(DEFAULT_LIST).is_some_and(|list| list.current().is_some())
    }
}
