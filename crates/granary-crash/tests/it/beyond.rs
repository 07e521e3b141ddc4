//! Blocks beyond the end of a file that was being cut: those that nobody reserved are told.

use granary_crash::{Promises, Recorded};
use granary_fs::{Allocate, Cred};
use granary_sim::World;
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

/// A file is cut to 100 bytes and then gets blocks beyond them: recorded, or behind the oracle's back.
/// Returns the complaints.
fn said(recorded: bool, behind: bool) -> Vec<String> {
    let done = World::default().run(move || {
        let vfs =
            Vfs::mount(Arc::new(MemFs::new(MemFsConfig::default())), VfsConfig::default()).expect("vfs");
        let process = || Process::new(Arc::clone(&vfs), Cred::ROOT);
        let promises = Promises::new();
        let mut client = Recorded::new(process(), promises.clone());
        let fd = client.open("/a", OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("opens");
        client.pwrite(fd, Payload::Fill { word: 7, len: 40_000 }, 0).expect("writes");
        client.fsync(fd).expect("fsync");
        client.ftruncate(fd, 100).expect("cuts");
        let how = Allocate::Reserve { keep_size: true };
        if recorded {
            client.fallocate(fd, how, 8192, 16384).expect("reserves");
        }
        let mut other = process();
        if behind {
            let fd = other.open("/a", OpenFlags::RDWR, 0).expect("opens");
            other.fallocate(fd, how, 8192, 16384).expect("reserves");
        }
        let verdict = promises.verify(&mut other);
        assert_eq!(verdict.violations, Vec::<String>::new());
        promises.go_on_from(verdict);
        promises.blocks_beyond(&mut other)
    });
    done.expect("ends")
}

#[test]
fn blocks_beyond_the_end_are_told_unless_they_were_reserved() {
    assert_eq!(said(false, false), Vec::<String>::new());
    assert_eq!(said(true, true), Vec::<String>::new());
    let told = said(false, true);
    assert!(told.len() == 1 && told[0].starts_with("/a: has 100 bytes, and 32 sectors beyond"), "{told:?}");
}
