//! The check: what inodes reach is what is taken; names, links and parents agree; memory is what the NVM
//! says.

use crate::fs::OrchFs;
use crate::layout::Area;
use crate::mkfs::ROOT;
use crate::mount::reach;
use crate::node::NodeState;
use crate::pools::Pools;
use granary_fs::{Attr, FileKind, Ino, Result};
use granary_pm::Findings;
use std::collections::BTreeMap;

impl OrchFs {
    /// One sentence for each thing that is wrong. Everything is brought home first.
    pub(crate) fn check_all(&self) -> Result<Vec<String>> {
        // No block migrates meanwhile.
        let _quiet = self.loading.lock();
        self.digest_all()?;
        let mut bad = Findings::default();
        let end = self.checkpoint.lock().inodes_end;
        let seen = Pools::new(&self.layout);
        let mut inodes: BTreeMap<u64, (NodeState, Attr)> = BTreeMap::new();
        for ino in 1..end {
            match self.read_inode(Ino(ino)) {
                Ok(None) => {}
                Ok(Some((node, state, attr))) => {
                    let twice = reach(&node, &state, &mut |area, number| {
                        if let Err(e) = seen.mark(area, number) {
                            bad.push(format!("inode {ino}: {e}"));
                        }
                        Ok(())
                    });
                    twice?;
                    inodes.insert(ino, (state, attr));
                }
                Err(granary_fs::FsError::Corrupt(what)) => bad.push(what),
                Err(e) => return Err(e),
            }
        }
        self.pools.compare(&seen, &mut bad);
        self.check_names(&inodes, &mut bad);
        self.check_memory(&inodes, &mut bad);
        Ok(bad.into_vec())
    }

    fn check_names(&self, inodes: &BTreeMap<u64, (NodeState, Attr)>, bad: &mut Findings) {
        let mut links: BTreeMap<u64, u32> = BTreeMap::new();
        let mut subdirs: BTreeMap<u64, u32> = BTreeMap::new();
        for (ino, (state, attr)) in inodes {
            let Some(dir) = &state.dir else { continue };
            if attr.nlink == 0 && !dir.is_empty() {
                bad.push(format!("directory {ino} has entries but no name"));
            }
            for entry in dir.after(0) {
                let d = &entry.dentry;
                *links.entry(d.ino).or_default() += 1;
                match inodes.get(&d.ino) {
                    None => bad
                        .push(format!("a name in directory {ino} stands for inode {}, which is free", d.ino)),
                    Some((_, a)) if a.kind != d.kind => {
                        bad.push(format!(
                            "a name in directory {ino} says {:?} of inode {}, a {:?}",
                            d.kind, d.ino, a.kind
                        ));
                    }
                    Some((child, _)) if d.kind == FileKind::Dir => {
                        *subdirs.entry(*ino).or_default() += 1;
                        if child.dir.as_ref().map(|dir| dir.parent) != Some(*ino) {
                            bad.push(format!("directory {} has another parent than {ino}", d.ino));
                        }
                    }
                    _ => {}
                }
            }
        }
        match inodes.get(&ROOT) {
            Some((_, attr)) if attr.kind == FileKind::Dir => {}
            _ => bad.push("there is no root directory".to_owned()),
        }
        for (ino, (_, attr)) in inodes {
            let names = links.get(ino).copied().unwrap_or(0);
            let wanted = match attr.kind {
                FileKind::Dir if names == 0 && *ino != ROOT => 0,
                FileKind::Dir => 2 + subdirs.get(ino).copied().unwrap_or(0),
                _ => names,
            };
            if attr.nlink != wanted || attr.kind == FileKind::Dir && names > 1 {
                bad.push(format!(
                    "inode {ino} says {} links and has {wanted}, from {names} names",
                    attr.nlink
                ));
            }
        }
    }

    fn check_memory(&self, inodes: &BTreeMap<u64, (NodeState, Attr)>, bad: &mut Findings) {
        let nodes: Vec<_> = {
            let nodes = self.nodes.lock();
            let mut all: Vec<_> =
                nodes.iter().filter_map(|(ino, node)| Some((*ino, node.upgrade()?))).collect();
            all.sort_by_key(|(ino, _)| *ino);
            all
        };
        for (ino, node) in nodes {
            let state = node.state.read();
            let Some((home, _)) = inodes.get(&ino) else {
                bad.push(format!("inode {ino} is in memory alone"));
                continue;
            };
            let same_tree = home.tree.root() == state.tree.root()
                && home.tree.range(0, u64::MAX).eq(state.tree.range(0, u64::MAX));
            let entries = |s: &NodeState| s.dir.as_ref().map(|dir| dir.after(0).cloned().collect::<Vec<_>>());
            let same_rest = home.attributes == state.attributes
                && home.target == state.target
                && home.space == state.space
                && entries(home) == entries(&state);
            if !same_tree || !same_rest {
                bad.push(format!("inode {ino} is another in memory"));
            }
        }
    }
}

impl Pools {
    /// Reports numbers that are taken and not reached, or the other way round.
    fn compare(&self, reached: &Pools, bad: &mut Findings) {
        for area in Area::ALL {
            for number in self.differences(reached, area) {
                let what =
                    if self.is_taken(area, number) { "taken, but nobody's" } else { "in use, but free" };
                bad.push(format!("{} {number} is {what}", area.name()));
            }
        }
    }
}
