//! Calls beyond reading, writing and names: space under files, copies, unnamed files, cold caches.

use granary_fs::{Allocate, Call, Caller, Cred, FsError, Life, SetXattr, Space};
use granary_sim::{World, WorldConfig};
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{Atime, OpenFlags, Posix, Process, Vfs, VfsConfig, Whence};
use std::sync::Arc;

fn with_vfs(
    config: VfsConfig,
    media: MemFsConfig,
    test: impl FnOnce(&Arc<MemFs>, &Arc<Vfs>, Process) + Send + 'static,
) {
    World::new(WorldConfig::default())
        .run(move || {
            let fs = Arc::new(MemFs::new(media));
            let vfs = Vfs::mount(fs.clone(), config).expect("mounts");
            test(&fs, &vfs, Process::new(vfs.clone(), Cred::ROOT));
            vfs.unmount().expect("nothing is in use");
            assert_eq!(fs.check(&Call::offline()).expect("readable"), Vec::<String>::new());
        })
        .expect("no deadlock");
}

fn create(p: &mut Process, path: &str, len: usize) -> granary_vfs::Fd {
    let fd = p.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("creates");
    p.write(fd, Payload::Fill { word: 0x1111_1111_1111_1111, len }).expect("writes");
    fd
}

fn content(p: &mut Process, fd: granary_vfs::Fd) -> Vec<u8> {
    let mut bytes = vec![0xee; p.fstat(fd).expect("open").attr.size as usize];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut bytes), 0), Ok(bytes.len()));
    bytes
}

#[test]
fn a_punched_range_is_a_hole_and_its_edges_are_zero() {
    with_vfs(VfsConfig::default(), MemFsConfig::default(), |_, _, mut p| {
        let fd = create(&mut p, "/f", 20_000);
        p.fallocate(fd, Allocate::PunchHole, 1000, 10_000).expect("punches");
        let bytes = content(&mut p, fd);
        assert!(bytes[1000..11_000].iter().all(|&b| b == 0));
        assert!(bytes[..1000].iter().chain(&bytes[11_000..]).all(|&b| b == 0x11));
        assert_eq!(p.lseek(fd, 0, Whence::Hole), Ok(4096));
        assert_eq!(p.lseek(fd, 4096, Whence::Data), Ok(8192));
        assert_eq!(p.lseek(fd, 20_000, Whence::Data), Err(FsError::NoDevice));
        p.exit();
    });
}

#[test]
fn reserved_space_is_there_for_a_writer_when_all_else_is_full() {
    let media = MemFsConfig { blocks: 8, ..MemFsConfig::default() };
    with_vfs(VfsConfig::default(), media, |_, _, mut p| {
        let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("creates");
        let keep = Allocate::Reserve { keep_size: true };
        p.fallocate(fd, keep, 0, 5 * 4096).expect("there is room");
        assert_eq!(p.fallocate(fd, keep, 0, 9 * 4096), Err(FsError::NoSpace));
        assert_eq!(p.fstat(fd).expect("open").attr.size, 0);
        let other = create(&mut p, "/g", 3 * 4096);
        assert_eq!(p.write(other, Payload::Fill { word: 1, len: 1 }), Err(FsError::NoSpace));
        assert_eq!(p.write(fd, Payload::Fill { word: 1, len: 5 * 4096 }), Ok(5 * 4096));
        assert_eq!(p.fallocate(fd, keep, 0, 0), Err(FsError::Invalid));
        assert_eq!(p.fallocate(fd, keep, u64::MAX, 2), Err(FsError::TooBig));
        p.exit();
    });
}

#[test]
fn a_file_is_copied_within_and_between_files() {
    with_vfs(VfsConfig::default(), MemFsConfig::default(), |_, _, mut p| {
        let (a, b) = (create(&mut p, "/a", 3_000_000), create(&mut p, "/b", 10));
        assert_eq!(p.copy_file_range((a, 5), (b, 100), 5_000_000), Ok(2_999_995));
        let bytes = content(&mut p, b);
        assert_eq!(bytes.len(), 3_000_095);
        assert!(bytes[10..100].iter().all(|&b| b == 0) && bytes[100..].iter().all(|&b| b == 0x11));
        assert_eq!(p.copy_file_range((a, 0), (a, 10), 20), Err(FsError::Invalid));
        assert_eq!(p.copy_file_range((b, 0), (b, 1000), 100), Ok(100));
        p.exit();
    });
}

