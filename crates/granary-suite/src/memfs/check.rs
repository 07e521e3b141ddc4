//! Whether the "media" of a [`super::MemFs`] agree with themselves.

use super::state::State;
use granary_fs::{FileKind, Ino};
use std::collections::BTreeMap;

/// One sentence per violation.
pub(super) fn check(state: &State) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut links: BTreeMap<Ino, u32> = BTreeMap::from([(Ino(1), 2)]);
    for (&ino, node) in &state.inodes {
        for (name, entry) in &node.entries {
            let Some(target) = state.inodes.get(&entry.ino) else {
                wrong.push(format!("{:?} in {ino} leads nowhere", String::from_utf8_lossy(name)));
                continue;
            };
            if target.attr.kind != entry.kind {
                wrong.push(format!("{:?} in {ino} has the wrong kind", String::from_utf8_lossy(name)));
            }
            if entry.kind == FileKind::Dir {
                *links.entry(entry.ino).or_default() += 2;
                *links.entry(ino).or_default() += 1;
                if target.parent != ino {
                    wrong.push(format!("{}'s parent is {}, not {ino}", entry.ino, target.parent));
                }
            } else {
                *links.entry(entry.ino).or_default() += 1;
            }
        }
    }
    for (ino, node) in &state.inodes {
        let found = links.get(ino).copied().unwrap_or(0);
        if found != node.attr.nlink {
            wrong.push(format!("{ino} has {found} links and says {}", node.attr.nlink));
        }
        if found == 0 {
            wrong.push(format!("{ino} has no links and was not evicted"));
        }
        // Blocks that fallocate put there are zero.
        let mut beyond = node.blocks.range(node.attr.size.div_ceil(4096)..);
        if beyond.any(|(_, page)| page.to_bytes().iter().any(|&b| b != 0)) {
            wrong.push(format!("{ino} has data beyond its end"));
        }
        if node.writing {
            wrong.push(format!("{ino} is still written back"));
        }
    }
    wrong
}
