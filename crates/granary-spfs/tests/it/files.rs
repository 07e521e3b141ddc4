//! Single files: the tier that has each byte, and the content that stays when names, sizes and states change.

use crate::common::{Rig, Stack};
use granary_fs::{Allocate, Caller, FsError, Time, flag};
use granary_spfs::exthash::Form;
use granary_spfs::{Consistency, MkfsOptions, MountOptions, PromotionCopy};
use granary_suite::suite::run;
use granary_units::{Bytes, Nanos, Payload};
use granary_vfs::{Change, OpenFlags, Posix, SetTime};

const SIZE: Bytes = Bytes::mib(32);

/// Promotion by the second fsync, no demotion unless a test makes one.
fn calm() -> Stack {
    let mount = MountOptions { promote_after: 2, demotion: false, ..MountOptions::default() };
    Stack::new(MkfsOptions { segment: 4, ..MkfsOptions::default() }, mount)
}

/// The thirtieth fsync promotes, and pauses of a second begin anew.
#[test]
fn thirty_fsyncs_promote() {
    run(|| {
        let mut stack = calm();
        stack.mount.promote_after = MountOptions::default().promote_after;
        let mut rig = Rig::new(&stack, SIZE);
        let fd = rig.p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("created");
        for round in 0..2 {
            for n in 0..29 {
                rig.put(fd, n * 100, n, 100);
                rig.p.fsync(fd).expect("fsync");
            }
            assert_eq!(rig.fs.stats().promoted, 0);
            if round == 0 {
                granary_sim::sleep(Nanos::from_millis(1000));
            }
        }
        rig.p.fsync(fd).expect("fsync");
        assert_eq!(rig.fs.stats().promoted, 0, "29 after the one that came late");
        rig.p.fsync(fd).expect("fsync");
        assert_eq!(rig.fs.stats().promoted, 1);
        let fd = rig
            .p
            .open("/g", OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::DSYNC, 0o644)
            .expect("created");
        (0..30).for_each(|n| rig.put(fd, n * 100, n, 100));
        assert_eq!(rig.fs.stats().promoted, 2, "O_DSYNC writes are sync points");
        rig.check();
    });
}

/// Pieces of the lower file and of persistent memory read as one file, whichever way the bytes came.
#[test]
fn every_byte_comes_from_its_master() {
    run(|| {
        for form in [Form::Carved, Form::Pointers] {
            for promotion_copy in [PromotionCopy::Piece, PromotionCopy::Extent] {
                for consistency in [Consistency::Data, Consistency::Meta] {
                    let mut stack = calm();
                    stack.mkfs.form = form;
                    stack.mount = MountOptions { promotion_copy, consistency, piece: 2, ..stack.mount };
                    let mut rig = Rig::new(&stack, SIZE);
                    let fd = rig.tiered("/f", 300_000);
                    let mut expected = rig.content(fd);
                    for (i, (pos, len)) in
                        [(5, 10), (4090, 12), (100_000, 50_000), (299_000, 70_000), (99_999, 3), (8192, 4096)]
                            .into_iter()
                            .enumerate()
                    {
                        let word = 0x1111_1111_1111_1111 * (i as u64 + 2);
                        rig.put(fd, pos, word, len);
                        expected.resize(expected.len().max(pos as usize + len), 0);
                        Payload::Fill { word, len }
                            .copy_to(pos, &mut expected[pos as usize..pos as usize + len]);
                        assert!(rig.content(fd) == expected, "write {i}");
                    }
                    rig.check();
                    rig.p.close(fd).expect("close");
                    let mut rig = rig.remounted();
                    assert_eq!(rig.fs.stats().tiered, 1);
                    let fd = rig.p.open("/f", OpenFlags::RDWR, 0).expect("there");
                    assert!(rig.content(fd) == expected, "after a remount");
                    rig.fs.demote_all().expect("demoted");
                    assert_eq!(rig.fs.stats().tiered, 0);
                    assert!(rig.content(fd) == expected, "after the demotion");
                    rig.check();
                }
            }
        }
    });
}

/// A file that shrinks and grows again shows zeros, whatever is below or was in persistent memory.
#[test]
fn what_was_cut_off_does_not_come_back() {
    run(|| {
        let mut rig = Rig::new(&calm(), SIZE);
        let fd = rig.tiered("/f", 100_000);
        rig.put(fd, 50_000, 7, 20_000);
        rig.p.ftruncate(fd, 60_001).expect("cut");
        rig.p.ftruncate(fd, 150_000).expect("grown");
        let content = rig.content(fd);
        assert!(content[60_001..].iter().all(|b| *b == 0) && content[60_000] == 7 || content[59_992] == 7);
        rig.put(fd, 140_000, 9, 5);
        rig.p.ftruncate(fd, 10).expect("cut");
        rig.p.ftruncate(fd, 150_000).expect("grown");
        assert!(rig.content(fd)[10..].iter().all(|b| *b == 0));
        rig.fs.demote_all().expect("demoted");
        assert!(rig.content(fd)[10..].iter().all(|b| *b == 0));
        rig.check();
    });
}

