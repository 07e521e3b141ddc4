//! A full file system: every name can be taken away, attributes and sizes change, and a power failure
//! meanwhile takes no more.

use super::{Mounted, Subject, create, drive, fail_and_look, fill, run};
use granary_fs::{FileKind, FsError, Result};
use granary_sim::now;
use granary_units::{Bytes, Dest, Nanos};
use granary_vfs::Process;
use granary_vfs::{OpenFlags, Posix};
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

/// Mounted again, after an unmount or a failure. (Where nothing is free an unmount leaves no lists for the
/// next mount.)
fn anew<S: Subject>(m: Mounted<S>, unmounted: bool) -> Mounted<S> {
    let (subject, drive) = (m.subject.clone(), m.drive.clone());
    if unmounted {
        m.unmount();
    } else {
        drop(m);
    }
    Mounted::again(&subject, &drive)
}

/// Nothing is free any more: each of thousands of empty files with long names can be unlinked, in any order,
/// also after a remount; then there is space again. Files with a second name and files in many directories,
/// too.
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

/// Power fails while names of a full file system are taken away: what is gone stays gone, at most one name
/// more is.
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

/// Bytes that a file of the tests below has before anything changes, and how often each is written over (a
/// log of these writes, 64 B each, then has no room in its page).
const LEN: u64 = 2 * 4096;
const WRITES: u64 = 63;

/// Files of the tests below.
fn cut_path(n: u64) -> String {
    format!("/f{n}")
}

/// A change of the file's attributes that frees no block: shorter, other permissions, longer, another owner.
fn change(p: &mut Process, n: u64) -> Result<()> {
    match n % 4 {
        0 => p.truncate(cut_path(n), LEN - 1000),
        1 => p.chmod(cut_path(n), 0o604),
        2 => p.truncate(cut_path(n), LEN + 5000),
        _ => p.chown(cut_path(n), Some(n as u32 + 7), None),
    }
}

/// Whether the file is as before the change (`Some(false)`), as after it, or neither (`None`), content
/// included.
fn is_changed(p: &mut Process, n: u64) -> Option<bool> {
    let a = p.stat(cut_path(n)).expect("stat").attr;
    let old = (LEN, 0o644, 0);
    let new = match n % 4 {
        0 => (LEN - 1000, 0o644, 0),
        1 => (LEN, 0o604, 0),
        2 => (LEN + 5000, 0o644, 0),
        _ => (LEN, 0o644, n as u32 + 7),
    };
    let mut content = vec![0; a.size as usize + 1];
    let fd = p.open(cut_path(n), OpenFlags::RDONLY, 0).expect("open");
    let len = p.pread(fd, Dest::Bytes(&mut content), 0).expect("read");
    p.close(fd).expect("close");
    let written = (n + 1).to_le_bytes();
    let sound = len as u64 == a.size
        && content[..len]
            .iter()
            .enumerate()
            .all(|(i, b)| *b == if i < LEN as usize { written[i % 8] } else { 0 });
    match (a.size, a.mode, a.uid) {
        now if now == old && sound => Some(false),
        now if now == new && sound => Some(true),
        _ => None,
    }
}

/// Nothing is free, and each file's log has no room in its page; half of the logs have an entry of
/// attributes, too.
fn full_of_files<S: Subject>(m: &Mounted<S>, files: u64) -> Process {
    let mut p = m.process();
    p.umask(0);
    for n in 0..files {
        let fd = create(&mut p, &cut_path(n));
        p.close(fd).expect("close");
    }
    for n in 0..files {
        let fd = p.open(cut_path(n), OpenFlags::RDWR, 0).expect("open");
        let changed = n % 8 >= 4;
        if changed {
            p.fchmod(fd, 0o644).expect("chmod");
        }
        for _ in 0..WRITES - u64::from(changed) {
            p.pwrite(fd, fill(n + 1, LEN as usize), 0).expect("write");
        }
        p.close(fd).expect("close");
    }
    fill_up(&mut p, &|i| format!("/{}{i}", "n".repeat(150)));
    p
}

