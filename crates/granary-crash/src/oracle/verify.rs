//! Comparing a recovered file system with the model: the walk, the rules, and the certain state that follows.
//!
//! ```text
//!   1. walk   directory
//!                 ├── list ── each entry: the versions of its name that may show and have this inode number
//!                 └── each name of the model that is not there: may it be absent?
//!   2. inodes each: the versions that all its names agree on; size, every byte, attributes; link count
//!   3. over all: renames wholly or not at all; promised nodes found
//! ```
//!
//! Where an inode number fits several versions (it was reused), one without violations suffices. Of several
//! such versions nobody can say which it is; a directory with several is compared with all of them together.
//! It does *not* stop at the first violation: all are evidence.

mod compare;

use super::content::Content;
use super::model::{Model, Node, NodeId};
use super::register::Register;
use super::stamp::StampId;
use super::times::{Clock, Times};
use granary_fs::{FileKind, FsError, Time};
use granary_vfs::{Dirent, Posix, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes read at once.
const PIECE: usize = 256 << 10;

/// Result of [`super::Promises::verify`].
pub struct Verdict {
    /// One sentence per broken promise; empty = all kept.
    pub violations: Vec<String>,
    /// Of these: calls that ended with an error. The file system told of it itself.
    pub errors: u64,
    /// Of these: files whose bytes are wrong, without an error.
    pub wrong_files: u64,
    /// Files whose content was compared.
    pub files: u64,
    /// Bytes compared.
    pub bytes: u64,
    pub(crate) recovered: Model,
}

/// A non-directory found by the walk.
struct Found {
    path: Vec<u8>,
    stat: Stat,
    /// The versions that all its names agree on.
    versions: Vec<NodeId>,
    /// The names: directory in the recovered model, name, and the name's place in the old model where it is
    /// certain.
    names: Vec<(NodeId, Vec<u8>, Option<NodeId>)>,
}

/// How a file's content is not what it may be.
enum Differs {
    /// Other bytes.
    Bytes(String),
    /// A call that failed.
    Error(String),
}

struct Walk<'a, P> {
    model: &'a Model,
    process: &'a mut P,
    out: Model,
    violations: Vec<String>,
    inodes: BTreeMap<u64, Found>,
    /// Inode numbers of directories: each may be found once.
    directories: BTreeSet<u64>,
    /// The node found at a name of the model.
    seen: BTreeMap<(NodeId, Vec<u8>), Option<NodeId>>,
    found: BTreeSet<NodeId>,
    files: u64,
    bytes: u64,
    errors: u64,
    wrong_files: u64,
    /// The time when the walk began: it moves access times itself.
    began: Option<Time>,
    /// Room for the bytes of a file.
    piece: Vec<u8>,
}

pub(super) fn verify<P: Posix>(model: &Model, process: &mut P) -> Verdict {
    let mut out = Model::new();
    (out.fills, out.clock, out.whole_renames) = (model.fills, model.clock, model.whole_renames);
    (out.durable_calls, out.loose_inodes) = (model.durable_calls, model.loose_inodes);
    out.whole_pages = model.whole_pages;
    out.story.clone_from(&model.story);
    out.snapshots.clone_from(&model.snapshots);
    let mut walk = Walk {
        model,
        process,
        out,
        violations: model.confused.iter().map(|c| format!("while running: {c}")).collect(),
        inodes: BTreeMap::new(),
        directories: BTreeSet::new(),
        seen: BTreeMap::new(),
        found: BTreeSet::from([NodeId::ROOT]),
        files: 0,
        bytes: 0,
        errors: 0,
        wrong_files: 0,
        began: model.clock.map(Clock::now),
        piece: Vec::new(),
    };
    walk.directory(b"", &[NodeId::ROOT], NodeId::ROOT);
    for found in std::mem::take(&mut walk.inodes).into_values() {
        walk.inode(found);
    }
    walk.renames();
    walk.everything_promised();
    if model.astray {
        walk.violations.clear();
    }
    let Walk { out, violations, files, bytes, errors, wrong_files, .. } = walk;
    Verdict { violations, errors, wrong_files, files, bytes, recovered: out }
}

fn show(path: &[u8]) -> String {
    if path.is_empty() { "/".into() } else { String::from_utf8_lossy(path).into_owned() }
}

