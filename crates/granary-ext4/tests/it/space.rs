//! Space, size and number: full file systems, large directories, large files.

use crate::common::{Mounted, Subject, fresh};
use granary_ext4::MkfsOptions;
use granary_fs::{FileKind, FsError, RenameFlags};
use granary_suite::suite::{create, drive, fill, run};
use granary_units::{Bytes, Dest};
use granary_vfs::{Posix, Process};

/// A file takes exactly what statfs says is free; what one unlink gives back can be written again at once.
#[test]
fn no_space_comes_exactly_when_nothing_is_left() {
    run(|| {
        let drive = drive(Bytes::mib(64));
        let m = fresh(&drive);
        let mut p = m.process();
        let small = create(&mut p, "/small");
        p.pwrite(small, fill(7, 10 * 4096), 0).expect("write");
        p.fsync(small).expect("fsync");
        p.close(small).expect("close");
        let fd = create(&mut p, "/all");
        let free = p.statfs().expect("statfs").free_blocks;
        let mut written = 0;
        let error = loop {
            match p.pwrite(fd, fill(written + 1, 4096), written * 4096) {
                Ok(_) => written += 1,
                Err(e) => break e,
            }
        };
        assert_eq!((error, written), (FsError::NoSpace, free));
        assert_eq!(p.statfs().expect("statfs").free_blocks, 0);
        p.fsync(fd).expect("everything promised can be written");
        let mkdir = p.mkdir("/no", 0o755);
        assert_eq!(mkdir, Err(FsError::NoSpace));
        // Full or not, files can be removed, and their space is there again.
        p.unlink("/small").expect("unlink on a full file system");
        assert_eq!(p.statfs().expect("statfs").free_blocks, 10);
        for i in 0..10 {
            p.pwrite(fd, fill(5, 4096), (free + i) * 4096).expect("write");
        }
        assert_eq!(p.pwrite(fd, fill(5, 4096), (free + 10) * 4096), Err(FsError::NoSpace));
        p.fsync(fd).expect("fsync");
        for i in [0, free / 2, free - 1] {
            let mut buf = [0; 8];
            p.pread(fd, Dest::Bytes(&mut buf), i * 4096).expect("read");
            assert_eq!(u64::from_le_bytes(buf), i + 1);
        }
        p.close(fd).expect("close");
        m.check();
        p.unlink("/all").expect("unlink");
        p.mkdir("/yes", 0o755).expect("mkdir");
        m.check();
    });
}

/// Inodes run out, too, and come back.
#[test]
fn inodes_run_out_and_come_back() {
    run(|| {
        let drive = drive(Bytes::mib(64));
        let mkfs = MkfsOptions { inode_ratio: Bytes::kib(512), ..MkfsOptions::default() };
        let m = Mounted::fresh(&Subject { mkfs, ..Subject::default() }, &drive);
        let mut p = m.process();
        let free = p.statfs().expect("statfs").free_inodes;
        for i in 0..free {
            p.mknod(format!("/{i}"), granary_fs::FileKind::Fifo, 0o600, 0).expect("mknod");
        }
        assert_eq!(p.mkdir("/more", 0o700), Err(FsError::NoSpace));
        m.check();
        for i in 0..free {
            p.unlink(format!("/{i}")).expect("unlink");
        }
        assert_eq!(p.statfs().expect("statfs").free_inodes, free);
        m.check();
    });
}

/// Long transactions: more blocks in a directory tree than the journal holds.
#[test]
fn a_small_journal_is_enough_for_any_amount() {
    run(|| {
        let drive = drive(Bytes::mib(512));
        let mkfs = MkfsOptions { journal_size: Some(Bytes::mib(4)), ..MkfsOptions::default() };
        let m = Mounted::fresh(&Subject { mkfs, ..Subject::default() }, &drive);
        let mut p = m.process();
        for d in 0..3000 {
            p.mkdir(format!("/d{d}"), 0o755).expect("mkdir");
            for f in 0..4 {
                let fd = create(&mut p, &format!("/d{d}/{f}"));
                p.write(fd, fill(3, 100)).expect("write");
                p.close(fd).expect("close");
            }
        }
        let stats = m.fs.journal_stats();
        assert!(stats.superblock_writes > 1 && stats.commits > 3, "{stats:?}");
        m.check();
    });
}

/// Links are counted up to 65,000, as the kernel does; a directory with more (feature dir_nlink) has 1, for
/// good, and takes and gives away directories in every way. A file gets no more.
#[test]
fn a_directory_has_more_subdirectories_than_links_are_counted() {
    const COUNTED: u32 = 64_998;
    const ALL: u32 = 66_000;
    run(|| {
        let drive = drive(Bytes::gib(2));
        let m = fresh(&drive);
        let mut p = m.process();
        let name = |i: u32| format!("/many/{i}");
        let links = |p: &mut Process, path: &str| p.stat(path).expect("stat").attr.nlink;
        ["/many", "/few", "/few/a"].iter().for_each(|d| p.mkdir(d, 0o755).expect("mkdir"));
        (0..COUNTED).for_each(|i| p.mkdir(name(i), 0o755).expect("mkdir"));
        assert_eq!(links(&mut p, "/many"), 65_000);
        p.mknod("/few/file", FileKind::File, 0o644, 0).expect("mknod");
        let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
        // A directory for a directory changes no count; one for a file does.
        p.rename_with("/few/a", name(0), exchange).expect("exchanged");
        assert_eq!((links(&mut p, "/many"), links(&mut p, "/few")), (65_000, 3));
        p.rename("/few/a", name(0)).expect("replaced");
        assert_eq!((links(&mut p, "/many"), links(&mut p, "/few")), (65_000, 2));
        p.rename_with(name(0), name(1), exchange).expect("exchanged");
        assert_eq!(links(&mut p, "/many"), 65_000);
        p.mkdir("/few/a", 0o755).expect("mkdir");
        p.rename("/few/a", name(COUNTED)).expect("moved in");
        assert_eq!((links(&mut p, "/many"), links(&mut p, "/few")), (1, 2));
        p.rename_with("/few/file", name(1), exchange).expect("exchanged");
        assert_eq!((links(&mut p, "/many"), links(&mut p, "/few")), (1, 3));
        p.rename_with("/few/file", name(1), exchange).expect("exchanged");
        assert_eq!((links(&mut p, "/many"), links(&mut p, "/few")), (1, 2));
        (COUNTED + 1..ALL).for_each(|i| p.mkdir(name(i), 0o755).expect("mkdir"));
        m.check();
        p.exit();
        let m = m.remounted();
        let mut p = m.process();
        assert_eq!(links(&mut p, "/many"), 1);
        assert_eq!(p.list("/many").expect("list").len() as u32, ALL + 2);
        p.rename(name(3), name(2)).expect("an empty directory is replaced");
        (0..ALL).filter(|i| *i != 3).for_each(|i| p.rmdir(name(i)).expect("rmdir"));
        assert_eq!(links(&mut p, "/many"), 1);
        m.check();
        p.rmdir("/many").expect("rmdir");
        m.check();
        for i in 1..65_000 {
            p.link("/few/file", format!("/few/{i}")).expect("link");
        }
        assert_eq!(p.link("/few/file", "/few/more"), Err(FsError::TooManyLinks));
    });
}
