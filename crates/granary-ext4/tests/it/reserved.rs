//! Reserved and zeroed blocks are unwritten extents: their traffic is the kernel's, and they show zeros or
//! data.

use crate::common::{Mounted, Subject, fresh};
use granary_ext4::{DataMode, MountOptions};
use granary_fs::{Allocate, FsError};
use granary_sim::{now, sleep, sleep_until, spawn};
use granary_suite::suite::{self, LateDrive, create, drive, fill, run};
use granary_units::{Bytes, Dest, Nanos};
use granary_vfs::{Fd, OpenFlags, Posix, Process, Whence};
use std::sync::Arc;

const BLOCK: usize = 4096;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const RESERVE: Allocate = Allocate::Reserve { keep_size: false };

/// A step of a row: its preparation, or the part that is counted.
type Step = Box<dyn Fn(&mut Process, Fd)>;

fn reserve(how: Allocate, pos: u64, len: u64) -> Step {
    Box::new(move |p, fd| p.fallocate(fd, how, pos, len).expect("fallocate"))
}

fn written(len: usize) -> Step {
    Box::new(move |p, fd| {
        p.pwrite(fd, fill(7, len), 0).expect("write");
    })
}

/// `n` writes one behind the other, each with its fdatasync.
fn appends(n: u64, len: usize) -> Step {
    Box::new(move |p, fd| {
        for i in 0..n {
            p.pwrite(fd, fill(i + 1, len), i * len as u64).expect("write");
            p.fdatasync(fd).expect("fdatasync");
            sleep(Nanos::from_millis(5));
        }
    })
}

fn one(at: u64) -> Step {
    Box::new(move |p, fd| {
        p.pwrite(fd, fill(9, BLOCK), at).expect("write");
        p.fdatasync(fd).expect("fdatasync");
    })
}

fn scattered() -> Step {
    Box::new(|p, fd| {
        for i in 0..20u64 {
            p.pwrite(fd, fill(9, BLOCK), (i * 7 + 3) % 20 * 48 * KIB + 4 * KIB).expect("write");
            p.fdatasync(fd).expect("fdatasync");
        }
    })
}

fn both(a: Step, b: Step) -> Step {
    Box::new(move |p, fd| {
        a(p, fd);
        b(p, fd);
    })
}

/// Blocks written by Linux 6.18 in ordered mode, on a drive of `granary export --loop`, mounted with
/// commit=900: everything synced before, an fsync or fdatasync in or after the step.
#[test]
fn what_is_written_into_reserved_space_is_what_the_kernel_writes() {
    let keep = Allocate::Reserve { keep_size: true };
    let zero = Allocate::ZeroRange { keep_size: false };
    let none = || -> Step { Box::new(|_, _| {}) };
    let zeroed = || both(written(MIB as usize), reserve(zero, 200 * KIB, 400 * KIB));
    let rows: Vec<(&str, Step, Step, u64)> = vec![
        ("50 x 4 KiB into 16 MiB", reserve(RESERVE, 0, 16 * MIB), appends(50, BLOCK), 200),
        ("50 x 64 KiB", reserve(RESERVE, 0, 16 * MIB), appends(50, 16 * BLOCK), 950),
        ("50 x 512 B", reserve(RESERVE, 0, 16 * MIB), appends(50, 512), 71),
        ("reserve 1 MiB, then 20 x 4 KiB", none(), both(reserve(RESERVE, 0, MIB), appends(20, BLOCK)), 82),
        ("20 x 4 KiB behind the end", reserve(keep, 0, MIB), appends(20, BLOCK), 80),
        ("50 x 512 B behind the end", reserve(keep, 0, MIB), appends(50, 512), 200),
        ("first block", reserve(RESERVE, 0, MIB), one(0), 4),
        ("block in the middle", reserve(RESERVE, 0, MIB), one(400 * KIB), 4),
        ("second, in the middle", both(reserve(RESERVE, 0, MIB), one(200 * KIB)), one(400 * KIB), 7),
        ("20 scattered", reserve(RESERVE, 0, MIB), scattered(), 101),
        ("reserve", none(), reserve(RESERVE, 0, MIB), 5),
        ("reserve behind the end", none(), reserve(keep, 0, MIB), 5),
        ("zero a part", written(MIB as usize), reserve(zero, 200 * KIB, 400 * KIB), 3),
        ("zero all", written(MIB as usize), reserve(zero, 0, MIB), 3),
        ("zero twice as much", written(MIB as usize), reserve(zero, 0, 2 * MIB), 5),
        ("zero from within a block", written(MIB as usize), reserve(zero, 1000, 400 * KIB), 5),
        ("write into the zeroed part", zeroed(), one(300 * KIB), 7),
        ("write at its beginning", zeroed(), one(200 * KIB), 4),
    ];
    run(move || {
        let drive = drive(Bytes::gib(1));
        let m = fresh(&drive);
        let mut p = m.process();
        let mut beyond = Vec::new();
        for (n, (name, before, step, kernel)) in rows.into_iter().enumerate() {
            let fd = create(&mut p, &format!("/{n}"));
            before(&mut p, fd);
            p.fsync(fd).expect("fsync");
            p.sync().expect("sync");
            sleep(Nanos::from_millis(20));
            let from = m.drive.traffic();
            step(&mut p, fd);
            p.fsync(fd).expect("fsync");
            let ours = m.drive.traffic().since(&from).written() / BLOCK as u64;
            if ours.abs_diff(kernel) * 10 > kernel {
                beyond.push(format!("{name}: kernel {kernel}, ours {ours}"));
            }
            p.close(fd).expect("close");
        }
        m.check();
        assert!(beyond.is_empty(), "{beyond:#?}");
    });
}