/// Changes of attributes that free nothing work where nothing is free, and truncations that free blocks after
/// them.
pub fn attributes_of_a_full_file_system_can_be_changed<S: Subject>(subject: &S) {
    const FILES: u64 = 600;
    for unmounted in [true, false] {
        let subject = subject.clone();
        run(move || {
            let m = Mounted::fresh(&subject, &drive(Bytes::mib(48)));
            let mut p = full_of_files(&m, FILES);
            for n in 0..FILES {
                change(&mut p, n).unwrap_or_else(|e| panic!("file {n}: {e}"));
            }
            m.check();
            (0..FILES).for_each(|n| assert_eq!(is_changed(&mut p, n), Some(true), "file {n}"));
            p.sync().expect("sync");
            p.exit();
            let m = anew(m, unmounted);
            m.check();
            let mut p = m.process();
            (0..FILES).for_each(|n| assert_eq!(is_changed(&mut p, n), Some(true), "file {n} later"));
            for n in 0..FILES {
                p.truncate(cut_path(n), 100).unwrap_or_else(|e| panic!("file {n} is cut: {e}"));
            }
            m.check();
            p.unlink("/big0").expect("unlink");
            // There is space again: what is written now counts, and what was cut off stays zero.
            for n in 0..FILES {
                let fd = p.open(cut_path(n), OpenFlags::RDWR, 0).expect("open");
                p.pwrite(fd, fill(n + 1, 50), 150).expect("there is space again");
                p.close(fd).expect("close");
            }
            p.sync().expect("sync");
            p.exit();
            let m = anew(m, unmounted);
            m.check();
            let mut p = m.process();
            for n in 0..FILES {
                let a = p.stat(cut_path(n)).expect("stat").attr;
                let mode = if n % 4 == 1 { 0o604 } else { 0o644 };
                let uid = if n % 4 == 3 { n as u32 + 7 } else { 0 };
                assert_eq!((a.size, a.mode, a.uid), (200, mode, uid), "file {n}");
                let mut gap = [1; 50];
                let fd = p.open(cut_path(n), OpenFlags::RDONLY, 0).expect("open");
                p.pread(fd, Dest::Bytes(&mut gap), 100).expect("read");
                assert_eq!(gap, [0; 50], "file {n}");
                p.close(fd).expect("close");
            }
        });
    }
}

/// Power fails while attributes of a full file system change: each change is there or not, and those that
/// returned are.
pub fn a_full_file_system_loses_power_while_attributes_change<S: Subject>(subject: &S, instants: u64) {
    const FILES: u64 = 120;
    let span: Arc<Mutex<(Nanos, Nanos)>> = Arc::default();
    for k in 0..=instants {
        let (begin, end) = *span.lock();
        let at = (k > 0).then(|| Nanos(begin.0 + (end.0 - begin.0) * k / (instants + 1)));
        let (noted, done) = (span.clone(), Arc::new(Mutex::new(0u64)));
        let count = done.clone();
        let before = move |m: &Mounted<S>| {
            let mut p = full_of_files(m, FILES);
            p.sync().expect("sync");
            let begin = now();
            for n in 0..FILES {
                change(&mut p, n).expect("changes");
                p.sync().expect("sync");
                *count.lock() += 1;
            }
            *noted.lock() = (begin, now());
            granary_sim::power_fail();
        };
        let after = move |m: &Mounted<S>| {
            let (mut p, done, mut cut) = (m.process(), *done.lock(), Vec::new());
            for n in 0..FILES {
                let is =
                    is_changed(&mut p, n).unwrap_or_else(|| panic!("file {n} is torn after {done} changes"));
                assert!(n == done || is == (n < done), "file {n} after {done} changes: {is}");
                cut.extend((is && n % 4 == 0).then_some(n));
            }
            // Bytes that a truncation cut off are zero, if they are there again.
            for n in cut {
                p.truncate(cut_path(n), LEN).expect("grows");
                let mut end = [1; 1000];
                let fd = p.open(cut_path(n), OpenFlags::RDONLY, 0).expect("open");
                p.pread(fd, Dest::Bytes(&mut end), LEN - 1000).expect("read");
                assert!(end.iter().all(|b| *b == 0), "file {n}");
                p.close(fd).expect("close");
            }
        };
        fail_and_look(subject, drive(Bytes::mib(32)), at, before, after);
    }
}
