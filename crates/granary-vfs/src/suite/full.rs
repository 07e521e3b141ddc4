//! A full file system: every name can be taken away, and a power failure meanwhile takes no more.

use super::{Mounted, Subject, create, drive, fail_and_look, fill, run};
use crate::attr::FileKind;
use crate::error::FsError;
use crate::posix::{OpenFlags, Posix};
use crate::process::Process;
use granary_sim::now;
use granary_units::{Bytes, Nanos};
use parking_lot::Mutex;
use std::sync::Arc;

/// Writes until not even a page more fits, then makes files until not even a name fits.
fn fill_up(p: &mut Process, name: &dyn Fn(u32) -> String) -> u32 {
    for k in 0..50 {
        let Ok(fd) = p.open(format!("/big{k}"), OpenFlags::CREAT | OpenFlags::RDWR, 0o644) else { break };
        let (mut at, mut step) = (0, 1 << 20);
        while step >= 4096 {
            match p.pwrite(fd, fill(1, step), at) {
                Ok(n) => at += n as u64,
                Err(FsError::NoSpace) => step /= 2,
                Err(e) => panic!("{e}"),
            }
        }
        p.close(fd).expect("close");
        if at == 0 {
            break;
        }
    }
    let is_full = |i: &u32| match p.mknod(name(*i), FileKind::File, 0o644, 0) {
        Ok(()) => false,
        Err(e) => e == FsError::NoSpace || panic!("{e}"),
    };
    (0..).find(is_full).expect("it is full at last")
}

/// Mounted again, after an unmount or a failure. (Where nothing is free an unmount leaves no lists for the next mount.)
fn anew<S: Subject>(m: Mounted<S>, unmounted: bool) -> Mounted<S> {
    let (subject, drive) = (m.subject.clone(), m.drive.clone());
    if unmounted {
        m.unmount();
    } else {
        drop(m);
    }
    Mounted::again(&subject, &drive)
}

/// Nothing is free any more: each of thousands of empty files with long names can be unlinked, in any order, also after
/// a remount; then there is space again. Files with a second name and files in many directories, too.
pub fn every_name_of_a_full_file_system_can_be_taken_away<S: Subject>(subject: &S) {
    for round in 0..6u32 {
        let subject = subject.clone();
        run(move || {
            let m = Mounted::fresh(&subject, &drive(Bytes::mib(32)));
            let mut p = m.process();
            // One directory, or so many that each gets no more than a few of the names.
            let dirs = if round < 3 { 1 } else { 150 };
            (0..dirs).for_each(|d| p.mkdir(format!("/d{d}"), 0o755).expect("mkdir"));
            let path = |i: u32, what: char| format!("/d{}/{}{what}{i}", i % dirs, "n".repeat(150));
            let made = 1500;
            for i in 0..made {
                let fd = create(&mut p, &path(i, 'f'));
                p.close(fd).expect("close");
                if i % 3 == 0 {
                    p.link(path(i, 'f'), path(i, 'l')).expect("link");
                }
                if i % 6 == 0 {
                    p.chmod(path(i, 'f'), 0o600).expect("chmod");
                }
            }
            let more = fill_up(&mut p, &|i| path(i, 'm'));
            m.check();
            p.exit();
            let m = if round % 3 == 0 { m } else { anew(m, round % 3 == 1) };
            let mut p = m.process();
            // Any order: steps that share no factor with the number of files.
            for i in 0..made {
                let i = if round == 0 { i } else { (i * 769 + 11) % made };
                p.unlink(path(i, 'f')).unwrap_or_else(|e| panic!("round {round}: file {i}: {e}"));
                if i % 3 == 0 {
                    assert_eq!(p.stat(path(i, 'l')).expect("stat").attr.nlink, 1);
                }
            }
            m.check();
            p.exit();
            let m = anew(m, round % 3 == 1);
            m.check();
            let mut p = m.process();
            for i in (0..made).filter(|i| i % 3 == 0) {
                assert_eq!(p.stat(path(i, 'l')).expect("stat").attr.nlink, 1);
                p.unlink(path(i, 'l')).unwrap_or_else(|e| panic!("round {round}: link {i}: {e}"));
            }
            (0..more).for_each(|i| p.unlink(path(i, 'm')).expect("unlink"));
            (0..dirs).for_each(|d| p.rmdir(format!("/d{d}")).expect("rmdir"));
            m.check();
            p.mkdir("/new", 0o755).expect("there is space again");
            m.check();
        });
    }
}

/// Power fails while names of a full file system are taken away: what is gone stays gone, at most one name more is.
pub fn a_full_file_system_loses_power_while_it_is_emptied<S: Subject>(subject: &S, instants: u64) {
    let path = |i: u32, what: char| format!("/d{}/{}{what}{i}", i % 40, "n".repeat(150));
    let files = 200u32;
    // The unlinks begin and end at these instants, in every run.
    let span: Arc<Mutex<(Nanos, Nanos)>> = Arc::default();
    for k in 0..=instants {
        let (begin, end) = *span.lock();
        let at = (k > 0).then(|| Nanos(begin.0 + (end.0 - begin.0) * k / (instants + 1)));
        let (noted, done) = (span.clone(), Arc::new(Mutex::new(0u32)));
        let count = done.clone();
        let before = move |m: &Mounted<S>| {
            let mut p = m.process();
            (0..40).for_each(|d| p.mkdir(format!("/d{d}"), 0o755).expect("mkdir"));
            for i in 0..files {
                let fd = create(&mut p, &path(i, 'f'));
                p.close(fd).expect("close");
                p.link(path(i, 'f'), path(i, 'l')).expect("link");
            }
            fill_up(&mut p, &|i| path(i, 'm'));
            p.sync().expect("sync");
            let begin = now();
            for (i, what) in (0..files).map(|i| (i, 'f')).chain((0..files).map(|i| (i, 'l'))) {
                p.unlink(path(i, what)).expect("unlink");
                p.sync().expect("sync");
                *count.lock() += 1;
            }
            *noted.lock() = (begin, now());
            granary_sim::power_fail();
        };
        let after = move |m: &Mounted<S>| {
            let (mut p, done) = (m.process(), *done.lock());
            for (n, (i, what)) in (0..files).map(|i| (i, 'f')).chain((0..files).map(|i| (i, 'l'))).enumerate()
            {
                let there = p.lstat(path(i, what));
                if (n as u32) < done {
                    assert_eq!(there.err(), Some(FsError::NoEntry), "{what}{i} was taken away");
                } else if n as u32 > done {
                    let links = match what {
                        'l' if i < done => 1..=1,
                        'l' if i == done => 1..=2,
                        _ => 2..=2,
                    };
                    let nlink = there.expect("nobody took it away").attr.nlink;
                    assert!(links.contains(&nlink), "{what}{i}: {nlink} links after {done} unlinks");
                }
            }
        };
        fail_and_look(subject, drive(Bytes::mib(32)), at, before, after);
    }
}
