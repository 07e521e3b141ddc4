//! Bandwidths are those that were published, for one core and for many.

use crate::rig::*;
use granary_device::{Drive, Streamed};
use granary_pmem::{Dimm, DimmConfig, Kind};
use granary_units::{Lpa, Nanos, Page};

const GB: f64 = 1e9;
/// Pages of each core.
const OWN: u64 = 512;

fn reads(d: &Dimm, cores: u16, size: usize) -> f64 {
    let calls = OWN * 4096 / size as u64;
    closed_loop(cores, calls, |core, n, now| {
        load(d, core, now, u64::from(core) * OWN * 4096 + n * size as u64, size)
    }) * size as f64
        / GB
}

fn nt_stores(d: &Dimm, cores: u16, size: usize) -> f64 {
    let (calls, data) = (OWN * 4096 / size as u64, vec![7; size]);
    closed_loop(cores, calls, |core, n, now| {
        nt_store(d, core, now, u64::from(core) * OWN * 4096 + n * size as u64, &data)
    }) * size as f64
        / GB
}

fn clwb_stores(d: &Dimm, cores: u16, size: usize) -> f64 {
    let (calls, data) = (OWN * 4096 / size as u64, vec![7; size]);
    closed_loop(cores, calls, |core, n, now| {
        let at = u64::from(core) * OWN * 4096 + n * size as u64;
        flush(d, store(d, core, now, at, &data), at, size)
    }) * size as f64
        / GB
}

fn rig(config: DimmConfig) -> Dimm {
    dimm(&small(config, 24 * OWN))
}

#[track_caller]
fn expect(what: &str, ours: f64, theirs: f64) {
    println!("{what}: {ours:.2} GB/s, published {theirs:.2} GB/s");
    assert!(close(ours, theirs), "{what}: {ours} GB/s, published {theirs} GB/s");
}

#[test]
fn four_cores_reach_the_published_bandwidth_of_a_dimm() {
    // ByteFS Table 1 (Optane, DRAM); a sixth of six DIMMs, Yang et al., Figure 4 (NVDIMM-N).
    for (kind, read, write) in [(Kind::OptaneDcpmm, 6.6, 2.3), (Kind::NvdimmN, 105.56 / 6.0, 76.81 / 6.0)] {
        expect(&format!("{kind:?} reads"), reads(&rig(DimmConfig::of(kind)), 4, 4096), read);
        expect(&format!("{kind:?} writes"), nt_stores(&rig(DimmConfig::of(kind)), 4, 4096), write);
    }
    // Four cores cannot ask for so much.
    expect("DramSpeed reads", reads(&rig(DimmConfig::dram_speed()), 8, 4096), 31.8);
    expect("DramSpeed writes", nt_stores(&rig(DimmConfig::dram_speed()), 8, 4096), 31.8);
}

#[test]
fn one_core_reaches_what_one_thread_was_measured_at() {
    // Yang et al., Figure 4, one thread: Optane (stores past the caches on six DIMMs), DRAM.
    for (kind, read, nt, clwb) in [(Kind::OptaneDcpmm, 2.92, 4.13, 1.44), (Kind::NvdimmN, 7.38, 4.31, 1.44)] {
        let one = || rig(DimmConfig::of(kind));
        let six = || dimm(&small(DimmConfig::of(kind).interleaved(6), 24 * OWN));
        expect(&format!("{kind:?} reads"), reads(&one(), 1, 1 << 18), read);
        let data = Page::word(1);
        let pages = closed_loop(1, 4096, {
            let d = six();
            move |core, n, now| {
                d.stream_from(core, now, Lpa(n), 0, Streamed::Page(&data), WHAT).expect("streams")
            }
        });
        expect(&format!("{kind:?} stores past the caches"), pages * 4096.0 / GB, nt);
        expect(&format!("{kind:?} stores with clwb"), clwb_stores(&one(), 1, 256), clwb);
    }
}

