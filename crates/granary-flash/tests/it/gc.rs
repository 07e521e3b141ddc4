//! Gc keeps a full drive writable, copies no more than greedy gc must, and counts what it does.

use super::*;
use granary_sim::rng::Stream;

fn full(blocks: u32, pages_per_block: u32, permille: u32) -> Ftl {
    let mut config = FtlConfig::new(geometry(2, 2, blocks, pages_per_block), timing());
    config.over_provisioning_permille = permille;
    let mut ftl = Ftl::new(&config).expect("drive");
    fill(&mut ftl);
    ftl
}

/// Overwrites random pages and returns the WAF of the second half.
fn overwrite(ftl: &mut Ftl, n: u64, mut pick: impl FnMut(&mut Stream) -> u64) -> f64 {
    let mut rng = Stream::new(4, "overwrite");
    let mut half = ftl.counters();
    for i in 0..n {
        if i == n / 2 {
            half = ftl.counters();
        }
        write(ftl, Nanos(i * 10_000), Lpa(pick(&mut rng)), i + 1);
    }
    check(ftl);
    ftl.counters().since(&half).waf()
}

#[test]
fn sequential_overwrites_copy_nothing() {
    let mut ftl = full(128, 32, 100);
    let before = ftl.counters();
    for round in 0..5 {
        for l in lpas(&ftl) {
            write(&mut ftl, Nanos::ZERO, l, round + 1);
        }
    }
    let c = ftl.counters().since(&before);
    assert!(c.erases > 4 * 500, "gc ran: {c:?}");
    assert!(c.waf() < 1.02, "WAF {}", c.waf());
    check(&ftl);
}

#[test]
fn a_full_drive_with_seven_percent_over_provisioning_keeps_working() {
    let mut ftl = full(256, 32, 70);
    let pages = ftl.capacity_pages();
    assert_eq!(ftl.mapped_pages(), pages);
    let waf = overwrite(&mut ftl, 4 * pages, |rng| rng.below(pages));
    assert!(!ftl.is_read_only() && ftl.lost_blocks() == 0);
    assert!((3.0..14.0).contains(&waf), "WAF {waf}");
}

/// All overwrites hit pages that lie in one plane at first: the other planes have nothing to collect.
#[test]
fn gc_does_not_starve_where_only_one_plane_has_stale_pages() {
    for stride in [4, 2] {
        let mut ftl = full(64, 32, 220);
        let pages = ftl.capacity_pages();
        overwrite(&mut ftl, 4 * pages, |rng| rng.below(pages / stride) * stride);
        overwrite(&mut ftl, 4 * pages, |rng| rng.below(64));
    }
}

#[test]
fn a_write_waits_for_a_bounded_share_of_gc() {
    let mut ftl = full(128, 64, 150);
    let pages = ftl.capacity_pages();
    overwrite(&mut ftl, 3 * pages, |rng| rng.below(pages));
    let mut rng = Stream::new(8, "bounded");
    for i in 0..2 * pages {
        let before = ftl.counters().programs(Cause::Gc);
        write(&mut ftl, Nanos::ZERO, Lpa(rng.below(pages)), i);
        let copies = ftl.counters().programs(Cause::Gc) - before;
        assert!(copies <= 16, "one write paid for {copies} copies");
    }
}

#[test]
fn every_flash_operation_is_counted_under_one_cause() {
    let mut ftl = full(64, 32, 220);
    let pages = ftl.capacity_pages();
    overwrite(&mut ftl, 2 * pages, |rng| rng.below(pages));
    ftl.write(Nanos::ZERO, Lpa(0), Page::word(1), Cause::LogCleaning).expect("write");
    ftl.read(Nanos::ZERO, Lpa(0), Cause::Recovery).expect("read");
    let (c, n) = (ftl.counters(), ftl.nand_stats());
    assert_eq!(c.programs(Cause::Host), 3 * pages);
    assert_eq!((c.programs(Cause::LogCleaning), c.reads(Cause::Recovery)), (1, 1));
    assert_eq!(c.programs(Cause::Gc), c.reads(Cause::Gc));
    assert_eq!(c.total_programs(), n.programs);
    assert_eq!(c.total_reads(), n.reads);
    assert_eq!(c.erases, n.erases);
    // Gc takes the time of its planes and buses like everything else.
    let t = timing();
    assert_eq!(n.plane_busy, t.read * n.reads + t.program * n.programs + t.erase * n.erases);
    assert_eq!(n.bus_busy, t.transfer(4096) * (n.reads + n.programs));
    assert!(c.programs(Cause::Gc) > 0 && c.erases > 0);
}

#[test]
fn wear_leveling_moves_cold_data() {
    let spread = |gap: u32| {
        let mut config = FtlConfig::new(geometry(2, 1, 64, 16), timing());
        (config.over_provisioning_permille, config.wear_gap) = (220, gap);
        let mut ftl = Ftl::new(&config).expect("drive");
        fill(&mut ftl);
        let pages = ftl.capacity_pages();
        // A tenth of the pages takes all writes.
        overwrite(&mut ftl, 60 * pages, |rng| rng.below(pages / 10));
        let wear = ftl.wear();
        wear.most - wear.least
    };
    let (without, with) = (spread(0), spread(10));
    assert!(without > 60, "cold blocks are never erased: {without}");
    assert!(with <= 30, "spread {with}");
}

#[test]
fn same_calls_same_drive() {
    let run = || {
        let mut ftl = full(64, 32, 220);
        let pages = ftl.capacity_pages();
        let mut rng = Stream::new(5, "same");
        let times: Vec<Nanos> =
            (0..20_000).map(|i| write(&mut ftl, Nanos(i * 3_000), Lpa(rng.below(pages)), i)).collect();
        (times, ftl.counters(), ftl.nand_stats(), content(&ftl))
    };
    assert_eq!(run(), run());
}
