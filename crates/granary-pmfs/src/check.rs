//! check: everything on media, and in memory, against everything else.
//!
//! ```text
//!   every inode with links ── tree ──> blocks: used once, and the rest is exactly the free list;
//!        |                  |          counted in the inode
//!        |                  `──────> attributes and tree in memory, if it is there
//!   every directory ── names ──> inodes with links, of that kind; links = names + subdirectories;
//!                                reached from the root
//!   truncate list = what memory has: the inodes without links that are still open
//!   inode table: free = no links
//! ```

use crate::fs::{Node, Pmfs};
use crate::layout::LIST_HEAD;
use crate::layout::inode::{ITEM, Tree, parse};
use granary_device::Structure;
use granary_fs::{Attr, FileKind, FsError, Ino, Result};
use granary_pm::bytes::u64_at;
use granary_pm::{BLOCK, Findings, Used, merged};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

struct Seen {
    attr: Attr,
    parent: u64,
    names: u32,
    subdirs: u32,
    entries: Vec<(Vec<u8>, u64, FileKind)>,
}

impl Pmfs {
    pub(crate) fn check_all(&self) -> Result<Vec<String>> {
        let mut bad = Findings::default();
        let mut used = Used::new(self.data_end);
        note(self.mark_fixed(&mut used), &mut bad)?;
        let mut nodes: BTreeMap<u64, Arc<Node>> =
            self.nodes.lock().iter().filter_map(|(ino, n)| Some((*ino, n.upgrade()?))).collect();
        let mut seen = BTreeMap::new();
        for (ino, place) in self.inodes_in_use()? {
            let result = parse(&place, ino).and_then(|(attr, tree)| {
                let sound = self.check_blocks(ino, Some(&attr), tree, &mut used, &mut bad)?;
                if let Some(node) = nodes.remove(&ino.0)
                    && (*node.tree.read() != tree || self.inode_addr(ino)? != node.addr)
                {
                    bad.push(format!("{ino}: the tree in memory and on media differ"));
                }
                let s = self.see(ino, attr, tree, sound, &mut bad)?;
                seen.insert(ino.0, s);
                Ok(())
            });
            note(result, &mut bad)?;
        }
        let list = self.list.lock().clone();
        for (ino, node) in nodes {
            if !list.contains(&ino) {
                bad.push(format!("inode {ino} in memory has no links and is not on the truncate list"));
            }
            let tree = *node.tree.read();
            let result = self.check_blocks(Ino(ino), None, tree, &mut used, &mut bad);
            note(result.map(|_| ()), &mut bad)?;
        }
        self.check_list(&list, &seen, &mut bad)?;
        let (ours, theirs) = (self.free.runs(), used.free_runs());
        let sum = |runs: &[(u64, u64)]| runs.iter().map(|r| r.1).sum::<u64>();
        if merged(&ours) != theirs || sum(&ours) != self.free.free_blocks() {
            bad.push(format!("the free list has {} blocks, {} are used by nobody", sum(&ours), sum(&theirs)));
        }
        check_tree(&mut seen, &mut bad);
        self.check_table(&seen, &list, &mut bad);
        Ok(bad.into_vec())
    }

    /// Marks the blocks of a tree; says whether each was nobody's before. Below others it does not look, so
    /// that it ends. `attr`: where the inode has links, its counts are compared.
    fn check_blocks(
        &self,
        ino: Ino,
        attr: Option<&Attr>,
        tree: Tree,
        used: &mut Used,
        bad: &mut Findings,
    ) -> Result<bool> {
        let (mut data, mut end, mut sound) = (0, 0, true);
        self.walk(tree, &mut |block, page, height| {
            if height == 0 {
                (data, end) = (data + 1, page + 1);
            }
            let marked = used.mark(block, 1, &ino.to_string());
            let is_new = marked.is_ok();
            sound &= is_new;
            note(marked, bad)?;
            Ok(is_new)
        })?;
        if let Some(attr) = attr {
            if attr.blocks != data * (BLOCK / 512) {
                bad.push(format!("{ino}: {} sectors counted, {data} blocks there", attr.blocks));
            }
            if sound && end > attr.size.div_ceil(BLOCK) {
                for block in self.not_zero_beyond(tree, attr.size)? {
                    bad.push(format!("{ino}: block {block} beyond its end at {} is not zero", attr.size));
                }
            }
        }
        Ok(sound)
    }

