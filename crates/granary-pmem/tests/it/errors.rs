//! Lines that cannot be read, and calls that cannot be served, are errors.

use crate::rig::*;
use granary_device::vendor::transactions::Recover;
use granary_device::{Command, Drive, DriveError, Port, Streamed};
use granary_pmem::{Dimm, DimmConfig, ErrorConfig};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, Page, Payload, TxId};
use std::sync::Arc;

fn broken(line: u64) -> Dimm {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    let now = fence(&d, nt_store(&d, 0, Nanos(0), 4096, &[3; 4096]));
    assert_eq!(now, d.verify(now).expect("fences"));
    d.break_line(ByteAddr(line * 64)).expect("in range");
    d
}

fn try_load(d: &Dimm, at: u64, len: usize) -> Result<Vec<u8>, DriveError> {
    let mut out = vec![0; len];
    d.load_from(0, Nanos::from_millis(1), ByteAddr(at), &mut out, WHAT).map(|_| out)
}

#[test]
fn a_line_that_cannot_be_read_is_an_error_and_its_neighbours_are_not() {
    let d = broken(70);
    assert_eq!(try_load(&d, 70 * 64 + 60, 8), Err(DriveError::Unreadable(1)));
    assert_eq!(try_load(&d, 4096, 4096), Err(DriveError::Unreadable(1)));
    let mut pages = [Page::ZERO];
    let now = Nanos::from_millis(1);
    let got = d.load_pages(now, ByteAddr(4096), 4096, &mut pages, WHAT);
    assert_eq!(got, Err(DriveError::Unreadable(1)));
    assert_eq!(d.peek(Lpa(1)), Err(DriveError::Unreadable(1)));
    assert_eq!(try_load(&d, 4096, 384), Ok(vec![3; 384]));
    assert_eq!(try_load(&d, 71 * 64, 64), Ok(vec![3; 64]));
    d.load_pages(now, ByteAddr(4096), 384, &mut pages, WHAT).expect("the lines before it");
    d.check().expect("balances");
}

#[test]
fn storing_a_part_of_such_a_line_is_an_error_and_changes_nothing() {
    let d = broken(70);
    let now = Nanos::from_millis(1);
    let before = d.dimm_counters();
    let part = [9; 100];
    assert_eq!(
        d.store_from(0, now, ByteAddr(70 * 64 - 40), &part, TxId::NONE, WHAT),
        Err(DriveError::Unreadable(1))
    );
    let data = Streamed::Part(Payload::Bytes(&part));
    assert_eq!(d.stream_from(0, now, Lpa(1), 6 * 64 - 40, data, WHAT), Err(DriveError::Unreadable(1)));
    assert_eq!(try_load(&d, 69 * 64, 64), Ok(vec![3; 64]));
    assert_eq!(d.dimm_counters().since(&before).lines(), 0);
}

#[test]
fn storing_the_whole_line_heals_it_by_either_way() {
    for nt in [true, false] {
        let d = broken(70);
        let now = Nanos::from_millis(1);
        if nt {
            nt_store(&d, 0, now, 70 * 64 - 32, &[9; 128]);
        } else {
            store(&d, 0, now, 70 * 64, &[8; 64]);
            // In the caches it is whole, so a part of it can be changed and all of it loaded.
            store(&d, 0, now, 70 * 64, &[9; 10]);
            assert_eq!(try_load(&d, 70 * 64, 11).expect("held")[9..], [9, 8]);
            assert_eq!(d.broken_lines(), [70], "its medium is as before");
            flush(&d, now, 70 * 64, 64);
        }
        assert_eq!(d.broken_lines(), [], "nt {nt}");
        try_load(&d, 4096, 4096).expect("whole again");
    }
}

#[test]
fn a_power_failure_heals_a_line_only_if_all_of_it_arrived() {
    let (mut healed, mut torn) = (0, 0);
    for seed in 0..60 {
        for nt in [true, false] {
            let d = broken(70);
            d.track_in_flight(true);
            let now = Nanos::from_millis(1);
            if nt {
                nt_store(&d, 0, now, 70 * 64, &[9; 64]);
            } else {
                store(&d, 0, now, 70 * 64, &[9; 64]);
            }
            d.power_fail(now, &mut Stream::new(seed, "power"));
            let on = d.power_on(now).expect("powers on");
            let mut out = [0; 64];
            match d.load_from(0, on, ByteAddr(70 * 64), &mut out, WHAT) {
                Ok(_) => {
                    assert_eq!(out, [9; 64]);
                    healed += 1;
                }
                Err(e) => {
                    assert_eq!(e, DriveError::Unreadable(1));
                    torn += 1;
                }
            }
        }
    }
    assert!(healed > 20 && torn > 20, "{healed} {torn}");
}

