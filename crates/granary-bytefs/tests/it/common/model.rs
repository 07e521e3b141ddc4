//! [`Model`]: what the file system should contain, as plain maps; and random operations on both.

use super::client::{Client, bytes};
use granary_fs::{Call, FileKind, FsError, Inode, Result};
use granary_sim::rng::Stream;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A file or directory.
#[derive(Clone, Debug)]
pub struct MNode {
    pub kind: FileKind,
    pub names: BTreeMap<Vec<u8>, usize>,
    pub content: Arc<Vec<u8>>,
    pub nlink: u32,
    /// The operations that last changed it and its content.
    pub touched: usize,
    pub written: usize,
    /// Content at the last fsync, and when.
    pub synced: Option<(usize, Arc<Vec<u8>>)>,
}

/// The tree; node 0 is the root.
#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: BTreeMap<usize, MNode>,
    next: usize,
}

impl MNode {
    fn new(kind: FileKind, op: usize) -> MNode {
        let nlink = if kind == FileKind::Dir { 2 } else { 1 };
        MNode {
            kind,
            names: BTreeMap::new(),
            content: Arc::default(),
            nlink,
            touched: op,
            written: op,
            synced: None,
        }
    }
}

/// A file that an operation removed while it was open, and its content.
pub struct Open {
    pub inode: Arc<Inode>,
    pub content: Arc<Vec<u8>>,
}

impl Model {
    pub fn new() -> Model {
        Model { nodes: BTreeMap::from([(0, MNode::new(FileKind::Dir, 0))]), next: 1 }
    }

    fn drop_name(&mut self, dir: usize, name: &[u8], op: usize) -> usize {
        let id = self.node(dir, op).names.remove(name).expect("the name is there");
        let is_dir = self.nodes[&id].kind == FileKind::Dir;
        let n = self.node(id, op);
        n.nlink = if is_dir { 0 } else { n.nlink - 1 };
        let gone = n.nlink == 0;
        if gone {
            self.nodes.remove(&id);
        }
        if is_dir {
            self.node(dir, op).nlink -= 1;
        }
        id
    }

    fn node(&mut self, id: usize, op: usize) -> &mut MNode {
        let n = self.nodes.get_mut(&id).expect("the node is there");
        n.touched = op;
        n
    }

    fn is_below(&self, id: usize, top: usize) -> bool {
        id == top || self.nodes[&top].names.values().any(|&c| self.is_below(id, c))
    }

    /// Names, kinds and link counts, one line each.
    pub fn shape(&self) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        self.shape_of(0, "", &mut out);
        out
    }

    fn shape_of(&self, id: usize, path: &str, out: &mut BTreeSet<String>) {
        for (name, &child) in &self.nodes[&id].names {
            let n = &self.nodes[&child];
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            out.insert(format!("{path} {:?} {}", n.kind, n.nlink));
            self.shape_of(child, &path, out);
        }
    }

    /// Path of some name of each file.
    pub fn files(&self) -> BTreeMap<usize, Vec<Vec<u8>>> {
        let mut out = BTreeMap::new();
        self.files_of(0, &mut Vec::new(), &mut out);
        out
    }

    fn files_of(&self, id: usize, path: &mut Vec<Vec<u8>>, out: &mut BTreeMap<usize, Vec<Vec<u8>>>) {
        for (name, &child) in &self.nodes[&id].names {
            path.push(name.clone());
            if self.nodes[&child].kind == FileKind::File {
                out.insert(child, path.clone());
            }
            self.files_of(child, path, out);
            path.pop();
        }
    }
}

pub fn walk(c: &Client, path: &[Vec<u8>]) -> Arc<Inode> {
    path.iter()
        .fold(c.root(), |dir, name| c.lookup(&dir, name).expect("readable").expect("the name is there"))
}

/// The shape of the real file system.
pub fn real_shape(c: &Client) -> BTreeSet<String> {
    fn go(c: &Client, dir: &Inode, path: &str, out: &mut BTreeSet<String>) {
        for (name, kind) in c.list(dir).expect("readable") {
            let inode = c.lookup(dir, &name).expect("readable").expect("listed");
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            assert_eq!(inode.attr().kind, kind);
            out.insert(format!("{path} {kind:?} {}", inode.attr().nlink));
            if kind == FileKind::Dir {
                go(c, &inode, &path, out);
            }
        }
    }
    let mut out = BTreeSet::new();
    go(c, &c.root(), "", &mut out);
    out
}

