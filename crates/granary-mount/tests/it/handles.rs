//! Handles of files (name_to_handle_at, open_by_handle_at; NFS exports by them): they hold when the kernel
//! has forgotten the file, and over mounts, and never open another one.
//!
//! Source: open_by_handle_at(2); `struct file_handle` of linux/fs.h; `fuse_encode_fh` of fs/fuse/inode.c.
#![allow(unsafe_code, reason = "these calls have no safe wrapper")]

use super::rig::{self, eventually, possible, systems, vfs};
use granary_fs::Caller;
use granary_mount::{Mounted, Options, host_config};
use granary_testbed::registry;
use granary_units::Bytes;
use granary_vfs::{Vfs, VfsConfig};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Handle {
    bytes: u32,
    kind: i32,
    /// Node number (upper and lower half), generation; of the parent perhaps, too.
    words: [u32; 32],
}

fn handle_of(path: &Path) -> io::Result<Handle> {
    let name = CString::new(path.as_os_str().as_bytes()).expect("a path");
    let (mut handle, mut mount) = (Handle { bytes: 128, kind: 0, words: [0; 32] }, 0i32);
    // SAFETY: a name that ends, a structure with as much room as it says, a number to be filled in; all live
    // through the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            name.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        )
    };
    if done == 0 { Ok(handle) } else { Err(io::Error::last_os_error()) }
}

fn open(root: &File, handle: &Handle, flags: i32) -> io::Result<File> {
    // SAFETY: an open directory, and a handle of the length that it says; the new descriptor is nobody
    // else's.
    let fd =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, root.as_raw_fd(), &raw const *handle, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }.into())
}

fn content(root: &File, handle: &Handle) -> io::Result<String> {
    let mut text = String::new();
    open(root, handle, libc::O_RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

fn is_stale<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|e| e.raw_os_error() == Some(libc::ESTALE))
}

fn mount(vfs: &Arc<Vfs>, dir: &Path) -> Mounted {
    granary_mount::mount(vfs.clone(), dir, &Options { allow_other: true, ..Options::default() })
        .expect("mounts")
}

/// Makes the kernel forget what nobody uses.
fn forget(vfs: &Arc<Vfs>) {
    // Names hold nodes: both kinds of caches.
    fs::write("/proc/sys/vm/drop_caches", "2").expect("root may");
    eventually(|| vfs.node_of_handle(vfs.root().ino()).is_ok());
}

#[test]
fn handles_hold_when_the_kernel_has_forgotten_and_over_mounts_and_never_open_another_file() {
    if !possible() || !rustix::process::geteuid().is_root() {
        return granary_suite::skip::skipped("handles are for root");
    }
    for system in systems() {
        let (first, devices) = vfs(system);
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = mount(&first, dir.path());
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("d/e")).expect("made");
        fs::write(at("d/e/kept"), "kept").expect("written");
        fs::write(at("gone"), "gone").expect("written");
        symlink("kept", at("d/e/link")).expect("linked");
        let handles = ["d/e/kept", "d/e", "d/e/link"].map(|name| handle_of(&at(name)).expect("a handle"));
        let [kept, inner, link] = handles;
        let gone = handle_of(&at("gone")).expect("a handle");
        let number = fs::metadata(at("gone")).expect("there").ino();
        let root = File::open(dir.path()).expect("opened");
        assert_eq!(content(&root, &gone).expect("opened"), "gone", "{}", system.name);
        fs::remove_file(at("gone")).expect("removed");
        forget(&first);
        assert_eq!(content(&root, &kept).expect("opened"), "kept", "{}", system.name);
        forget(&first);
        // A directory, of which the kernel has to find the ways up.
        let found = open(&root, &inner, libc::O_RDONLY | libc::O_DIRECTORY).expect("opened");
        let path = fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).expect("a path");
        assert_eq!(path, fs::canonicalize(at("d/e")).expect("a path"));
        drop(found);
        assert!(open(&root, &link, libc::O_PATH | libc::O_NOFOLLOW).is_ok());
        assert!(is_stale(content(&root, &gone)), "{}", system.name);
        // Until the number is another file's.
        let mut reused = false;
        for n in 0..3000 {
            let other = at(&format!("n{n}"));
            fs::write(&other, "another").expect("written");
            reused |= fs::metadata(&other).expect("there").ino() == number;
            if reused {
                break;
            }
        }
        assert!(is_stale(content(&root, &gone)), "{}: its number is another file's: {reused}", system.name);
        forget(&first);
        assert!(is_stale(content(&root, &gone)), "{}", system.name);
        // Numbers of nothing at all.
        for n in (0..2000).chain([u64::from(u32::MAX), 1 << 32, u64::MAX / 2, u64::MAX]) {
            let any = |generation| {
                let mut any = kept;
                (any.words[0], any.words[1], any.words[2]) = ((n >> 32) as u32, n as u32, generation);
                content(&root, &any).map(drop)
            };
            for result in [any(0xdead_beef), any(0)] {
                // A directory, or an old file of generation 0, is what it is.
                let known = |e: &io::Error| matches!(e.raw_os_error(), Some(libc::ESTALE | libc::EISDIR));
                assert!(result.as_ref().err().is_none_or(known), "{}: {n}: {result:?}", system.name);
            }
            assert!(any(0xdead_beef).is_err(), "{}: {n}", system.name);
        }
        drop(root);
        rig::unmount(mounted);

        let testbed = rig::testbed();
        let again = registry::mount(system, &devices, &testbed, false).expect("mounted");
        let second =
            Vfs::mount(again, host_config(VfsConfig::default(), Bytes::mib(64), false)).expect("vfs");
        let mounted = mount(&second, dir.path());
        let root = File::open(dir.path()).expect("opened");
        assert_eq!(content(&root, &kept).expect("opened"), "kept", "{}: after a mount", system.name);
        assert!(open(&root, &inner, libc::O_RDONLY | libc::O_DIRECTORY).is_ok());
        assert!(is_stale(content(&root, &gone)), "{}", system.name);
        second.sync(&Caller::KERNEL).expect("synced");
        assert_eq!(second.check().expect("checked"), Vec::<String>::new(), "{}", system.name);
        drop(root);
        rig::unmount(mounted);
    }
}
