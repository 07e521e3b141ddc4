//! The whole drive against a plain model: reads, power loss, failing flash (see `rig.rs`).
//!
//! The drive is tiny (8 KiB of log a half, 8 pages of write buffer, 16 pages of cache), so that cleaning,
//! eviction and gc run all the time.

mod faults;
mod rig;
mod unreadable;

use self::rig::{Model, Op, PAGES, WHAT};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Drive, DriveError};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, TxId};
use proptest::prelude::*;

/// Random schedules with failing flash and failing power; `cargo xtask soak --kind drive-faults` goes on from
/// here.
#[test]
fn failing_flash_and_failing_power_lose_nothing() {
    let all = (0..400).map(faults::live).fold(faults::Exercised::default(), faults::Exercised::and);
    let enough = all.crashes > 400
        && all.in_recover > 50
        && all.in_power_up > 50
        && all.lost_blocks > 100
        && all.unreadable > 100
        && all.dead > 1
        && all.gc > 1000
        && all.cleanings > 400
        && all.ack_program > 100
        && all.bam.iter().all(|&n| n > 1000);
    assert!(enough, "{all:?}");
}

fn op() -> impl Strategy<Value = Op> {
    let byte = 0..PAGES * PAGE_SIZE as u64 - 600;
    let page = 0..PAGES;
    prop_oneof![
        8 => (byte.clone(), 1usize..500).prop_map(|(at, len)| Op::Store { at, len }),
        8 => (page.clone(), 0u64..64).prop_map(|(p, l)| Op::Store { at: p * 4096 + l * 64, len: 64 }),
        6 => Just(Op::Verify),
        6 => (page.clone(), 0u64..60, 1u64..5, page.clone())
            .prop_map(|(page, line, lines, second)| Op::Begin { page, line, lines, second }),
        6 => any::<bool>().prop_map(|wait| Op::Commit { wait }),
        5 => (0..PAGES - 4, 1u64..4, any::<bool>()).prop_map(|(page, count, wait)| Op::Write { page, count, wait }),
        1 => (page.clone(), any::<bool>()).prop_map(|(page, wait)| Op::Trim { page, wait }),
        4 => page.prop_map(|page| Op::Read { page }),
        4 => (byte.clone(), 1usize..500).prop_map(|(at, len)| Op::Load { at, len }),
        3 => (0u64..300).prop_map(|micros| Op::Idle { micros }),
        1 => Just(Op::Settle),
        2 => proptest::option::of(byte).prop_map(|pending| Op::Crash { pending }),
    ]
}

fn run(mode: Mode, seed: u64, ops: &[Op]) -> Model {
    let mut m = Model::on(&DriveConfig::tiny(mode), seed, None);
    for op in ops {
        m.run(op);
    }
    m.finish();
    m
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_mode_drive_keeps_its_promises(seed: u64, ops in proptest::collection::vec(op(), 1..400)) {
        run(Mode::Log, seed, &ops);
    }

    #[test]
    fn a_cache_mode_drive_keeps_its_promises(seed: u64, ops in proptest::collection::vec(op(), 1..400)) {
        run(Mode::Cache, seed, &ops);
    }
}

/// A long run of the same operations, to get through many cleanings; and its twin gives the same everything.
#[test]
fn the_same_operations_give_the_same_drive() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let ops = proptest::collection::vec(op(), 6000).new_tree(&mut runner).expect("generates").current();
    for mode in [Mode::Log, Mode::Cache] {
        let (a, b) = (run(mode, 1, &ops), run(mode, 1, &ops));
        assert_eq!((a.now, a.drive.counters()), (b.now, b.drive.counters()));
        let c = a.drive.counters();
        assert!(a.crashes > 50 && c.flash.erases > 100, "{} crashes, {c:?}", a.crashes);
        if mode == Mode::Log {
            let l = c.log;
            assert!(l.cleanings > 50 && l.entries_migrated > 20 && l.pages_read > 50 && l.pages_voided > 50);
            assert!(l.lines_superseded > 20 && l.lines_dropped > 20 && l.lines_lost > 20, "{l:?}");
        } else {
            assert!(c.cache.write_backs > 100 && c.cache.hits > 100 && c.cache.dropped > 10, "{:?}", c.cache);
        }
    }
}

