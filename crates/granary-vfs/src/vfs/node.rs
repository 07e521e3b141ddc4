//! [`Node`]: an inode in memory with what the vfs keeps beside it, and [`NodeRef`], a counted user of it.
//!
//! ```text
//!   users   descriptors, working directories, FUSE lookups, calls under way, and (for a directory) cached
//!           subdirectories. A node without users stays in the inode cache until it is the least recently
//!           used,
//!           or, without links, is evicted at once.
//! ```
//!
//! Dropping a [`NodeRef`] never waits and never does input or output: a node that must go is put on a list,
//! and the next [`crate::Vfs`] call that may wait takes care of it.

use super::acls::Which;
use super::names::NameCache;
use super::write_error::{self, WriteError};
use crate::gate::Gate;
use granary_fs::{FileKind, FsError, Ino, Inode, Loaded};
use granary_sim::sync::Mutex;
use granary_units::{LINE_SIZE, prefetch_at};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// No page-cache mapping.
pub(crate) const NO_MAPPING: u32 = u32::MAX;

/// No page holds an old end of the file.
pub(super) const NO_TAIL: u64 = u64::MAX;

/// Made without a name, and not given one yet.
const UNNAMED: u8 = 1;
/// See [`Node::mark_cached_elsewhere`].
const CACHED: u8 = 2;
/// See [`Node::mark_told`].
const TOLD: u8 = 4;

/// An inode in memory. Dereferences to the [`Inode`] that file systems see.
///
/// Of a million of them a call touches a few at random, and waits for each line of the processor's cache:
/// what most calls want comes first, and with its counts of references a node takes four lines.
#[repr(C)]
pub struct Node {
    users: AtomicU32,
    /// The file's mapping in the page cache.
    pub(crate) mapping: AtomicU32,
    /// Its place on the inode cache's clock.
    pub(super) on_clock: AtomicU32,
    kind: FileKind,
    /// Which access control lists it is known not to have (bits 0 and 1), and how often they changed.
    acls: AtomicU8,
    /// Looked up since the inode cache's clock hand last came by.
    pub(super) referenced: AtomicBool,
    /// [`UNNAMED`], [`CACHED`], [`TOLD`].
    marks: AtomicU8,
    /// Unlike the inode number never used twice: the key of a directory's entries in the dentry cache.
    pub(super) key: u64,
    inode: Inode,
    /// The write-back lock: one `write_pages` at a time per inode. Taken after `rwsem`, if both.
    pub(super) writeback: Mutex<()>,
    /// The page that held the file's end when it grew, where it was not written since; [`NO_TAIL`]: none. On
    /// media it has garbage beyond the old end.
    pub(super) tail: AtomicU64,
    /// Page at which a sequential read would go on, for readers that keep no open file here.
    pub(super) next_read: AtomicU64,
    home: Arc<NameCache>,
    /// Lookups that a kernel holds over FUSE; together they count as one user.
    lookups: AtomicU64,
    /// Opens when pages that a reader fills are ready.
    pub(super) filled: Gate,
    rare: parking_lot::Mutex<Rare>,
}

/// Fields that few nodes need.
#[derive(Default)]
struct Rare {
    /// Where ".." leads: known for a directory that was reached through its parent.
    parent: Option<NodeRef>,
    /// The first write-back error that no `fsync` has reported yet.
    write_error: Option<Box<WriteError>>,
}

const _: () = assert!(size_of::<Node>() <= 4 * 64 - 2 * size_of::<usize>());

fn acl_bit(which: Which) -> u8 {
    1 << (which as u8)
}

impl Node {
    /// Tells it from every other node of its vfs, whenever that lived: unlike the inode number never used
    /// twice.
    pub fn key(&self) -> u64 {
        self.key
    }

