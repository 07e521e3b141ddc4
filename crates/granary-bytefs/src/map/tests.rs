//! Tests of this module.

use super::*;
use granary_sim::rng::Stream;
use std::collections::BTreeMap;

/// Replays edits on a slot table and checks that a map loaded from it is the same.
fn reload(map: &FileMap, media: &[Extent]) {
    let again = FileMap::load(map.slots(), media.iter().copied()).expect("valid");
    let strip = |m: &FileMap| m.extents.iter().map(|e| (e.block, e.lba, e.len, e.slot)).collect::<Vec<_>>();
    assert_eq!(strip(&again), strip(map));
    assert_eq!((again.inline, again.mapped), (map.inline, map.mapped));
    let sorted = |m: &FileMap| {
        let mut free = m.free_slots.clone();
        free.sort_unstable();
        free
    };
    assert_eq!(sorted(&again), sorted(map));
}

/// Random allocation and truncation agree with a plain map, and the slots on media always tell the same.
#[test]
fn the_map_agrees_with_a_plain_one_and_with_its_slots() {
    let mut s = Stream::new(5, "map");
    let mut map = FileMap::default();
    let mut model: BTreeMap<u64, u32> = BTreeMap::new();
    let mut media = vec![Extent::default(); 2000];
    let mut next_lba = 1000u32;
    for round in 0..3000 {
        let mut edits = SlotEdits::new();
        if round % 40 == 39 {
            let start = s.below(600);
            let range = start..start + 1 + s.below(40);
            if map.splits(&range) && map.blocks_missing(1).0 > 0 {
                map.slot_blocks.push(9_000_000);
                if map.index_blocks.is_empty() {
                    map.index_blocks.push(9_100_000);
                }
            }
            let mut done = false;
            while !done {
                let mut freed = Vec::new();
                done = map.punch(&range, true, 8, &mut freed, &mut edits);
                for lba in freed.iter().flat_map(|r| r.lba..r.lba + r.len) {
                    let block = *model.iter().find(|(_, l)| **l == lba).expect("was mapped").0;
                    assert!(range.contains(&block));
                    model.remove(&block);
                }
            }
            map.cover_slot_blocks(&mut edits);
            assert!(model.range(range).next().is_none());
        } else if round % 600 == 598 {
            let keep = s.below(300);
            let mut done = false;
            while !done {
                let mut freed = Vec::new();
                done = map.cut(keep, 8, &mut freed, &mut edits);
                for run in freed {
                    for lba in run.lba..run.lba + run.len {
                        let block = *model.iter().find(|(_, l)| **l == lba).expect("was mapped").0;
                        assert!(block >= keep);
                        model.remove(&block);
                    }
                }
            }
            assert!(model.keys().all(|&b| b < keep));
        } else {
            let block = s.below(600);
            let Piece::Hole { len: gap } = map.piece(block) else { continue };
            let len = (1 + s.below(4)).min(gap) as u32;
            let goal = map
                .goal(block)
                .filter(|g| s.chance(0.7) && !model.values().any(|l| (*g..*g + len).contains(l)));
            let lba = goal.unwrap_or(next_lba);
            next_lba += 100;
            let (slots, index) = map.blocks_missing(1);
            map.slot_blocks.extend((0..slots).map(|n| 9_000_000 + n as u32));
            map.index_blocks.extend((0..index).map(|n| 9_100_000 + n as u32));
            map.add(block, Run { lba, len }, true, &mut edits);
            map.cover_slot_blocks(&mut edits);
            assert_eq!(extent::blocks_for(map.slots()) as usize, map.slot_blocks.len());
            model.extend((0..len).map(|i| (block + i as u64, lba + i)));
        }
        for (slot, e) in edits {
            media[slot as usize] = e;
        }
        let n = s.below(600);
        let expect = model.get(&n);
        assert_eq!(
            expect.copied(),
            match map.piece(n) {
                Piece::At { lba, .. } => Some(lba),
                Piece::Hole { .. } => None,
            }
        );
        reload(&map, &media);
    }
}

#[test]
fn a_huge_extent_is_cut_in_steps_of_bounded_size() {
    let mut map = FileMap::default();
    let mut edits = SlotEdits::new();
    map.add(0, Run { lba: 100, len: 100_000 }, true, &mut edits);
    let mut steps = 0;
    loop {
        let mut freed = Vec::new();
        let done = map.cut(10, 18, &mut freed, &mut edits);
        assert!(freed.iter().map(|r| r.len as u64).sum::<u64>() <= 15 * 512);
        steps += 1;
        if done {
            break;
        }
    }
    assert_eq!((map.blocks(), steps), (10, 14));
}
