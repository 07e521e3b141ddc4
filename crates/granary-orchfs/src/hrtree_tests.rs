//! The tree against a map, and its changes against its images.

use super::*;
use crate::unit::Base;
use granary_sim::rng::Stream;
use std::collections::BTreeMap;

fn unit(block: u64) -> Unit {
    Unit::Block(Base { block, unwritten: false })
}

/// Content that the NVM would have: carried along by the changes alone.
#[derive(Default)]
struct Media {
    nodes: BTreeMap<u64, Image>,
    root: Option<Word>,
}

impl Media {
    fn apply(&mut self, tree: &HrTree, changes: &[Change]) {
        let made: Vec<u64> =
            changes.iter().filter_map(|c| if let Change::Made(n) = c { Some(*n) } else { None }).collect();
        for change in changes {
            match change {
                Change::Root(word) => self.root = Some(*word),
                Change::Made(number) => {
                    assert!(self.nodes.insert(*number, tree.image(*number).expect("it is there")).is_none());
                }
                Change::Child { node, slot, word } if !made.contains(node) => {
                    self.nodes.get_mut(node).expect("it is there").children[*slot] = *word;
                }
                Change::Child { .. } => {}
                Change::Gone(number) => assert!(self.nodes.remove(number).is_some()),
            }
        }
    }

    fn load(&self) -> HrTree {
        HrTree::load(self.root.unwrap_or(Word::None), &mut |n| Ok(self.nodes[&n].clone()), &mut |word| {
            if let Word::Block(base) = word { Ok(unit(base.block)) } else { panic!("{word:?}") }
        })
        .expect("it is a tree")
    }
}

#[test]
fn a_tree_is_a_map_whatever_is_set_and_so_are_its_images() {
    for seed in 0..30u64 {
        let mut random = Stream::new(seed, "tree");
        let (mut tree, mut map, mut media) = (HrTree::default(), BTreeMap::new(), Media::default());
        let mut next = 0;
        let reach = [3, 64, 5_000, 1 << 20, 1 << 42][seed as usize % 5];
        for step in 0..600 {
            // Near what is there, or anywhere.
            let near = map.keys().next_back().copied().unwrap_or(0);
            let block = if random.chance(0.5) { random.below(reach) } else { (near + 1).min(reach - 1) };
            let mut numbers: Vec<u64> = (0..MOST_NEW as u64).map(|i| 3 * step + i + 1).collect();
            let new = if random.chance(0.4) { Unit::Hole } else { unit(step + 1) };
            let (old, changes) = tree.set(block, new.clone(), &mut numbers);
            let expected = match new {
                Unit::Hole => map.remove(&block),
                new => map.insert(block, new),
            };
            assert_eq!(old, expected.unwrap_or_default());
            media.apply(&tree, &changes);
            next = block;
            if step % 20 == 0 {
                let (a, b) = (random.below(reach), random.below(reach));
                let seen: Vec<_> = tree.range(a.min(b), a.max(b)).map(|(k, u)| (k, u.clone())).collect();
                let mapped: Vec<_> = map.range(a.min(b)..a.max(b)).map(|(k, u)| (*k, u.clone())).collect();
                assert_eq!(seen, mapped, "seed {seed}: {a}..{b}");
            }
        }
        assert_eq!(tree.get(next), map.get(&next).unwrap_or(&Unit::Hole));
        for tree in [&tree, &media.load()] {
            assert_eq!(tree.units(), map.len() as u64);
            let all: Vec<_> = tree.range(0, u64::MAX).map(|(k, u)| (k, u.clone())).collect();
            assert_eq!(all, map.clone().into_iter().collect::<Vec<_>>(), "seed {seed}");
            assert!(map.iter().all(|(block, unit)| tree.get(*block) == unit));
        }
        let mut numbers: Vec<u64> = tree.numbers().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, media.nodes.keys().copied().collect::<Vec<_>>());
        for block in map.keys() {
            let (_, changes) = tree.set(*block, Unit::Hole, &mut Vec::new());
            media.apply(&tree, &changes);
        }
        assert_eq!((tree.root(), tree.units(), media.nodes.len()), (Word::None, 0, 0));
    }
}

#[test]
fn nodes_that_are_no_tree_are_refused() {
    let image = |level, first, word| {
        let mut children = Box::new([Word::None; FANOUT]);
        children[0] = word;
        Image { level, first, children }
    };
    let load = |nodes: Vec<Image>| {
        HrTree::load(Word::Index(0), &mut |n| Ok(nodes[n as usize].clone()), &mut |_| Ok(unit(1))).err()
    };
    let leaf = Word::Block(Base { block: 1, unwritten: false });
    for bad in [
        vec![image(0, 0, Word::None)],
        vec![image(0, 0, Word::Index(0))],
        vec![image(0, 5, leaf)],
        vec![image(7, 0, Word::Index(0))],
        vec![image(1, 0, leaf)],
        vec![image(1, 0, Word::Index(0))],
        vec![image(1, 0, Word::Index(1)), image(0, 64, leaf)],
    ] {
        assert!(load(bad.clone()).is_some(), "{bad:?}");
    }
    assert!(load(vec![image(1, 0, Word::Index(1)), image(0, 0, leaf)]).is_none());
}