    pub(super) fn new(home: &Arc<NameCache>, ino: Ino, loaded: Loaded) -> Arc<Node> {
        Arc::new(Node {
            kind: loaded.attr.kind,
            inode: Inode::new(ino, loaded),
            key: home.next_key(),
            home: Arc::clone(home),
            users: AtomicU32::new(0),
            lookups: AtomicU64::new(0),
            marks: AtomicU8::new(0),
            referenced: AtomicBool::new(true),
            on_clock: AtomicU32::new(0),
            mapping: AtomicU32::new(NO_MAPPING),
            writeback: Mutex::new(()),
            tail: AtomicU64::new(NO_TAIL),
            next_read: AtomicU64::new(0),
            filled: Gate::default(),
            acls: AtomicU8::new(0),
            rare: parking_lot::Mutex::default(),
        })
    }

    /// Fetches all lines of a node into the processor's cache together: its next user will want all of it.
    #[inline]
    pub(super) fn prefetch(node: &Arc<Node>) {
        let first = Arc::as_ptr(node).addr() - 2 * size_of::<usize>();
        (1..4).for_each(|line| prefetch_at(first + line * LINE_SIZE));
        node.prefetch_private();
    }

    /// Whether it is known to have no such access control list.
    pub(super) fn has_no_acl(&self, which: Which) -> bool {
        self.acl_state() & acl_bit(which) != 0
    }

    pub(super) fn acl_state(&self) -> u8 {
        self.acls.load(Ordering::Relaxed)
    }

