//! The extent tree grows and shrinks as the kernel's does: the blocks that stat counts are those of
//! Linux 6.18, call for call.

use crate::common::fresh;
use granary_fs::Allocate;
use granary_suite::suite::{create, drive, fill, run};
use granary_units::Bytes;
use granary_vfs::{Fd, Posix, Process};

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

/// `ext4_ext_try_to_merge_up`: the only leaf goes into the inode when an extent comes or changes its kind and
/// all fit; not when extents go.
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

/// The kernel's tree blocks after 1,000 cuts of one extent of 4,096 blocks, in some order.
struct Order {
    name: &'static str,
    place: fn(u64) -> u64,
    /// Blocks of reserved space written, and blocks zeroed, each between others.
    written: u64,
    zeroed: u64,
    /// Holes, and 334 more holes (where a block more or less is let pass).
    punched: [u64; 2],
}

/// Where leaves are split, and which of two takes what comes between them, shows in how many there are after
/// writes, holes and zeros in an order that is not the file's (`ext4_ext_insert_extent`, `ext4_ext_split`).
/// Each file is one extent at first.
#[test]
fn leaves_are_split_where_the_kernel_splits_them() {
    const ALL: u64 = 4096;
    let orders = [
        Order { name: "forward", place: |i| i, written: 7, zeroed: 7, punched: [3, 14] },
        Order { name: "backward", place: |i| 1023 - i, written: 7, zeroed: 7, punched: [3, 13] },
        Order { name: "mixed", place: |i| i * 7919 % 1024, written: 12, zeroed: 12, punched: [6, 8] },
        Order { name: "halves", place: |i| i / 2 + i % 2 * 512, written: 8, zeroed: 8, punched: [4, 13] },
    ];
    for Order { name, place, written, zeroed, punched } in orders {
        let place = move |i| 4 * place(i);
        run(move || {
            let m = fresh(&drive(Bytes::mib(64)));
            let mut p = m.process();
            let fd = create(&mut p, "/reserved");
            p.fallocate(fd, Allocate::Reserve { keep_size: false }, 0, ALL * BLOCK).expect("reserve");
            (0..1000).for_each(|i| write(&mut p, fd, &[place(i) + 1]));
            assert_eq!(taken(&mut p, fd) - ALL, written, "{name}: writes");
            m.check();
        });
        let cut = move |how, holes: bool| {
            let m = fresh(&drive(Bytes::mib(64)));
            let mut p = m.process();
            let fd = create(&mut p, "/f");
            p.pwrite(fd, fill(1, (ALL * BLOCK) as usize), 0).expect("write");
            p.fsync(fd).expect("fsync");
            let one = |p: &mut Process, block| p.fallocate(fd, how, block * BLOCK, BLOCK).expect("fallocate");
            (0..1000).for_each(|i| one(&mut p, place(i) + u64::from(!holes)));
            let first = taken(&mut p, fd);
            if holes {
                (0..1000).step_by(3).for_each(|i| one(&mut p, place(i) + 2));
            }
            m.check();
            (first, taken(&mut p, fd))
        };
        run(move || {
            let (first, more) = cut(Allocate::PunchHole, true);
            let (first, more) = (first - (ALL - 1000), more - (ALL - 1334));
            assert_eq!(first, punched[0], "{name}: holes");
            assert!(more.abs_diff(punched[1]) <= 1, "{name}: {more} after more holes, kernel {}", punched[1]);
        });
        run(move || {
            let (first, _) = cut(Allocate::ZeroRange { keep_size: true }, false);
            assert_eq!(first - ALL, zeroed, "{name}: zeros");
        });
    }
}