/// Space is reserved over blocks of a deleted file, and written to while somebody else commits: after a power
/// failure at any moment it shows zeros or the new data. Fsynced data is there.
#[test]
fn reserved_space_never_shows_what_its_blocks_held_before() {
    const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;
    const NEW: u64 = 0x0e0e_0e0e_0e0e_0e0e;
    const MUCH: u64 = 40 * MIB;
    let until = 900_000_000;
    for (i, data) in [DataMode::Ordered, DataMode::Writeback].into_iter().cycle().take(10).enumerate() {
        let subject =
            Subject { mount: MountOptions { data, ..MountOptions::default() }, ..Subject::default() };
        let at = Nanos(until + 1_000_000 + i as u64 * 3_700_000);
        let before = move |m: &Mounted| {
            let mut p = m.process();
            let fd = create(&mut p, "/secret");
            p.pwrite(fd, fill(SECRET, MUCH as usize), 0).expect("write");
            p.close(fd).expect("close");
            p.sync().expect("sync");
            p.unlink("/secret").expect("unlink");
            p.sync().expect("sync");
            let fd = create(&mut p, "/new");
            p.fallocate(fd, RESERVE, 0, MUCH).expect("reserve");
            p.pwrite(fd, fill(NEW, BLOCK), 0).expect("write");
            p.fsync(fd).expect("fsync");
            assert!(now().0 < until, "{}", now());
            sleep_until(Nanos(until));
            let mut q = m.process();
            spawn("others", move || {
                for n in 0.. {
                    let fd = create(&mut q, &format!("/small{n}"));
                    q.fsync(fd).expect("fsync");
                    q.close(fd).expect("close");
                }
            });
            for from in (MIB..MUCH).step_by(3 * MIB as usize) {
                p.pwrite(fd, fill(NEW, MIB as usize), from).expect("write");
            }
            p.fallocate(fd, Allocate::ZeroRange { keep_size: false }, 4 * MIB, 2 * MIB).expect("zero");
            p.fsync(fd).expect("fsync");
            sleep(Nanos::from_secs(1));
        };
        let after = move |m: &Mounted| {
            let mut p = m.process();
            let fd = p.open("/new", OpenFlags::RDONLY, 0).expect("it was fsynced");
            assert_eq!(p.fstat(fd).expect("stat").attr.size, MUCH);
            let mut content = vec![0; MUCH as usize];
            p.pread(fd, Dest::Bytes(&mut content), 0).expect("read");
            let (zero, new) = (0u64.to_le_bytes(), NEW.to_le_bytes());
            assert!(content[..BLOCK].chunks_exact(8).all(|c| c == new), "{data:?}: what was fsynced");
            let other = content.chunks_exact(8).position(|c| c != zero && c != new);
            assert_eq!(other.map(|at| &content[at * 8..][..8]), None, "{data:?}");
        };
        suite::fail_and_look(&subject, Arc::new(LateDrive::new(Bytes::mib(64))), Some(at), before, after);
    }
}

/// Where no block is left for the extent tree, reserved space can be written all the same, and zeroed again;
/// what is beside stays what it is.
#[test]
fn reserved_space_can_be_written_on_a_full_file_system() {
    for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
        write_reserved_space_of_a_full_file_system(data);
    }
}

