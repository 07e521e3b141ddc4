//! Times and bandwidths follow from the stages, exactly where there is no queue and within 3 % where there is
//! one.

use super::*;
use granary_sim::rng::Stream;

/// 4096 B at 400 MB/s.
const TRANSFER: Nanos = Nanos(10_240);

fn drive(channels: u32, ways: u32) -> Ftl {
    let mut config = FtlConfig::new(geometry(channels, ways, 128, 64), timing());
    config.over_provisioning_permille = 150;
    Ftl::new(&config).expect("drive")
}

#[test]
fn one_access_takes_the_sum_of_its_stages() {
    let mut ftl = drive(2, 2);
    let at = Nanos::from_millis(1);
    assert_eq!(write(&mut ftl, at, Lpa(5), 1), at + TRANSFER + timing().program);
    let later = Nanos::from_millis(2);
    let (_, done) = ftl.read(later, Lpa(5), Cause::Host).expect("read");
    assert_eq!(done, later + timing().read + TRANSFER);
    let (page, done) = ftl.read(later, Lpa(6), Cause::Host).expect("read");
    assert_eq!((page, done), (Page::ZERO, later), "an unmapped page is not on flash");
}

#[test]
fn two_reads_of_one_plane_wait_for_the_plane_and_of_one_channel_for_the_bus() {
    let mut ftl = drive(1, 2);
    for l in 0..4 {
        write(&mut ftl, Nanos::ZERO, Lpa(l), l);
    }
    let at = Nanos::from_millis(5);
    let mut read = |l| ftl.read(at, Lpa(l), Cause::Host).expect("read").1 - at;
    let t = timing().read;
    assert_eq!(read(0), t + TRANSFER);
    assert_eq!(read(1), t + TRANSFER + TRANSFER, "the other plane, the same bus");
    assert_eq!(read(2), t + t + TRANSFER, "the first plane again");
}

/// The reads of one channel finish in the order in which they are ready, not in the order of their issue.
#[test]
fn an_idle_plane_does_not_wait_for_a_busy_one() {
    let mut ftl = drive(1, 2);
    for l in 0..2 {
        write(&mut ftl, Nanos::ZERO, Lpa(l), l);
    }
    let at = Nanos::from_millis(5);
    for _ in 0..10 {
        ftl.read(at, Lpa(0), Cause::Host).expect("read");
    }
    let (_, done) = ftl.read(at, Lpa(1), Cause::Host).expect("read");
    assert!(done - at <= timing().read + TRANSFER * 2, "{}", done - at);
}

#[track_caller]
fn close(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let ratio = measured / expected;
    assert!((ratio - 1.0).abs() <= tolerance, "{what}: {measured:.0} of {expected:.0} pages/s ({ratio:.3})");
}

/// Pages per second of a drive whose planes take `stage` per page and whose channels take `TRANSFER`.
fn bound(channels: u32, ways: u32, stage: Nanos) -> f64 {
    let planes = (channels * ways) as f64 / stage.as_secs_f64();
    let buses = channels as f64 / TRANSFER.as_secs_f64();
    planes.min(buses)
}

#[test]
fn bandwidth_is_that_of_the_planes_or_of_the_channels_whichever_is_less() {
    // (4, 1) is bound by its planes, (2, 8) by its channels, in both directions.
    for (channels, ways) in [(4, 1), (8, 2), (2, 8)] {
        let mut ftl = drive(channels, ways);
        let n = ftl.capacity_pages();
        let filled = fill(&mut ftl);
        let write_bound = bound(channels, ways, timing().program);
        close("sequential write", n as f64 / filled.as_secs_f64(), write_bound, 0.03);

        let start = filled;
        let done = lpas(&ftl).map(|l| ftl.read(start, l, Cause::Host).expect("read").1).max().expect("pages");
        let read_bound = bound(channels, ways, timing().read);
        close("sequential read", n as f64 / (done - start).as_secs_f64(), read_bound, 0.03);
    }
}

/// 256 commands outstanding, each issued when the earliest one completes.
fn closed_loop(n: u64, start: Nanos, mut issue: impl FnMut(Nanos) -> Nanos) -> f64 {
    let mut outstanding = std::collections::BinaryHeap::from(vec![std::cmp::Reverse(start); 256]);
    let mut last = start;
    for _ in 0..n {
        let now = outstanding.pop().expect("256 commands").0;
        let done = issue(now);
        last = last.max(done);
        outstanding.push(std::cmp::Reverse(done));
    }
    n as f64 / (last - start).as_secs_f64()
}

#[test]
fn random_access_reaches_the_same_bandwidth() {
    for (channels, ways) in [(4, 1), (4, 8)] {
        let mut ftl = drive(channels, ways);
        let filled = fill(&mut ftl);
        let pages = ftl.capacity_pages();
        let mut rng = Stream::new(9, "random");
        // 256 reads leave some planes idle by chance: 10 % for 64 per plane.
        let reads = closed_loop(100_000, filled, |now| {
            ftl.read(now, Lpa(rng.below(pages)), Cause::Host).expect("read").1
        });
        close("random read", reads, bound(channels, ways, timing().read), 0.10);

        let mut fresh = drive(channels, ways);
        let n = fresh.capacity_pages();
        let writes = closed_loop(n, Nanos::ZERO, |now| write(&mut fresh, now, Lpa(rng.below(pages)), 7));
        close("random write", writes, bound(channels, ways, timing().program), 0.03);
        assert_eq!(fresh.counters().erases, 0, "no gc yet");
    }
}

#[test]
fn busy_time_is_the_sum_of_the_operations() {
    let mut ftl = drive(2, 2);
    fill(&mut ftl);
    for l in lpas(&ftl).take(1000) {
        ftl.read(Nanos::ZERO, l, Cause::Host).expect("read");
    }
    let (s, pages) = (ftl.nand_stats(), ftl.capacity_pages());
    assert_eq!(s.plane_busy, timing().program * pages + timing().read * 1000);
    assert_eq!(s.bus_busy, TRANSFER * (pages + 1000));
}
