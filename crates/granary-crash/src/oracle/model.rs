//! [`Model`]: files, directories and their names, each with everything that it may be.
//!
//! ```text
//!   nodes   [0] root  [1] file  [2] directory ...     by identity, not by path or inode number
//!   a directory's entries: name -> Register<Option<NodeId>>
//!   moves   renames whose two names must agree
//! ```
//!
//! Invariants: a node is never reused. `parent` is where the load last put a directory. Inode numbers
//! identify what a descriptor has open; the newest node with a number is meant, because numbers are reused. A
//! load must reach files without symbolic links on the way, and clients must not race for one name; where the
//! model cannot follow it says so ([`Model::confused`]), which counts as a failure of the point.

use super::content::Content;
use super::picture::Picture;
use super::register::Register;
use super::stamp::{StampId, Stamps, Tick};
use super::story::Story;
use super::times::{Clock, Times};
use granary_fs::{Allocate, Attr, FileKind, Ino};
use granary_vfs::OpenFlags;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(super) u32);

impl NodeId {
    /// The root directory.
    pub(crate) const ROOT: NodeId = NodeId(0);
}

/// One entry's history: absent or a node.
pub(crate) type Slot = Register<Option<NodeId>>;

/// A file, directory or other inode.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: FileKind,
    /// `None` while the call that makes it is in flight.
    pub(crate) ino: Option<Ino>,
    pub(crate) content: Content,
    /// Permission bits; `None` = unknown.
    pub(crate) mode: Register<Option<u16>>,
    /// User and group; `None` = unknown.
    pub(crate) owner: Register<Option<(u32, u32)>>,
    /// When it was modified and changed.
    pub(super) times: Times,
    /// Extended attributes: a digest of the value, `None` = absent.
    pub(crate) xattrs: BTreeMap<Vec<u8>, Register<Option<u64>>>,
    /// Target of a symbolic link.
    pub(super) target: Vec<u8>,
    /// Shared with forks until either changes.
    pub(super) entries: Arc<BTreeMap<Vec<u8>, Slot>>,
    pub(super) parent: NodeId,
    /// The change that made it.
    pub(super) born: StampId,
    /// Creations and renames that gave it a name, and the name: what an `fsync` promises. Not yet durable
    /// ones.
    pub(super) named: Vec<(StampId, NodeId, Vec<u8>)>,
    /// Changes to a directory's entries that are not yet durable.
    pub(super) changes: Vec<StampId>,
    /// A name of it is promised.
    pub(super) kept: bool,
    /// Somebody was told that a write-back has failed.
    pub(crate) doubtful: bool,
    /// Removals of one of its names that were started.
    pub(crate) removals: u32,
    /// It has access lists from its directory that nobody has asked for yet.
    pub(super) lists_unknown: bool,
    /// Made without a name, and has none yet.
    pub(super) unnamed: bool,
}

impl Node {
    pub(super) fn new(kind: FileKind, born: StampId) -> Node {
        Node {
            kind,
            ino: None,
            content: Content::default(),
            mode: Register::new(None),
            owner: Register::new(None),
            times: Times::unknown(),
            xattrs: BTreeMap::new(),
            target: Vec::new(),
            entries: Arc::default(),
            parent: NodeId::ROOT,
            born,
            named: Vec::new(),
            changes: Vec::new(),
            kept: false,
            doubtful: false,
            removals: 0,
            lists_unknown: false,
            unnamed: false,
        }
    }

    /// Whether it has changes that a `sync` may make durable.
    fn has_pending(&self) -> bool {
        self.content.has_pending() || !self.changes.is_empty() || !self.named.is_empty()
    }
}

/// A rename: its effects on two names are one.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) stamp: StampId,
    pub(super) from: (NodeId, Vec<u8>),
    pub(super) to: (NodeId, Vec<u8>),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It succeeded.
    Done,
    /// It failed and did nothing.
    Failed,
}