/// Everything is as in the model, contents included.
pub fn assert_same(c: &Client, model: &Model) {
    assert_eq!(real_shape(c), model.shape());
    for (id, path) in model.files() {
        let inode = walk(c, &path);
        assert!(c.read(&inode).expect("readable") == *model.nodes[&id].content, "{path:?}");
    }
}

/// One random operation on both; results must agree. Without a client, on the model alone: with a copy of the
/// stream that foretells what the operation will do. `opened` collects files that were unlinked while open.
pub fn step(c: Option<&Client>, model: &mut Model, s: &mut Stream, op: usize, opened: &mut Vec<Open>) {
    let dirs = directories(model);
    let pick = |s: &mut Stream| dirs[s.below(dirs.len() as u64) as usize].clone();
    let name = |s: &mut Stream| {
        let len = [1, 8, 30, 57, 120, 255][s.below(6) as usize];
        let mut n = vec![b'n'; len];
        n[0] = b'a' + s.below(4) as u8;
        n
    };
    let (d, path) = pick(s);
    let n = name(s);
    let there = model.nodes[&d].names.get(&n).copied();
    let dir = c.map(|c| walk(c, &path));
    // The client, the directory, and the inode called `n`.
    let real = || c.zip(dir.clone());
    let found = || real().map(|(c, dir)| (c, c.lookup(&dir, &n).expect("readable").expect("there")));
    match s.below(100) {
        0..22 => {
            let kind = [FileKind::File, FileKind::File, FileKind::Dir, FileKind::Symlink, FileKind::Fifo]
                [s.below(5) as usize];
            let target = vec![b't'; if kind == FileKind::Symlink { 1 + s.below(200) as usize } else { 0 }];
            let got = real().map(|(c, dir)| c.make(&dir, &n, kind, &target));
            if there.is_some() {
                assert!(got.is_none_or(|g| g.err() == Some(FsError::Exists)));
                return;
            }
            if let Some((made, c)) = got.map(|g| g.expect("created")).zip(c)
                && kind == FileKind::Symlink
            {
                assert_eq!(c.fs.readlink(&Call::offline(), &made).expect("readable"), target);
            }
            let id = model.next;
            model.next += 1;
            model.nodes.insert(id, MNode::new(kind, op));
            let parent = model.node(d, op);
            parent.names.insert(n, id);
            parent.nlink += (kind == FileKind::Dir) as u32;
        }
        22..34 => {
            let keep = s.chance(0.3);
            let got = real().map(|(c, dir)| c.unlink(&dir, &n, keep));
            match there {
                None => assert!(got.is_none_or(|g| g.err() == Some(FsError::NoEntry))),
                Some(id) if !model.nodes[&id].names.is_empty() => {
                    assert!(got.is_none_or(|g| g.err() == Some(FsError::NotEmpty)));
                }
                Some(id) => {
                    let content = model.nodes[&id].content.clone();
                    let is_file = model.nodes[&id].kind == FileKind::File;
                    let inode = got.map(|g| g.expect("removed"));
                    model.drop_name(d, &n, op);
                    if keep
                        && !model.nodes.contains_key(&id)
                        && let Some((inode, c)) = inode.zip(c)
                    {
                        match is_file {
                            true => opened.push(Open { inode, content }),
                            false => c.close(&inode).expect("evicted"),
                        }
                    }
                }
            }
        }
        34..46 => {
            let to = (pick(s), name(s));
            rename(c, model, s, op, (d, &path, &n), to.0, to.1);
        }
        46..52 => {
            let ((d2, path2), n2) = (pick(s), name(s));
            let Some(id) = there.filter(|id| model.nodes[id].kind != FileKind::Dir) else { return };
            if model.nodes[&d2].names.contains_key(&n2) {
                return;
            }
            if let Some((c, inode)) = found() {
                c.link(&walk(c, &path2), &n2, &inode).expect("linked");
            }
            model.node(d2, op).names.insert(n2, id);
            model.node(id, op).nlink += 1;
        }
        52..90 => {
            let Some(id) = there.filter(|id| model.nodes[id].kind == FileKind::File) else { return };
            change_file(found(), model, s, op, id);
        }
        90..96 => {
            let data_only = s.chance(0.3);
            let Some(id) = there else { return };
            if let Some((c, inode)) = found() {
                c.fs.fsync(&Call::offline(), &inode, data_only).expect("synced");
            }
            let content = model.nodes[&id].content.clone();
            model.nodes.get_mut(&id).expect("there").synced = Some((op, content));
        }
        _ => {
            if let Some((open, c)) = opened.pop().zip(c) {
                assert!(c.read(&open.inode).expect("readable") == *open.content);
                c.write(&open.inode, 10_000, b"still alive").expect("written");
                c.close(&open.inode).expect("evicted");
            }
        }
    }
}