/// A log full of uncommitted transactions says so; committing or recovering frees it.
#[test]
fn a_log_full_of_uncommitted_lines_refuses_more() {
    let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
    let mut now = Nanos::ZERO;
    let store = |now: Nanos, line: u64, tx: u32| -> Result<Nanos, DriveError> {
        let at = ByteAddr(line * 64);
        let t = d.store(now, at, &[line as u8; 64], TxId(tx), WHAT)?;
        d.flush_lines(t, at, 64)
    };
    let mut refused = None;
    for line in 0..300 {
        match store(now, line, 1) {
            Ok(t) => now = t,
            Err(e) => {
                refused = Some((line, e));
                break;
            }
        }
    }
    let (line, e) = refused.expect("refused at some point");
    assert_eq!(e, DriveError::LogFull);
    assert!(line >= 95, "only {line} lines of 80 B fitted into 8 KiB");
    now = d.submit(now, Command::Vendor(&mut Commit { tx: TxId(1) })).expect("commits");
    now = store(now, 299, 2).expect("room again");
    now = d.submit(now, Command::Vendor(&mut Recover)).expect("recovers");
    d.check().expect("consistent");
    let c = d.counters().log;
    assert_eq!((c.recoveries, c.recovery_dropped), (1, 1));
    assert_eq!(d.peek(Lpa(0)).expect("peeks").to_bytes()[63 * 64], 63);
    assert_eq!(d.peek(Lpa(4)).expect("peeks").to_bytes()[4095], 0, "line 299 was never committed");
    assert!(d.settle(now).is_ok());
}

/// Stores faster than cleaning wait for room, and lose nothing.
#[test]
fn a_burst_of_stores_waits_for_cleaning() {
    let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
    let mut now = Nanos::ZERO;
    for page in 0..60 {
        let at = ByteAddr(page * 4096);
        now = d.store(now, at, &[page as u8 + 1; 2048], TxId::NONE, WHAT).expect("stores");
        now = d.flush_lines(now, at, 2048).expect("flushes");
    }
    let c = d.counters().log;
    assert!(c.stalls > 5 && c.stall_time > Nanos::from_micros(100), "{c:?}");
    d.check().expect("consistent");
    for page in 0..60 {
        let bytes = d.peek(Lpa(page)).expect("peeks").to_bytes();
        assert_eq!((bytes[2047], bytes[2048]), (page as u8 + 1, 0));
    }
    assert!(d.settle(now).is_ok());
}

/// However fast the host stores, what a running transaction has in the old half finds room in the new one.
#[test]
fn a_running_transaction_survives_cleaning_under_pressure() {
    let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
    let mut now = Nanos::ZERO;
    let store = |now: Nanos, at: u64, data: &[u8], tx: u32| -> Nanos {
        let t = d.store(now, ByteAddr(at), data, TxId(tx), WHAT).expect("stores");
        d.flush_lines(t, ByteAddr(at), data.len()).expect("flushes")
    };
    // 60 entries of 80 B: more than half of the 8 KiB.
    for line in 0..60 {
        now = store(now, 30 * 4096 + line * 64, &[line as u8 + 1; 64], 1);
    }
    for page in 0..60 {
        now = store(now, (page % 25) * 4096, &[page as u8 + 1; 1024], 0);
    }
    let c = d.counters().log;
    assert!(c.cleanings > 5 && c.entries_migrated >= 5 * 60, "{c:?}");
    d.check().expect("consistent");
    now = d.submit(now, Command::Vendor(&mut Commit { tx: TxId(1) })).expect("commits");
    d.power_fail(now, &mut Stream::new(1, "power"));
    now = d.power_on(now).expect("powers on");
    d.submit(now, Command::Vendor(&mut Recover)).expect("recovers");
    d.check().expect("consistent");
    let bytes = d.peek(Lpa(30)).expect("peeks").to_bytes();
    assert!((0..60).all(|line| bytes[line * 64] == line as u8 + 1));
}
