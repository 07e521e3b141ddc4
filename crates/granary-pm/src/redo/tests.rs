//! Tests of this module.

use super::*;
use granary_device::Port;
use granary_pmem::{Dimm, DimmConfig};
use granary_sim::World;
use granary_sim::rng::Stream;
use granary_units::Bytes;
use std::sync::Arc;

const CONFIG: RedoConfig =
    RedoConfig { base: BLOCK, bytes: 64 << 10, keep: Keep::Capacitor, budget: 1 << 20 };

fn port() -> Port {
    let config = DimmConfig { caches: Bytes::kib(16), ..DimmConfig::optane_dcpmm() };
    Port::new(Arc::new(Dimm::new(&config.with_capacity(Bytes::mib(1))).expect("a DIMM")))
}

fn home(pm: &Pm, at: u64) -> u64 {
    let mut word = [0; 8];
    pm.load(at, &mut word, Structure::Inode).expect("loads");
    u64_at(&word, 0)
}

/// Words on media only ever go forwards, in pairs, whenever the power fails; what was acknowledged is there.
#[test]
fn transactions_are_whole_after_any_power_failure_and_recovery_may_be_repeated() {
    for keep in [Keep::Capacitor, Keep::Storage] {
        for seed in 0..40u64 {
            World::default()
                .run(move || {
                    let port = port();
                    let config = RedoConfig { keep, ..CONFIG };
                    let bare = Pm::new(port.clone());
                    bare.clear(256, 256).expect("clears");
                    let pm = Pm::new(port.clone()).logged(RedoLog::recover(&bare, config).expect("empty"));
                    let (a, b) = (40 * BLOCK, 90 * BLOCK + 24);
                    let rounds = 50 + seed * 7;
                    for n in 1..=rounds {
                        let mut batch = pm.batch();
                        batch.put_u64(a, n, Structure::Inode).expect("puts");
                        batch.put_u64(b, n, Structure::Inode).expect("puts");
                        batch.fence().expect("commits");
                    }
                    // One more that is never committed.
                    let mut batch = pm.batch();
                    batch.put_u64(a, u64::MAX, Structure::Inode).expect("puts");
                    drop(batch);
                    let mut random = Stream::new(seed, "power");
                    for _ in 0..2 {
                        port.drive().power_fail(granary_sim::now(), &mut random);
                        port.drive().power_on(granary_sim::now()).expect("on");
                        let bare = Pm::new(port.clone());
                        RedoLog::recover(&bare, config).expect("recovers");
                        assert_eq!((home(&bare, a), home(&bare, b)), (rounds, rounds), "{keep:?} {seed}");
                    }
                })
                .expect("ends");
        }
    }
}

#[test]
fn a_budget_bounds_what_is_not_at_home() {
    World::default()
        .run(|| {
            let port = port();
            let bare = Pm::new(port.clone());
            bare.clear(256, 256).expect("clears");
            let config = RedoConfig { budget: 8 << 10, ..CONFIG };
            let pm = Pm::new(port).logged(RedoLog::recover(&bare, config).expect("empty"));
            for n in 0..400 {
                let mut batch = pm.batch();
                batch.put_u64(40 * BLOCK + n * 8, n, Structure::Inode).expect("puts");
                batch.fence().expect("commits");
            }
            let stats = pm.redo().expect("logged").stats();
            assert!(stats.most_bytes <= 8 << 10 && stats.stalls > 0, "{stats:?}");
            assert_eq!(stats.commits, 400);
        })
        .expect("ends");
}

#[test]
fn what_is_torn_or_old_does_not_count() {
    let mut tx = vec![0; HEAD + CHANGE + 8];
    put_u64(&mut tx, HEAD, 4096);
    put_u32(&mut tx, HEAD + 8, 8);
    seal(&mut tx, 7);
    assert_eq!(whole(&tx), Some((7, tx.len())));
    assert_eq!(parse(&tx[HEAD..]).collect::<Vec<_>>(), [(4096, &[0; 8][..])]);
    for word in 0..tx.len() / 8 {
        let mut torn = tx.clone();
        torn[word * 8] ^= 0x40;
        assert_eq!(whole(&torn), None, "word {word}");
    }
    assert_eq!(whole(&[0; 256]), None, "zeros");
}
