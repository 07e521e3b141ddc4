//! Promises of the caches about time: read-ahead, write-back by age and by pressure, errors told once. Also,
//! the checker of histories refuses histories that no serial order explains.

use granary_fs::{Cred, DirtyPages, FsError, Inode};
use granary_sim::{World, now, sleep};
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_suite::model::{Op, Outcome, check_history, run_concurrently};
use granary_suite::reference::Limits;
use granary_units::{Bytes, Dest, Nanos, PAGE_SIZE, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const LATENCY: Nanos = Nanos::from_micros(100);

fn in_world(f: impl FnOnce(Arc<MemFs>, Process) + 'static) {
    with_config(VfsConfig::default(), f)
}

fn with_config(config: VfsConfig, f: impl FnOnce(Arc<MemFs>, Process) + 'static) {
    let run = World::default().run(move || {
        let fs = Arc::new(MemFs::new(MemFsConfig { latency: LATENCY, ..MemFsConfig::default() }));
        let vfs = Vfs::mount(fs.clone(), config).expect("mount");
        f(fs, Process::new(vfs, Cred::ROOT));
    });
    run.expect("no deadlock");
}

fn create(p: &mut Process, path: &str, pages: usize) -> granary_vfs::Fd {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open");
    p.write(fd, Payload::Fill { word: 7, len: pages * PAGE_SIZE }).expect("write");
    fd
}

#[test]
fn a_small_file_is_read_in_one_call() {
    in_world(|fs, mut p| {
        let fd = create(&mut p, "/f", 8);
        p.close(fd).expect("close");
        let vfs = p.vfs().clone();
        p.exit();
        vfs.unmount().expect("unmount");
        let mut p = Process::new(Vfs::mount(fs, VfsConfig::default()).expect("mount"), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDONLY | OpenFlags::NOATIME, 0).expect("open");
        let before = now();
        for _ in 0..8 {
            assert_eq!(p.read(fd, Dest::Discard(PAGE_SIZE)), Ok(PAGE_SIZE));
        }
        assert_eq!(now() - before, LATENCY);
    });
}

#[test]
fn dirty_pages_are_written_after_thirty_seconds_and_not_before() {
    in_world(|_, mut p| {
        create(&mut p, "/f", 3);
        sleep(Nanos::from_secs(29));
        assert_eq!(p.vfs().cache_stats().dirty, 3);
        sleep(Nanos::from_secs(7));
        assert_eq!((p.vfs().cache_stats().dirty, p.vfs().cache_stats().written), (0, 3));
    });
}

#[test]
fn writers_wait_while_too_much_is_dirty() {
    let config = VfsConfig { page_cache: Bytes::mib(4), ..VfsConfig::default() };
    with_config(config, |_, mut p| {
        for n in 0..40 {
            create(&mut p, &format!("/{n}"), 16);
            let stats = p.vfs().cache_stats();
            assert!(stats.dirty <= 1024 / 5, "{stats:?}");
            assert!(stats.pages <= 1024, "{stats:?}");
        }
        assert!(p.vfs().cache_stats().written > 400);
    });
}

#[test]
fn a_write_back_error_is_told_to_one_fsync() {
    in_world(|fs, mut p| {
        let fd = create(&mut p, "/f", 3);
        fs.set_write_faults(true);
        sleep(Nanos::from_secs(40));
        fs.set_write_faults(false);
        assert_eq!(p.fsync(fd), Err(MemFs::injected()));
        assert_eq!(p.fsync(fd), Ok(()));
    });
}

/// The size on media grows over the page of an old end only when zeros are there: the test file system looks.
#[test]
fn a_direct_write_behind_an_end_that_grew_in_memory_shows_nothing_of_before() {
    in_world(|_, mut p| {
        let fd = create(&mut p, "/f", 1);
        p.fsync(fd).expect("fsync");
        p.ftruncate(fd, 1000).expect("truncate");
        p.pwrite(fd, Payload::Bytes(b"far"), 50_000).expect("write");
        let direct = p.open("/f", OpenFlags::RDWR | OpenFlags::DIRECT, 0).expect("open");
        p.pwrite(direct, Payload::Fill { word: 7, len: 4096 }, 200_704).expect("direct write");
    });
}

#[test]
fn a_read_only_descriptor_does_not_write_and_a_write_only_one_does_not_read() {
    in_world(|_, mut p| {
        let r = p.open("/f", OpenFlags::CREAT | OpenFlags::RDONLY, 0o644).expect("open");
        let w = p.open("/f", OpenFlags::WRONLY, 0).expect("open");
        assert_eq!(p.write(r, Payload::Bytes(b"x")), Err(FsError::BadFd));
        assert_eq!(p.read(w, Dest::Discard(1)), Err(FsError::BadFd));
    });
}

#[test]
fn a_history_that_nothing_explains_is_refused() {
    in_world(|_, p| {
        let path = || "/f".to_owned();
        let exclusive = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::RDWR;
        let open = || vec![Op::Open { path: path(), flags: exclusive, mode: 0o600 }];
        let limits = Limits { max_file_size: 1 << 40, max_links: 100 };
        let mut history = run_concurrently(p.vfs(), vec![], vec![open(), open(), vec![Op::Unlink(path())]])
            .expect("a tree");
        assert_eq!(check_history(&history, limits, 100_000), Ok(()));
        // One more exclusive create that "worked".
        for events in &mut history.tasks[..2] {
            events[0].outcome = Outcome::Fd(granary_vfs::Fd(0));
            events[0].hint = Some(9);
        }
        history.tasks[2][0].outcome = Outcome::Failed(FsError::NoEntry);
        let why = check_history(&history, limits, 100_000).expect_err("two cannot both create it");
        assert!(why.starts_with("no serial order explains"), "{why}");
    });
}

/// Closed files leave memory; what could not be written then is told to who syncs the file later, once, or to
/// who unmounts.
#[test]
fn a_write_back_error_is_told_when_the_inode_has_left_memory_meanwhile() {
    for synced in [true, false] {
        with_config(VfsConfig { inodes: 4, ..VfsConfig::default() }, move |fs, mut p| {
            let fd = create(&mut p, "/f", 3);
            p.close(fd).expect("close");
            fs.set_write_faults(true);
            for n in 0..20 {
                let fd = p.open(format!("/{n}"), OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open");
                p.close(fd).expect("close");
            }
            assert_eq!(p.vfs().cache_stats().dirty, 0, "it was written back when it left");
            fs.set_write_faults(false);
            if synced {
                let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
                assert_eq!(p.fsync(fd), Err(MemFs::injected()));
                assert_eq!(p.fsync(fd), Ok(()));
                p.close(fd).expect("close");
            }
            let vfs = p.vfs().clone();
            p.exit();
            assert_eq!(vfs.unmount(), if synced { Ok(()) } else { Err(MemFs::injected()) });
            assert!(fs.has_ended(), "what one file lost keeps nothing else from media");
        });
    }
}

/// A daemon of the file system writes a page of a file back (NILFS2's logs, ext4's ordered data) while the
/// last program leaves.
#[test]
fn an_unmount_waits_for_the_file_systems_own_daemons() {
    in_world(|_, mut p| {
        let fd = create(&mut p, "/f", 1);
        let ino = p.fstat(fd).expect("stat").ino;
        p.close(fd).expect("close");
        let vfs = p.vfs().clone();
        p.exit();
        let lender = vfs.clone();
        let daemon = granary_sim::spawn("daemon", move || {
            let slowly = |_: &Inode, _: u64| {
                sleep(Nanos::from_millis(1));
                Ok(false)
            };
            lender.write_dirty_page(ino, 0, &slowly, &mut |_, _| Ok(()));
        });
        sleep(Nanos::from_micros(10));
        vfs.unmount().expect("nobody has a file open");
        daemon.join();
    });
}