#[test]
fn failures_come_at_their_rate_and_are_a_function_of_the_seed() {
    let lines = |ppb, seed| {
        let errors = ErrorConfig { unreadable_ppb: ppb, seed };
        let d = dimm(&DimmConfig { errors, ..small(DimmConfig::optane_dcpmm(), 1024) });
        let failed = (0..1024 * 64).filter(|line| try_load(&d, line * 64, 64).is_err()).collect::<Vec<u64>>();
        assert_eq!(failed, d.broken_lines());
        // Lines that could not be read cannot be read later.
        assert!(failed.iter().all(|line| try_load(&d, line * 64, 1).is_err()));
        d.check().expect("balances");
        failed
    };
    assert_eq!(lines(0, 1), []);
    let some = lines(10_000_000, 1);
    assert!((550..760).contains(&some.len()), "{} of 655 expected", some.len());
    assert_eq!(some, lines(10_000_000, 1));
    assert_ne!(some, lines(10_000_000, 2));
}

#[test]
fn commands_and_transactions_are_refused() {
    let d = Arc::new(dimm(&small(DimmConfig::optane_dcpmm(), 16)));
    let now = Nanos::ZERO;
    let mut out = [Page::ZERO];
    let commands = [
        Command::Read { lpa: Lpa(0), out: &mut out, what: WHAT },
        Command::Write { lpa: Lpa(0), pages: &[Page::ZERO], what: WHAT },
        Command::Flush,
        Command::Trim { lpa: Lpa(0), count: 1 },
        Command::Vendor(&mut Recover),
    ];
    for command in commands {
        assert!(matches!(d.submit(now, command), Err(DriveError::Unsupported(_))));
    }
    let stored = d.store(now, ByteAddr(0), &[1], TxId(1), WHAT);
    assert!(matches!(stored, Err(DriveError::Unsupported(_))));
    // Nor does splitting a transfer panic.
    let port = Port::new(d);
    assert!(matches!(port.read(Lpa(0), &mut out, WHAT), Err(DriveError::Unsupported(_))));
}

#[test]
fn what_lies_outside_is_an_error() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    let end = 16 * 4096;
    let out = |got: Result<Nanos, DriveError>| {
        assert!(matches!(got, Err(DriveError::OutOfRange { pages: 16, .. })))
    };
    let now = Nanos::ZERO;
    out(d.load(now, ByteAddr(end - 4), &mut [0; 8], WHAT));
    out(d.load(now, ByteAddr(u64::MAX), &mut [0; 8], WHAT));
    out(d.store(now, ByteAddr(end - 4), &[0; 8], TxId::NONE, WHAT));
    out(d.flush_lines(now, ByteAddr(end), 1));
    out(d.flush_lines(now, ByteAddr(0), usize::MAX));
    out(d.stream(now, Lpa(16), 0, Streamed::Page(&Page::ZERO), WHAT));
    out(d.load_pages(now, ByteAddr(end - 4096), 8192, &mut [Page::ZERO, Page::ZERO], WHAT));
    assert!(d.peek(Lpa(16)).is_err() && d.break_line(ByteAddr(end)).is_err());
    assert_eq!(d.load(now, ByteAddr(end), &mut [], WHAT), Ok(now));
}

#[test]
fn without_power_every_call_says_so() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 16));
    d.power_fail(Nanos(5), &mut Stream::new(1, "power"));
    let off = |got: Result<Nanos, DriveError>| assert_eq!(got, Err(DriveError::PoweredOff));
    let now = Nanos(10);
    off(d.load(now, ByteAddr(0), &mut [0; 8], WHAT));
    off(d.store(now, ByteAddr(0), &[0; 8], TxId::NONE, WHAT));
    off(d.flush_lines(now, ByteAddr(0), 64));
    off(d.stream(now, Lpa(0), 0, Streamed::Page(&Page::ZERO), WHAT));
    off(d.verify(now));
    off(d.settle(now));
    assert_eq!(d.power_on(now), Ok(now));
    assert_eq!(load(&d, 0, now, 0, 64), now + Nanos(305));
}
