//! Content: reading, writing, cutting, holes, the flags of open.

use super::rig::{Rig, each, eventually};
use granary_fs::Caller;
use granary_mount::Operation;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, copy_file_range, fallocate, fcntl_setfl, seek};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

fn open(rig: &Rig, name: &str, flags: OFlags) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(flags.bits() as i32);
    options.open(rig.path(name)).expect(name)
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
}

/// Two blocks of 4 KiB at an address fit for O_DIRECT.
fn aligned(buffer: &mut Vec<u8>) -> &mut [u8] {
    buffer.resize(4 * 4096, 0);
    let skip = buffer.as_ptr().align_offset(4096);
    &mut buffer[skip..skip + 2 * 4096]
}

#[test]
fn what_was_written_is_read_from_cache_and_from_media() {
    each(|rig| {
        let data = pattern(3_000_000, 7);
        fs::write(rig.path("f"), &data).expect("write");
        assert_eq!(fs::read(rig.path("f")).expect("read"), data);
        let mut buffer = Vec::new();
        let direct = open(rig, "f", OFlags::DIRECT);
        let block = aligned(&mut buffer);
        for at in [0, 40_960, 2_994_176] {
            let n = direct.read_at(block, at).expect("O_DIRECT read");
            assert_eq!(n, block.len().min(data.len() - at as usize));
            assert_eq!(block[..n], data[at as usize..at as usize + n], "at {at}");
        }
        assert_eq!(fs::metadata(rig.path("f")).expect("stat").len(), 3_000_000);
    });
}

#[test]
fn direct_and_cached_writes_see_each_other() {
    each(|rig| {
        let cached = open(rig, "f", OFlags::empty());
        cached.write_all_at(&pattern(32_768, 1), 0).expect("write");
        let direct = open(rig, "f", OFlags::DIRECT);
        let mut buffer = Vec::new();
        let block = aligned(&mut buffer);
        block.copy_from_slice(&pattern(8192, 2));
        direct.write_all_at(block, 8192).expect("O_DIRECT write");
        let mut got = vec![0; 32_768];
        cached.read_exact_at(&mut got, 0).expect("cached read");
        assert_eq!(got[8192..16_384], pattern(8192, 2));
        assert_eq!(got[16_384..], pattern(32_768, 1)[16_384..]);
        cached.write_all_at(b"small", 9000).expect("write");
        direct.read_exact_at(block, 8192).expect("O_DIRECT read");
        assert_eq!(&block[808..813], b"small");
        fcntl_setfl(&cached, OFlags::DIRECT).expect("O_DIRECT later");
        cached.read_exact_at(block, 8192).expect("read");
        assert_eq!(&block[808..813], b"small");
    });
}

#[test]
fn appending_goes_to_the_end_whoever_else_writes() {
    each(|rig| {
        let mut log = open(rig, "log", OFlags::APPEND);
        let other = open(rig, "log", OFlags::empty());
        for i in 0..50 {
            log.write_all(format!("{i:04}").as_bytes()).expect("append");
            let end = (i + 1) * 4 + i;
            other.write_all_at(b"|", end).expect("write");
        }
        let text = fs::read_to_string(rig.path("log")).expect("read");
        assert_eq!(text.len(), 250);
        assert!(text.split('|').take(50).enumerate().all(|(i, s)| s == format!("{i:04}")), "{text}");
        log.rewind().expect("seek");
        let mut first = [0; 4];
        log.read_exact(&mut first).expect("read");
        assert_eq!(&first, b"0000");
    });
}

#[test]
fn truncation_cuts_and_extends_with_zeros() {
    each(|rig| {
        let f = open(rig, "f", OFlags::empty());
        f.write_all_at(&pattern(10_000, 3), 0).expect("write");
        f.set_len(5_000).expect("cut");
        f.set_len(9_000).expect("extend");
        let got = fs::read(rig.path("f")).expect("read");
        assert_eq!(got[..5_000], pattern(10_000, 3)[..5_000]);
        assert!(got.len() == 9_000 && got[5_000..].iter().all(|&b| b == 0));
        f.write_all_at(b"end", 1 << 33).expect("sparse: beyond 8 GiB");
        assert_eq!(f.metadata().expect("stat").len(), (1 << 33) + 3);
        let mut hole = vec![1; 100_000];
        f.read_exact_at(&mut hole, 1 << 32).expect("read a hole");
        assert!(hole.iter().all(|&b| b == 0));
        let _cut = File::create(rig.path("f")).expect("O_TRUNC");
        assert_eq!(f.metadata().expect("stat").len(), 0);
        let e = f.set_len(u64::MAX >> 1).expect_err("too large");
        assert!(matches!(e.kind(), ErrorKind::FileTooLarge | ErrorKind::InvalidInput), "{e}");
    });
}

