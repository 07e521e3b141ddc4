//! The index against a model that keeps every version of every line: the newest one, and the newest one after
//! recovery.

use super::chunks::{EntryRef, Piece};
use super::index::{Index, LineVersions};
use granary_units::TxId;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const PAGES: u32 = 5000;

/// Entries numbered by age, and their writers.
#[derive(Default)]
struct World {
    tx: Vec<TxId>,
    committed: BTreeSet<TxId>,
}

impl LineVersions for World {
    fn tx(&self, entry: EntryRef) -> TxId {
        self.tx[entry.0 as usize]
    }
    fn committed(&self, tx: TxId) -> bool {
        tx == TxId::NONE || self.committed.contains(&tx)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert {
        page: u32,
        first: u8,
        lines: u8,
        tx: u32,
    },
    Commit {
        tx: u32,
    },
    Remove {
        page: u32,
    },
    Lookup {
        page: u32,
        first: u8,
        lines: u8,
    },
    /// The uncommitted versions of a page get new entries, as migration gives them; the committed ones leave.
    Migrate {
        page: u32,
    },
}

fn op() -> impl Strategy<Value = Op> {
    // Few pages, but at both ends of two partitions.
    let page = prop_oneof![0u32..4, 4094u32..4098, 4999u32..5000];
    let run = (0u8..64).prop_flat_map(|first| (Just(first), 1..=(64 - first).min(12)));
    prop_oneof![
        8 => (page.clone(), run.clone(), 0u32..5).prop_map(|(page, (first, lines), tx)| Op::Insert { page, first, lines, tx }),
        2 => (1u32..5).prop_map(|tx| Op::Commit { tx }),
        1 => page.clone().prop_map(|page| Op::Remove { page }),
        4 => (page.clone(), run).prop_map(|(page, (first, lines))| Op::Lookup { page, first, lines }),
        1 => page.prop_map(|page| Op::Migrate { page }),
    ]
}

/// Every version of each line, oldest first.
#[derive(Default)]
struct Naive(BTreeMap<(u32, u8), Vec<EntryRef>>);

impl Naive {
    fn newest(&self, page: u32, line: u8) -> Option<EntryRef> {
        self.0.get(&(page, line))?.last().copied()
    }

    /// The newest committed version, which recovery would find.
    fn committed(&self, world: &World, page: u32, line: u8) -> Option<EntryRef> {
        let all = self.0.get(&(page, line))?;
        all.iter().rev().find(|e| world.committed(world.tx(**e))).copied()
    }
}

struct Model {
    world: World,
    index: Index,
    naive: Naive,
    /// Numbers that a committed transaction had are not used again: number = base + 5 * generation.
    generation: [u32; 5],
}

impl Model {
    fn tx(&self, tx: u32) -> TxId {
        if tx == 0 { TxId::NONE } else { TxId(tx + 5 * self.generation[tx as usize]) }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Insert { page, first, lines, tx } => {
                let entry = EntryRef(self.world.tx.len() as u32);
                self.world.tx.push(self.tx(tx));
                self.index.insert(page, Piece { entry, first, lines }, &self.world);
                for line in first..first + lines {
                    self.naive.0.entry((page, line)).or_default().push(entry);
                }
            }
            Op::Commit { tx } => {
                let id = self.tx(tx);
                self.world.committed.insert(id);
                self.generation[tx as usize] += 1;
            }
            Op::Remove { page } => {
                self.index.remove(page);
                self.naive.0.retain(|(p, _), _| *p != page);
            }
            Op::Lookup { page, first, lines } => self.lookup(page, first, lines),
            Op::Migrate { page } => self.migrate(page),
        }
    }

    fn lookup(&self, page: u32, first: u8, lines: u8) {
        let mut found = Vec::new();
        let covered = self.index.lookup(page, first as usize, lines as usize, &mut found);
        let mut seen = BTreeMap::new();
        for p in &found {
            for line in p.first..p.first + p.lines {
                assert!(seen.insert(line, p.entry).is_none(), "line {line} found twice");
            }
        }
        for line in 0..64 {
            let wanted = (first..first + lines).contains(&line);
            let expected = self.naive.newest(page, line).filter(|_| wanted);
            assert_eq!(seen.get(&line).copied(), expected, "page {page} line {line}");
            assert_eq!(covered >> line & 1 == 1, expected.is_some());
        }
    }

