//! Multi-plane and cache operations: exact times against the sums of their stages.

use super::*;
use granary_flash::{PlaneMode, Striping};

/// 4096 B at 400 MB/s.
const X: Nanos = Nanos(10_240);
const READ: Nanos = Nanos(40_000);
const PROGRAM: Nanos = Nanos(60_000);

/// One channel, one die of `planes` planes.
fn die(planes: u32, mode: PlaneMode, cache: bool) -> Ftl {
    let geometry =
        Geometry { channels: 1, ways: 1, dies: 1, planes, blocks_per_plane: 24, pages_per_block: 8 };
    let mut config = FtlConfig::new(geometry, timing());
    (config.plane_mode, config.cache_read, config.cache_program) = (mode, cache, cache);
    Ftl::new(&config).expect("drive")
}

/// Done times, from `at`, of consecutive writes asked at once.
fn writes(ftl: &mut Ftl, at: Nanos, n: u64) -> Vec<Nanos> {
    (0..n).map(|l| write(ftl, at, Lpa(l), l) - at).collect()
}

fn reads(ftl: &mut Ftl, at: Nanos, pages: &[u64]) -> Vec<Nanos> {
    pages.iter().map(|&l| ftl.read(at, Lpa(l), Cause::Host).expect("read").1 - at).collect()
}

const LATER: Nanos = Nanos(1_000_000_000);

#[test]
fn one_access_takes_the_sum_of_its_stages_in_every_mode() {
    for mode in [PlaneMode::Independent, PlaneMode::MultiPlane, PlaneMode::OneAtATime] {
        for cache in [true, false] {
            if mode == PlaneMode::MultiPlane && !cache {
                continue;
            }
            let mut ftl = die(2, mode, cache);
            assert_eq!(writes(&mut ftl, Nanos::ZERO, 1), [X + PROGRAM]);
            assert_eq!(reads(&mut ftl, LATER, &[0]), [READ + X]);
            check(&ftl);
        }
    }
}

#[test]
fn cache_operations_hide_the_transfer_behind_the_array() {
    let mut with = die(1, PlaneMode::Independent, true);
    assert_eq!(writes(&mut with, Nanos::ZERO, 3), [1, 2, 3].map(|n| X + PROGRAM * n));
    assert_eq!(reads(&mut with, LATER, &[0, 1, 2]), [1, 2, 3].map(|n| READ * n + X));

    let mut without = die(1, PlaneMode::Independent, false);
    assert_eq!(writes(&mut without, Nanos::ZERO, 3), [1, 2, 3].map(|n| (X + PROGRAM) * n));
    assert_eq!(reads(&mut without, LATER, &[0, 1, 2]), [1, 2, 3].map(|n| (READ + X) * n));
    check(&without);
}

#[test]
fn a_die_that_does_one_thing_at_a_time_serves_its_planes_in_turn() {
    let mut ftl = die(2, PlaneMode::OneAtATime, true);
    assert_eq!(writes(&mut ftl, Nanos::ZERO, 4), [1, 2, 3, 4].map(|n| X + PROGRAM * n));
    assert_eq!(reads(&mut ftl, LATER, &[0, 1]), [READ + X, READ * 2 + X]);
    let mut independent = die(2, PlaneMode::Independent, true);
    let expected = [X + PROGRAM, X * 2 + PROGRAM, X + PROGRAM * 2, X * 2 + PROGRAM * 2];
    assert_eq!(writes(&mut independent, Nanos::ZERO, 4), expected);
}

#[test]
fn programs_at_one_page_of_several_planes_share_the_array_time() {
    let mut ftl = die(2, PlaneMode::MultiPlane, true);
    // Page 0 of plane 0 begins at once and plane 1 comes too late for it. Page 1 of plane 0 waits behind
    // both, and plane 1 joins it.
    let t = |n: u64| X + PROGRAM * n;
    assert_eq!(writes(&mut ftl, Nanos::ZERO, 8), [t(1), t(2), t(3), t(3), t(4), t(4), t(5), t(5)]);
    assert_eq!(ftl.nand_stats().joined, 3);
    assert_eq!(ftl.nand_stats().plane_busy, PROGRAM * 8, "joined operations keep their plane busy");

    // Reads asked at once of the same page of both planes share the array; another page does not.
    assert_eq!(reads(&mut ftl, LATER, &[2, 3]), [READ + X, READ + X * 2]);
    assert_eq!(reads(&mut ftl, LATER * 2, &[2, 5]), [READ + X, READ * 2 + X]);
    check(&ftl);
}

#[test]
fn two_planes_program_nearly_twice_as_fast_with_multi_plane_commands() {
    let rate = |mode: PlaneMode, striping: &str| {
        let geometry =
            Geometry { channels: 2, ways: 1, dies: 2, planes: 2, blocks_per_plane: 32, pages_per_block: 32 };
        let mut config = FtlConfig::new(geometry, timing());
        config.plane_mode = mode;
        config.striping = Striping::try_from(striping.to_owned()).expect("an order");
        let mut ftl = Ftl::new(&config).expect("drive");
        let done = fill(&mut ftl);
        check(&ftl);
        ftl.capacity_pages() as f64 / done.as_secs_f64()
    };
    // Two dies on a bus: 4 pages of transfer fit into a program.
    let one = rate(PlaneMode::OneAtATime, "CWDP");
    for striping in ["CWDP", "PDWC"] {
        let multi = rate(PlaneMode::MultiPlane, striping);
        let independent = rate(PlaneMode::Independent, striping);
        assert!((1.9..2.02).contains(&(multi / one)), "{striping}: {:.3}", multi / one);
        assert!((0.97..1.03).contains(&(multi / independent)), "{striping}: {:.3}", multi / independent);
    }
}

#[test]
fn retries_take_the_time_that_the_testbed_gives_them() {
    let mut config = FtlConfig::new(geometry(1, 1, 24, 8), timing());
    config.read_retry = Some(Nanos(100_000));
    config.errors.read_ppb = 500_000_000;
    let mut ftl = Ftl::new(&config).expect("drive");
    write(&mut ftl, Nanos::ZERO, Lpa(0), 5);
    let mut seen = [0; 5];
    for i in 1..=400 {
        let at = LATER * i;
        match ftl.read(at, Lpa(0), Cause::Host) {
            Ok((page, done)) => {
                let retries = (done - at - READ - X).0 / 100_000;
                assert_eq!((page, done - at), (Page::word(5), READ + X + Nanos(100_000) * retries));
                seen[retries as usize] += 1;
            }
            Err(granary_flash::FlashError::Unreadable { done, .. }) => {
                assert_eq!(done - at, READ + Nanos(300_000));
                seen[4] += 1;
            }
            Err(e) => panic!("{e}"),
        }
    }
    let s = ftl.nand_stats();
    assert_eq!((s.corrected, s.unreadable), (seen[1] + seen[2] + seen[3], seen[4]));
    assert!(seen.iter().all(|&n| n > 10), "{seen:?}");
}
