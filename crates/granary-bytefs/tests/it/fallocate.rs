//! fallocate: with a data journal one transaction for each call; on a full file system all that is there, to
//! the block.

use crate::common::{assert_clean, format, in_world, open, strict};
use granary_bytefs::{ByteFs, DataMode, MountOptions};
use granary_fs::{Allocate, Cred, FsError};
use granary_units::{Dest, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const PAGE: u64 = 4096;
const KEEP: Allocate = Allocate::Reserve { keep_size: true };
const GROW: Allocate = Allocate::Reserve { keep_size: false };
const ZERO: Allocate = Allocate::ZeroRange { keep_size: true };
/// Extents that an inode holds (SPEC).
const INLINE: u64 = 3;
const ZERO_GROW: Allocate = Allocate::ZeroRange { keep_size: false };

fn mounted(mib: u64) -> (Arc<ByteFs>, Process) {
    mounted_as(mib, DataMode::Journal)
}

fn mounted_as(mib: u64, data: DataMode) -> (Arc<ByteFs>, Process) {
    let drive = strict(mib);
    format(&drive);
    let options = MountOptions { data, ..MountOptions::default() };
    let fs = open(&drive, &options);
    let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("mounts");
    (fs, Process::new(vfs, Cred::ROOT))
}

fn create(p: &mut Process, name: &str) -> Fd {
    p.open(name, OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates")
}

fn fill(p: &mut Process, fd: Fd, pages: u64) {
    let bytes = vec![7; (pages * PAGE) as usize];
    assert_eq!(p.pwrite(fd, Payload::Bytes(&bytes), 0), Ok(bytes.len()));
}

/// The file has `size` bytes, zeros in `zeros` and sevens elsewhere.
fn assert_content(p: &mut Process, fd: Fd, size: u64, zeros: std::ops::Range<u64>) {
    let mut found = vec![1; size as usize + 1];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut found), 0), Ok(size as usize));
    let wrong = (0..size).find(|&i| found[i as usize] != if zeros.contains(&i) { 0 } else { 7 });
    assert_eq!(wrong, None, "byte that is not as expected");
}

#[test]
fn a_call_is_one_transaction() {
    in_world(|| {
        let (fs, mut p) = mounted(64);
        let fd = create(&mut p, "/f");
        fill(&mut p, fd, 600);
        let one = |p: &mut Process, how, pos, len| {
            let before = fs.stats().transactions;
            p.fallocate(fd, how, pos, len).expect("there is room");
            assert_eq!(fs.stats().transactions - before, 1, "{how:?} {pos} {len}");
            p.sync().expect("syncs");
            assert_clean(&fs);
        };
        // Few lines at one edge, many at the other; more whole pages than a record holds.
        one(&mut p, Allocate::PunchHole, 10 * PAGE - 5, 560 * PAGE + 3000);
        assert_content(&mut p, fd, 600 * PAGE, 10 * PAGE - 5..570 * PAGE + 2995);
        one(&mut p, ZERO, 5 * PAGE + 100, 580 * PAGE);
        assert_content(&mut p, fd, 600 * PAGE, 5 * PAGE + 100..585 * PAGE + 100);
        one(&mut p, ZERO_GROW, 5 * PAGE, 700 * PAGE + 1);
        assert_content(&mut p, fd, 705 * PAGE + 1, 5 * PAGE..705 * PAGE + 1);
        one(&mut p, KEEP, 0, 800 * PAGE);
        one(&mut p, Allocate::PunchHole, 4 * PAGE + 1, 10);
        p.ftruncate(fd, 1000 * PAGE).expect("grows");
        one(&mut p, GROW, 900 * PAGE + 7, 300 * PAGE);
        let end = 1200 * PAGE + 7;
        assert_eq!(p.fstat(fd).expect("stat").attr.size, end);
    });
}

/// Neither a hole in the middle of an extent nor zeroing needs what is not there; the pages next to it stay.
#[test]
fn on_a_full_file_system_pages_are_zeroed_in_their_places() {
    in_world(|| {
        let (fs, mut p) = mounted(16);
        let fd = create(&mut p, "/f");
        fill(&mut p, fd, 100);
        let rest = create(&mut p, "/rest");
        let mut size = 0;
        for len in [64 * PAGE, PAGE] {
            while p.fallocate(rest, GROW, size, len) != Err(FsError::NoSpace) {
                size += len;
            }
        }
        let free = p.statfs().expect("statfs").free_blocks;
        let before = fs.stats().transactions;
        p.fallocate(fd, ZERO, 3 * PAGE + 1, 20 * PAGE).expect("needs no space");
        assert_eq!(fs.stats().transactions - before, 1);
        assert_content(&mut p, fd, 100 * PAGE, 3 * PAGE + 1..23 * PAGE + 1);
        // More than a record of this journal area holds: 30 pages.
        p.fallocate(fd, ZERO, 3 * PAGE + 1, 80 * PAGE).expect("needs no space");
        assert_content(&mut p, fd, 100 * PAGE, 3 * PAGE + 1..83 * PAGE + 1);
        assert_eq!(p.statfs().expect("statfs").free_blocks, free);
        assert_eq!(p.fallocate(rest, GROW, size, 64 * PAGE), Err(FsError::NoSpace));
        assert_eq!(p.statfs().expect("statfs").free_blocks, free, "what was promised is given back");
        // A file without a name.
        p.unlink("/f").expect("removes");
        p.fallocate(fd, ZERO, PAGE + 1, 90 * PAGE).expect("needs no space");
        assert_content(&mut p, fd, 100 * PAGE, PAGE + 1..91 * PAGE + 1);
        p.close(fd).expect("closes");
        p.sync().expect("syncs");
        assert_clean(&fs);
    });
}

/// Space that statfs offers can be reserved, in pieces of any size, but for the extent blocks that the pieces
/// really take.
#[test]
fn the_last_blocks_of_a_file_system_can_be_reserved() {
    let modes = [DataMode::Ordered, DataMode::Journal];
    for (data, piece) in modes.into_iter().flat_map(|d| [1, 3, 700, u64::MAX].map(|piece| (d, piece))) {
        in_world(move || {
            let (fs, mut p) = mounted_as(16, data);
            // As many extents as an inode holds: the next that joins none takes an extent block, with the
            // block that names it.
            let fd = create(&mut p, "/f");
            for n in 0..INLINE {
                p.fallocate(fd, KEEP, (100_000 + 2 * n) * PAGE, PAGE).expect("there is room");
            }
            p.sync().expect("syncs");
            let mut size = 0;
            loop {
                let left = p.statfs().expect("statfs").available_blocks();
                let Some(most) = Some(piece.min(left)).filter(|&n| n > 0) else { break };
                let before = fs.stats().transactions;
                let fits = (0..=2).map(|less| most - less).find(|n| {
                    let done = p.fallocate(fd, GROW, size, n * PAGE);
                    assert!(matches!(done, Ok(()) | Err(FsError::NoSpace)), "{done:?}");
                    assert!(done.is_ok() || p.statfs().expect("statfs").available_blocks() == left);
                    done.is_ok()
                });
                size +=
                    PAGE * fits.expect("what is left but for an extent block and the block that names it");
                if data == DataMode::Journal {
                    assert_eq!(fs.stats().transactions - before, 1);
                }
            }
            p.sync().expect("syncs");
            assert_eq!(fs.stats().reserved_blocks, 0, "{data:?} {piece}");
            assert_clean(&fs);
        });
    }
}