#[test]
fn fallocate_and_lseek_know_holes_where_the_file_system_does() {
    each(|rig| {
        let f = open(rig, "f", OFlags::empty());
        f.write_all_at(&pattern(65_536, 4), 0).expect("write");
        match fallocate(&f, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 8_000, 20_000) {
            Ok(()) => {
                let got = fs::read(rig.path("f")).expect("read");
                let mut want = pattern(65_536, 4);
                want[8_000..28_000].fill(0);
                assert_eq!(got, want);
                f.sync_all().expect("fsync");
                assert_eq!(seek(&f, SeekFrom::Hole(0)).expect("a hole"), 8_192);
                assert_eq!(seek(&f, SeekFrom::Data(8_192)).expect("data"), 24_576);
                fallocate(&f, FallocateFlags::empty(), 65_536, 100_000).expect("reserve");
                assert_eq!(f.metadata().expect("stat").len(), 165_536);
            }
            Err(e) => assert_eq!(e, Errno::OPNOTSUPP, "{}", rig.fs),
        }
        assert_eq!(fallocate(&f, FallocateFlags::COLLAPSE_RANGE, 0, 4096), Err(Errno::OPNOTSUPP));
        let size = f.metadata().expect("stat").len();
        assert_eq!(seek(&f, SeekFrom::Data(size)), Err(Errno::NXIO));
        assert!(seek(&f, SeekFrom::Hole(0)).expect("every file has a hole at its end") <= size);
    });
}

/// The kernel copies, through its page cache: a request of its own does not say whether the target was opened
/// O_SYNC.
#[test]
fn copy_file_range_copies_within_a_file_and_between_files() {
    each(|rig| {
        let (from, to) = (open(rig, "from", OFlags::empty()), open(rig, "to", OFlags::empty()));
        from.write_all_at(&pattern(300_000, 5), 0).expect("write");
        to.write_all_at(&pattern(200_000, 6), 0).expect("write");
        let copy = |from: &File, at: u64, to: &File, pos: u64, len: usize| {
            let (mut at, mut pos, mut left) = (at, pos, len);
            while left > 0 {
                match copy_file_range(from, Some(&mut at), to, Some(&mut pos), left)? {
                    0 => break,
                    n => left -= n,
                }
            }
            Ok::<usize, Errno>(len - left)
        };
        let mut want = pattern(200_000, 6);
        want.resize(1_003 + 250_000, 0);
        want[1_003..].copy_from_slice(&pattern(300_000, 5)[7..250_007]);
        assert_eq!(copy(&from, 7, &to, 1_003, 250_000), Ok(250_000));
        assert_eq!(fs::read(rig.path("to")).expect("read"), want);
        // To the source's end; beyond it nothing; within one file, where the ranges do not overlap.
        assert_eq!(copy(&from, 299_000, &to, 0, 5_000), Ok(1_000));
        assert_eq!(copy(&from, 300_000, &to, 0, 5_000), Ok(0));
        want.copy_within(100_000..150_000, 20_000);
        want[..1_000].copy_from_slice(&pattern(300_000, 5)[299_000..]);
        assert_eq!(copy(&to, 100_000, &to, 20_000, 50_000), Ok(50_000));
        assert_eq!(copy(&to, 0, &to, 4_096, 8_192), Err(Errno::INVAL), "overlapping");
        to.sync_all().expect("fsync");
        assert_eq!(fs::read(rig.path("to")).expect("read"), want);
        let syncs = || rig.mounted().operations().of(Operation::SyncWrite);
        let before = syncs();
        assert_eq!(copy(&from, 0, &open(rig, "synced", OFlags::SYNC), 0, 5_000), Ok(5_000));
        assert!(syncs() > before, "what is written to a file opened O_SYNC is synced");
    });
}

#[test]
fn synchronous_writes_are_synced_before_they_return() {
    each(|rig| {
        let ops = rig.mounted().operations();
        let syncs = || ops.of(Operation::SyncWrite);
        let before = syncs();
        open(rig, "plain", OFlags::empty()).write_all_at(b"x", 0).expect("write");
        assert_eq!(syncs(), before);
        open(rig, "sync", OFlags::SYNC).write_all_at(b"x", 0).expect("write");
        assert_eq!(syncs(), before + 1);
        open(rig, "dsync", OFlags::from_bits_retain(0o10000)).write_all_at(b"x", 0).expect("write");
        assert_eq!(syncs(), before + 2);
    });
}

#[test]
fn space_is_told_and_runs_out_as_it_should() {
    each(|rig| {
        let free = || rustix::fs::statvfs(rig.root()).expect("statvfs");
        let before = free();
        assert!(before.f_bfree > 0 && before.f_blocks >= before.f_bfree && before.f_namemax == 255);
        let f = open(rig, "big", OFlags::empty());
        let chunk = pattern(4 << 20, 9);
        let error =
            (0..).find_map(|i| f.write_all_at(&chunk, i * chunk.len() as u64).err()).expect("it ends");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let size = f.metadata().expect("stat").size();
        assert!(size > 256 << 20, "only {size} bytes fitted");
        f.sync_all().expect("what was accepted can be stored");
        let mut got = vec![0; chunk.len()];
        f.read_exact_at(&mut got, 5 * chunk.len() as u64).expect("read");
        assert_eq!(got, chunk);
        drop(f);
        fs::remove_file(rig.path("big")).expect("unlink");
        let back = eventually(|| {
            rig.vfs.sync(&Caller::KERNEL).expect("sync");
            free().f_bfree + 64 >= before.f_bfree
        });
        assert!(back, "{}: {} of {} blocks came back", rig.fs, free().f_bfree, before.f_bfree);
    });
}
