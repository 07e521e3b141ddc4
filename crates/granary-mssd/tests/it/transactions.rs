//! Transactions beyond the usual: thousands at once, more than the log holds, numbers that begin again; and
//! who goes first when the host reads while the drive cleans its log and collects garbage.

use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Drive, DriveError, Structure};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};

const WHAT: Structure = Structure::Inode;

fn store(d: &Mssd, now: Nanos, line: u64, byte: u8, tx: u32) -> Result<Nanos, DriveError> {
    let t = d.store(now, ByteAddr(line * 64), &[byte; 64], TxId(tx), WHAT)?;
    d.flush_lines(t, ByteAddr(line * 64), 64)
}

fn commit(d: &Mssd, now: Nanos, tx: u32) -> Nanos {
    d.submit(now, Command::Vendor(&mut Commit { tx: TxId(tx) })).expect("commits")
}

fn byte(d: &Mssd, line: u64) -> u8 {
    d.peek(Lpa(line / 64)).expect("peeks").to_bytes()[(line % 64 * 64) as usize]
}

fn crash(d: &Mssd, now: Nanos) -> Nanos {
    d.power_fail(now, &mut Stream::new(1, "power"));
    let on = d.power_on(now).expect("powers on");
    let done = d.submit(on, Command::Vendor(&mut Recover)).expect("recovers");
    d.check().unwrap_or_else(|bad| panic!("{}", bad.join("; ")));
    done
}

/// Four thousand run at the same time; cleaning comes in between; every second one commits, in another order.
#[test]
fn of_thousands_of_running_transactions_those_that_committed_are_kept_whole() {
    let mut c = DriveConfig::bytefs_emulator();
    c.flash = DriveConfig::tiny(Mode::Log).flash;
    c.flash.geometry.blocks_per_plane = 200;
    c.firmware.log_region = Bytes::mib(2);
    let d = Mssd::new(&c).expect("valid");
    let (mut now, all) = (Nanos::ZERO, 4000u64);
    // Three lines each, written in turn: no transaction lies together.
    for round in 0..3 {
        for tx in 1..=all {
            now = store(&d, now, tx * 3 + round, (tx % 250) as u8 + 1, tx as u32).expect("stores");
        }
        // Others, outside transactions, until the log has been cleaned around them.
        for i in 0..8000 {
            now = store(&d, now, 40_000 + (i * 7 + round) % 9000, 255, 0).expect("stores");
        }
    }
    now = d.verify(now).expect("verifies");
    let committed = |tx: u64| (tx * 7919 % all).is_multiple_of(2);
    for i in 0..all {
        let tx = 1 + i * 2713 % all;
        if committed(tx) {
            now = commit(&d, now, tx as u32);
        }
    }
    let log = d.counters().log;
    assert!(log.cleanings > 1 && log.entries_migrated > 1000, "{log:?}");
    let kept = (1..=all).filter(|&tx| committed(tx)).count() as u64;
    assert_eq!(log.commits, kept);
    crash(&d, now);
    for tx in 1..=all {
        let expected = if committed(tx) { (tx % 250) as u8 + 1 } else { 0 };
        for round in 0..3 {
            assert_eq!(byte(&d, tx * 3 + round), expected, "transaction {tx}");
        }
    }
    assert!(kept > 1500 && kept < 2500);
}