#[test]
fn an_unnamed_file_is_gone_with_its_last_user() {
    with_vfs(VfsConfig::default(), MemFsConfig::default(), |fs, vfs, mut p| {
        let node = vfs.create_unnamed(&Caller::KERNEL, &vfs.root(), 0o600).expect("creates");
        let file = vfs.open(&Caller::KERNEL, node, OpenFlags::RDWR, true).expect("opens");
        assert_eq!(vfs.write(&Caller::KERNEL, &file, 0, Payload::Fill { word: 7, len: 9000 }), Ok((0, 9000)));
        assert_eq!(p.list("/").expect("lists").len(), 2, "it has no name");
        let before = fs.statfs(&Call::offline()).expect("counts").free_inodes;
        vfs.close(&Caller::KERNEL, file);
        assert_eq!(fs.statfs(&Call::offline()).expect("counts").free_inodes, before + 1);
        p.exit();
    });
}

#[test]
fn an_unnamed_file_is_given_a_first_name_and_no_other_after_its_last() {
    with_vfs(VfsConfig::default(), MemFsConfig::default(), |fs, vfs, mut p| {
        let node = vfs.create_unnamed(&Caller::KERNEL, &vfs.root(), 0o600).expect("creates");
        assert_eq!(vfs.stat(&node).attr.nlink, 0);
        vfs.link(&Caller::KERNEL, &node, &vfs.root(), b"named").expect("links");
        assert_eq!((vfs.stat(&node).attr.nlink, p.stat("/named").expect("is there").ino), (1, node.ino()));
        let before = fs.statfs(&Call::offline()).expect("counts").free_inodes;
        p.unlink("/named").expect("removes");
        assert_eq!(vfs.link(&Caller::KERNEL, &node, &vfs.root(), b"named"), Err(FsError::NoEntry));
        drop(node);
        vfs.reap();
        assert_eq!(fs.statfs(&Call::offline()).expect("counts").free_inodes, before + 1);
        p.exit();
    });
}

#[test]
fn dropped_caches_are_filled_again_from_media_and_keep_what_is_dirty() {
    with_vfs(VfsConfig::default(), MemFsConfig::default(), |_, vfs, mut p| {
        p.mkdir("/d", 0o755).expect("makes");
        let clean = create(&mut p, "/d/clean", 8192);
        p.sync().expect("syncs");
        p.close(clean).expect("open");
        let dirty = create(&mut p, "/d/dirty", 8192);
        p.close(dirty).expect("open");
        vfs.drop_caches();
        let stats = vfs.cache_stats();
        assert_eq!((stats.pages, stats.dirty), (2, 2));
        let fd = p.open("/d/clean", OpenFlags::RDONLY, 0).expect("is still there");
        assert!(content(&mut p, fd).iter().all(|&b| b == 0x11));
        assert_eq!(vfs.cache_stats().filled, stats.filled + 2);
        let fd = p.open("/d/dirty", OpenFlags::RDONLY, 0).expect("is still there");
        assert!(content(&mut p, fd).iter().all(|&b| b == 0x11));
        assert_eq!(vfs.cache_stats().filled, stats.filled + 2, "dirty pages never left");
        p.exit();
    });
}

#[test]
fn a_file_that_is_let_go_of_loses_its_clean_pages_and_no_others() {
    with_vfs(VfsConfig::default(), MemFsConfig::default(), |_, vfs, mut p| {
        let (wanted, other) = (create(&mut p, "/wanted", 8192), create(&mut p, "/other", 8192));
        p.sync().expect("syncs");
        p.pwrite(wanted, Payload::Bytes(&[0x22; 4096]), 0).expect("written");
        p.let_go(wanted).expect("a hint");
        let stats = vfs.cache_stats();
        assert_eq!((stats.pages, stats.dirty), (3, 1), "two of the other's, and the one that is dirty");
        assert!(content(&mut p, other).iter().all(|&b| b == 0x11));
        assert_eq!(vfs.cache_stats().filled, stats.filled);
        let now = content(&mut p, wanted);
        assert!(now[..4096].iter().all(|&b| b == 0x22) && now[4096..].iter().all(|&b| b == 0x11));
        assert_eq!(vfs.cache_stats().filled, stats.filled + 1, "the clean page came from media");
        p.exit();
    });
}

#[test]
fn access_times_move_as_the_policy_says() {
    let times = |atime| {
        let (send, receive) = std::sync::mpsc::channel();
        let config = VfsConfig { atime, ..VfsConfig::default() };
        with_vfs(config, MemFsConfig::default(), move |_, _, mut p| {
            let fd = create(&mut p, "/f", 100);
            for _ in 0..3 {
                granary_sim::sleep(granary_units::Nanos::from_secs(1));
                content(&mut p, fd);
                send.send(p.fstat(fd).expect("open").attr.atime).expect("receives");
            }
            p.exit();
        });
        let all: Vec<_> = receive.iter().collect();
        (all[0] != all[1], all[1] != all[2])
    };
    assert_eq!(times(Atime::Noatime), (false, false));
    assert_eq!(times(Atime::Relatime), (false, false));
    assert_eq!(times(Atime::Strictatime), (true, true));
}

