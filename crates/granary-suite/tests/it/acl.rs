//! Access control lists: what they allow, how mode and list follow each other, what is handed on.

use granary_fs::{Cred, FsError, SetXattr};
use granary_sim::World;
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_vfs::{Access, OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

fn in_world(f: impl FnOnce(Arc<Vfs>, Process) + 'static) {
    let run = World::default().run(move || {
        let fs = Arc::new(MemFs::new(MemFsConfig::default()));
        let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mount");
        f(vfs.clone(), Process::new(vfs, Cred::ROOT));
    });
    run.expect("no deadlock");
}

/// Entries (tag, permissions, user or group) as Linux writes them.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
        value.extend(id.to_le_bytes());
    }
    value
}

/// Owner 7, user 5 `user`, owning group 0, mask 7, others 0.
fn for_user_5(user: u16) -> Vec<u8> {
    list(&[(1, 7, u32::MAX), (2, user, 5), (4, 0, u32::MAX), (0x10, 7, u32::MAX), (0x20, 0, u32::MAX)])
}

fn user(vfs: &Arc<Vfs>, uid: u32) -> Process {
    Process::new(vfs.clone(), Cred { uid, gid: uid, groups: Vec::new() })
}

fn mode(p: &mut Process, path: &str) -> u16 {
    p.stat(path).expect("there").attr.mode
}

#[test]
fn a_list_lets_in_whom_the_mode_would_not_and_keeps_out_whom_it_would() {
    in_world(|vfs, mut root| {
        root.mkdir("/d", 0o755).expect("makes");
        let fd = root.open("/d/f", OpenFlags::CREAT | OpenFlags::WRONLY, 0o600).expect("creates");
        root.close(fd).expect("open");
        let (mut five, mut six) = (user(&vfs, 5), user(&vfs, 6));
        assert_eq!(five.open("/d/f", OpenFlags::RDONLY, 0).err(), Some(FsError::Access));
        root.setxattr("/d/f", ACCESS, &for_user_5(6), SetXattr::Any).expect("sets");
        assert_eq!(mode(&mut root, "/d/f"), 0o770, "the group bits are the mask");
        five.open("/d/f", OpenFlags::RDWR, 0).expect("in the list");
        assert_eq!(six.open("/d/f", OpenFlags::RDONLY, 0).err(), Some(FsError::Access));
        // A directory that the user may not search, also by way of the caches.
        root.setxattr("/d", ACCESS, &for_user_5(4), SetXattr::Any).expect("sets");
        assert_eq!(five.open("/d/f", OpenFlags::RDONLY, 0).err(), Some(FsError::Access));
        assert_eq!(five.stat("/d/f").err(), Some(FsError::Access));
        root.setxattr("/d", ACCESS, &for_user_5(7), SetXattr::Any).expect("sets");
        five.stat("/d/f").expect("may search");
        assert_eq!(six.stat("/d/f").err(), Some(FsError::Access));
        five.rename("/d/f", "/d/g").expect("may write the directory");
        assert_eq!(six.unlink("/d/g").err(), Some(FsError::Access));
        five.unlink("/d/g").expect("may write the directory");
        five.access("/d", Access::WRITE).expect("may write");
        root.removexattr("/d", ACCESS).expect("removes");
        assert_eq!(mode(&mut root, "/d"), 0o770, "the mode stays");
        assert_eq!(five.access("/d", Access::READ).err(), Some(FsError::Access));
    });
}

#[test]
fn mode_and_list_follow_each_other() {
    in_world(|vfs, mut root| {
        root.mkdir("/d", 0o755).expect("makes");
        root.setxattr("/d", ACCESS, &for_user_5(7), SetXattr::Any).expect("sets");
        root.chmod("/d", 0o751).expect("changes");
        let kept = root.getxattr("/d", ACCESS).expect("there");
        let masked =
            [(1, 7, u32::MAX), (2, 7, 5), (4, 0, u32::MAX), (0x10, 5, u32::MAX), (0x20, 1, u32::MAX)];
        assert_eq!(kept, list(&masked), "chmod changes the mask");
        assert_eq!(user(&vfs, 5).mkdir("/d/x", 0o755).err(), Some(FsError::Access));
        // No more than a mode: nothing is kept.
        let plain = list(&[(1, 6, u32::MAX), (4, 4, u32::MAX), (0x20, 0, u32::MAX)]);
        root.setxattr("/d", ACCESS, &plain, SetXattr::Any).expect("sets");
        assert_eq!((mode(&mut root, "/d"), root.listxattr("/d")), (0o640, Ok(Vec::new())));
        for wrong in [&b""[..], b"\x02\0\0", &list(&[(1, 7, 0)]), &for_user_5(9)] {
            let set = root.setxattr("/d", DEFAULT, wrong, SetXattr::Any);
            assert_eq!(set.err(), Some(FsError::Invalid), "{wrong:?}");
        }
        assert_eq!(
            user(&vfs, 5).setxattr("/d", ACCESS, &plain, SetXattr::Any).err(),
            Some(FsError::NotPermitted)
        );
    });
}

#[test]
fn a_default_list_takes_the_place_of_the_umask_and_is_handed_on() {
    in_world(|_, mut root| {
        root.umask(0o077);
        root.mkdir("/d", 0o755).expect("makes");
        root.setxattr("/d", DEFAULT, &for_user_5(7), SetXattr::Any).expect("sets");
        assert_eq!(mode(&mut root, "/d"), 0o700, "a default list is no permission");
        let fd = root.open("/d/f", OpenFlags::CREAT | OpenFlags::WRONLY, 0o666).expect("creates");
        root.close(fd).expect("open");
        assert_eq!(mode(&mut root, "/d/f"), 0o660);
        let f = [(1, 6, u32::MAX), (2, 7, 5), (4, 0, u32::MAX), (0x10, 6, u32::MAX), (0x20, 0, u32::MAX)];
        assert_eq!(root.getxattr("/d/f", ACCESS), Ok(list(&f)));
        root.mkdir("/d/sub", 0o777).expect("makes");
        assert_eq!(mode(&mut root, "/d/sub"), 0o770);
        assert_eq!(root.getxattr("/d/sub", DEFAULT), Ok(for_user_5(7)));
        root.mkdir("/d/sub/deep", 0o750).expect("makes");
        assert_eq!(root.getxattr("/d/sub/deep", DEFAULT), Ok(for_user_5(7)));
        root.symlink("f", "/d/s").expect("links");
        root.mkdir("/e", 0o777).expect("makes");
        assert_eq!((mode(&mut root, "/e"), root.listxattr("/e")), (0o700, Ok(Vec::new())));
    });
}
