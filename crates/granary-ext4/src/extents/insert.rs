//! Extents that come: into a leaf with room, or one that is split.

use super::{At, Owner, Step, put};
use crate::alloc::{Purpose, Wanted};
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::extent::{self as node_bytes, ExtentEntry, ROOT_MAX};
use granary_device::Structure;
use granary_fs::Result;
use granary_sim::costs;
use granary_units::Lpa;

impl Ext4 {
    /// Enters an extent where nothing is mapped. Tree blocks come from near `e.start`. The caller marks the
    /// inode.
    ///
    /// # Errors
    /// `NoSpace` where a tree block is needed and there is none: the tree is valid, the extent not in it.
    pub(crate) fn insert_extent(&self, h: &mut Handle<'_>, owner: Owner<'_>, e: ExtentEntry) -> Result<()> {
        h.work(costs().extent_update);
        self.enter_extent(h, owner, e)?;
        self.fold(h, owner);
        Ok(())
    }

    /// Takes the entries of the only leaf into the inode where they fit, and frees the leaf, as
    /// `ext4_ext_try_to_merge_up`. The kernel calls that where an extent has come or changed its kind, and
    /// not where one goes or is cut for a hole. It gives up, too, where the handle has no room. An error that
    /// comes before anything is changed does not matter: the tree is as good with its leaf.
    pub(super) fn fold(&self, h: &mut Handle<'_>, owner: Owner<'_>) {
        /// Bitmap, descriptor, and the caller's further changes.
        const ROOM: u32 = 16;
        let only = owner.view(&At::Root, |b| {
            (node_bytes::depth(b) == 1 && node_bytes::count(b) == 1).then(|| node_bytes::entry(b, 0))
        });
        let Some(entry) = only.filter(|_| h.room() >= ROOM) else { return };
        let Ok(leaf) = self.child(entry, 0).map(At::Block) else { return };
        if owner.view(&leaf, node_bytes::count) > ROOT_MAX as usize
            || self.groups.free_meta(h, entry.start, 1).is_err()
        {
            return;
        }
        let mut entries = owner.view(&leaf, |b| b.to_vec());
        owner.edit(h, &At::Root, |b| {
            node_bytes::init(b, ROOT_MAX, 0);
            node_bytes::split(&mut entries, 0, b);
        });
        owner.node.state.lock().blocks -= 1;
    }

    pub(super) fn enter_extent(&self, h: &mut Handle<'_>, owner: Owner<'_>, e: ExtentEntry) -> Result<()> {
        loop {
            let mut path = self.path(owner, e.key)?;
            let leaf = path.last().expect("a path has a leaf");
            // A copy of the entries decides, so that a full leaf is not marked changed for nothing.
            let fits = owner.view(&leaf.at, |b| {
                !node_bytes::full(b) || {
                    let mut copy = b.to_vec();
                    put(&mut copy, leaf.index, e)
                }
            });
            if !fits {
                match self.room_behind(owner, &path)? {
                    Some(next) => path = next,
                    None => {
                        self.make_room(h, owner, &path, e)?;
                        continue;
                    }
                }
            }
            let leaf = path.last().expect("a path has a leaf");
            owner.edit(h, &leaf.at, |b| put(b, leaf.index, e));
            if leaf.index.is_none() {
                // The leaf begins earlier now: so do the entries that lead to it.
                for s in path[..path.len() - 1].iter().rev() {
                    let i = s.index.expect("inner nodes are entered by an entry");
                    let entry = owner.view(&s.at, |b| node_bytes::entry(b, i));
                    if entry.key > e.key {
                        owner.edit(h, &s.at, |b| node_bytes::set(b, i, ExtentEntry { key: e.key, ..entry }));
                    }
                }
            }
            return Ok(());
        }
    }

    /// The path to the next leaf, where that has room: an entry that would come last into a full leaf may
    /// come first into that one (`ext4_ext_insert_extent`).
    pub(super) fn room_behind(&self, owner: Owner<'_>, path: &[Step]) -> Result<Option<Vec<Step>>> {
        let [above @ .., leaf] = path else { return Ok(None) };
        if leaf.index.is_none_or(|i| i + 1 < owner.view(&leaf.at, node_bytes::count)) {
            return Ok(None);
        }
        let behind = |s: &Step| {
            let i = s.index.expect("inner nodes are entered by an entry") + 1;
            owner.view(&s.at, |b| (i < node_bytes::count(b)).then(|| node_bytes::entry(b, i).key))
        };
        let Some(key) = above.iter().rev().find_map(behind) else { return Ok(None) };
        let mut next = self.path(owner, key)?;
        let leaf = next.last_mut().expect("a path has a leaf");
        leaf.index = None;
        Ok((!owner.view(&leaf.at, node_bytes::full)).then_some(next))
    }

    /// One step towards room in the leaf: splits the topmost full node whose parent has room, or grows the
    /// root. As in the kernel (`ext4_ext_split`) a new node takes what lies behind the place where `e` comes,
    /// or is cut, be that much or nothing: files that are written from front to back have full leaves, others
    /// many.
    pub(super) fn make_room(
        &self,
        h: &mut Handle<'_>,
        owner: Owner<'_>,
        path: &[Step],
        e: ExtentEntry,
    ) -> Result<()> {
        let roomy = path[..path.len() - 1].iter().rposition(|s| !owner.view(&s.at, node_bytes::full));
        let wanted = Wanted {
            ino: owner.ino,
            logical: e.key,
            len: 1,
            file_blocks: 0,
            goal: e.start,
            purpose: Purpose::Extent,
        };
        let (lpa, _) = self.groups.allocate(h, &wanted)?;
        let new = self.cache.fresh(Lpa(lpa), Structure::DataPointer);
        match roomy {
            None => {
                let old = owner.view(&At::Root, |b| b.to_vec());
                let depth = node_bytes::depth(&old);
                h.change(&new, |b| {
                    node_bytes::init(b, node_bytes::BLOCK_MAX, depth);
                    node_bytes::split(&mut old.clone(), 0, b);
                });
                owner.edit(h, &At::Root, |b| {
                    node_bytes::init(b, ROOT_MAX, depth + 1);
                    let key = node_bytes::entry(&old, 0).key;
                    node_bytes::insert(b, 0, ExtentEntry { key, len: 0, start: lpa, unwritten: false });
                });
            }
            Some(p) => {
                let full = &path[p + 1];
                let mut rest = vec![0; crate::layout::BLOCK_SIZE];
                let key = owner.edit(h, &full.at, |b| {
                    let (n, i) = (node_bytes::count(b), full.index.unwrap_or(0));
                    // An inner node is never empty, and an extent that is cut stays with its parts.
                    let stays = node_bytes::depth(b) == 0 && node_bytes::entry(b, i).key != e.key;
                    let from = if i + 1 < n || stays { i + 1 } else { i };
                    node_bytes::init(&mut rest, node_bytes::BLOCK_MAX, node_bytes::depth(b));
                    node_bytes::split(b, from, &mut rest);
                    if from < n { node_bytes::entry(&rest, 0).key } else { e.key }
                });
                h.change(&new, |b| b.copy_from_slice(&rest));
                let parent = path[p].index.expect("inner nodes are entered by an entry");
                owner.edit(h, &path[p].at, |b| {
                    node_bytes::insert(
                        b,
                        parent + 1,
                        ExtentEntry { key, len: 0, start: lpa, unwritten: false },
                    )
                });
            }
        }
        owner.node.state.lock().blocks += 1;
        Ok(())
    }
}
