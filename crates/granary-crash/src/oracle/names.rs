//! Names in the model: paths to nodes, and the calls that change directories.
//!
//! Invariants: the effects of a call show in the model from its beginning, because a power failure may come
//! at any time; [`Model::end_names`] takes them back where the call failed.

use super::model::{Fate, Model, Move, Node, NodeId};
use super::register::Register;
use super::stamp::StampId;
use granary_fs::{FileKind, Ino};
use std::sync::Arc;

/// Where a path leads.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: NodeId,
    /// Empty: the directory itself (root, or a path that ends in "..").
    pub(crate) name: Vec<u8>,
    pub(crate) node: Option<NodeId>,
}

/// A change of names on its way.
#[derive(Clone, Debug)]
pub(crate) struct NameChange {
    pub(crate) by: StampId,
    /// The names it changes and what they become.
    pub(super) at: Vec<(NodeId, Vec<u8>, Option<NodeId>)>,
    /// Whether an `fsync` of what got a name promises the name.
    promises: bool,
    /// Nodes that lose a name.
    pub(super) losers: Vec<NodeId>,
    /// Nodes that were there before and whose times it moves, and the stamps of these times.
    pub(super) touched: Vec<(NodeId, StampId)>,
}

impl Model {
    /// Follows `path` from `cwd` as the load sees the tree now. `None`: a directory on the way is unknown.
    pub(crate) fn resolve(&self, cwd: NodeId, path: &[u8]) -> Option<Place> {
        let mut dir = if path.first() == Some(&b'/') { NodeId::ROOT } else { cwd };
        let mut parts = path.split(|&b| b == b'/').filter(|p| !p.is_empty() && *p != b".").peekable();
        while let Some(part) = parts.next() {
            if part == b".." {
                dir = self.node(dir).parent;
                continue;
            }
            let node = self.node(dir).entries.get(part).and_then(Register::current);
            if parts.peek().is_none() {
                return Some(Place { dir, name: part.to_vec(), node });
            }
            dir = node?;
        }
        Some(Place { dir, name: Vec::new(), node: Some(dir) })
    }

    /// A node is made under a name.
    pub(crate) fn begin_make(&mut self, at: &Place, kind: FileKind, target: &[u8]) -> (NameChange, NodeId) {
        let by = self.stamps.begin_named();
        let mut node = Node::new(kind, by);
        node.target = target.to_vec();
        node.parent = at.dir;
        node.lists_unknown = self.bequeaths(at.dir);
        let id = self.add(node);
        let set = vec![(at.dir, at.name.clone(), Some(id))];
        (self.begin_names(by, set, true, Vec::new(), &[]), id)
    }

    /// Whether the file of this name that has this number is another than `id`: somebody else has made it
    /// meanwhile.
    pub(crate) fn is_made(&self, at: &Place, id: NodeId, ino: Ino) -> bool {
        let other = self.by_ino(ino).filter(|&other| other != id && self.node(other).removals == 0);
        let slot = self.node(at.dir).entries.get(&at.name);
        other.is_some_and(|other| slot.is_some_and(|slot| slot.may_be(&self.stamps, Some(other))))
    }

    /// A node gets a second name.
    pub(crate) fn begin_link(&mut self, node: NodeId, to: &Place) -> NameChange {
        let by = self.stamps.begin_named();
        // The first name of a file without one is made as a creation makes it.
        let first = self.node(node).unnamed;
        self.begin_names(by, vec![(to.dir, to.name.clone(), Some(node))], first, Vec::new(), &[node])
    }

    /// A name is removed.
    pub(crate) fn begin_remove(&mut self, at: &Place) -> NameChange {
        let by = self.stamps.begin_named();
        let set = vec![(at.dir, at.name.clone(), None)];
        self.begin_names(by, set, false, at.node.into_iter().collect(), at.node.as_slice())
    }

    /// A node is renamed, or two exchange their names.
    pub(crate) fn begin_rename(&mut self, from: &Place, to: &Place, exchange: bool) -> NameChange {
        let by = self.stamps.begin_named();
        // POSIX: renaming one name of a file to another of its names does nothing.
        if from.node == to.node {
            return self.begin_names(by, Vec::new(), false, Vec::new(), &[]);
        }
        let left = if exchange { to.node } else { None };
        let set = vec![(from.dir, from.name.clone(), left), (to.dir, to.name.clone(), from.node)];
        let losers = if exchange { Vec::new() } else { to.node.into_iter().collect() };
        let nodes: Vec<NodeId> = from.node.into_iter().chain(to.node).collect();
        let (from, to) = ((from.dir, from.name.clone()), (to.dir, to.name.clone()));
        Arc::make_mut(&mut self.moves).push(Move { stamp: by, from, to });
        self.begin_names(by, set, true, losers, &nodes)
    }

    fn begin_names(
        &mut self,
        by: StampId,
        at: Vec<(NodeId, Vec<u8>, Option<NodeId>)>,
        promises: bool,
        losers: Vec<NodeId>,
        nodes: &[NodeId],
    ) -> NameChange {
        let mut dirs: Vec<NodeId> = at.iter().map(|(dir, ..)| *dir).collect();
        dirs.dedup();
        let mut touched: Vec<(NodeId, StampId)> =
            dirs.into_iter().zip(0..).map(|(dir, nth)| (dir, by.directory(nth))).collect();
        touched.iter().for_each(|&(dir, times)| self.touch_as(dir, times, true));
        for &node in nodes {
            self.touch(node, by, false);
            touched.push((node, by.times()));
        }
        for (dir, name, node) in &at {
            let entries = Arc::make_mut(&mut Arc::make_mut(&mut self.nodes[dir.0 as usize]).entries);
            match entries.get_mut(name) {
                Some(slot) => slot.push(&self.stamps, by, *node),
                None => {
                    let mut slot = Register::new(None);
                    slot.push(&self.stamps, by, *node);
                    entries.insert(name.clone(), slot);
                }
            }
        }
        for &loser in &losers {
            self.node_mut(loser).removals += 1;
        }
        NameChange { by, at, promises, losers, touched }
    }

    /// The change ended.
    pub(crate) fn end_names(&mut self, change: NameChange, fate: Fate) {
        let NameChange { by, at, promises, losers, touched } = change;
        if fate == Fate::Failed {
            for (dir, name, _) in &at {
                if let Some(slot) = Arc::make_mut(&mut self.node_mut(*dir).entries).get_mut(name) {
                    slot.remove(by);
                }
            }
            for loser in losers {
                self.node_mut(loser).removals -= 1;
            }
            touched.into_iter().for_each(|(id, times)| self.untouch_as(id, times));
            Arc::make_mut(&mut self.moves).retain(|m| m.stamp != by);
            return;
        }
        self.stamps.end_named(by);
        touched.into_iter().for_each(|(id, times)| self.touched_as(id, times));
        let dirs: Vec<NodeId> = at.iter().map(|(dir, ..)| *dir).collect();
        let named: Vec<NodeId> = at.iter().filter_map(|(.., node)| *node).collect();
        for (dir, name, node) in at {
            self.node_mut(dir).changes.push(by);
            let Some(id) = node else { continue };
            let node = self.node_mut(id);
            node.unnamed = false;
            if node.kind == FileKind::Dir {
                node.parent = dir;
            }
            if promises {
                node.named.push((by, dir, name));
            }
        }
        self.returned_names(by, &dirs, &named);
    }
}