    /// Remembers that there is no such list, unless one was set since the state was `seen`.
    pub(super) fn found_no_acl(&self, seen: u8, which: Which) {
        let _ = self.acls.compare_exchange(seen, seen | acl_bit(which), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It was made a moment ago, without lists or with some.
    pub(super) fn is_new(&self, without_lists: bool) {
        self.acls.store(if without_lists { 0b11 } else { 0 }, Ordering::Relaxed);
    }

    /// A list is about to be set or removed.
    pub(super) fn acl_changes(&self) {
        let next = |state: u8| Some((state & !0b11).wrapping_add(0b100));
        let _ = self.acls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Kind of the inode; never changes.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Dir
    }

    /// Tells two lives of one inode number apart: never the same twice while the file system is mounted, and
    /// constant while somebody uses the node.
    pub fn generation(&self) -> u64 {
        self.key
    }

    /// Number of users now.
    pub(super) fn users(&self) -> u32 {
        self.users.load(Ordering::Acquire)
    }

    pub(super) fn add_users(&self, n: u32) {
        self.users.fetch_add(n, Ordering::AcqRel);
    }

    /// One more lookup. The caller holds a [`NodeRef`].
    pub(super) fn remember(&self) {
        if self.lookups.fetch_add(1, Ordering::AcqRel) == 0 {
            self.add_users(1);
        }
    }

    /// Gives up to `n` lookups back. Says whether they were the last, whose user the caller is to drop.
    pub(super) fn forget(&self, n: u64) -> bool {
        let take = |held: u64| (held > 0).then(|| held.saturating_sub(n));
        let before = self.lookups.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        before.is_ok_and(|held| held <= n)
    }

    /// Whether a FUSE kernel has lookups of it: a program may have it open.
    pub fn is_known(&self) -> bool {
        self.lookups.load(Ordering::Acquire) > 0
    }

    /// Whether it was made without a name, and may get its first one.
    pub(super) fn is_unnamed(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & UNNAMED != 0
    }

    pub(super) fn set_unnamed(&self, unnamed: bool) {
        match unnamed {
            true => self.marks.fetch_or(UNNAMED, Ordering::Relaxed),
            false => self.marks.fetch_and(!UNNAMED, Ordering::Relaxed),
        };
    }

    /// Somebody above the vfs (a kernel, over FUSE) is about to keep pages of it. A later writer past these
    /// pages finds the mark, or they were read after its write.
    pub fn mark_cached_elsewhere(&self) {
        if self.marks.load(Ordering::SeqCst) & CACHED == 0 {
            self.marks.fetch_or(CACHED, Ordering::SeqCst);
        }
    }

    /// Whether [`Node::mark_cached_elsewhere`] was called since it came into memory. The caller has written
    /// before.
    pub fn is_cached_elsewhere(&self) -> bool {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.marks.load(Ordering::SeqCst) & CACHED != 0
    }

    /// Takes the mark of [`Node::mark_cached_elsewhere`] away, and says whether it was there: the caller has
    /// those pages dropped now. Any user that keeps pages from now on marks it again.
    pub fn take_cached_elsewhere(&self) -> bool {
        self.take(CACHED)
    }

    /// Somebody above the vfs (a kernel, over FUSE) is about to be told its attributes, and keeps them.
    pub fn mark_told(&self) {
        if self.marks.load(Ordering::SeqCst) & TOLD == 0 {
            self.marks.fetch_or(TOLD, Ordering::SeqCst);
        }
    }

    /// Takes the mark of [`Node::mark_told`] away, and says whether it was there: who asks has changed
    /// attributes, and has the old ones dropped now.
    pub fn take_told(&self) -> bool {
        self.take(TOLD)
    }

    fn take(&self, mark: u8) -> bool {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.marks.load(Ordering::SeqCst) & mark != 0
            && self.marks.fetch_and(!mark, Ordering::SeqCst) & mark != 0
    }

    /// Whether all its names are gone.
    pub fn is_orphan(&self) -> bool {
        self.inode.view(|a| a.nlink == 0)
    }

    pub(super) fn parent(&self) -> Option<NodeRef> {
        self.rare.lock().parent.clone()
    }

    /// Remembers (or forgets) where ".." leads. Must not be called with the name cache locked.
    pub(super) fn set_parent(&self, parent: Option<NodeRef>) {
        let old = std::mem::replace(&mut self.rare.lock().parent, parent);
        drop(old);
    }

    pub(super) fn remember_error(&self, error: &FsError) {
        write_error::remember(&mut self.rare.lock().write_error, error);
    }

    /// The error of a write-back that nobody has been told of: somebody is, now.
    pub(super) fn take_error(&self) -> Option<FsError> {
        write_error::tell_anybody(self.rare.lock().write_error.as_deref_mut())
    }

    /// The errors that count as told to a file that is opened now ([`Node::error_since`]).
    pub(super) fn errors(&self) -> u32 {
        write_error::at_open(self.rare.lock().write_error.as_deref())
    }

    /// The error of a write-back that an open file has not been told of.
    pub(super) fn error_since(&self, told: &AtomicU32) -> Option<FsError> {
        let (error, count) =
            write_error::tell(self.rare.lock().write_error.as_deref_mut(), told.load(Ordering::Relaxed))?;
        told.store(count, Ordering::Relaxed);
        Some(error)
    }
}

impl Deref for Node {
    type Target = Inode;
    fn deref(&self) -> &Inode {
        &self.inode
    }
}

/// How far a node without links, of which a FUSE kernel has had lookups, has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// The kernel still holds it.
    Held,
    /// It is being freed, or will be when a call or a write-back that is under way lets go of it.
    Leaving,
    /// Its space is free.
    Gone,
}

/// A user of a [`Node`]: while it lives the node stays in memory.
pub struct NodeRef(Arc<Node>);

impl NodeRef {
    /// A new user. Where the node may have no users yet, the name cache must be locked.
    pub(super) fn new(node: &Arc<Node>) -> NodeRef {
        node.add_users(1);
        NodeRef(Arc::clone(node))
    }

    /// The node itself.
    pub(super) fn arc(&self) -> &Arc<Node> {
        &self.0
    }

    /// Whether both are one node.
    pub fn is(&self, other: &NodeRef) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Takes `n` users away; the last one hands an orphan over for eviction.
pub(super) fn drop_users(node: &Arc<Node>, n: u32) {
    let before = node.users.fetch_sub(n, Ordering::AcqRel);
    assert!(before >= n, "{} loses {n} users of {before}", node.ino());
    if before == n && node.is_orphan() {
        node.home.orphaned(node);
    }
}

impl Clone for NodeRef {
    fn clone(&self) -> NodeRef {
        NodeRef::new(&self.0)
    }
}

impl Drop for NodeRef {
    fn drop(&mut self) {
        drop_users(&self.0, 1);
    }
}

impl Deref for NodeRef {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.0
    }
}