/// Threads, and what Yang et al. (Figure 4, one Optane DIMM) measured: reads, stores past the caches, stores
/// with clwb; GB/s.
const FIGURE_4: [(u16, f64, f64, f64); 9] = [
    (2, f64::NAN, 2.21, 1.79),
    (4, 6.52, 2.20, 1.71),
    (5, 6.51, 2.12, 1.64),
    (6, 6.50, 1.96, 1.55),
    (8, 6.46, 1.53, 1.40),
    (12, 5.91, 1.12, 1.08),
    (16, 4.73, 0.94, 0.88),
    (20, 4.10, 0.86, 0.85),
    (24, 3.89, 0.80, 0.82),
];

#[test]
fn a_dimm_loses_bandwidth_to_many_cores_as_it_was_measured() {
    // Their DIMMs of 256 GB are slower than the 128 GB ones at their best: 6.52 and 2.22 GB/s. So shares are
    // compared.
    for size in [256, 4096] {
        for (cores, read, nt, clwb) in FIGURE_4 {
            let best = (6.6 / 6.52, 2.3 / 2.22);
            let new = || rig(DimmConfig::optane_dcpmm());
            // A core that loads 256 B at a time waits for each load, here; their processor fetches ahead.
            if !read.is_nan() && size > 256 {
                expect(&format!("{cores} read {size} B"), reads(&new(), cores, size), read * best.0);
            }
            expect(&format!("{cores} nt-store {size} B"), nt_stores(&new(), cores, size), nt * best.1);
            expect(&format!("{cores} clwb {size} B"), clwb_stores(&new(), cores, size), clwb * best.1);
        }
    }
}

#[test]
fn cores_that_stopped_writing_cost_nothing_any_more() {
    let d = rig(DimmConfig::optane_dcpmm());
    let many = nt_stores(&d, 24, 256);
    let later = d.settle(Nanos::ZERO).expect("settles") + Nanos::from_micros(8);
    let one = closed_loop(1, 4096, |_, n, now| nt_store(&d, 0, later + now, n * 256, &[1; 256]) - later);
    assert!(many < 0.9, "{many}");
    expect("one core afterwards", one * 256.0 / GB, 2.3);
}

#[test]
fn six_interleaved_dimms_have_six_times_the_bandwidth() {
    let six = || dimm(&small(DimmConfig::optane_dcpmm().interleaved(6), 24 * OWN));
    // Izraelevitz et al.: 39.4 and 13.9 GB/s. Each core stays on a DIMM of its own.
    let page = |core: u16, n: u64| u64::from(core) / 6 * OWN * 6 + n % OWN * 6 + u64::from(core) % 6;
    let d = six();
    let read = closed_loop(24, OWN, |core, n, now| load(&d, core, now, page(core, n) * 4096, 4096));
    expect("six DIMMs, reads", read * 4096.0 / GB, 39.4);
    let (d, data) = (six(), Page::word(1));
    let write = closed_loop(6, OWN, |core, n, now| {
        d.stream_from(core, now, Lpa(page(core, n)), 0, Streamed::Page(&data), WHAT).expect("streams")
    });
    expect("six DIMMs, writes", write * 4096.0 / GB, 13.9);
}

/// Bandwidth of many cores on six interleaved DIMMs. It is no input of the model: the model's tables are
/// those of one DIMM. Threads, stores past the caches, stores with clwb, in GB/s: Yang et al., Figure 4 (the
/// file with its numbers has the two headings exchanged).
const SIX: [(u16, f64, f64); 4] = [(1, 4.13, 1.42), (4, 12.50, 5.75), (12, 10.69, 9.50), (24, 7.50, 7.50)];

#[test]
fn many_cores_on_interleaved_dimms_come_within_a_tenth_of_what_was_measured() {
    for (cores, nt, clwb) in SIX {
        let six = || dimm(&small(DimmConfig::optane_dcpmm().interleaved(6), 24 * OWN));
        for (what, ours, theirs) in
            [("nt-store", nt_stores(&six(), cores, 256), nt), ("clwb", clwb_stores(&six(), cores, 256), clwb)]
        {
            println!("six DIMMs, {cores} {what}: {ours:.2} GB/s, published {theirs:.2} GB/s");
            assert!(
                (ours / theirs - 1.0).abs() < 0.10,
                "{cores} {what}: {ours} GB/s, published {theirs} GB/s"
            );
        }
    }
}