/// The whole state of the oracle.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) stamps: Stamps,
    /// Each shared with forks until either changes; so are the next two.
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) by_ino: Arc<FxHashMap<u64, NodeId>>,
    pub(super) moves: Arc<Vec<Move>>,
    /// Calls that the model could not follow, and impossible results of calls of the load.
    pub(crate) confused: Vec<String>,
    /// Numbers the fills, so that every write has a word of its own.
    pub(crate) fills: u64,
    /// A later change at one of its names shows, too, whether a rename happened.
    pub(super) whole_renames: bool,
    /// A call's change is durable once it has returned.
    pub(super) durable_calls: bool,
    /// Writes of the drive are made to fail.
    pub(crate) writes_fail: bool,
    /// A call failed, and nobody can say what its names mean since: nothing can be compared any more.
    pub(super) astray: bool,
    /// Inode numbers may be others after the next mount.
    pub(super) loose_inodes: bool,
    /// The calls, where somebody wants to hear them.
    pub(crate) story: Option<Story>,
    /// A write is old or new in each page.
    pub(super) whole_pages: bool,
    /// `None`: times are not followed.
    pub(super) clock: Option<Clock>,
    /// Snapshots that were taken, and what each shows.
    pub(super) snapshots: Vec<(u64, Arc<Picture>)>,
}

impl Model {
    /// An empty root directory, certain.
    pub(crate) fn new() -> Model {
        Model {
            stamps: Stamps::new(),
            nodes: vec![Arc::new(Node::new(FileKind::Dir, StampId::ORIGIN))],
            by_ino: Arc::default(),
            moves: Arc::default(),
            confused: Vec::new(),
            fills: 0,
            whole_renames: true,
            durable_calls: false,
            writes_fail: false,
            astray: false,
            loose_inodes: false,
            whole_pages: false,
            clock: None,
            snapshots: Vec::new(),
            story: None,
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        Arc::make_mut(&mut self.nodes[id.0 as usize])
    }

    pub(super) fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(Arc::new(node));
        NodeId((self.nodes.len() - 1) as u32)
    }

    /// The node that a descriptor with this inode number has open.
    pub(crate) fn by_ino(&self, ino: Ino) -> Option<NodeId> {
        self.by_ino.get(&ino.0).copied()
    }

    /// Learns what a node is called and looks like, once its creation succeeded.
    pub(crate) fn identify(&mut self, id: NodeId, ino: Ino, attr: &Attr) {
        Arc::make_mut(&mut self.by_ino).insert(ino.0, id);
        let times = Times::certain(attr, self.clock.map(Clock::now));
        let node = self.node_mut(id);
        node.ino = Some(ino);
        // Where the node is at all, it is at least as it was made.
        node.mode = Register::new(Some(attr.mode));
        node.owner = Register::new(Some((attr.uid, attr.gid)));
        node.times = times;
    }