    fn migrate(&mut self, page: u32) {
        let mut all = Vec::new();
        self.index.gather(page, &mut all);
        let mut keep = Vec::new();
        super::index::needed(&all, &self.world, |piece, need| {
            if !self.world.committed(self.world.tx(piece.entry)) {
                keep.extend(piece.parts(need));
            }
        });
        // Oldest first, as in cleaning, so that the new numbers keep the order.
        keep.sort_by_key(|p| p.entry);
        let mut moved = BTreeMap::new();
        for piece in &mut keep {
            let tx = self.world.tx(piece.entry);
            let entry = EntryRef(self.world.tx.len() as u32);
            self.world.tx.push(tx);
            for line in piece.first..piece.first + piece.lines {
                moved.insert((piece.entry, line), entry);
            }
            piece.entry = entry;
        }
        keep.sort_by_key(|p| std::cmp::Reverse(p.entry));
        self.index.set(page, &keep);
        // The model forgets what was merged: the newest committed version and all below it. Uncommitted
        // versions that stay must have been moved.
        for line in 0..64 {
            let Some(all) = self.naive.0.get_mut(&(page, line)) else { continue };
            let world = &self.world;
            if let Some(c) = all.iter().rposition(|e| world.committed(world.tx(*e))) {
                all.drain(..=c);
            }
            // Only the newest of each transaction counts.
            let mut seen = BTreeSet::new();
            let mut kept: Vec<EntryRef> =
                all.iter().rev().filter(|e| seen.insert(world.tx(**e))).copied().collect();
            kept.reverse();
            *all = kept
                .iter()
                .map(|e| {
                    *moved.get(&(*e, line)).unwrap_or_else(|| panic!("line {line}: {e:?} was not moved"))
                })
                .collect();
        }
        self.naive.0.retain(|_, all| !all.is_empty());
    }

    /// After recovery drops the uncommitted versions, the index must still have every newest committed one.
    fn recover(&mut self) {
        let pages: BTreeSet<u32> = self.naive.0.keys().map(|(p, _)| *p).collect();
        for page in pages {
            let mut all = Vec::new();
            self.index.gather(page, &mut all);
            all.retain(|p| self.world.committed(self.world.tx(p.entry)));
            for line in 0..64 {
                let newest = all.iter().filter(|p| p.mask() >> line & 1 == 1).map(|p| p.entry).max();
                assert_eq!(newest, self.naive.committed(&self.world, page, line), "page {page} line {line}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_finds_what_a_list_of_all_versions_has(ops in proptest::collection::vec(op(), 1..250)) {
        let mut m = Model {
            world: World::default(),
            index: Index::new(PAGES as u64, 1),
            naive: Naive::default(),
            generation: [0; 5],
        };
        for op in &ops {
            m.run(op);
        }
        let bad = m.index.check(|_, p| (p.entry.0 as usize) < m.world.tx.len());
        prop_assert!(bad.is_empty(), "{bad:?}");
        let pages: Vec<u32> = (0..PAGES).filter(|p| m.index.contains(*p)).collect();
        let modelled: BTreeSet<u32> = m.naive.0.keys().map(|(p, _)| *p).collect();
        prop_assert_eq!(pages, modelled.into_iter().collect::<Vec<_>>());
        for page in 0..PAGES {
            if m.index.contains(page) {
                m.lookup(page, 0, 64);
            }
        }
        m.recover();
    }

    /// A line that is written again and again by transactions that commit never has more than two versions.
    #[test]
    fn hot_lines_do_not_pile_up(rounds in 3u32..200) {
        let mut m = Model {
            world: World::default(),
            index: Index::new(PAGES as u64, 1),
            naive: Naive::default(),
            generation: [0; 5],
        };
        for _ in 0..rounds {
            m.run(&Op::Insert { page: 1, first: 3, lines: 2, tx: 1 });
            m.run(&Op::Commit { tx: 1 });
        }
        prop_assert_eq!(m.index.lines(), 4);
    }
}
