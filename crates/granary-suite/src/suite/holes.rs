//! Space on request: what fallocate reserves, punches and zeroes, and where seeking says that holes are.

use super::{Mounted, Subject, create, drive, fill, run};
use granary_fs::{Allocate, FsError, Time};
use granary_units::{Bytes, Dest, Payload};
use granary_vfs::Process;
use granary_vfs::{Fd, Posix, SetTime, Whence};

const PAGE: u64 = 4096;
const KEEP: Allocate = Allocate::Reserve { keep_size: true };

fn bytes(p: &mut Process, fd: Fd, pos: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut bytes), pos), Ok(len));
    bytes
}

fn free(p: &mut Process) -> u64 {
    p.sync().expect("sync");
    p.statfs().expect("statfs").free_blocks
}

/// Reserved blocks, within and beyond the end of a file, are taken and read as zeros, also when the file
/// grows over them and after a remount; with the file they go.
pub fn reserved_blocks_read_as_zeros<S: Subject>(subject: &S) {
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::mib(64));
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        p.pwrite(fd, fill(u64::MAX, PAGE as usize), 8 * PAGE).expect("write");
        p.fsync(fd).expect("fsync");
        let empty = free(&mut p);
        let past = SetTime::At(Time(1));
        p.utimens("/f", past, past).expect("utimens");
        p.fallocate(fd, KEEP, 100, 1999 * PAGE).expect("there is room");
        let times = |p: &mut Process| p.stat("/f").map(|s| (s.attr.mtime, s.attr.ctime)).expect("stat");
        let stamped = times(&mut p);
        assert!(stamped.0 > Time(1) && stamped.0 == stamped.1, "{stamped:?}");
        assert_eq!(p.fstat(fd).expect("stat").attr.size, 9 * PAGE);
        let taken = empty - free(&mut p);
        assert!((1999..2100).contains(&taken), "{taken} blocks were taken");
        assert!(p.fstat(fd).expect("stat").attr.blocks >= 2000 * 8);
        // Reserved blocks are data, or holes but for the pages in the cache.
        let hole = p.lseek(fd, 0, Whence::Hole).expect("a hole at the latest at the end");
        assert!(hole == 9 * PAGE || hole == 0, "a hole at {hole}");
        m.check();
        p.exit();
        let m = m.remounted();
        let mut p = m.process();
        assert_eq!(times(&mut p), stamped);
        let fd = create(&mut p, "/f");
        p.fallocate(fd, Allocate::Reserve { keep_size: false }, 100 * PAGE, 100 * PAGE + 7)
            .expect("reserves");
        assert_eq!(p.fstat(fd).expect("stat").attr.size, 200 * PAGE + 7);
        p.ftruncate(fd, 1000 * PAGE).expect("grows");
        p.pwrite(fd, fill(u64::MAX, 10), 999 * PAGE + 50).expect("a reserved page is written in part");
        let zero = |p: &mut Process, from: u64, to: u64| {
            assert!(bytes(p, fd, from, (to - from) as usize).iter().all(|b| *b == 0), "{from}..{to}");
        };
        zero(&mut p, 0, 8 * PAGE);
        zero(&mut p, 9 * PAGE, 999 * PAGE + 50);
        zero(&mut p, 999 * PAGE + 60, 1000 * PAGE);
        // Of an empty file the first block that there is lies far behind; then come its first bytes.
        let g = create(&mut p, "/g");
        p.fallocate(g, KEEP, 5000 * PAGE, 1).expect("there is room");
        p.pwrite(g, fill(u64::MAX, 100), 0).expect("the start is written");
        p.fsync(g).expect("fsync");
        assert!(bytes(&mut p, g, 0, 100).iter().all(|b| *b == 0xff));
        m.check();
        p.unlink("/f").expect("unlink");
        p.unlink("/g").expect("unlink");
        p.close(fd).expect("close");
        p.close(g).expect("close");
        m.check();
        assert!(free(&mut p) >= empty, "reserved blocks are gone for good");
    });
}

/// A reservation for which there is no room fails and leaves everything as it was.
pub fn reserving_too_much_changes_nothing<S: Subject>(subject: &S) {
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::mib(48));
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        for page in (0..3000).step_by(300) {
            p.pwrite(fd, fill(page + 1, PAGE as usize), page * PAGE).expect("write");
        }
        let (before, size) = (free(&mut p), p.fstat(fd).expect("stat").attr.size);
        for how in [KEEP, Allocate::Reserve { keep_size: false }] {
            assert_eq!(p.fallocate(fd, how, 0, 1 << 30), Err(FsError::NoSpace));
            assert_eq!(p.fstat(fd).expect("stat").attr.size, size);
            // Tables and logs may have grown for good.
            assert!(free(&mut p) + 8 >= before, "{} blocks are free, {before} were", free(&mut p));
        }
        m.check();
        for page in (0..3000).step_by(300) {
            assert_eq!(bytes(&mut p, fd, page * PAGE, 8), (page + 1).to_le_bytes());
        }
    });
}

