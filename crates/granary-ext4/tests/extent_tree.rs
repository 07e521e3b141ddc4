//! The extent tree grows and shrinks as the kernel's does: the blocks that stat counts are those of Linux 6.18, call for call.

mod common;

use common::fresh;
use granary_units::Bytes;
use granary_vfs::suite::{create, drive, fill, run};
use granary_vfs::{Allocate, Fd, Posix, Process};

const BLOCK: u64 = 4096;

/// Writes these blocks, each with an fsync.
fn write(p: &mut Process, fd: Fd, blocks: &[u64]) {
    for block in blocks {
        p.pwrite(fd, fill(block + 1, BLOCK as usize), block * BLOCK).expect("write");
        p.fsync(fd).expect("fsync");
    }
}

/// Blocks of the file, its tree's included.
fn taken(p: &mut Process, fd: Fd) -> u64 {
    p.fsync(fd).expect("fsync");
    p.fstat(fd).expect("stat").attr.blocks / 8
}

/// `ext4_ext_try_to_merge_up`: the only leaf goes into the inode when an extent comes or changes its kind and all fit; not when
/// extents go.
#[test]
fn a_tree_that_has_become_small_is_folded_into_the_inode() {
    run(|| {
        let m = fresh(&drive(Bytes::mib(64)));
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        write(&mut p, fd, &[0, 2, 4, 6, 8, 10]);
        assert_eq!(taken(&mut p, fd), 6 + 1);
        for block in [10, 8, 6] {
            p.fallocate(fd, Allocate::PunchHole, block * BLOCK, BLOCK).expect("punch");
        }
        assert_eq!(taken(&mut p, fd), 3 + 1, "holes leave the tree");
        write(&mut p, fd, &[0]);
        p.ftruncate(fd, 5 * BLOCK).expect("truncate");
        assert_eq!(taken(&mut p, fd), 3 + 1, "so do an overwrite and a truncation");
        write(&mut p, fd, &[20]);
        assert_eq!(taken(&mut p, fd), 4, "a fourth extent folds it");
        write(&mut p, fd, &[30, 32, 34, 36, 38]);
        assert_eq!(taken(&mut p, fd), 9 + 1);
        write(&mut p, fd, &[31, 33, 35, 37]);
        assert_eq!(taken(&mut p, fd), 13 + 1, "their places do not join");
        m.check();
    });
}

/// In reserved space, where writing cuts extents and joins them. Tree blocks show in stat at once.
#[test]
fn a_tree_over_reserved_space_grows_and_folds() {
    run(|| {
        let m = fresh(&drive(Bytes::mib(64)));
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        p.fallocate(fd, Allocate::Reserve { keep_size: false }, 0, 16 * BLOCK).expect("reserve");
        assert_eq!(taken(&mut p, fd), 16);
        write(&mut p, fd, &[3, 6, 9]);
        assert_eq!(taken(&mut p, fd), 16 + 1);
        for (block, tree) in [(0, 1), (1, 1), (2, 1), (4, 1), (5, 0), (7, 0), (8, 0)] {
            write(&mut p, fd, &[block]);
            assert_eq!(taken(&mut p, fd), 16 + tree, "after block {block}");
        }
        let zero = Allocate::ZeroRange { keep_size: true };
        p.fallocate(fd, zero, 2 * BLOCK, BLOCK).expect("zero");
        p.fallocate(fd, zero, 5 * BLOCK, BLOCK).expect("zero");
        assert_eq!(taken(&mut p, fd), 16 + 1);
        p.fallocate(fd, zero, 0, 16 * BLOCK).expect("zero");
        assert_eq!(taken(&mut p, fd), 16);
        m.check();
        p.close(fd).expect("close");
        p.exit();
        let m = m.remounted();
        m.check();
    });
}
