//! Inode flags: what they forbid, to root too, and who may set them.

use granary_fs::{Allocate, Caller, Cred, FsError, RenameFlags, SetXattr, flag};
use granary_sim::{World, WorldConfig};
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_units::{Nanos, Payload};
use granary_vfs::{Atime, Change, MapHow, NewFile, NodeRef, OpenFlags, SetTime, Vfs, VfsConfig};
use std::sync::Arc;

const ROOT: &Caller = &Caller::KERNEL;
const REFUSED: Result<(), FsError> = Err(FsError::NotPermitted);

fn with_vfs(test: impl FnOnce(&Arc<Vfs>) + Send + 'static) {
    World::new(WorldConfig::default())
        .run(move || {
            let config = VfsConfig { atime: Atime::Strictatime, ..VfsConfig::default() };
            let vfs = Vfs::mount(Arc::new(MemFs::new(MemFsConfig::default())), config).expect("mounts");
            test(&vfs);
            vfs.unmount().expect("nothing is in use");
        })
        .expect("no deadlock");
}

fn make(vfs: &Vfs, name: &str) -> NodeRef {
    vfs.create(ROOT, &vfs.root(), name.as_bytes(), &NewFile::file(0o644)).expect("creates")
}

fn set(vfs: &Vfs, node: &NodeRef, flags: u8) {
    vfs.setattr(ROOT, node, &Change::flags(flags)).expect("root may");
    assert_eq!(vfs.stat(node).attr.flags, flags);
}

fn refuses<T>(result: Result<T, FsError>) -> bool {
    result.err() == Some(FsError::NotPermitted)
}

#[test]
fn nothing_of_an_immutable_file_changes_until_it_is_mutable_again() {
    with_vfs(|vfs| {
        let (root, node) = (vfs.root(), make(vfs, "f"));
        let open = vfs.open(ROOT, node.clone(), OpenFlags::RDWR, false).expect("opens");
        vfs.write(ROOT, &open, 0, Payload::Bytes(b"kept")).expect("writes");
        set(vfs, &node, flag::IMMUTABLE);
        let before = vfs.stat(&node);
        for flags in
            [OpenFlags::WRONLY, OpenFlags::RDWR | OpenFlags::APPEND, OpenFlags::RDONLY | OpenFlags::TRUNC]
        {
            assert!(refuses(vfs.open(ROOT, node.clone(), flags, false).map(drop)), "{flags:?}");
        }
        assert!(refuses(vfs.write(ROOT, &open, 0, Payload::Bytes(b"lost"))));
        assert!(refuses(vfs.fallocate(ROOT, &open, Allocate::Reserve { keep_size: true }, 0, 9000)));
        for change in [
            Change::size(1),
            Change::mode(0o600),
            Change::owner(Some(1), None),
            Change::times(SetTime::Now, SetTime::Now),
        ] {
            assert_eq!(vfs.setattr(ROOT, &node, &change), REFUSED, "{change:?}");
        }
        assert_eq!(vfs.link(ROOT, &node, &root, b"g"), REFUSED);
        assert_eq!(vfs.unlink(ROOT, &root, b"f"), REFUSED);
        assert_eq!(vfs.rename(ROOT, (&root, b"f"), (&root, b"g"), RenameFlags::default()), REFUSED);
        let over = make(vfs, "over");
        assert_eq!(vfs.rename(ROOT, (&root, b"over"), (&root, b"f"), RenameFlags::default()), REFUSED);
        assert_eq!(vfs.setxattr(ROOT, &node, b"user.a", b"", SetXattr::Any), REFUSED);
        assert_eq!(vfs.stat(&node), before);
        set(vfs, &node, 0);
        vfs.write(ROOT, &open, 0, Payload::Bytes(b"new")).expect("mutable");
        vfs.unlink(ROOT, &root, b"f").expect("mutable");
        drop(over);
        vfs.close(&Caller::KERNEL, open);
        drop(node);
    });
}

#[test]
fn an_append_only_file_grows_and_does_nothing_else() {
    with_vfs(|vfs| {
        let (root, node) = (vfs.root(), make(vfs, "log"));
        let before = vfs.open(ROOT, node.clone(), OpenFlags::RDWR, false).expect("opens");
        set(vfs, &node, flag::APPEND);
        assert!(refuses(vfs.open(ROOT, node.clone(), OpenFlags::WRONLY, false).map(drop)));
        let cuts = OpenFlags::WRONLY | OpenFlags::APPEND | OpenFlags::TRUNC;
        assert!(refuses(vfs.open(ROOT, node.clone(), cuts, false).map(drop)));
        assert!(refuses(vfs.write(ROOT, &before, 0, Payload::Bytes(b"x"))), "open since before");
        assert!(refuses(vfs.fallocate(ROOT, &before, Allocate::PunchHole, 0, 1)));
        let shared = MapHow { shared: true, write: true };
        assert_eq!(vfs.mmap(&before, 0, 1, shared).err(), Some(FsError::Access));
        let log =
            vfs.open(ROOT, node.clone(), OpenFlags::WRONLY | OpenFlags::APPEND, false).expect("appends");
        for line in 0..3 {
            assert_eq!(vfs.write(ROOT, &log, 0, Payload::Bytes(b"line")), Ok((4 * line, 4)));
        }
        for change in [Change::size(0), Change::mode(0o600), Change::times(SetTime::Now, SetTime::Omit)] {
            assert_eq!(vfs.setattr(ROOT, &node, &change), REFUSED, "{change:?}");
        }
        vfs.setattr(ROOT, &node, &Change::times(SetTime::Now, SetTime::Now)).expect("touched");
        assert_eq!(vfs.unlink(ROOT, &root, b"log"), REFUSED);
        assert_eq!(vfs.link(ROOT, &node, &root, b"g"), REFUSED);
        vfs.close(&Caller::KERNEL, log);
        vfs.close(&Caller::KERNEL, before);
    });
}