    /// A word that no other write has, without a zero byte.
    pub(crate) fn unique_word(&mut self) -> u64 {
        self.fills += 1;
        // SplitMix64's finaliser spreads the counter over all bytes.
        let mut z = self.fills.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) | 0x0101_0101_0101_0101
    }

    /// A write begins; `pos`: `None` at the end of the file.
    pub(crate) fn begin_write(
        &mut self,
        id: NodeId,
        pos: Option<u64>,
        data: granary_units::Payload<'_>,
    ) -> StampId {
        let by = self.stamps.begin_timed();
        if !data.is_empty() {
            self.touch(id, by, true);
        }
        Arc::make_mut(&mut self.nodes[id.0 as usize]).content.begin_write(&self.stamps, by, pos, data);
        by
    }

    /// It ended: `len` bytes at `pos`; `flags` of its descriptor.
    pub(crate) fn end_write(&mut self, id: NodeId, by: StampId, pos: u64, len: u64, flags: OpenFlags) {
        self.stamps.end_timed(by);
        self.touched(id, by);
        Arc::make_mut(&mut self.nodes[id.0 as usize]).content.end_write(by, pos, len);
        // O_SYNC includes O_DSYNC.
        if flags.contains(OpenFlags::DSYNC) {
            let (began, now) = (self.stamps.start(by), self.stamps.tick());
            self.stamps.keep(by, now);
            if flags.contains(OpenFlags::SYNC) {
                self.stamps.keep(by.times(), now);
            }
            Arc::make_mut(&mut self.nodes[id.0 as usize]).content.fold(&mut self.stamps);
            self.keep_names(id, began, !flags.contains(OpenFlags::SYNC));
        }
        self.returned(id, by);
    }

    /// The drive failed it: any part of it may be there.
    pub(crate) fn fail_write(&mut self, id: NodeId, by: StampId) {
        self.node_mut(id).content.fail_write(by);
    }

    /// It failed, and nothing was written.
    pub(crate) fn cancel_write(&mut self, id: NodeId, by: StampId) {
        self.node_mut(id).content.remove(by);
        self.untouch(id, by);
    }

    /// A change of size begins.
    pub(crate) fn begin_truncate(&mut self, id: NodeId, size: u64) -> StampId {
        let by = self.stamps.begin_timed();
        self.touch(id, by, true);
        self.node_mut(id).content.begin_truncate(by, size);
        by
    }

    /// A change of size ended.
    pub(crate) fn end_truncate(&mut self, id: NodeId, by: StampId, fate: Fate) {
        match fate {
            Fate::Failed => self.node_mut(id).content.remove(by),
            Fate::Done => {}
        }
        self.end(id, by, fate);
    }

    /// An allocation of a range begins; [`Model::end_truncate`] ends it.
    pub(crate) fn begin_space(&mut self, id: NodeId, how: Allocate, pos: u64, len: u64) -> StampId {
        let by = self.stamps.begin_timed();
        self.touch(id, by, true);
        self.node_mut(id).content.begin_space(by, pos..pos + len, how);
        by
    }

    /// A change of one node and its times ended.
    pub(crate) fn end(&mut self, id: NodeId, by: StampId, fate: Fate) {
        match fate {
            Fate::Done => {
                self.stamps.end_timed(by);
                self.touched(id, by);
                self.returned(id, by);
            }
            Fate::Failed => self.untouch(id, by),
        }
    }

    /// An `fsync` (or with `data_only` an `fdatasync`) of the node succeeded that began at `horizon`.
    pub(crate) fn keep(&mut self, id: NodeId, horizon: Tick, data_only: bool, content: bool) {
        let (stamps, node) = (&mut self.stamps, Arc::make_mut(&mut self.nodes[id.0 as usize]));
        if content {
            node.content.keep(stamps, horizon);
        }
        // The data of a directory are its names.
        let data_only = data_only && node.kind != FileKind::Dir;
        if !data_only {
            node.mode.keep(stamps, horizon);
            node.owner.keep(stamps, horizon);
            node.times.keep(stamps, horizon);
            node.xattrs.values().for_each(|x| x.keep(stamps, horizon));
            node.changes.retain(|&change| !stamps.keep(change, horizon));
        }
        self.keep_names(id, horizon, data_only);
    }

    /// Promises the names that the node still has; with `data_only` that it was made and is somewhere.
    pub(super) fn keep_names(&mut self, id: NodeId, horizon: Tick, data_only: bool) {
        let named = std::mem::take(&mut self.node_mut(id).named);
        let born = self.node(id).born;
        let is_there = |m: &Model, (_, dir, name): &(StampId, NodeId, Vec<u8>)| {
            m.node(*dir).entries.get(name).and_then(Register::current) == Some(id)
        };
        let somewhere = named.iter().any(|n| is_there(self, n));
        let mut later = Vec::new();
        for entry in named {
            let promised = if data_only { somewhere && entry.0 == born } else { is_there(self, &entry) };
            if promised && self.stamps.keep(entry.0, horizon) {
                self.node_mut(id).kept = true;
                self.keep_directory(entry.1, horizon);
            } else if promised || data_only {
                later.push(entry);
            }
        }
        self.node_mut(id).named = later;
    }

    /// A name in it is promised: the directory is there, wherever; so are those above.
    fn keep_directory(&mut self, mut dir: NodeId, horizon: Tick) {
        // Every step goes up; the bound only guards against a model that lost its way.
        for _ in 0..self.nodes.len() {
            let (stamps, node) = (&mut self.stamps, Arc::make_mut(&mut self.nodes[dir.0 as usize]));
            if dir == NodeId::ROOT || !stamps.keep(node.born, horizon) {
                return;
            }
            node.kept = true;
            dir = node.parent;
        }
    }

    /// A `sync` succeeded that began at `horizon`.
    pub(crate) fn keep_everything(&mut self, horizon: Tick) {
        self.stamps.keep_all(horizon);
        let stamps = &mut self.stamps;
        for node in &mut self.nodes {
            if !node.has_pending() {
                // Nothing of it changes: it stays shared with forks.
                continue;
            }
            let node = Arc::make_mut(node);
            node.content.fold(stamps);
            node.changes.retain(|&change| !stamps.durable(change));
            let before = node.named.len();
            node.named.retain(|(by, ..)| !stamps.durable(*by));
            node.kept |= node.named.len() < before;
        }
        if !self.moves.is_empty() {
            Arc::make_mut(&mut self.moves).retain(|m| !stamps.durable(m.stamp));
        }
    }
}
