//! Sums balance, and counters say what happened.

use crate::rig::*;
use granary_device::{Drive, Structure};
use granary_pmem::{DimmConfig, Kind};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, Nanos, TxId};

#[test]
fn every_sum_balances_on_any_dimm_after_any_workload() {
    for seed in 0..60 {
        let mut random = Stream::new(seed, "balance");
        let kind = [Kind::OptaneDcpmm, Kind::NvdimmN, Kind::DramSpeed][random.below(3) as usize];
        let config = DimmConfig::of(kind).interleaved(1 + random.below(4) as usize);
        let d = dimm(&DimmConfig { caches: Bytes(64 * 20), ..small(config, 64) });
        let size = d.info().pages * 4096;
        let mut now = Nanos::ZERO;
        let (mut written, mut fences) = ([0u64; Structure::COUNT], 0);
        for _ in 0..2000 {
            let len = 1 + random.below(400);
            // Half of the calls go to a few pages, so that write-backs meet stores.
            let most = if random.below(2) == 0 { 1 << 14 } else { size - len };
            let (at, core) = (random.below(most), random.below(8) as u16);
            let what = Structure::ALL[random.below(8) as usize];
            let data = vec![1; len as usize];
            now = match random.below(5) {
                0 => d.store_from(core, now, ByteAddr(at), &data, TxId::NONE, what).expect("stores"),
                1 => flush(&d, now, at, len as usize),
                2 => {
                    let at = at / 4096 * 4096;
                    written[Structure::Data as usize] += len.div_ceil(64) * 64;
                    nt_store(&d, core, now, at, &data)
                }
                3 => {
                    fences += 1;
                    fence(&d, now)
                }
                _ => load(&d, core, now, at, len as usize),
            };
            d.check().unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
        }
        let link = d.traffic();
        assert!(link.byte_write[Structure::Data as usize] >= written[Structure::Data as usize]);
        assert_eq!((link.block_read, link.block_write), Default::default());
        let (c, behind) = (d.counters(), d.dimm_counters());
        assert_eq!((c.commands.verifies, behind.fences), (fences, fences));
        assert!(behind.evicted > 0 && behind.written_back > 0 && behind.streamed > 0);
        now = d.settle(now).expect("settles");
        let behind = d.dimm_counters();
        assert_eq!(behind.left + behind.combined, behind.lines(), "nothing waits");
        assert!(behind.media_written().0 >= behind.left * 64);
        // Nothing is reserved for later, so both views agree.
        assert_eq!(d.counters_at(now), d.counters());
    }
}

#[test]
fn bytes_over_the_bus_are_told_by_structure() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    let now = Nanos::ZERO;
    d.store_from(0, now, ByteAddr(0), &[1; 100], TxId::NONE, Structure::Inode).expect("stores");
    assert_eq!(d.traffic().written(), 0, "it is in the caches");
    flush(&d, now, 0, 100);
    d.load_from(0, now, ByteAddr(60), &mut [0; 8], Structure::Journal).expect("loads");
    let link = d.traffic();
    assert_eq!((link.byte_write[Structure::Inode as usize], link.written()), (128, 128));
    assert_eq!((link.byte_read[Structure::Journal as usize], link.read()), (128, 128));
}

#[test]
fn busy_time_is_the_bytes_over_the_bandwidth() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 1024));
    for page in 0..1024 {
        nt_store(&d, 0, Nanos(0), page * 4096, &[1; 4096]);
    }
    let busy = d.counters().busy.link_to_drive;
    assert!(close(busy.0 as f64, 4_194_304.0 / 2.3), "{busy}");
    let half = d.counters_at(Nanos(busy.0 / 2)).busy.link_to_drive;
    assert!(close(half.0 as f64, busy.0 as f64 / 2.0), "{half} of {busy}");
}
