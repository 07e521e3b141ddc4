//! P3: a table behaves as a map through splits, doublings, overflow pages and merges, and a power failure at
//! any instant of them leaves a table with everything that was acknowledged.

use crate::alloc::Clusters;
use crate::layout::inode::Identity;
use crate::layout::{Superblock, slot};
use crate::store::Store;
use crate::table;
use crate::{MkfsOptions, mkfs};
use granary_device::{Drive, Port};
use granary_pm::Pm;
use granary_pmem::{Dimm, DimmConfig};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, now, sleep_until};
use granary_suite::suite::run;
use granary_units::{Bytes, Nanos};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

fn dimm() -> Arc<dyn Drive> {
    let config = DimmConfig { caches: Bytes::kib(16), ..DimmConfig::optane_dcpmm() };
    Arc::new(Dimm::new(&config.with_capacity(Bytes::mib(16))).expect("a DIMM"))
}

/// Opens what is there; what nobody reaches is free.
fn open(drive: &Arc<dyn Drive>) -> Store {
    let pm = Pm::new(Port::new(drive.clone()));
    let sb = Superblock::read(&pm).expect("a superblock");
    table::recover(&pm, sb.segment).expect("recovers");
    let mut store = Store::open(pm, sb).expect("opens");
    store.clusters = Clusters::new(&sb);
    let mut used = granary_pm::Used::new(sb.clusters);
    used.mark(0, sb.first(), "the superblock").expect("once");
    used.mark(sb.end(), 1, "its copy").expect("once");
    for table in store.tables() {
        table.occupies().into_iter().for_each(|(at, n)| used.mark(at, n, "a table").expect("once"));
    }
    for (at, n) in used.free_runs() {
        store.clusters.give(at, n).expect("ours");
    }
    store
}

fn fresh() -> (Arc<dyn Drive>, Store) {
    let drive = dimm();
    mkfs(&Port::new(drive.clone()), &MkfsOptions { segment: 1, ..MkfsOptions::default() }).expect("mkfs");
    let store = open(&drive);
    (drive, store)
}

fn of(n: u64) -> Identity {
    Identity { ino: n + 1, generation: (n * 7) as u32 }
}

/// From here on numbers stand for names of one hash.
const ALIKE: u64 = 1 << 32;

/// The name of a number. Those from [`ALIKE`] on have one place: inode times GOLDEN plus generation is the
/// same.
fn name(n: u64) -> Identity {
    // GOLDEN is odd: by Newton's steps its inverse modulo 2^64.
    let golden = 0x9e37_79b9_7f4a_7c15u64;
    let inverse = (0..6).fold(golden, |x, _| x.wrapping_mul(2u64.wrapping_sub(golden.wrapping_mul(x))));
    match n.checked_sub(ALIKE) {
        None => of(n),
        Some(n) => Identity { ino: (1u64 << 40).wrapping_sub(n.wrapping_mul(inverse)), generation: n as u32 },
    }
}

fn insert(store: &Store, n: u64, value: u64) -> granary_fs::Result<()> {
    let mut b = store.pm.batch();
    store.names.insert(&store.pm, &store.clusters, &mut b, &slot::name(name(n), value))?;
    b.fence()
}

fn get(store: &Store, n: u64) -> Option<u64> {
    let is = |b: &[u8]| slot::read_name(b).0 == name(n);
    let found = store.names.find(&store.pm, slot::name_place(name(n)), &is).expect("no error");
    found.map(|(_, bytes)| slot::read_name(&bytes).1)
}

fn remove(store: &Store, n: u64) {
    let is = |b: &[u8]| slot::read_name(b).0 == name(n);
    let place = slot::name_place(name(n));
    let mut b = store.pm.batch();
    if let Some((found, _)) = store.names.find(&store.pm, place, &is).expect("no error") {
        store.names.remove(&store.pm, &mut b, (found, place), &is).expect("removed");
    }
    b.fence().expect("fence");
}

fn all(store: &Store) -> BTreeMap<Identity, u64> {
    let mut all = BTreeMap::new();
    let mut each = |_: u64, b: &[u8]| {
        let (of, value) = slot::read_name(b);
        assert!(all.insert(of, value).is_none(), "{of:?} is there twice");
        Ok(())
    };
    store.names.for_each(&store.pm, &mut each).expect("no error");
    all
}

