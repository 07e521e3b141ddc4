//! Latencies of an idle DIMM are those that were published.

use crate::rig::*;
use granary_pmem::{DimmConfig, Kind};
use granary_units::Nanos;

/// Kind, and what Yang et al. (FAST'20, Figure 2) measured for Optane and DRAM, ByteFS (Table 1) for storage
/// of DRAM speed: random read, sequential read, non-temporal store, store and clwb; ns.
const PUBLISHED: [(Kind, [f64; 4]); 3] = [
    (Kind::OptaneDcpmm, [305.0, 169.4, 90.4, 62.3]),
    (Kind::NvdimmN, [101.5, 81.4, 86.9, 57.3]),
    (Kind::DramSpeed, [100.0, 81.4, 86.9, 57.3]),
];

const LINES: u64 = 4096;

/// Mean latency of `op`, called with line numbers, far from each other in time.
fn mean(lines: impl Iterator<Item = u64>, mut op: impl FnMut(u64, Nanos) -> Nanos) -> f64 {
    let (mut all, mut n) = (0, 0);
    for (i, line) in lines.enumerate() {
        let now = Nanos::from_micros(100 * i as u64);
        all += (op(line, now) - now).0;
        n += 1;
    }
    all as f64 / n as f64
}

#[test]
fn an_idle_dimm_has_the_published_latencies() {
    for (kind, [random, sequential, nt, clwb]) in PUBLISHED {
        let config = small(DimmConfig::of(kind), LINES);
        let in_order = || 0..LINES;
        // Each line in another page, so in another granule than all that the buffer can hold.
        let scattered = || (0..LINES).map(|i| i * 2_654_435_761 % LINES * 64 + i % 64);
        let [random_read, read, nt_stores, stores] = [(); 4].map(|()| dimm(&config));
        let measured = [
            mean(scattered(), |line, now| load(&random_read, 0, now, line * 64, 64)),
            mean(in_order(), |line, now| load(&read, 0, now, line * 64, 64)),
            mean(in_order(), |line, now| {
                fence(&nt_stores, nt_store(&nt_stores, 0, now, line * 64, &[1; 64]))
            }),
            mean(in_order(), |line, now| {
                let t = store(&stores, 0, now, line * 64, &[2; 64]);
                fence(&stores, flush(&stores, t, line * 64, 64))
            }),
        ];
        for (ours, theirs) in measured.into_iter().zip([random, sequential, nt, clwb]) {
            println!("{kind:?}: {ours:.1} ns, published {theirs} ns");
            assert!(close(ours, theirs), "{kind:?}: {ours} ns, published {theirs} ns");
        }
    }
}

#[test]
fn a_fence_with_nothing_before_it_takes_no_time() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    assert_eq!(fence(&d, Nanos(5)), Nanos(5));
    let t = fence(&d, nt_store(&d, 0, Nanos(10), 0, &[1; 64]));
    assert_eq!(t, Nanos(100));
    assert_eq!(fence(&d, t), t);
}

#[test]
fn a_fence_waits_for_what_other_cores_wrote_back() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    nt_store(&d, 7, Nanos(10), 0, &[1; 64]);
    assert_eq!(fence(&d, Nanos(10)), Nanos(100));
}

#[test]
fn a_store_that_stays_in_the_caches_takes_no_time_and_is_loaded_from_there() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    assert_eq!(store(&d, 0, Nanos(10), 100, &[1; 300]), Nanos(10));
    assert_eq!(load(&d, 3, Nanos(10), 100, 300), Nanos(10));
    assert_eq!(d.held_lines(), 6);
    assert_eq!(d.dimm_counters().cache_hits, 6);
}

#[test]
fn write_backs_of_several_ranges_at_one_instant_keep_one_core_busy_one_after_the_other() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    let mut ends = Vec::new();
    for i in 0..10 {
        store(&d, 0, Nanos(0), i * 512, &[1; 64]);
    }
    for i in 0..10 {
        ends.push(flush(&d, Nanos(0), i * 512, 64));
    }
    // 64 B at the 1.44 GB/s of one core.
    assert_eq!(ends[9], Nanos(445));
    assert_eq!(fence(&d, ends[9]), Nanos(445 - 44 + 62 - 1));
}

#[test]
fn neighbours_of_a_line_that_was_loaded_come_from_the_buffer() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    let wait = |at: u64, now: u64| load(&d, 0, Nanos(now), at, 8).0 - now;
    assert_eq!(wait(0, 0), 305);
    assert_eq!([wait(64, 1000), wait(192, 2000), wait(128, 3000)], [124; 3]);
    assert_eq!(wait(256, 4000), 305);
}
