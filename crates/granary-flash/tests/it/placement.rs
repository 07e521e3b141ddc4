//! Where pages go: striping orders, streams of their own, least-worn blocks, bad blocks of the factory.

use super::*;
use granary_flash::{BlockNo, GcPolicy, Medium, Placement, Policies, RamMedium, Striping};
use granary_sim::rng::Stream;
use std::sync::Arc;

fn striped(name: &str) -> FtlConfig {
    let geometry =
        Geometry { channels: 3, ways: 2, dies: 2, planes: 2, blocks_per_plane: 16, pages_per_block: 4 };
    let mut config = FtlConfig::new(geometry, timing());
    config.striping = Striping::try_from(name.to_owned()).expect("an order");
    config
}

/// (channel, way, die, plane) of a plane number, by the numbering of [`Geometry`].
fn coordinates(g: &Geometry, plane: u32) -> [u32; 4] {
    let rest = [g.channels, g.ways, g.dies, g.planes];
    let mut p = plane;
    rest.map(|size| {
        let at = p % size;
        p /= size;
        at
    })
}

#[test]
fn consecutive_writes_go_where_the_striping_policy_says() {
    for striping in Striping::all() {
        let name = striping.to_string();
        let mut ftl = Ftl::new(&striped(&name)).expect("drive");
        let g = ftl.config().geometry;
        let planes = g.plane_count();
        let sizes = [g.channels, g.ways, g.dies, g.planes];
        for l in 0..3 * planes as u64 {
            write(&mut ftl, Nanos::ZERO, Lpa(l), l);
            let (block, page) = g.split(ftl.location(Lpa(l)).expect("written"));
            let at = coordinates(&g, g.plane_of(block));
            // The same, from the letters: the first one turns with every write.
            let mut turn = l as u32;
            for letter in name.chars() {
                let axis = "CWDP".find(letter).expect("a letter");
                assert_eq!(at[axis], turn % sizes[axis], "{name}: write {l}, axis {letter}");
                turn /= sizes[axis];
            }
            assert_eq!(page, l as u32 / planes, "{name}: write {l}");
        }
        check(&ftl);
    }
}

#[test]
fn log_cleaning_has_blocks_of_its_own_if_it_is_told_to() {
    for own in [false, true] {
        let mut config = FtlConfig::new(geometry(2, 2, 32, 8), timing());
        config.log_stream = own;
        let mut ftl = Ftl::new(&config).expect("drive");
        let pages = ftl.capacity_pages();
        let mut rng = Stream::new(1, "streams");
        for i in 0..4 * pages {
            let l = rng.below(pages);
            // Even pages come from the host, odd ones from the log; after a power loss recovery writes them
            // too.
            let cause = [Cause::Host, [Cause::LogCleaning, Cause::Recovery][i as usize % 2]][l as usize % 2];
            ftl.write(Nanos(i * 10_000), Lpa(l), Page::word(i), cause).expect("write");
            if i < pages {
                continue;
            }
            if i % 700 == 0 {
                ftl.power_cycle(Nanos(i * 10_000), i % 1400 == 0).expect("power");
                check(&ftl);
            }
        }
        check(&ftl);

        // New data in the same block: only where they share a stream.
        let stream = |l: u64| l as usize / 4 % 2;
        let mut fresh = Ftl::new(&config).expect("drive");
        for l in 0..pages / 2 {
            let cause = [Cause::Host, Cause::LogCleaning][stream(l)];
            fresh.write(Nanos::ZERO, Lpa(l), Page::word(l), cause).expect("write");
        }
        let block = |l: u64| fresh.location(Lpa(l)).expect("written").0 / 8;
        let mixed =
            (0..pages / 2).any(|a| (0..pages / 2).any(|b| stream(a) != stream(b) && block(a) == block(b)));
        assert_eq!(mixed, !own);
    }
}