fn write_reserved_space_of_a_full_file_system(data: DataMode) {
    run(move || {
        let subject =
            Subject { mount: MountOptions { data, ..MountOptions::default() }, ..Subject::default() };
        let m = Mounted::fresh(&subject, &drive(Bytes::mib(64)));
        let mut p = m.process();
        let fd = create(&mut p, "/reserved");
        p.fallocate(fd, RESERVE, 0, MIB).expect("reserve");
        p.fsync(fd).expect("fsync");
        let all = create(&mut p, "/all");
        let mut at = 0;
        while p.pwrite(all, fill(3, BLOCK), at).is_ok() {
            at += BLOCK as u64;
        }
        p.fsync(all).expect("fsync");
        assert_eq!(p.statfs().expect("statfs").free_blocks, 0);
        let word = |p: &mut Process, fd: Fd, block: u64| {
            let mut buf = [0; 8];
            p.pread(fd, Dest::Bytes(&mut buf), block * BLOCK as u64).expect("read");
            u64::from_le_bytes(buf)
        };
        // The second of them needs a fifth extent, which the inode has no room for.
        for round in 1..4u64 {
            for block in (5..250).step_by(24) {
                p.pwrite(fd, fill(round * 1000 + block, BLOCK), block * BLOCK as u64).expect("write");
                if block % 48 == 5 {
                    p.fsync(fd).expect("it has its space");
                }
            }
            p.fsync(fd).expect("it has its space");
        }
        m.vfs.drop_caches();
        for block in 0..256 {
            let wanted = if block % 24 == 5 && block < 250 { 3000 + block } else { 0 };
            assert_eq!(word(&mut p, fd, block), wanted, "block {block}");
        }
        let zero = Allocate::ZeroRange { keep_size: false };
        for block in (5..250).step_by(48) {
            p.fallocate(fd, zero, block * BLOCK as u64, BLOCK as u64).expect("zero");
        }
        m.check();
        p.close(fd).expect("close");
        p.close(all).expect("close");
        p.exit();
        let m = m.remounted();
        let mut p = m.process();
        let fd = create(&mut p, "/reserved");
        for block in 0..256 {
            let wanted = if block % 48 == 29 && block < 250 { 3000 + block } else { 0 };
            assert_eq!(word(&mut p, fd, block), wanted, "block {block}");
        }
        m.check();
    });
}

/// The same, and the power fails at any moment of it: what the blocks held before never shows.
#[test]
fn reserved_space_of_a_full_file_system_shows_no_old_data_after_a_power_failure() {
    const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;
    const NEW: u64 = 0x0e0e_0e0e_0e0e_0e0e;
    let until = 5_000_000_000;
    for (i, data) in
        [DataMode::Ordered, DataMode::Writeback, DataMode::Journal].into_iter().cycle().take(24).enumerate()
    {
        let subject =
            Subject { mount: MountOptions { data, ..MountOptions::default() }, ..Subject::default() };
        let at = Nanos(until + 20_000 + (i as u64 / 3) * 700_000);
        let before = move |m: &Mounted| {
            let mut p = m.process();
            let fd = create(&mut p, "/secret");
            p.pwrite(fd, fill(SECRET, 20 * MIB as usize), 0).expect("write");
            p.close(fd).expect("close");
            p.sync().expect("sync");
            p.unlink("/secret").expect("unlink");
            p.sync().expect("sync");
            let fd = create(&mut p, "/new");
            p.fallocate(fd, RESERVE, 0, 10 * MIB).expect("reserve");
            p.fsync(fd).expect("fsync");
            let (all, mut end) = (create(&mut p, "/all"), 0);
            while p.pwrite(all, fill(3, BLOCK), end).is_ok() {
                end += BLOCK as u64;
            }
            p.sync().expect("sync");
            assert!(now().0 < until, "{}", now());
            sleep_until(Nanos(until));
            for block in (5..2550u64).step_by(24) {
                p.pwrite(fd, fill(NEW, BLOCK), block * BLOCK as u64).expect("write");
                p.fsync(fd).expect("fsync");
            }
            sleep(Nanos::from_secs(1));
        };
        let after = move |m: &Mounted| {
            let mut p = m.process();
            let fd = p.open("/new", OpenFlags::RDONLY, 0).expect("it was fsynced");
            let mut content = vec![0; 10 * MIB as usize];
            p.pread(fd, Dest::Bytes(&mut content), 0).expect("read");
            let (zero, new) = (0u64.to_le_bytes(), NEW.to_le_bytes());
            let other = content.chunks_exact(8).position(|c| c != zero && c != new);
            assert_eq!(other.map(|at| &content[at * 8..][..8]), None, "{data:?}");
        };
        suite::fail_and_look(&subject, Arc::new(LateDrive::new(Bytes::mib(64))), Some(at), before, after);
    }
}

