//! check: everything on media, and in memory, against everything else.
//!
//! ```text
//!   every valid inode ── replay ──> blocks: used once, and the rest is exactly the free lists
//!        |                  `─────> the state in memory, if it is there: tail, pages, counts, indexes,
//!        |                  |       attributes
//!        |                  `─────> page counts, dead flags on media
//!   every directory ── names ──> inodes that exist, of that kind; links = names + subdirectories;
//!                                reached from the root
//!   journals empty | inode tables: used = valid, free = not valid
//! ```
//!
//! Inodes without links that are still open are not valid on media; their blocks are in use all the same.

use crate::Nova;
use crate::layout::JOURNAL_PAIRS;
use crate::mount::first_free;
use crate::node::{Body, Node, NodeState};
use crate::replay::Replayed;
use granary_device::Structure;
use granary_fs::{FileKind, FsError, Ino, Result, is_name};
use granary_pm::bytes::u64_at;
use granary_pm::{BLOCK, Findings, Used, merged};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The check's record of an inode.
struct Seen {
    kind: FileKind,
    nlink: u32,
    parent: u64,
    names: u32,
    subdirs: u32,
    entries: Vec<(String, u64, FileKind)>,
}

impl Nova {
    pub(crate) fn check_all(&self) -> Result<Vec<String>> {
        let mut bad = Findings::default();
        let mut used = Used::new(self.data_end);
        let mark = |used: &mut Used, first, n, by: &str, bad: &mut Findings| {
            if let Err(e) = used.mark(first, n, by) {
                bad.push(e.to_string());
            }
        };
        mark(&mut used, 0, first_free(&self.superblock), "head", &mut bad);
        for table in &self.tables {
            for piece in table.lock().pieces.iter().skip(1) {
                mark(&mut used, *piece, self.piece, "inode table", &mut bad);
            }
        }
        self.check_journals(&mut bad)?;
        let mut nodes: BTreeMap<u64, Arc<Node>> =
            self.nodes.lock().iter().filter_map(|(ino, n)| Some((*ino, n.upgrade()?))).collect();
        let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
        for (ino, slot) in self.valid_slots()? {
            match self.replay(ino, slot, true) {
                Ok(Some(r)) => {
                    for (block, n) in r.state.blocks() {
                        mark(&mut used, block, n, &ino.to_string(), &mut bad);
                    }
                    self.check_media(&r, ino, &mut bad)?;
                    if let Some(node) = nodes.remove(&ino.0) {
                        check_memory(&r, &node, &mut bad);
                    }
                    seen.insert(ino.0, see(&r));
                }
                Ok(None) => bad.push(format!("{ino} is valid and is not")),
                Err(FsError::Corrupt(what)) => bad.push(what),
                Err(e) => return Err(e),
            }
        }
        let mut orphans = Vec::new();
        for (ino, node) in nodes {
            let st = node.state.read();
            if st.word & 0xff != 0 {
                bad.push(format!("inode {ino} in memory is not valid on media"));
            }
            for (block, n) in st.blocks() {
                mark(&mut used, block, n, &format!("orphan {ino}"), &mut bad);
            }
            orphans.push(ino);
        }
        let (ours, theirs) = (self.free.runs(), used.free_runs());
        if merged(&ours) != theirs {
            bad.push(format!(
                "free lists have {} blocks, {} are used by nobody",
                ours.iter().map(|r| r.1).sum::<u64>(),
                theirs.iter().map(|r| r.1).sum::<u64>()
            ));
        }
        if ours.iter().map(|r| r.1).sum::<u64>() != self.free.free_blocks() {
            bad.push("the free lists and their sum differ".to_owned());
        }
        self.check_tree(seen.keys().copied().collect(), &mut seen, &mut bad);
        self.check_tables(&seen, &orphans, &mut bad);
        Ok(bad.into_vec())
    }

    /// Page tails against the entries in them; bytes beyond the end are zero.
    fn check_media(&self, r: &Replayed, ino: Ino, bad: &mut Findings) -> Result<()> {
        for (page, (entries, dead)) in r.state.pages.iter().zip(&r.counts) {
            if (page.entries, page.dead) != (*entries, *dead) {
                bad.push(format!(
                    "{ino}: log page {} says {entries} entries, {dead} dead; there are {}, {} dead",
                    page.block, page.entries, page.dead
                ));
            }
        }
        if let Body::Dir(dir) = &r.state.body {
            for d in dir.by_cookie.values().filter(|d| !is_name(&d.name)) {
                bad.push(format!(
                    "{ino}: the name \"{}\" of inode {} cannot be",
                    d.name.escape_ascii(),
                    d.ino
                ));
            }
        }
        if let Body::File(map) = &r.state.body {
            for block in self.not_zero_beyond(map, r.attr.size)? {
                bad.push(format!("{ino}: block {block} beyond its end at {} is not zero", r.attr.size));
            }
        }
        Ok(())
    }

    fn check_journals(&self, bad: &mut Findings) -> Result<()> {
        for cpu in 0..self.cpus {
            let mut pair = [0; 16];
            self.pm.load(JOURNAL_PAIRS * BLOCK + cpu as u64 * 64, &mut pair, Structure::Journal)?;
            if u64_at(&pair, 0) != u64_at(&pair, 8) {
                bad.push(format!("journal {cpu} has a transaction under way"));
            }
        }
        Ok(())
    }