/// All directories with their paths.
fn directories(model: &Model) -> Vec<(usize, Vec<Vec<u8>>)> {
    let mut out = vec![(0, Vec::new())];
    let mut i = 0;
    while i < out.len() {
        let (id, path) = out[i].clone();
        for (name, &child) in &model.nodes[&id].names {
            if model.nodes[&child].kind == FileKind::Dir {
                let mut p: Vec<Vec<u8>> = path.clone();
                p.push(name.clone());
                out.push((child, p));
            }
        }
        i += 1;
    }
    out
}

fn change_file(real: Option<(&Client, Arc<Inode>)>, model: &mut Model, s: &mut Stream, op: usize, id: usize) {
    let mut content = (*model.nodes[&id].content).clone();
    if s.chance(0.25) {
        let size = s.below(40_000);
        if let Some((c, inode)) = &real {
            c.truncate(inode, size).expect("truncated");
        }
        content.resize(size as usize, 0);
    } else {
        let pos = s.below(30_000) as usize;
        let most = [20, 300, 5000, 12_000][s.below(4) as usize];
        let len = 1 + s.below(most) as usize;
        let data = bytes(s.next_u64(), len);
        if let Some((c, inode)) = &real {
            c.write(inode, pos as u64, &data).expect("written");
        }
        content.resize(content.len().max(pos + len), 0);
        content[pos..pos + len].copy_from_slice(&data);
    }
    let n = model.node(id, op);
    n.written = op;
    n.content = Arc::new(content);
    if let Some((c, inode)) = real {
        assert!(c.read(&inode).expect("readable") == *n.content);
    }
}

fn rename(
    c: Option<&Client>,
    model: &mut Model,
    s: &mut Stream,
    op: usize,
    (d, path, n): (usize, &[Vec<u8>], &[u8]),
    (d2, path2): (usize, Vec<Vec<u8>>),
    n2: Vec<u8>,
) {
    let exchange = s.chance(0.4);
    let Some(&id) = model.nodes[&d].names.get(n) else { return };
    let target = model.nodes[&d2].names.get(&n2).copied();
    // The vfs refuses these, so the test does not ask for them.
    let is_dir = |m: &Model, id: usize| m.nodes[&id].kind == FileKind::Dir;
    let refused = target == Some(id)
        || (is_dir(model, id) && model.is_below(d2, id))
        || match target {
            None => exchange,
            Some(t) if exchange => is_dir(model, t) && model.is_below(d, t),
            Some(t) => is_dir(model, t) != is_dir(model, id) || !model.nodes[&t].names.is_empty(),
        };
    if refused {
        return;
    }
    if let Some(c) = c {
        let done: Result<()> = c.rename(&walk(c, path), n, &walk(c, &path2), &n2, exchange);
        done.expect("renamed");
    }
    if exchange {
        let t = target.expect("not refused");
        let (a, b) = (is_dir(model, id) as u32, is_dir(model, t) as u32);
        model.node(d, op).names.insert(n.to_vec(), t);
        model.node(d2, op).names.insert(n2, id);
        if d != d2 {
            let from = model.node(d, op);
            from.nlink = from.nlink + b - a;
            let to = model.node(d2, op);
            to.nlink = to.nlink + a - b;
        }
        model.node(t, op);
    } else {
        if target.is_some() {
            model.drop_name(d2, &n2, op);
        }
        let moved = is_dir(model, id) as u32;
        let from = model.node(d, op);
        from.names.remove(n);
        from.nlink -= moved;
        let to = model.node(d2, op);
        to.names.insert(n2, id);
        to.nlink += moved;
    }
    model.node(id, op);
}
