//! Calls in the model that need more than one change: stores through mappings, files without a name; and what
//! a call that has returned makes durable where a file system promises that of every call.

use super::model::{Model, Node, NodeId};
use super::stamp::{StampId, Tick};
use granary_fs::{FileKind, Ino};
use granary_units::Payload;
use std::ops::Range;
use std::sync::Arc;

impl Model {
    /// Bytes are stored at `pos` through a shared mapping; the file does not grow. When its times move is not
    /// followed any more: that is at a page's first store, or when the page is written back.
    pub(crate) fn store(&mut self, id: NodeId, pos: u64, data: Payload<'_>) -> StampId {
        let by = self.stamps.begin();
        let node = Arc::make_mut(&mut self.nodes[id.0 as usize]);
        node.times.forget();
        node.content.begin_store(by, pos, data);
        by
    }

    /// The store is over.
    pub(crate) fn end_store(&mut self, by: StampId) {
        self.stamps.end(by);
    }

    /// An `msync` of this range of the file succeeded that began at `horizon`.
    pub(crate) fn keep_stores(&mut self, id: NodeId, range: Range<u64>, horizon: Tick) {
        Arc::make_mut(&mut self.nodes[id.0 as usize]).content.keep_stores(&mut self.stamps, range, horizon);
    }

    /// A file is made without a name. Nobody can find it until it gets one.
    pub(crate) fn make_unnamed(&mut self, ino: Ino, attr: &granary_fs::Attr) -> NodeId {
        let by = self.stamps.begin_timed();
        self.stamps.end_timed(by);
        let mut node = Node::new(FileKind::File, by);
        node.unnamed = true;
        let id = self.add(node);
        self.identify(id, ino, attr);
        id
    }

    /// A change of the node has returned: where every call is durable, it must be there from now on.
    pub(super) fn returned(&mut self, id: NodeId, by: StampId) {
        if !self.durable_calls {
            return;
        }
        let now = self.stamps.tick();
        self.stamps.keep(by, now);
        self.stamps.keep(by.times(), now);
        let node = Arc::make_mut(&mut self.nodes[id.0 as usize]);
        node.content.fold(&mut self.stamps);
    }

    /// A change of names has returned; `dirs` are its directories, `named` what has a name by it.
    pub(super) fn returned_names(&mut self, by: StampId, dirs: &[NodeId], named: &[NodeId]) {
        if !self.durable_calls {
            return;
        }
        let now = self.stamps.tick();
        self.stamps.keep_named(by, now);
        let stamps = &self.stamps;
        for &dir in dirs {
            let node = Arc::make_mut(&mut self.nodes[dir.0 as usize]);
            node.changes.retain(|&change| !stamps.durable(change));
        }
        for &id in named {
            let node = Arc::make_mut(&mut self.nodes[id.0 as usize]);
            node.named.retain(|(by, ..)| !stamps.durable(*by));
            node.kept = true;
        }
        Arc::make_mut(&mut self.moves).retain(|m| !stamps.durable(m.stamp));
    }
}