#[test]
fn a_fixed_directory_keeps_its_entries() {
    with_vfs(|vfs| {
        let root = vfs.root();
        let dir = vfs.create(ROOT, &root, b"d", &NewFile::dir(0o755)).expect("creates");
        let file = vfs.create(ROOT, &dir, b"f", &NewFile::file(0o644)).expect("creates");
        let other = make(vfs, "other");
        let moves = |from: (&NodeRef, &[u8]), to: (&NodeRef, &[u8])| {
            vfs.rename(ROOT, from, to, RenameFlags::default())
        };
        for flags in [flag::IMMUTABLE, flag::APPEND] {
            set(vfs, &dir, flags);
            assert_eq!(vfs.unlink(ROOT, &dir, b"f"), REFUSED);
            assert_eq!(moves((&dir, b"f"), (&root, b"f")), REFUSED);
            assert_eq!(vfs.rmdir(ROOT, &root, b"d"), REFUSED);
        }
        drop(vfs.create(ROOT, &dir, b"more", &NewFile::file(0o644)).expect("append-only takes more"));
        set(vfs, &dir, flag::IMMUTABLE);
        assert!(refuses(vfs.create(ROOT, &dir, b"new", &NewFile::file(0o644)).map(drop)));
        assert!(refuses(vfs.create_unnamed(ROOT, &dir, 0o600).map(drop)));
        assert_eq!(vfs.link(ROOT, &other, &dir, b"link"), REFUSED);
        assert_eq!(moves((&root, b"other"), (&dir, b"other")), REFUSED);
        let open = vfs.open(ROOT, file.clone(), OpenFlags::RDWR, false).expect("the file itself is free");
        vfs.write(ROOT, &open, 0, Payload::Bytes(b"x")).expect("writes");
        vfs.close(&Caller::KERNEL, open);
    });
}

#[test]
fn owners_set_what_protects_nothing_and_root_the_rest() {
    with_vfs(|vfs| {
        let node = make(vfs, "f");
        vfs.setattr(ROOT, &node, &Change::owner(Some(5), Some(5))).expect("given away");
        let owner = Cred { uid: 5, gid: 5, groups: Vec::new() };
        let other = Cred { uid: 6, gid: 5, groups: Vec::new() };
        let ask = |who: &Cred, flags| vfs.setattr(&Caller::from(who.clone()), &node, &Change::flags(flags));
        assert_eq!(ask(&owner, flag::NODUMP | flag::NOATIME), Ok(()));
        assert_eq!(ask(&other, 0), REFUSED);
        assert_eq!(ask(&owner, flag::IMMUTABLE), REFUSED);
        assert_eq!(ask(&owner, flag::APPEND), REFUSED);
        assert_eq!(ask(&Cred::ROOT, flag::APPEND), Ok(()));
        assert_eq!(ask(&owner, 0), REFUSED, "nor take them away");
        assert_eq!(ask(&owner, flag::APPEND | flag::NODUMP), Ok(()));
        assert_eq!(ask(&Cred::ROOT, 1), Err(FsError::NotSupported));
    });
}

#[test]
fn with_noatime_a_read_leaves_the_access_time() {
    with_vfs(|vfs| {
        let node = make(vfs, "f");
        let open = vfs.open(ROOT, node.clone(), OpenFlags::RDWR, false).expect("opens");
        vfs.write(ROOT, &open, 0, Payload::Bytes(b"x")).expect("writes");
        let read = || {
            granary_sim::cpu(Nanos::from_secs(5));
            let mut byte = [0];
            vfs.read(&Caller::KERNEL, &open, 0, granary_units::Dest::Bytes(&mut byte)).expect("reads");
            vfs.stat(&node).attr.atime
        };
        let first = read();
        assert_ne!(read(), first);
        set(vfs, &node, flag::NOATIME);
        let kept = vfs.stat(&node).attr.atime;
        assert_eq!(read(), kept);
        vfs.close(&Caller::KERNEL, open);
    });
}