/// Pages that are overwritten again and again lie apart from those written once, so gc copies less. A policy
/// of a drive's own is asked in the same place.
#[test]
fn updates_have_blocks_of_their_own_if_they_are_told_to() {
    #[derive(Debug)]
    struct Never;
    impl Placement for Never {
        fn is_apart(&self, _: Cause, _: bool) -> bool {
            false
        }
    }
    let copied = |apart: bool, own: bool| {
        let mut config = FtlConfig::new(geometry(2, 2, 32, 8), timing());
        (config.update_stream, config.over_provisioning_permille, config.wear_gap) = (apart, 150, 0);
        let mut ftl = Ftl::new(&config).expect("drive");
        if own {
            ftl.follow(Policies { placement: Arc::new(Never), ..Policies::of(&config) });
        }
        let pages = ftl.capacity_pages();
        let mut rng = Stream::new(5, "updates");
        // New pages come between updates of a few.
        for i in 0..pages {
            write(&mut ftl, Nanos::ZERO, Lpa(i), i);
            for _ in 0..6 {
                write(&mut ftl, Nanos::ZERO, Lpa(rng.below(i / 16 + 1)), i);
            }
            if i % 500 == 0 {
                ftl.power_cycle(Nanos::ZERO, i % 1000 == 0).expect("power");
                check(&ftl);
            }
        }
        check(&ftl);
        ftl.counters().programs(Cause::Gc)
    };
    let (mixed, apart, own) = (copied(false, false), copied(true, false), copied(true, true));
    assert!(apart * 10 < mixed * 9, "{apart} pages copied, {mixed} where they are mixed");
    assert!(own > apart, "{own} pages copied although nothing was apart, {apart} before");
}

/// Gc's copies are kept apart from new data.
#[test]
fn gc_has_blocks_of_its_own() {
    let mut ftl = Ftl::new(&FtlConfig::new(geometry(2, 1, 64, 16), timing())).expect("drive");
    let pages = ftl.capacity_pages();
    fill(&mut ftl);
    let mut rng = Stream::new(1, "gc stream");
    let mut newest = vec![0u64; pages as usize];
    for i in 1..3 * pages {
        let l = rng.below(pages);
        let before: Vec<_> = (0..pages).step_by(97).map(|l| ftl.location(Lpa(l))).collect();
        write(&mut ftl, Nanos::ZERO, Lpa(l), i);
        newest[l as usize] = i;
        let fresh = ftl.location(Lpa(l)).expect("written").0 / 16;
        for (l, before) in (0..pages).step_by(97).zip(before) {
            let now = ftl.location(Lpa(l));
            assert!(now == before || newest[l as usize] == i || now.expect("mapped").0 / 16 != fresh);
        }
    }
}

#[test]
fn free_blocks_are_worn_evenly() {
    for policy in [GcPolicy::Greedy, GcPolicy::CostBenefit] {
        let mut config = FtlConfig::new(geometry(2, 1, 64, 16), timing());
        // No static wear leveling: dynamic alone, which uniform traffic needs.
        (config.wear_gap, config.gc_policy, config.over_provisioning_permille) = (0, policy, 220);
        let mut ftl = Ftl::new(&config).expect("drive");
        fill(&mut ftl);
        let pages = ftl.capacity_pages();
        let mut rng = Stream::new(2, "wear");
        for i in 0..60 * pages {
            write(&mut ftl, Nanos::ZERO, Lpa(rng.below(pages)), i);
        }
        let wear = ftl.wear();
        assert!(wear.mean > 50.0 && wear.most as f64 <= 1.5 * wear.mean, "{policy:?}: {wear:?}");
    }
}

#[test]
fn blocks_that_were_bad_from_the_start_are_never_used() {
    let config = FtlConfig::new(geometry(2, 2, 32, 8), timing());
    let mut medium = RamMedium::new(config.geometry.blocks(), 8);
    let bad = [0, 1, 33, 70, 100];
    for b in bad {
        medium.mark_bad(BlockNo(b)).expect("in memory");
    }
    let healthy = Ftl::new(&config).expect("drive");
    let mut ftl = Ftl::with_medium(&config, medium).expect("drive");
    assert_eq!((ftl.lost_blocks(), ftl.capacity_pages()), (5, healthy.capacity_pages()));
    assert_eq!(ftl.spare_blocks(), healthy.spare_blocks() - 5);
    let pages = ftl.capacity_pages();
    fill(&mut ftl);
    let mut rng = Stream::new(3, "bad");
    for i in 0..5 * pages {
        write(&mut ftl, Nanos::ZERO, Lpa(rng.below(pages)), i);
    }
    check(&ftl);
    for b in bad {
        let header = ftl.nand().header(BlockNo(b));
        assert!(header.bad && header.programmed == 0 && header.erases == 0);
    }
}