/// The drive refuses; the host goes on with smaller ones, block by block (section 4.3), and loses none.
#[test]
fn a_transaction_larger_than_the_log_is_refused_and_carried_out_in_blocks() {
    let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
    let (mut now, lines) = (Nanos::ZERO, 64 * 20);
    // In one go: half a log of 8 KiB takes about a hundred lines.
    let mut fitted = 0;
    let refused = loop {
        match store(&d, now, fitted, 1, 1) {
            Ok(t) => now = t,
            Err(e) => break e,
        }
        fitted += 1;
    };
    assert!(matches!(refused, DriveError::LogFull) && fitted < lines, "{refused} after {fitted}");
    // Given up: RECOVER drops what was stored.
    now = d.submit(now, Command::Vendor(&mut Recover)).expect("recovers");
    for block in 0..lines / 64 {
        let tx = 2 + block as u32;
        for line in 0..64 {
            now = store(&d, now, block * 64 + line, 2, tx).expect("fits");
        }
        now = d.verify(now).expect("verifies");
        now = commit(&d, now, tx);
    }
    crash(&d, now);
    assert!((0..lines).all(|line| byte(&d, line) == 2));
}

/// Numbers run to 2^32 - 1 and begin again at 1: one that was used before is a new transaction.
#[test]
fn transaction_numbers_wrap_around() {
    let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
    let mut now = Nanos::ZERO;
    let first = u32::MAX - 400;
    let number = |n: u32| {
        if first.wrapping_add(n) < first { first.wrapping_add(n) + 1 } else { first.wrapping_add(n) }
    };
    assert_eq!((number(400), number(401)), (u32::MAX, 1));
    for n in 0..800 {
        now = store(&d, now, n as u64 % 600, (n % 250) as u8 + 1, number(n)).expect("stores");
        now = d.verify(now).expect("verifies");
        now = commit(&d, now, number(n));
    }
    let log = d.counters().log;
    assert!(log.commits == 800 && log.cleanings > 3, "{log:?}");
    // Number 1 again, long after its commit has left the TxLog, and this time without a COMMIT.
    now = d.settle(now).expect("settles");
    now = store(&d, now, 5, 99, number(401)).expect("stores");
    now = d.verify(now).expect("verifies");
    crash(&d, now);
    for line in 0..600u32 {
        let last = if line < 200 { line + 600 } else { line };
        assert_eq!(byte(&d, line as u64), (last % 250) as u8 + 1, "line {line}");
    }
}

/// RECOVER ends all transactions that were: a number that committed before it is a new transaction after it,
/// and what that one stores counts with a COMMIT of its own.
#[test]
fn a_number_that_committed_before_recover_is_uncommitted_when_it_comes_again() {
    // With lines that RECOVER cleans, and without any.
    for lines in [1, 0] {
        let d = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
        let mut now = Nanos::ZERO;
        for line in 0..lines {
            now = store(&d, now, line, 1, 5).expect("stores");
        }
        now = d.verify(now).expect("verifies");
        now = commit(&d, now, 5);
        now = crash(&d, now);
        assert!((0..lines).all(|line| byte(&d, line) == 1));
        now = store(&d, now, 0, 2, 5).expect("stores");
        now = store(&d, now, 1, 2, 5).expect("stores");
        now = d.verify(now).expect("verifies");
        now = crash(&d, now);
        assert_eq!((byte(&d, 0), byte(&d, 1)), (lines as u8, 0), "a transaction without a COMMIT came back");
        // With one it counts.
        now = store(&d, now, 1, 3, 5).expect("stores");
        now = d.verify(now).expect("verifies");
        now = commit(&d, now, 5);
        crash(&d, now);
        assert_eq!((byte(&d, 0), byte(&d, 1)), (lines as u8, 3));
    }
}

/// A clock half as fast makes all of the firmware's work take twice as long, and nothing else.
#[test]
fn the_firmwares_work_scales_with_its_clock() {
    let read = |clock: u32| {
        let mut c = DriveConfig::bytefs_emulator();
        c.firmware.clock_mhz = clock;
        let d = Mssd::new(&c).expect("valid");
        let mut out = [Page::ZERO];
        d.submit(Nanos::ZERO, Command::Read { lpa: Lpa(0), out: &mut out, what: WHAT }).expect("reads")
    };
    let f = DriveConfig::bytefs_emulator().firmware;
    assert_eq!(read(f.rated_mhz / 2) - read(f.rated_mhz), f.command_cost);
}