    /// An inode, and the names in it. Where its tree is not `sound`, as a file of any size might be, names
    /// are not read.
    fn see(&self, ino: Ino, attr: Attr, tree: Tree, sound: bool, bad: &mut Findings) -> Result<Seen> {
        let mut s = Seen { attr, parent: 0, names: 0, subdirs: 0, entries: Vec::new() };
        if attr.kind != FileKind::Dir || !sound {
            return Ok(s);
        }
        let (mut dot, mut all) = (0, Vec::new());
        self.scan(tree, attr.size, 0, &mut |_, _, d, _| {
            if d.ino != 0 && !d.is_damaged() {
                all.push(d.name.to_vec());
            }
            match (d.ino, d.name) {
                (0, _) => {}
                (i, b"") => bad.push(format!("{ino}: an entry for inode {i} has no name that can be")),
                (i, b".") => dot = i,
                (i, b"..") => s.parent = i,
                (i, name) => s.entries.push((name.to_vec(), i, d.kind)),
            }
            ControlFlow::<()>::Continue(())
        })?;
        if dot != ino.0 || !attr.size.is_multiple_of(BLOCK) || attr.size == 0 {
            return Err(granary_pm::corrupt(format!(
                "{ino}: a directory of {} B, \".\" leads to {dot}",
                attr.size
            )));
        }
        all.sort_unstable();
        for w in all.windows(2).filter(|w| w[0] == w[1]) {
            bad.push(format!("{ino}: \"{}\" is there twice", w[0].escape_ascii()));
        }
        Ok(s)
    }

    fn check_list(&self, list: &[u64], seen: &BTreeMap<u64, Seen>, bad: &mut Findings) -> Result<()> {
        let mut word = [0; 8];
        let mut at = LIST_HEAD;
        for ino in list.iter().rev().chain([&0]) {
            self.pm.load(at, &mut word, Structure::Inode)?;
            if u64_at(&word, 0) != *ino {
                bad.push(format!("the truncate list leads to inode {}, not to {ino}", u64_at(&word, 0)));
                return Ok(());
            }
            if *ino != 0 {
                at = self.inode_addr(Ino(*ino))? + ITEM;
                if seen.contains_key(ino) {
                    bad.push(format!("inode {ino} has links and is on the truncate list"));
                }
            }
        }
        Ok(())
    }

    fn check_table(&self, seen: &BTreeMap<u64, Seen>, list: &[u64], bad: &mut Findings) {
        let t = self.table.lock();
        let mut free = t.free.clone();
        free.sort_unstable();
        free.dedup();
        if free.len() != t.free.len() {
            bad.push("an inode is free twice".to_owned());
        }
        for ino in 1..t.next {
            let exists = seen.contains_key(&ino) || list.contains(&ino);
            if exists == free.binary_search(&ino).is_ok() {
                bad.push(format!("inode {ino}: used {exists}, free {}", !exists));
            }
        }
        if seen.keys().any(|i| *i >= t.next) {
            bad.push("an inode beyond those ever used".to_owned());
        }
        for node in self.nodes.lock().values().filter_map(|n| n.upgrade()) {
            if let Some(s) = seen.get(&node.ino.0).filter(|s| s.attr.kind == FileKind::Dir)
                && s.parent != node.parent.load(Relaxed)
            {
                bad.push(format!("{}: the parent in memory and on media differ", node.ino));
            }
        }
    }
}

/// Keeps what is corrupt as a sentence; hands other errors on.
fn note(result: Result<()>, bad: &mut Findings) -> Result<()> {
    match result {
        Err(FsError::Corrupt(what)) => {
            bad.push(what);
            Ok(())
        }
        other => other,
    }
}

fn check_tree(seen: &mut BTreeMap<u64, Seen>, bad: &mut Findings) {
    let all: Vec<u64> = seen.keys().copied().collect();
    for ino in all {
        let entries = seen.get_mut(&ino).map_or(Vec::new(), |s| std::mem::take(&mut s.entries));
        for (name, child, kind) in entries {
            let (is_dir, name) = (kind == FileKind::Dir, name.escape_ascii());
            match seen.get_mut(&child) {
                None => {
                    bad.push(format!("inode {ino}: \"{name}\" leads to inode {child}, which is not there"))
                }
                Some(s) => {
                    s.names += 1;
                    if s.attr.kind != kind || (is_dir && s.parent != ino) {
                        bad.push(format!(
                            "inode {ino}: \"{name}\" is a {kind:?} whose \"..\" is {}",
                            s.parent
                        ));
                    }
                }
            }
            if let Some(s) = seen.get_mut(&ino).filter(|_| is_dir) {
                s.subdirs += 1;
            }
        }
    }
    match seen.get_mut(&1) {
        None => bad.push("no root directory".to_owned()),
        Some(s) => s.names += 1,
    }
    for (ino, s) in seen.iter() {
        let is_dir = s.attr.kind == FileKind::Dir;
        let links = if is_dir { 2 + s.subdirs } else { s.names };
        if s.attr.nlink != links || (is_dir && s.names != 1) || s.names == 0 {
            bad.push(format!(
                "inode {ino}: {} links, {} names, {} subdirectories",
                s.attr.nlink, s.names, s.subdirs
            ));
        }
        let (mut at, mut steps) = (*ino, 0);
        while is_dir && at != 1 && steps <= seen.len() {
            at = seen.get(&at).map_or(1, |s| s.parent);
            steps += 1;
        }
        if steps > seen.len() {
            bad.push(format!("inode {ino} cannot be reached from the root"));
        }
    }
}