#[test]
fn a_table_is_a_map_through_splits_and_merges() {
    run(|| {
        let (drive, mut store) = fresh();
        let (mut rng, mut map) = (Stream::new(3, "table"), BTreeMap::new());
        let (mut most, mut merged) = (0, 0);
        for step in 0..9000u64 {
            let n = rng.below(3000);
            // Grows first, then shrinks.
            if rng.chance(if step < 5000 { 0.8 } else { 0.05 }) {
                if map.contains_key(&of(n)) {
                    remove(&store, n);
                }
                insert(&store, n, step + 1).expect("room");
                map.insert(of(n), step + 1);
            } else {
                remove(&store, n);
                map.remove(&of(n));
            }
            assert_eq!(get(&store, n), map.get(&of(n)).copied());
            most = most.max(store.names.shape().1);
            if step % 1000 == 999 {
                store = open(&drive);
                merged += store.names.merge_sparse(&store.pm, &store.clusters).expect("merges");
                assert_eq!(all(&store), map);
            }
        }
        assert!(most >= 8 && merged >= 2, "{most} segments, {merged} merges");
    });
}

/// Names of one hash: no split parts them, so they go into overflow pages, beside others that do split. Pages
/// that become empty are dropped at the mount.
#[test]
fn names_of_one_hash_go_into_overflow_pages() {
    run(|| {
        let (drive, mut store) = fresh();
        let places: Vec<_> = (0..9).map(|n| slot::name_place(name(ALIKE + n))).collect();
        assert!(places.iter().all(|p| *p == places[0]), "of one hash: {places:?}");
        let (mut rng, mut map) = (Stream::new(4, "alike"), BTreeMap::new());
        let mut most = (0, 0);
        for step in 0..6000u64 {
            let n = if rng.chance(0.5) { ALIKE + rng.below(500) } else { rng.below(1500) };
            // Grows first, then shrinks.
            if rng.chance(if step < 3500 { 0.85 } else { 0.02 }) {
                if map.contains_key(&name(n)) {
                    remove(&store, n);
                }
                insert(&store, n, step + 1).expect("room");
                map.insert(name(n), step + 1);
            } else {
                remove(&store, n);
                map.remove(&name(n));
            }
            assert_eq!(get(&store, n), map.get(&name(n)).copied());
            most = (most.0.max(store.names.overflow_pages()), most.1.max(store.names.shape().1));
            if step % 1000 == 999 {
                store = open(&drive);
                store.names.merge_sparse(&store.pm, &store.clusters).expect("merges");
                assert_eq!(all(&store), map);
            }
        }
        assert!(most.0 >= 2 && most.1 >= 4, "{} pages, {} segments", most.0, most.1);
        (0..500).for_each(|n| remove(&store, ALIKE + n));
        let store = open(&drive);
        store.names.merge_sparse(&store.pm, &store.clusters).expect("merges");
        assert_eq!(store.names.overflow_pages(), 0, "all pages are empty");
        // Pages that were given back are free for others, once.
        (0..300).for_each(|n| insert(&store, 10_000 + n, 1).expect("room"));
        assert_eq!(open(&drive).names.overflow_pages(), 0);
    });
}

/// Names whose hashes begin alike and part at a later bit: splits that move nothing come first, and no
/// overflow page.
#[test]
fn names_that_part_at_a_later_bit_are_split() {
    run(|| {
        for (bits, count) in [(1, 900), (4, 700), (9, 300)] {
            let (drive, store) = fresh();
            let begins = |n: &u64| slot::name_place(of(*n)).hash >> (32 - bits) == 0x155 >> (9 - bits);
            let names: Vec<u64> = (0..400_000).filter(begins).take(count).collect();
            assert_eq!(names.len(), count);
            names.iter().for_each(|n| insert(&store, *n, n + 1).expect("room"));
            for store in [store, open(&drive)] {
                assert!(names.iter().all(|n| get(&store, *n) == Some(n + 1)));
                let (depth, segments) = store.names.shape();
                let pages = store.names.overflow_pages();
                assert!(pages == 0 && depth > bits, "{pages} pages, depth {depth}, {segments} segments");
            }
        }
    });
}

/// The power fails at every instant of the inserts around the one that makes the first overflow page, or the
/// second one.
#[test]
fn a_power_failure_at_any_instant_of_an_overflow_loses_nothing() {
    let mut stopped = 0;
    for i in 0..240 {
        // Two buckets of 16 names, then a page of 240.
        stopped += u32::from(alike_fail_at([31, 271][i as usize % 2], i, Nanos(i / 2 * 25)));
    }
    assert!(stopped > 150, "{stopped}");
}