/// Where data is, as SEEK_DATA and SEEK_HOLE tell.
fn parts(p: &mut Process, fd: Fd) -> Vec<(u64, u64)> {
    let (mut at, mut all) = (0, Vec::new());
    loop {
        match p.lseek(fd, at, Whence::Data) {
            Ok(data) => {
                let hole = p.lseek(fd, data as i64, Whence::Hole).expect("at the latest the end");
                all.push((data, hole));
                at = hole as i64;
            }
            Err(FsError::NoDevice) => return all,
            Err(e) => panic!("{e}"),
        }
    }
}

/// Linux (`iomap_seek_hole`): an unwritten extent is a hole but for the pages that are in the cache, dirty or
/// read; a hole is one whatever was read of it. Where each step leaves data is what Linux 6.18 says.
#[test]
fn reserved_space_is_a_hole_but_for_its_pages_in_the_cache() {
    for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
        run(move || {
            let subject =
                Subject { mount: MountOptions { data, ..MountOptions::default() }, ..Subject::default() };
            let m = Mounted::fresh(&subject, &drive(Bytes::mib(64)));
            let mut p = m.process();
            let fd = create(&mut p, "/f");
            p.fallocate(fd, RESERVE, 0, MIB).expect("reserve");
            p.ftruncate(fd, 2 * MIB).expect("grow");
            assert_eq!(parts(&mut p, fd), []);
            assert_eq!(p.lseek(fd, 5000, Whence::Hole), Ok(5000));
            p.pwrite(fd, fill(1, 100), 40 * KIB + 50).expect("write");
            let written = (40 * KIB, 44 * KIB);
            assert_eq!(parts(&mut p, fd), [written]);
            assert_eq!(p.lseek(fd, 41 * KIB as i64, Whence::Data), Ok(41 * KIB));
            p.fsync(fd).expect("fsync");
            m.vfs.drop_caches();
            assert_eq!(parts(&mut p, fd), [written]);
            let mut buf = [0; BLOCK];
            let mut read = |p: &mut Process, at| p.pread(fd, Dest::Bytes(&mut buf), at).expect("read");
            read(&mut p, 80 * KIB);
            read(&mut p, MIB + 80 * KIB);
            let seen = parts(&mut p, fd);
            assert!(seen.len() == 2 && seen[1].0 == 80 * KIB, "{seen:?}");
            m.vfs.drop_caches();
            p.fallocate(fd, Allocate::ZeroRange { keep_size: false }, 42 * KIB, 60 * KIB).expect("zero");
            assert_eq!(parts(&mut p, fd), [written]);
            p.fsync(fd).expect("fsync");
            let taken = |p: &mut Process| p.fstat(fd).expect("stat").attr.blocks;
            let before = taken(&mut p);
            p.ftruncate(fd, 2 * MIB + 100).expect("grow");
            p.ftruncate(fd, 3 * MIB).expect("grow over a hole");
            p.pwrite(fd, fill(1, BLOCK), 3 * MIB + 50).expect("write");
            p.fsync(fd).expect("fsync");
            assert_eq!(taken(&mut p) - before, 16, "what was grown over is a hole still");
            assert_eq!(parts(&mut p, fd), [written, (3 * MIB, 3 * MIB + 50 + BLOCK as u64)]);
            m.check();
        });
    }
}

/// `ext4_punch_hole`: a hole that reaches beyond the end takes the last page whole, and leaves what is
/// reserved behind it.
#[test]
fn a_hole_over_the_end_takes_the_last_page_and_no_more() {
    run(|| {
        let m = fresh(&drive(Bytes::mib(64)));
        let mut p = m.process();
        for (len, kernel) in
            [(36128 - 32133, (9, 36128)), (36229 - 32133, (8, 32 * KIB)), (MIB, (8, 32 * KIB))]
        {
            let fd = create(&mut p, &format!("/{len}"));
            p.pwrite(fd, fill(1, 36128), 0).expect("write");
            p.fallocate(fd, Allocate::Reserve { keep_size: true }, 40 * KIB, 40 * KIB).expect("reserve");
            p.fsync(fd).expect("fsync");
            p.fallocate(fd, Allocate::PunchHole, 32133, len).expect("punch");
            p.fsync(fd).expect("fsync");
            let blocks = p.fstat(fd).expect("stat").attr.blocks / 8 - 10;
            let hole = p.lseek(fd, 0, Whence::Hole).expect("hole");
            assert_eq!((blocks, hole), kernel, "{len}");
            p.fallocate(fd, Allocate::PunchHole, 40 * KIB, 8 * KIB).expect("punch");
            assert_eq!(p.fstat(fd).expect("stat").attr.blocks / 8 - 10, blocks, "reserved behind the end");
            let mut bytes = [1; 36128 - 32133];
            p.pread(fd, Dest::Bytes(&mut bytes), 32133).expect("read");
            assert!(bytes.iter().all(|b| *b == 0));
        }
        m.check();
    });
}
