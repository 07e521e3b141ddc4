//! Tests of this module.

use super::*;
use granary_sim::rng::Stream;
use granary_units::Bytes;

fn options(on: bool) -> MountOptions {
    MountOptions { on_demand: on, reverse_dentries: on, reverse_inodes: on, ..MountOptions::default() }
}

fn files(options: &MountOptions, n: u64) -> Objects {
    let mut objects = Objects::new(options, 1 << 30);
    for ino in 2..2 + n {
        objects.know(ino, false, true).expect("room");
        objects.open(ino, false).expect("room");
        objects.first_io(ino).expect("room");
        objects.close(ino);
    }
    objects
}

/// Figure 8: created, written, closed.
#[test]
fn each_step_saves_what_the_paper_says() {
    let each = |o: &MountOptions| files(o, 1000).stats().ledger.total().0 / 1000;
    let cap = options(false);
    assert_eq!(each(&cap), 840 + 192 + 156);
    let demand = MountOptions { on_demand: true, ..cap };
    assert_eq!(each(&demand), 840 + 192);
    let dentry = MountOptions { reverse_dentries: true, ..demand };
    assert_eq!(each(&dentry), 840);
    assert_eq!(each(&options(true)), 262);
}

#[test]
fn what_is_opened_again_comes_back_and_has_one_copy() {
    let mut objects = files(&options(true), 10);
    let before = objects.stats();
    assert_eq!((before.host_dentries, before.host_inodes), (10, 10));
    let work = objects.open(5, false).expect("room");
    assert_eq!(work, Work { dentries: 1, inodes: 1, loads: 0 });
    let now = objects.stats();
    assert_eq!((now.host_dentries, now.host_inodes, now.moved_in), (9, 9, 2));
    assert_eq!(objects.recount().0, objects.recount().1);
}

#[test]
fn without_room_in_the_host_objects_stay() {
    let o = MountOptions { host_dentries: Bytes(192 * 3), host_inodes: Bytes(578 * 2), ..options(true) };
    let stats = files(&o, 10).stats();
    assert_eq!((stats.host_dentries, stats.host_inodes, stats.stayed), (3, 2, 8));
}

#[test]
fn full_memory_drops_closed_files_and_then_says_so() {
    let o = options(false);
    let mut objects = Objects::new(&o, 20 * 1188);
    for ino in 2..100 {
        objects.know(ino, false, true).expect("closed ones are dropped");
    }
    assert!(objects.stats().dropped > 70 && objects.stats().ledger.total().0 <= 20 * 1188);
    let mut open = 0;
    while objects.open(1000 + open, false).is_ok() {
        open += 1;
    }
    assert!((1..5).contains(&open), "each open file has 9,788 bytes: {open}");
    assert_eq!(objects.open(5000, false), Err(FsError::TableFull));
    objects.close(1000);
    assert!(objects.know(6000, false, true).is_ok());
}

/// D1 of the sheet: the ledger equals a recount after every step.
#[test]
fn the_ledger_equals_a_recount_after_every_step_of_random_runs() {
    for seed in 0..8 {
        let mut random = Stream::new(seed, "objects");
        let mut o = options(seed % 2 == 0);
        o.host_dentries = Bytes(192 * 20);
        o.host_inodes = Bytes(578 * 10);
        let mut objects = Objects::new(&o, 120_000);
        let mut opens: BTreeMap<u64, u32> = BTreeMap::new();
        for _ in 0..4_000 {
            let ino = 2 + random.below(60);
            let is_dir = ino.is_multiple_of(7);
            match random.below(6) {
                0 => drop(objects.know(ino, is_dir, true)),
                1 if objects.open(ino, is_dir).is_ok() => *opens.entry(ino).or_default() += 1,
                2 => drop(objects.first_io(ino)),
                3 => drop(objects.bring_in(ino)),
                4 if opens.get(&ino).is_some_and(|n| *n > 0) => {
                    objects.close(ino);
                    *opens.entry(ino).or_default() -= 1;
                }
                5 if opens.get(&ino).is_none_or(|n| *n == 0) => objects.forget(ino),
                _ => {}
            }
            let (said, found) = objects.recount();
            assert_eq!(said, found, "seed {seed}");
            assert!(said <= 120_000);
        }
    }
}