    fn check_tree(&self, all: Vec<u64>, seen: &mut BTreeMap<u64, Seen>, bad: &mut Findings) {
        let root = self.root_ino().0;
        for ino in all {
            let entries = seen.get_mut(&ino).map_or(Vec::new(), |s| std::mem::take(&mut s.entries));
            for (name, child, kind) in entries {
                let is_dir = kind == FileKind::Dir;
                match seen.get_mut(&child) {
                    None => bad
                        .push(format!("inode {ino}: \"{name}\" leads to inode {child}, which is not there")),
                    Some(s) => {
                        s.names += 1;
                        if s.kind != kind {
                            bad.push(format!(
                                "inode {ino}: \"{name}\" is said to be {kind:?}, not {:?}",
                                s.kind
                            ));
                        }
                        if is_dir && s.parent != ino {
                            bad.push(format!("inode {child}: \"..\" leads to {}, not to {ino}", s.parent));
                        }
                    }
                }
                if let Some(s) = seen.get_mut(&ino).filter(|_| is_dir) {
                    s.subdirs += 1;
                }
            }
        }
        match seen.get_mut(&root) {
            None => bad.push("no root directory".to_owned()),
            Some(s) => {
                s.names += 1;
                if s.parent != root {
                    bad.push("the root's \"..\" leads elsewhere".to_owned());
                }
            }
        }
        for (ino, s) in seen.iter() {
            let links = if s.kind == FileKind::Dir { 2 + s.subdirs } else { s.names };
            if s.nlink != links || (s.kind == FileKind::Dir && s.names != 1) || s.names == 0 {
                bad.push(format!(
                    "inode {ino}: {} links, {} names, {} subdirectories",
                    s.nlink, s.names, s.subdirs
                ));
            }
            // Directories have one parent each; a circle never leads to the root.
            let (mut at, mut steps) = (*ino, 0);
            while s.kind == FileKind::Dir && at != root && steps <= seen.len() {
                at = seen.get(&at).map_or(root, |s| s.parent);
                steps += 1;
            }
            if steps > seen.len() {
                bad.push(format!("inode {ino} cannot be reached from the root"));
            }
        }
    }

    fn check_tables(&self, seen: &BTreeMap<u64, Seen>, orphans: &[u64], bad: &mut Findings) {
        let mut used = 0;
        for (cpu, table) in self.tables.iter().enumerate() {
            let t = table.lock();
            let mut free = t.free.clone();
            free.sort_unstable();
            free.dedup();
            if free.len() != t.free.len() {
                bad.push(format!("CPU {cpu}: an inode is free twice"));
            }
            for index in 1..t.next {
                let ino = index * self.cpus as u64 + cpu as u64;
                let exists = seen.contains_key(&ino) || orphans.contains(&ino);
                used += u64::from(exists);
                if exists == free.binary_search(&index).is_ok() {
                    bad.push(format!("inode {ino}: used {exists}, free {}", !exists));
                }
            }
            if seen.keys().any(|i| *i % self.cpus as u64 == cpu as u64 && *i / self.cpus as u64 >= t.next) {
                bad.push(format!("CPU {cpu}: an inode beyond those ever used"));
            }
        }
        if used != self.used_inodes.load(Relaxed) {
            bad.push(format!("{used} inodes are used, {} are counted", self.used_inodes.load(Relaxed)));
        }
    }
}

fn see(r: &Replayed) -> Seen {
    let entries = match &r.state.body {
        Body::Dir(d) => d
            .by_cookie
            .values()
            .map(|d| (String::from_utf8_lossy(&d.name).into_owned(), d.ino, d.kind))
            .collect(),
        _ => Vec::new(),
    };
    Seen { kind: r.attr.kind, nlink: r.attr.nlink, parent: r.parent, names: 0, subdirs: 0, entries }
}

fn check_memory(r: &Replayed, node: &Node, bad: &mut Findings) {
    let (ino, st) = (node.ino, node.state.read());
    let NodeState { slot, tail, pages, current, last_attr, last_link, stale, word, body, .. } = &*st;
    let theirs = &r.state;
    let mut differs = |what: &str, same: bool| {
        if !same {
            bad.push(format!("{ino}: {what} in memory and on media differ"));
        }
    };
    differs("address", *slot == theirs.slot);
    differs("tail", *tail == theirs.tail);
    differs("log pages", *pages == theirs.pages);
    differs("current page", *current == theirs.current);
    differs("attribute entry", *last_attr == theirs.last_attr);
    differs("link entry", *last_link == theirs.last_link);
    differs("superseded truncations", *stale == theirs.stale);
    differs("first word", *word == theirs.word);
    match (body, &theirs.body) {
        (Body::File(a), Body::File(b)) => differs("pages", a == b),
        (Body::Dir(a), Body::Dir(b)) => {
            let names = |d: &crate::node::DirIndex| {
                d.by_cookie.values().map(|d| (d.name.clone(), d.clone())).collect::<BTreeMap<_, _>>()
            };
            differs("names", names(a) == names(b));
            differs("\".\" and \"..\"", (a.dot, a.dotdot) == (b.dot, b.dotdot));
            differs("parent", node.parent.load(Relaxed) == r.parent);
        }
        (Body::Special, Body::Special) => {}
        _ => differs("kind", false),
    }
}