fn alike_fail_at(before: u64, seed: u64, after: Nanos) -> bool {
    let acknowledged = Arc::new(Mutex::new(0));
    let drive = dimm();
    let (known, device) = (acknowledged.clone(), drive.clone());
    let result = World::default().run(move || {
        mkfs(&Port::new(device.clone()), &MkfsOptions { segment: 1, ..MkfsOptions::default() })
            .expect("mkfs");
        let store = open(&device);
        (0..before).for_each(|n| insert(&store, ALIKE + n, n + 1).expect("room"));
        *known.lock() = before;
        device.track_in_flight(true);
        let at = Nanos(now().0 + after.0);
        let ledger = known.clone();
        let inserts = granary_sim::spawn("inserts", move || {
            for n in before..before + 4 {
                insert(&store, ALIKE + n, n + 1).expect("room");
                *ledger.lock() = n + 1;
            }
        });
        granary_sim::spawn("power", move || {
            sleep_until(at);
            granary_sim::power_fail();
        });
        inserts.join();
    });
    let t = match result {
        Ok(()) => Nanos(1 << 30),
        Err(Stop::PowerFail(t)) => t,
        Err(other) => panic!("seed {seed}, {after:?}: {other}"),
    };
    drive.power_fail(t, &mut Stream::new(seed, "lost"));
    let expected = *acknowledged.lock();
    run(move || {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("on"));
        let store = open(&drive);
        for n in 0..expected {
            assert_eq!(get(&store, ALIKE + n), Some(n + 1), "seed {seed}, {after:?}: {n} of {expected}");
        }
        assert!(all(&store).len() as u64 <= expected + 1, "more than the one insert that was under way");
        (0..300).for_each(|n| insert(&store, ALIKE + 1000 + n, 5).expect("goes on"));
        assert_eq!(get(&store, ALIKE + 1299), Some(5));
    });
    t.0 < 1 << 30
}

/// Fills a table until its third split or merge begins, cuts the power at one instant of it, and looks.
fn fail_at(merge: bool, seed: u64, after: Nanos) -> bool {
    let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
    let drive = dimm();
    let (known, device) = (acknowledged.clone(), drive.clone());
    let result = World::default().run(move || {
        mkfs(&Port::new(device.clone()), &MkfsOptions { segment: 1, ..MkfsOptions::default() })
            .expect("mkfs");
        let store = open(&device);
        let mut n = 0;
        while store.names.shape().1 < if merge { 4 } else { 3 } {
            insert(&store, n, n + 1).expect("room");
            known.lock().insert(of(n), n + 1);
            n += 1;
        }
        if merge {
            let gone: Vec<u64> = (0..n).filter(|n| n % 8 != seed % 8).collect();
            gone.iter().for_each(|n| remove(&store, *n));
            known.lock().retain(|_, value| (*value - 1) % 8 == seed % 8);
        }
        device.track_in_flight(true);
        let (work, ledger) = (Arc::new(store), known.clone());
        let at = Nanos(now().0 + after.0);
        let split = granary_sim::spawn("splits", move || {
            if merge {
                work.names.merge_sparse(&work.pm, &work.clusters).expect("merges");
            }
            let segments = work.names.shape().1;
            while !merge && work.names.shape().1 == segments {
                insert(&work, n, n + 1).expect("room");
                ledger.lock().insert(of(n), n + 1);
                n += 1;
            }
        });
        granary_sim::spawn("power", move || {
            sleep_until(at);
            granary_sim::power_fail();
        });
        split.join();
    });
    let t = match result {
        Ok(()) => Nanos(1 << 30),
        Err(Stop::PowerFail(t)) => t,
        Err(other) => panic!("seed {seed}, {after:?}: {other}"),
    };
    drive.power_fail(t, &mut Stream::new(seed, "lost"));
    let expected = std::mem::take(&mut *acknowledged.lock());
    run(move || {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("on"));
        let store = open(&drive);
        let found = all(&store);
        for (of, value) in &expected {
            assert_eq!(found.get(of), Some(value), "seed {seed}, {after:?}: {of:?}");
        }
        // At most the one insert that was under way is there beside them.
        assert!(found.len() <= expected.len() + 1, "{} of {}", found.len(), expected.len());
        insert(&store, 1 << 20, 5).expect("goes on");
        assert_eq!(get(&store, 1 << 20), Some(5));
    });
    t.0 < 1 << 30
}

#[test]
fn a_power_failure_at_any_instant_of_a_split_loses_nothing() {
    // An insert takes some hundred nanoseconds, a split some thousand: every 20 ns through the inserts before
    // it and through it.
    let mut stopped = 0;
    for i in 0..400 {
        stopped += u32::from(fail_at(false, i, Nanos(i * 20)));
    }
    assert!(stopped > 250, "{stopped}");
}

#[test]
fn a_power_failure_at_any_instant_of_a_merge_loses_nothing() {
    let stopped: u32 = (0..300).map(|i| u32::from(fail_at(true, i, Nanos(i * 20)))).sum();
    assert!(stopped > 50, "{stopped}");
}