impl<P: Posix> Walk<'_, P> {
    fn blame(&mut self, path: &[u8], what: impl AsRef<str>) {
        self.violations.push(format!("{}: {}", show(path), what.as_ref()));
    }

    /// A call that failed.
    fn failed(&mut self, path: &[u8], what: &str, e: &FsError) {
        self.errors += 1;
        self.blame(path, format!("{what}: {e}"));
    }

    /// `dirs`: the directories of the old model that this may be; `new`: its copy. Returns how many
    /// directories are in it.
    fn directory(&mut self, path: &[u8], dirs: &[NodeId], new: NodeId) -> Option<usize> {
        let listing = self.process.list(if path.is_empty() { b"/" } else { path });
        let entries: Vec<Dirent> = match listing {
            Ok(all) => all.into_iter().filter(|e| e.name != b"." && e.name != b"..").collect(),
            Err(e) => {
                self.failed(path, "cannot be listed", &e);
                return None;
            }
        };
        let mut names = BTreeSet::new();
        for entry in &entries {
            if names.insert(entry.name.as_slice()) {
                self.entry(&[path, b"/", &entry.name].concat(), dirs, new, entry);
            } else {
                self.blame(path, format!("lists {} twice", show(&entry.name)));
            }
        }
        let model = self.model;
        if let [dir] = dirs {
            for (name, slot) in model.node(*dir).entries.iter().filter(|(n, _)| !names.contains(n.as_slice()))
            {
                self.seen.insert((*dir, name.clone()), None);
                if !slot.may_be(&model.stamps, None) {
                    let may = self.versions_of(&[*dir], name);
                    self.blame(&[path, b"/", name].concat(), format!("lost name, promised: {may}"));
                }
            }
        }
        Some(entries.iter().filter(|e| e.kind == FileKind::Dir).count())
    }

    fn describe(&self, node: Option<NodeId>) -> String {
        match node.map(|n| self.model.node(n)) {
            None => "absent".into(),
            Some(Node { kind, ino: Some(ino), .. }) => format!("{kind:?} with {ino}"),
            Some(Node { kind, .. }) => format!("{kind:?} whose creation was in flight"),
        }
    }

    /// Everything that a name may be.
    fn possible(&self, dirs: &[NodeId], name: &[u8]) -> Vec<Option<NodeId>> {
        let slots = dirs.iter().filter_map(|&dir| self.model.node(dir).entries.get(name));
        slots.flat_map(|slot| slot.possible(&self.model.stamps, 0).map(|(_, node)| node)).collect()
    }

    fn versions_of(&self, dirs: &[NodeId], name: &[u8]) -> String {
        let all: Vec<String> = self.possible(dirs, name).into_iter().map(|n| self.describe(n)).collect();
        if all.is_empty() { "nobody ever made it".into() } else { all.join(" or ") }
    }

    fn entry(&mut self, path: &[u8], dirs: &[NodeId], new: NodeId, entry: &Dirent) {
        let stat = match self.process.lstat(path) {
            Ok(stat) => stat,
            Err(e) => return self.failed(path, "is listed but has no attributes", &e),
        };
        let is = format!("{:?} with {}", stat.attr.kind, stat.ino);
        if (stat.ino, stat.attr.kind) != (entry.ino, entry.kind) {
            self.blame(path, format!("listed as {:?} with {}, is {is}", entry.kind, entry.ino));
        }
        let model = self.model;
        let mut versions: Vec<NodeId> = self.possible(dirs, &entry.name).into_iter().flatten().collect();
        versions.retain(|&id| {
            let node = model.node(id);
            let numbered = model.loose_inodes || node.ino.is_none_or(|ino| ino == stat.ino);
            node.kind == stat.attr.kind && numbered
        });
        if versions.is_empty() {
            let may = self.versions_of(dirs, &entry.name);
            return self.blame(path, format!("is {is}, may be: {may}"));
        }
        let old_dir = if let [dir] = dirs { Some(*dir) } else { None };
        if stat.attr.kind == FileKind::Dir {
            if !self.directories.insert(stat.ino.0) {
                return self.blame(path, format!("{} has another name, too", stat.ino));
            }
            let sure = if let [id] = versions[..] { Some(id) } else { None };
            if let (Some(dir), Some(id)) = (old_dir, sure) {
                self.seen.insert((dir, entry.name.clone()), Some(id));
            }
            self.attributes(path, &versions, &stat);
            let xattrs = self.xattrs(path, &versions, &stat);
            self.found.extend(&versions);
            let copy = self.copy(&stat, new, Content::default(), Vec::new());
            self.out.node_mut(copy).xattrs = xattrs;
            self.enter(new, &entry.name, copy);
            let subdirs = self.directory(path, &versions, copy);
            // One link: somebody has stopped counting.
            if let Some(subdirs) = subdirs.filter(|n| ![1, n + 2].contains(&(stat.attr.nlink as usize))) {
                let told = stat.attr.nlink;
                self.blame(path, format!("tells {told} links and has {subdirs} directories in it"));
            }
            return;
        }
        let name = (new, entry.name.clone(), old_dir);
        match self.inodes.get_mut(&stat.ino.0) {
            None => {
                let found = Found { path: path.to_vec(), stat, versions, names: vec![name] };
                self.inodes.insert(stat.ino.0, found);
            }
            Some(found) => {
                found.names.push(name);
                found.versions.retain(|v| versions.contains(v));
                if found.versions.is_empty() {
                    let other = show(&found.path);
                    found.versions = versions;
                    self.blame(path, format!("is {is} as {other} is; no file ever had both names"));
                }
            }
        }
    }

    fn copy(&mut self, stat: &Stat, dir: NodeId, content: Content, target: Vec<u8>) -> NodeId {
        let mut copy = Node::new(stat.attr.kind, StampId::ORIGIN);
        copy.ino = Some(stat.ino);
        copy.parent = dir;
        copy.mode = Register::new(Some(stat.attr.mode));
        copy.owner = Register::new(Some((stat.attr.uid, stat.attr.gid)));
        copy.times = Times::certain(&stat.attr, self.began);
        copy.kept = true;
        copy.content = content;
        copy.target = target;
        let id = self.out.add(copy);
        Arc::make_mut(&mut self.out.by_ino).insert(stat.ino.0, id);
        id
    }

    fn enter(&mut self, dir: NodeId, name: &[u8], node: NodeId) {
        Arc::make_mut(&mut self.out.node_mut(dir).entries).insert(name.to_vec(), Register::new(Some(node)));
    }

    /// Compares an inode with each of its versions.
    fn inode(&mut self, found: Found) {
        let Found { path, stat, versions, names } = found;
        if stat.attr.nlink as usize != names.len() {
            let (told, counted) = (stat.attr.nlink, names.len());
            self.blame(&path, format!("{} tells {told} links and has {counted} names", stat.ino));
        }
        let before = self.violations.len();
        let (mut fitting, mut is, mut evidence) = (Vec::new(), None, Vec::new());
        for &version in &versions {
            self.attributes(&path, &[version], &stat);
            let xattrs = self.xattrs(&path, &[version], &stat);
            let node = self.model.node(version);
            let found = match stat.attr.kind {
                FileKind::File => (self.content(&path, node, &stat), Vec::new(), xattrs),
                FileKind::Symlink => (Content::default(), self.target(&path, node), xattrs),
                _ => (Content::default(), Vec::new(), xattrs),
            };
            if self.violations.len() == before {
                fitting.push(version);
                is = is.or(Some(found));
            } else {
                evidence = self.violations.split_off(before);
            }
        }
        if fitting.is_empty() {
            self.violations.append(&mut evidence);
            // It is there, and wrong: it is not missing, too.
            self.found.extend(versions);
        }
        let (mut content, target, xattrs) = is.unwrap_or_default();
        for version in &fitting {
            content.inherit(&self.model.node(*version).content);
        }
        let copy = self.copy(&stat, names[0].0, content, target);
        self.out.node_mut(copy).xattrs = xattrs;
        for (dir, name, old_dir) in &names {
            self.enter(*dir, name, copy);
            // Which of several it is nobody can say, so nothing more is concluded from it.
            if let ([version], Some(old_dir)) = (&fitting[..], old_dir) {
                self.seen.insert((*old_dir, name.clone()), Some(*version));
            }
        }
        self.found.extend(fitting);
    }

    /// A rename shows at both of its names or at neither.
    fn renames(&mut self) {
        let model = self.model;
        let stamps = &model.stamps;
        for m in model.moves.iter() {
            // Whether what is seen at a name is certainly from before the rename, or certainly not.
            let side = |place: &(NodeId, Vec<u8>)| -> Option<(bool, bool)> {
                let seen = *self.seen.get(place)?;
                let slot = model.node(place.0).entries.get(&place.1)?;
                let shown = slot.possible(stamps, 0).filter(|&(_, node)| node == seen);
                shown.fold(None, |sure, (by, _)| {
                    let (before, after) = sure.unwrap_or((true, true));
                    let is_later = by == m.stamp || model.whole_renames && stamps.before(m.stamp, by);
                    Some((before && by != m.stamp && stamps.before(by, m.stamp), after && is_later))
                })
            };
            let (Some(from), Some(to)) = (side(&m.from), side(&m.to)) else { continue };
            // Without whole renames only the file itself is evidence at its old name: what had the name
            // before may be back.
            let moved = model.node(m.to.0).entries.get(&m.to.1).and_then(|slot| slot.of(m.stamp)).flatten();
            let stayed = model.whole_renames || self.seen.get(&m.from).copied().flatten() == moved;
            if (from.0 && stayed && to.1) || (from.1 && to.0) {
                let half = if from.0 { "new" } else { "old" };
                let tell = |place: &(NodeId, Vec<u8>)| {
                    let node = self.seen.get(place).copied().flatten();
                    format!("{} is {}", show(&place.1), self.describe(node))
                };
                let (from, to) = (tell(&m.from), tell(&m.to));
                self.violations.push(format!("a rename happened at the {half} name only: {from}, {to}"));
            }
        }
    }

    /// Every promised node that was never removed is somewhere.
    fn everything_promised(&mut self) {
        for (i, node) in self.model.nodes.iter().enumerate() {
            let id = NodeId(i as u32);
            if node.kept && node.removals == 0 && !self.found.contains(&id) {
                let what = self.describe(Some(id));
                self.violations.push(format!("promised and nowhere to be found: {what}"));
            }
        }
    }
}