/// Punching gives blocks back and leaves holes, zeroing keeps them; both leave what lies beside alone, and
/// last.
pub fn punched_and_zeroed_ranges_read_as_zeros<S: Subject>(subject: &S) {
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::mib(64));
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        p.pwrite(fd, fill(u64::MAX, 3000 * PAGE as usize), 0).expect("write");
        let (full, alone) = (free(&mut p), m.subject.has_its_space_alone());
        p.fallocate(fd, Allocate::PunchHole, 1000 * PAGE - 5, 1000 * PAGE + 10).expect("punches");
        // Zeroes at the edges may take a page each, where a part of a page has a place of its own (OrchFS).
        assert!(!alone || free(&mut p) + 2 >= full + 1000, "a thousand blocks are back");
        p.fallocate(fd, Allocate::ZeroRange { keep_size: true }, 2500 * PAGE + 1, 2 * PAGE).expect("zeroes");
        assert!(!alone || free(&mut p) <= full + 1010, "zeroed blocks stay");
        p.fallocate(fd, Allocate::PunchHole, 2900 * PAGE, 500 * PAGE).expect("beyond the end, too");
        m.check();
        p.exit();
        let m = m.remounted();
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        assert_eq!(p.fstat(fd).expect("stat").attr.size, 3000 * PAGE);
        assert_eq!(p.lseek(fd, 0, Whence::Hole), Ok(1000 * PAGE));
        assert_eq!(p.lseek(fd, 1000 * PAGE as i64, Whence::Data), Ok(2000 * PAGE));
        assert_eq!(p.lseek(fd, 2950 * PAGE as i64, Whence::Data), Err(FsError::NoDevice));
        let content = bytes(&mut p, fd, 0, 3000 * PAGE as usize);
        let zero =
            [1000 * PAGE - 5..2000 * PAGE + 5, 2500 * PAGE + 1..2502 * PAGE + 1, 2900 * PAGE..3000 * PAGE];
        for (at, byte) in content.iter().enumerate() {
            let expected = if zero.iter().any(|r| r.contains(&(at as u64))) { 0 } else { 0xff };
            assert_eq!(*byte, expected, "byte {at}");
        }
        m.check();
    });
}

/// Takes all that is left for a file, down to its last byte.
fn take_the_rest(p: &mut Process, fd: Fd) {
    let mut at = p.fstat(fd).expect("stat").attr.size;
    let mut len = 1 << 20;
    while len > 0 {
        match p.pwrite(fd, fill(9, len), at) {
            Ok(n) => at += n as u64,
            Err(FsError::NoSpace) => len /= 2,
            Err(e) => panic!("{e}"),
        }
    }
    p.fsync(fd).expect("fsync");
}

/// On a full file system a range is punched or zeroed as a whole, its edges included, or not at all.
pub fn a_refused_hole_changes_nothing<S: Subject>(subject: &S) {
    const LEN: usize = 300_000;
    let subject = subject.clone();
    run(move || {
        let drive = drive(Bytes::mib(48));
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        let (fd, rest) = (create(&mut p, "/f"), create(&mut p, "/rest"));
        let mut content: Vec<u8> = (0..LEN).map(|i| 1 + (i % 251) as u8).collect();
        // Pieces of several sizes, so that they lie in all places that a file system has for them.
        for (i, piece) in content.chunks(70_000).enumerate() {
            let step = [70_000, 100, 5000, 4096, 33_000][i % 5];
            for (j, part) in piece.chunks(step).enumerate() {
                let at = (i * 70_000 + j * step) as u64;
                p.pwrite(fd, Payload::Bytes(part), at).expect("write");
            }
        }
        p.fsync(fd).expect("fsync");
        for i in 0..60_usize {
            take_the_rest(&mut p, rest);
            let (pos, len) = ((i * 7919 * 37) % LEN, 1 + (i * 104_729) % 60_000);
            let how = if i % 3 == 0 { Allocate::ZeroRange { keep_size: true } } else { Allocate::PunchHole };
            match p.fallocate(fd, how, pos as u64, len as u64) {
                Ok(()) => content[pos..LEN.min(pos + len)].fill(0),
                Err(e) => assert_eq!(e, FsError::NoSpace),
            }
            let read = bytes(&mut p, fd, 0, LEN);
            let wrong = (0..LEN).find(|at| read[*at] != content[*at]);
            assert_eq!(wrong, None, "call {i}: {how:?} {pos}, {len}");
        }
        m.check();
    });
}
