//! Mappings: what they see and leave, which lines reach the file system, and what ends in a signal.

use granary_fs::{Cred, FsError};
use granary_sim::World;
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_units::{Dest, Payload};
use granary_vfs::{Fd, MapHow, MapId, OpenFlags, Posix, Process, Tracking, Vfs, VfsConfig};
use std::sync::Arc;

const SHARED: MapHow = MapHow { shared: true, write: true };
const PRIVATE: MapHow = MapHow { shared: false, write: true };

fn with_process(config: VfsConfig, test: impl FnOnce(&Arc<Vfs>, &mut Process) + Send + 'static) {
    let run = move || {
        let fs = Arc::new(MemFs::new(MemFsConfig::default()));
        let vfs = Vfs::mount(fs, config).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        test(&vfs, &mut p);
        p.exit();
        vfs.unmount().expect("nothing is in use");
    };
    World::default().run(run).expect("no deadlock");
}

fn file(p: &mut Process, len: usize) -> Fd {
    let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
    let bytes: Vec<u8> = (0..len).map(|i| (i / 7) as u8).collect();
    p.pwrite(fd, Payload::Bytes(&bytes), 0).expect("writes");
    p.fsync(fd).expect("syncs");
    fd
}

fn load(p: &mut Process, map: MapId, at: u64, len: usize) -> Result<Vec<u8>, FsError> {
    let mut bytes = vec![0xee; len];
    p.map_load(map, at, Dest::Bytes(&mut bytes)).map(|()| bytes)
}

#[test]
fn a_shared_store_is_in_the_file_and_a_private_one_is_not() {
    with_process(VfsConfig::default(), |_, p| {
        let fd = file(p, 10_000);
        let shared = p.mmap(fd, 0, 12_288, SHARED).expect("maps");
        let private = p.mmap(fd, 4096, 8192, PRIVATE).expect("maps");
        p.map_store(shared, 5_000, Payload::Bytes(b"shared")).expect("stores");
        p.map_store(private, 5_100 - 4096, Payload::Bytes(b"private")).expect("stores");
        assert_eq!(load(p, private, 5_000 - 4096, 6).expect("loads"), b"shared");
        p.pwrite(fd, Payload::Bytes(b"later"), 5_200).expect("writes");
        assert_eq!(load(p, shared, 5_200, 5).expect("loads"), b"later");
        assert_ne!(load(p, private, 5_200 - 4096, 5).expect("loads"), b"later", "its own copy of the page");
        let mut read = [0; 300];
        p.pread(fd, Dest::Bytes(&mut read), 5_000).expect("reads");
        assert_eq!(&read[..6], b"shared");
        assert_ne!(&read[100..107], b"private");
        // The mappings outlive the descriptor and the name.
        p.close(fd).expect("closes");
        p.unlink("/f").expect("unlinks");
        assert_eq!(load(p, shared, 5_000, 6).expect("loads"), b"shared");
        p.munmap(shared).expect("unmaps");
        p.munmap(private).expect("unmaps");
        assert_eq!(p.munmap(shared), Err(FsError::Fault));
    });
}

#[test]
fn what_a_program_would_get_a_signal_for_is_a_fault() {
    with_process(VfsConfig::default(), |_, p| {
        let fd = file(p, 5_000);
        let map = p.mmap(fd, 0, 16_384, SHARED).expect("maps beyond the end");
        let word = Payload::Fill { word: 1, len: 8 };
        assert_eq!(load(p, map, 5_000, 100).expect("the last page"), vec![0; 100]);
        assert_eq!(load(p, map, 8_192, 1), Err(FsError::Fault), "SIGBUS");
        assert_eq!(load(p, map, 8_190, 4), Err(FsError::Fault), "SIGBUS in its second page");
        assert_eq!(load(p, map, 16_380, 8), Err(FsError::Fault), "SIGSEGV");
        assert_eq!(p.map_store(map, 8_192, word), Err(FsError::Fault));
        p.map_store(map, 5_004, word).expect("in the last page");
        p.ftruncate(fd, 6_000).expect("grows");
        assert_eq!(
            load(p, map, 5_000, 100).expect("there"),
            vec![0; 100],
            "the store beyond the end is gone"
        );
        let read_only = p.mmap(fd, 0, 4096, MapHow { shared: true, write: false }).expect("maps");
        assert_eq!(p.map_store(read_only, 0, word), Err(FsError::Fault));
        assert_eq!(p.mmap(fd, 0, 0, SHARED), Err(FsError::Invalid));
        assert_eq!(p.mmap(fd, 100, 10, SHARED), Err(FsError::Invalid));
        let only = p.open("/f", OpenFlags::RDONLY, 0).expect("opens");
        assert_eq!(p.mmap(only, 0, 10, SHARED), Err(FsError::Access));
        p.mmap(only, 0, 10, PRIVATE).expect("a private mapping needs to read only");
        let dir = p.open("/", OpenFlags::RDONLY, 0).expect("opens");
        assert_eq!(p.mmap(dir, 0, 10, PRIVATE), Err(FsError::NotMappable));
        assert_eq!(p.msync(map, 1, 10, true), Err(FsError::Invalid));
        assert_eq!(p.msync(map, 0, 16_385, true), Err(FsError::Fault));
    });
}

/// One duplicate per page from its first store until its write-back, none for loads, none for write() with a
/// mask.
#[test]
fn a_page_is_duplicated_once_until_it_is_written_back() {
    for tracking in [Tracking::Mask, Tracking::Xor] {
        with_process(VfsConfig { tracking, ..VfsConfig::default() }, move |vfs, p| {
            let fd = file(p, 40_000);
            let base = vfs.cache_stats().most_duplicates;
            let duplicates = || vfs.cache_stats().duplicates;
            let map = p.mmap(fd, 0, 40_000, SHARED).expect("maps");
            load(p, map, 0, 40_000).expect("loads");
            assert_eq!(duplicates(), 0);
            for n in 0..50 {
                p.map_store(map, 4096 + n * 64, Payload::Fill { word: n, len: 8 }).expect("stores");
            }
            p.map_store(map, 3 * 4096 - 4, Payload::Fill { word: 9, len: 8 }).expect("stores");
            assert_eq!(duplicates(), 3);
            p.msync(map, 4096, 4096, true).expect("syncs");
            assert_eq!(duplicates(), 2);
            p.pwrite(fd, Payload::Fill { word: 3, len: 100 }, 0).expect("writes");
            assert_eq!(duplicates(), if tracking == Tracking::Xor { 3 } else { 2 });
            p.fsync(fd).expect("syncs");
            assert_eq!(duplicates(), 0);
            assert!(vfs.cache_stats().most_duplicates >= base.max(3));
            p.munmap(map).expect("unmaps");
            p.close(fd).expect("closes");
        });
    }
}