/// Names are the lower file system's: a tiered file keeps its bytes under another one, under two, and without
/// any.
#[test]
fn a_tiered_file_keeps_its_bytes_whatever_its_name_is() {
    run(|| {
        let mut rig = Rig::new(&calm(), SIZE);
        let fd = rig.tiered("/f", 5000);
        rig.put(fd, 0, 5, 5000);
        rig.p.mkdir("/d", 0o755).expect("mkdir");
        rig.p.rename("/f", "/d/g").expect("renamed");
        rig.p.link("/d/g", "/h").expect("linked");
        rig.p.setxattr("/h", b"user.a", b"v", granary_fs::SetXattr::Any).expect("set");
        rig.p.chmod("/h", 0o600).expect("chmod");
        rig.p.utimens("/h", SetTime::Omit, SetTime::At(Time(77))).expect("times");
        rig.p.close(fd).expect("close");
        let mut rig = rig.remounted();
        let stat = rig.p.stat("/h").expect("stat").attr;
        assert_eq!((stat.mode, stat.mtime, stat.size, stat.nlink), (0o600, Time(77), 5000, 2));
        let fd = rig.p.open("/d/g", OpenFlags::RDWR, 0).expect("open");
        let other = rig.tiered("/other", 100);
        rig.p.rename("/other", "/d/g").expect("over it");
        rig.p.unlink("/h").expect("unlinked");
        rig.put(fd, 0, 6, 100);
        assert_eq!(rig.content(fd)[..8], [6, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(rig.fs.stats().tiered, 2);
        rig.p.close(fd).expect("close");
        assert_eq!(rig.fs.stats().tiered, 1, "the last close frees it");
        rig.p.close(other).expect("close");
        rig.p.unlink("/d/g").expect("unlinked");
        rig.p.sync().expect("sync");
        let used = rig.fs.stats().used_percent;
        rig.check();
        let rig = rig.remounted();
        assert_eq!((rig.fs.stats().tiered, rig.fs.stats().used_percent), (0, used));
    });
}

/// Flags that forbid writing demote before nothing can be written below any more; a punch is done where the
/// bytes are.
#[test]
fn calls_that_are_the_lower_file_systems_demote_first() {
    run(|| {
        let mut rig = Rig::new(&calm(), SIZE);
        let fd = rig.tiered("/f", 100_000);
        rig.put(fd, 0, 5, 100_000);
        rig.p.fallocate(fd, Allocate::PunchHole, 8192, 8192).expect("punched");
        assert_eq!(rig.fs.stats().tiered, 1);
        let content = rig.content(fd);
        assert!(content[8192..16_384].iter().all(|b| *b == 0) && content[16_384] == 5 && content[8184] == 5);
        rig.fs.demote_all().expect("demoted");
        assert!(rig.content(fd) == content, "the lower file has the hole");
        let fd = rig.tiered("/g", 100);
        rig.put(fd, 0, 5, 100);
        let node = rig.vfs.lookup(&Caller::KERNEL, &rig.vfs.root(), b"g").expect("there");
        rig.vfs.setattr(&Caller::KERNEL, &node, &Change::flags(flag::IMMUTABLE)).expect("immutable");
        assert_eq!(rig.fs.stats().tiered, 0);
        assert_eq!(rig.p.open("/g", OpenFlags::RDWR, 0), Err(FsError::NotPermitted));
        rig.check();
    });
}

/// Read-intensive files and those written in large pieces leave; small synchronous writes stay.
#[test]
fn files_leave_by_their_use() {
    run(|| {
        let mut stack = calm();
        stack.mount = MountOptions { promote_after: 2, ..MountOptions::default() };
        let mut rig = Rig::new(&stack, SIZE);
        let (read, kept) = (rig.tiered("/read", 5000), rig.tiered("/kept", 5000));
        for n in 0..140 {
            rig.content(read);
            rig.put(kept, n * 10, n, 10);
            rig.p.fsync(kept).expect("fsync");
        }
        assert_eq!(rig.fs.stats().demoted, 0, "at the next tick");
        granary_sim::sleep(Nanos::from_millis(1100));
        assert_eq!((rig.fs.stats().demoted, rig.fs.stats().tiered), (1, 1));
        rig.put(kept, 0, 1, 10);
        rig.check();
    });
}