#[test]
fn extended_attributes_obey_limits_and_flags() {
    with_vfs(VfsConfig::default(), MemFsConfig::default(), |_, _, mut p| {
        let fd = create(&mut p, "/f", 1);
        p.close(fd).expect("open");
        let long = [b"user.".as_slice(), &[b'x'; 251]].concat();
        assert_eq!(p.setxattr("/f", &long, b"v", SetXattr::Any), Err(FsError::Range));
        assert_eq!(p.setxattr("/f", &long[..255], &vec![7; 65536], SetXattr::Create), Ok(()));
        assert_eq!(p.setxattr("/f", &long[..255], &vec![7; 65537], SetXattr::Any), Err(FsError::TooLong));
        assert_eq!(p.setxattr("/f", b"user.b", b"", SetXattr::Replace), Err(FsError::NoAttribute));
        assert_eq!(p.getxattr("/f", &long[..255]).map(|v| v.len()), Ok(65536));
        assert_eq!(p.removexattr("/f", &long[..255]), Ok(()));
        assert_eq!(p.listxattr("/f"), Ok(vec![]));
        p.exit();
    });
}

#[test]
fn each_system_call_counts_one() {
    with_vfs(VfsConfig::default(), MemFsConfig::default(), |_, vfs, mut p| {
        let mut calls = vec![vfs.calls()];
        let mut did = || calls.push(vfs.calls());
        let fd = create(&mut p, "/f", 9000); // open, write
        did();
        let mut all = [0; 9000];
        p.pread(fd, Dest::Bytes(&mut all), 0).expect("reads");
        did();
        p.pread(fd, Dest::Bytes(&mut all), 9000).expect("nothing there");
        did();
        p.lseek(fd, 0, Whence::Set).expect("seeks");
        did();
        p.fsync(fd).expect("syncs");
        did();
        p.stat("/missing").expect_err("is not there");
        did();
        p.rename("/f", "/g").expect("renames");
        did();
        p.fallocate(fd, Allocate::PunchHole, 0, 4096).expect("punches");
        did();
        p.close(fd).expect("closes");
        did();
        p.sync().expect("syncs");
        did();
        p.unlink("/g").expect("unlinks");
        did();
        let each: Vec<u64> = calls.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(each, [2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        p.exit();
    });
}

/// A clock that moves with every nanosecond of work, and a file system that takes its time.
fn exact() -> (VfsConfig, MemFsConfig) {
    let media = MemFsConfig { latency: Nanos::from_micros(10), ..MemFsConfig::default() };
    (VfsConfig { tick: Nanos(1), ..VfsConfig::default() }, media)
}

#[test]
fn all_that_a_rename_changes_has_one_time_and_so_has_the_whiteout() {
    let (config, media) = exact();
    with_vfs(config, media, |_, vfs, mut p| {
        let fd = create(&mut p, "/old", 1);
        p.close(fd).expect("open");
        let (root, caller) = (vfs.root(), Caller::from(Cred::ROOT));
        let names = ((&root, &b"old"[..]), (&root, &b"new"[..]));
        vfs.rename_leaving_whiteout(&caller, names.0, names.1, false).expect("renames");
        let dir = p.stat("/").expect("there").attr;
        let (moved, left) = (p.stat("/new").expect("there").attr, p.lstat("/old").expect("there").attr);
        assert_eq!([moved.ctime, left.ctime, left.mtime, dir.mtime], [dir.ctime; 4]);
        drop(root);
        p.exit();
    });
}

#[test]
fn a_file_that_inherits_lists_has_one_time_with_a_name_and_without() {
    let (config, media) = exact();
    with_vfs(config, media, |_, _, mut p| {
        // Owner, user 5, group and others may all, and so may what is made here.
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, id) in [(1u16, u32::MAX), (2, 5), (4, u32::MAX), (0x10, u32::MAX), (0x20, u32::MAX)] {
            list.extend([tag.to_le_bytes(), 7u16.to_le_bytes()].concat());
            list.extend(id.to_le_bytes());
        }
        p.setxattr("/", b"system.posix_acl_default", &list, SetXattr::Any).expect("sets");
        let named = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o666).expect("creates");
        let unnamed = p.open_unnamed("/", OpenFlags::RDWR, 0o666).expect("creates");
        for fd in [named, unnamed] {
            let made = p.fstat(fd).expect("open").attr;
            assert_eq!([made.atime, made.mtime], [made.ctime; 2]);
        }
        assert!(!p.listxattr("/f").expect("reads").is_empty(), "it has a list");
        p.exit();
    });
}
