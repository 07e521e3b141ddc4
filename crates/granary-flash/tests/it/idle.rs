//! Background gc: idle time makes free blocks, which a burst of writes then finds.

use super::*;
use granary_sim::rng::Stream;

fn drive(idle_gc: Nanos, idle_gc_stop: u32) -> Ftl {
    let mut config = FtlConfig::new(geometry(2, 2, 96, 32), timing());
    (config.over_provisioning_permille, config.idle_gc, config.idle_gc_stop) = (280, idle_gc, idle_gc_stop);
    let mut ftl = Ftl::new(&config).expect("drive");
    let pages = ftl.capacity_pages();
    fill(&mut ftl);
    let mut rng = Stream::new(1, "idle");
    ftl.without_time(|ftl| {
        for i in 0..3 * pages {
            write(ftl, Nanos::ZERO, Lpa(rng.below(pages)), i);
        }
    });
    ftl
}

/// A burst of random writes at `at`; returns the gc copies that they paid for.
fn burst(ftl: &mut Ftl, at: Nanos, n: u64) -> u64 {
    let before = ftl.counters();
    let mut rng = Stream::new(2, "burst");
    let pages = ftl.capacity_pages();
    for i in 0..n {
        write(ftl, at, Lpa(rng.below(pages)), i);
    }
    ftl.counters().since(&before).programs(Cause::Gc)
}

#[test]
fn idle_time_makes_free_blocks_that_a_burst_uses() {
    let long = Nanos::from_secs(100);
    let (mut with, mut without) = (drive(Nanos::from_millis(1), 12), drive(Nanos::ZERO, 0));
    let n = 4 * 32 * 6;
    let begin = with.free_blocks();
    with.idle_until(long).expect("idle");
    check(&with);
    assert!(with.free_blocks() >= 4 * 12, "{} free blocks, {begin} before", with.free_blocks());
    assert_eq!(burst(&mut with, long, n), 0, "the burst found room");
    assert!(burst(&mut without, long, n) > n / 4, "gc with each write");
    check(&with);
}

/// Every kind of access looks back itself, and idle time shorter than the threshold is not used.
#[test]
fn background_gc_waits_for_the_threshold_and_stops_when_time_is_up() {
    let threshold = Nanos::from_millis(5);
    let mut ftl = drive(threshold, 12);
    let t0 = write(&mut ftl, Nanos::from_secs(1), Lpa(0), 1);
    let (free, counted) = (ftl.free_blocks(), ftl.counters());
    ftl.read(t0 + threshold, Lpa(0), Cause::Host).expect("read");
    assert_eq!(ftl.counters().since(&counted).programs(Cause::Gc), 0, "not idle for long enough");

    // Idle for a little more than the threshold: some batches, no more than fit.
    let t1 = t0 + Nanos::from_millis(1) + threshold + threshold;
    let (_, done) = ftl.read(t1, Lpa(0), Cause::Host).expect("read");
    let copies = ftl.counters().since(&counted).programs(Cause::Gc);
    // Four planes, each up to 16 copies of 100 us at least beyond the time that there was.
    assert!(copies > 0 && copies <= 4 * (6_000 / 60 + 16), "{copies} copies");
    let batch = (timing().read + timing().program) * 16 + timing().erase + Nanos::from_millis(1);
    assert!(done - t1 <= batch, "the read waited for one batch at most: {}", done - t1);
    check(&ftl);

    ftl.read(t1 + Nanos::from_secs(50), Lpa(0), Cause::Host).expect("read");
    assert!(ftl.free_blocks() > free && ftl.free_blocks() >= 4 * 12);
    check(&ftl);
}

#[test]
fn background_gc_leaves_nearly_live_blocks_alone() {
    let mut config = FtlConfig::new(geometry(2, 2, 96, 32), timing());
    (config.over_provisioning_permille, config.idle_gc, config.idle_gc_stop) =
        (280, Nanos::from_millis(1), 40);
    let mut ftl = Ftl::new(&config).expect("drive");
    fill(&mut ftl);
    let pages = ftl.capacity_pages();
    // One page in 32 of each block is stale.
    for l in (0..pages).step_by(33) {
        write(&mut ftl, Nanos::ZERO, Lpa(l), 1);
    }
    let counted = ftl.counters();
    ftl.idle_until(Nanos::from_secs(1000)).expect("idle");
    assert_eq!(ftl.counters().since(&counted).programs(Cause::Gc), 0);
    check(&ftl);
}
