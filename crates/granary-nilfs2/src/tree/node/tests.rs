//! Tests of this module.

use super::super::Tree;
use super::*;
use granary_sim::rng::Stream;
use std::collections::BTreeMap;

#[derive(Default)]
struct Memory(BTreeMap<u64, Page>, u64);

impl Blocks for Memory {
    fn load(&mut self, ptr: u64, _: Structure) -> Result<Page> {
        self.0.get(&ptr).cloned().ok_or_else(|| corrupt("nothing there"))
    }
}

fn write_out(tree: &mut Tree, memory: &mut Memory) {
    tree.place_nodes(&mut |node, _| {
        memory.1 += 1;
        memory.0.insert(1_000_000 + memory.1, node.encode());
        Ok(1_000_000 + memory.1)
    })
    .expect("placed");
}

/// Sets, cuts, write-outs and evictions at random: the tree holds what a map holds, counts its blocks and
/// nodes, and frees each pointer once.
#[test]
fn a_tree_is_a_map() {
    for seed in 0..6 {
        let (mut rng, mut memory) = (Stream::new(seed, "tree"), Memory::default());
        let (mut tree, mut map) = (Tree::default(), BTreeMap::new());
        let mut next = 0;
        for step in 0..40_000u64 {
            match rng.below(4000) {
                0 => {
                    let key = if seed == 0 { 0 } else { rng.below(60_000) };
                    let mut freed = tree.cut(key, &mut memory).expect("cut");
                    freed.retain(|p| *p < 1_000_000);
                    freed.sort_unstable();
                    let mut gone: Vec<u64> = map.split_off(&key).into_values().collect();
                    gone.sort_unstable();
                    assert_eq!(freed, gone);
                    next = key;
                }
                6..400 => {
                    // Half of them where blocks are, in a row: whole nodes go.
                    let key = if step % 2 == 0 { rng.below(60_000) } else { next / 2 + rng.below(300) };
                    let mut freed = tree.remove(key, &mut memory).expect("remove");
                    freed.retain(|p| *p < 1_000_000);
                    assert_eq!(freed, Vec::from_iter(map.remove(&key)));
                }
                1..5 => write_out(&mut tree, &mut memory),
                5 => tree.evict(),
                n => {
                    next += 1;
                    let key = if n % 3 == 0 { rng.below(60_000) } else { next };
                    tree.set(key, step + 1, &mut memory).expect("set");
                    map.insert(key, step + 1);
                }
            }
            let key = rng.below(60_000);
            assert_eq!(tree.lookup(key, &mut memory), Ok(map.get(&key).copied()));
            let found = map.range(key..).next().map(|(k, p)| (*k, *p));
            assert_eq!(tree.next(key, &mut memory), Ok(found));
        }
        write_out(&mut tree, &mut memory);
        let mut again = Tree::parse(&tree.encode(), tree.count).expect("sound");
        let (mut held, mut all) = (BTreeMap::new(), 0);
        again
            .walk(&mut memory, &mut |level, key, ptr| {
                all += 1;
                if level == 0 {
                    held.insert(key, ptr);
                }
            })
            .expect("walk");
        assert_eq!(held, map);
        assert_eq!(again.count, all, "blocks and nodes");
    }
}

/// Writing in order leaves full nodes.
#[test]
fn nodes_of_a_file_written_in_order_are_full() {
    let (mut tree, mut memory) = (Tree::default(), Memory::default());
    (0..20_000).for_each(|k| tree.set(k, k + 1, &mut memory).expect("set"));
    assert_eq!(tree.count - 20_000, 20_000u64.div_ceil(CHILDREN as u64) + 1);
    assert_eq!(tree.height(), 2);
}

/// Parts of a file that are written in order, the parts themselves in any order: nodes are half full at
/// least, but for one at the end of each part.
#[test]
fn nodes_of_a_file_written_in_parts_are_half_full() {
    for seed in 0..20 {
        let (mut rng, mut memory) = (Stream::new(seed, "parts"), Memory::default());
        let (mut tree, mut parts) = (Tree::default(), (0..40u64).collect::<Vec<_>>());
        while !parts.is_empty() {
            let part = parts.swap_remove(rng.below(parts.len() as u64) as usize);
            let keys = part * 1000..part * 1000 + 1000;
            keys.for_each(|k| tree.set(k, k + 1, &mut memory).expect("set"));
            if seed % 2 == 1 {
                write_out(&mut tree, &mut memory);
                tree.evict();
            }
            let blocks = 1000 * (40 - parts.len() as u64);
            let nodes = tree.count - blocks;
            let most = blocks.div_ceil(CHILDREN as u64 / 2) + 40 - parts.len() as u64 + 3;
            assert!(nodes <= most, "{nodes} nodes of {blocks} blocks, at most {most}");
        }
    }
}
