//! Power failures at random instants: fsynced changes are there, everything is sound, work goes on. The
//! large counts are the crash explorer's.

use crate::common::Subject;
use granary_fs::{Allocate, Cred, FsError, Time};
use granary_sim::{now, power_fail, sleep};
use granary_suite::suite;
use granary_units::{Bytes, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix};
use parking_lot::Mutex;
use std::sync::Arc;

/// When a truncation by the owner began and ended, with the power failing at `at` (or after it), and what the
/// file was then: size, mode, time of modification.
fn cut_short(at: Option<Nanos>) -> ([Nanos; 2], (u64, u16, Time)) {
    let told = Arc::new(Mutex::new(([Nanos::ZERO; 2], (0, 0, Time(0)))));
    let (clock, seen) = (told.clone(), told.clone());
    let before = move |m: &suite::Mounted<Subject>| {
        let mut p = m.process();
        let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        p.pwrite(fd, Payload::Fill { word: 7, len: 3 << 20 }, 0).expect("writes");
        p.chown("/f", Some(7), Some(7)).expect("chown");
        p.chmod("/f", 0o4755).expect("chmod");
        // The next tick of the clock.
        sleep(Nanos::from_millis(9));
        p.set_cred(Cred { uid: 7, gid: 7, groups: Vec::new() });
        clock.lock().0[0] = now();
        p.truncate("/f", 5000).expect("cuts");
        clock.lock().0[1] = now();
        power_fail();
    };
    let after = move |m: &suite::Mounted<Subject>| {
        let attr = m.process().stat("/f").expect("there").attr;
        seen.lock().1 = (attr.size, attr.mode, attr.mtime);
    };
    suite::fail_and_look(&Subject::default(), suite::drive(Bytes::mib(64)), at, before, after);
    let told = told.lock();
    *told
}

#[test]
fn a_truncation_that_recovery_finishes_has_its_times_and_takes_the_set_id_bits_away() {
    let ([began, ended], done) = cut_short(None);
    assert_eq!((done.0, done.1), (5000, 0o755));
    let (_, undone) = cut_short(Some(began));
    assert_eq!((undone.0, undone.1), (3 << 20, 0o4755));
    assert!(done.2 > undone.2);
    let steps = 60;
    let mut finished = 0;
    for step in 0..steps {
        let at = Nanos(began.0 + (ended - began).0 * step / steps);
        let (_, found) = cut_short(Some(at));
        assert!(
            found == done || found == undone,
            "{found:?} {} ns after the truncation began",
            (at - began).0
        );
        finished += u64::from(found == done);
    }
    assert!(finished > 10 && finished < steps, "{finished} of {steps} were finished");
}

/// A long reservation is made piece by piece, so that memory need not hold all of it: of each piece all
/// blocks are there or none, the size comes last, and what there is no room for is not begun.
#[test]
fn a_long_reservation_takes_one_piece_after_the_other() {
    const LEN: u64 = 400 << 20;
    let drive = || suite::drive(Bytes::mib(512));
    let told = Arc::new(Mutex::new(([Nanos::ZERO; 2], 0)));
    let run = |at: Option<Nanos>| {
        let (clock, seen) = (told.clone(), told.clone());
        let before = move |m: &suite::Mounted<Subject>| {
            let mut p = m.process();
            let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
            let how = Allocate::Reserve { keep_size: false };
            let free = p.statfs().expect("statfs").free_blocks;
            assert_eq!(p.fallocate(fd, how, 0, 40 << 30), Err(FsError::NoSpace));
            assert_eq!(
                (p.statfs().expect("statfs").free_blocks, p.fstat(fd).expect("stat").attr.size),
                (free, 0)
            );
            clock.lock().0[0] = now();
            p.fallocate(fd, how, 0, LEN).expect("room");
            clock.lock().0[1] = now();
            power_fail();
        };
        let after = move |m: &suite::Mounted<Subject>| {
            let attr = m.process().stat("/f").expect("there").attr;
            assert!(attr.size == 0 || attr.size == LEN);
            assert_eq!(attr.size == LEN, attr.blocks * 512 == LEN);
            seen.lock().1 = attr.blocks * 512;
        };
        suite::fail_and_look(&Subject::default(), drive(), at, before, after);
        *told.lock()
    };
    let ([began, ended], all) = run(None);
    assert_eq!(all, LEN);
    let (_, some) = run(Some(Nanos((began.0 + ended.0) / 2)));
    assert!(some > 0 && some < LEN && some.is_multiple_of(128 << 20), "{some} bytes in the middle");
}
