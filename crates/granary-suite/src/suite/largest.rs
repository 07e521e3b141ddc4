//! The end of the largest file: its last pages are pages like all others.

use super::{Mounted, Subject, create, drive, run};
use granary_fs::{Allocate, FsError};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Dest, Payload};
use granary_vfs::Process;
use granary_vfs::Vfs;
use granary_vfs::VfsConfig;
use granary_vfs::{Fd, MapHow, OpenFlags, Posix, Whence};
use std::sync::Arc;

const PAGE: u64 = 4096;
/// Bytes before the largest size that are looked at.
const WINDOW: u64 = 5 * PAGE + 100;

/// The last bytes of a file, which is zero before them.
struct End {
    /// Where they begin.
    start: u64,
    /// As many as the file has.
    bytes: Vec<u8>,
}

impl End {
    fn resize(&mut self, size: u64) {
        self.bytes.resize((size - self.start) as usize, 0);
    }

    fn put(&mut self, pos: u64, data: &[u8]) {
        let from = (pos - self.start) as usize;
        if self.bytes.len() < from + data.len() {
            self.bytes.resize(from + data.len(), 0);
        }
        self.bytes[from..from + data.len()].copy_from_slice(data);
    }

    fn zero(&mut self, pos: u64, len: u64) {
        let all = self.bytes.len();
        let from = (pos - self.start) as usize;
        self.bytes[from.min(all)..(from + len as usize).min(all)].fill(0);
    }

    fn compare(&self, p: &mut Process, fd: Fd, what: &str) {
        let size = self.start + self.bytes.len() as u64;
        assert_eq!(p.fstat(fd).expect("stat").attr.size, size, "{what}");
        let mut got = vec![0xee; self.bytes.len() + 1];
        let n = p.pread(fd, Dest::Bytes(&mut got), self.start).expect("read");
        assert_eq!(n, self.bytes.len(), "{what}");
        let wrong = self.bytes.iter().zip(&got).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{what}: wrong from there on");
    }
}

/// One call at the end of the file, on the file system and on the bytes.
fn call(rng: &mut Stream, p: &mut Process, fds: [Fd; 2], max: u64, end: &mut End) -> String {
    let pos = max - 1 - rng.below(WINDOW - 1);
    // Often up to the very last byte, in whole pages and in parts.
    let len = if rng.chance(0.4) { max - pos } else { 1 + rng.below(max - pos) };
    let pos = if rng.chance(0.3) { pos.next_multiple_of(PAGE).min(max - len) } else { pos };
    let data = vec![1 + rng.below(255) as u8; len as usize];
    let size = end.start + end.bytes.len() as u64;
    let keep_size = rng.chance(0.5);
    let grown = if keep_size { size } else { size.max(pos + len) };
    // A call that a file system does not support, or has no room for, changes nothing.
    let allocated = |result| match result {
        Ok(()) => true,
        Err(FsError::NotSupported | FsError::NoSpace) => false,
        Err(e) => panic!("fallocate: {e}"),
    };
    match rng.below(10) {
        0..3 => {
            let by = fds[rng.below(2) as usize];
            assert_eq!(p.pwrite(by, Payload::Bytes(&data), pos), Ok(data.len()));
            end.put(pos, &data);
            format!("write {len} at {pos}")
        }
        3 => {
            let size = max - rng.below(WINDOW);
            p.ftruncate(fds[0], size).expect("truncate");
            end.resize(size);
            format!("truncate to {size}")
        }
        4 => {
            if allocated(p.fallocate(fds[0], Allocate::PunchHole, pos, len)) {
                end.zero(pos, len);
            }
            format!("punch {len} at {pos}")
        }
        5 => {
            if allocated(p.fallocate(fds[0], Allocate::ZeroRange { keep_size }, pos, len)) {
                end.zero(pos, len);
                end.resize(grown);
            }
            format!("zero {len} at {pos}")
        }
        6 => {
            if allocated(p.fallocate(fds[0], Allocate::Reserve { keep_size }, pos, len)) {
                end.resize(grown);
            }
            format!("reserve {len} at {pos}")
        }
        7 => {
            // Whole pages up to the largest size; stores within the file only.
            let from = (max - WINDOW).next_multiple_of(PAGE);
            let map = p.mmap(fds[0], from, max - from, MapHow { write: true, shared: true }).expect("mmap");
            let (pos, last) = (pos.max(from), size.saturating_sub(1));
            if pos <= last {
                let data = &data[..(last - pos + 1).min(len) as usize];
                p.map_store(map, pos - from, Payload::Bytes(data)).expect("store");
                end.put(pos, data);
                p.msync(map, 0, max - from, true).expect("msync");
            }
            p.munmap(map).expect("munmap");
            format!("store {len} at {pos}")
        }
        8 => {
            p.fsync(fds[0]).expect("fsync");
            "fsync".to_owned()
        }
        _ => {
            for whence in [Whence::Data, Whence::Hole] {
                match p.lseek(fds[0], pos as i64, whence) {
                    Ok(at) => assert!(at >= pos && at <= size, "{whence:?} of {pos}: {at}"),
                    Err(e) => assert_eq!(e, FsError::NoDevice),
                }
            }
            format!("seek from {pos}")
        }
    }
}

/// Calls on the last pages of the largest file that there may be do what they do elsewhere, up to its last
/// byte; beyond it is `TooBig`. `vfs` has an empty file system.
pub fn the_end_of_the_largest_file(vfs: &Arc<Vfs>, seed: u64, calls: usize) {
    let mut rng = Stream::new(seed, "largest");
    let mut p = Process::new(vfs.clone(), granary_fs::Cred::ROOT);
    let max = vfs.max_file_size();
    let fd = create(&mut p, "/largest");
    let direct = p.open("/largest", OpenFlags::RDWR | OpenFlags::DIRECT, 0).expect("open");
    p.ftruncate(fd, max).expect("truncate");
    let start = max - WINDOW;
    let mut end = End { start, bytes: vec![0; WINDOW as usize] };
    end.compare(&mut p, fd, "new");
    for _ in 0..calls {
        let what = call(&mut rng, &mut p, [fd, direct], max, &mut end);
        if rng.chance(0.3) {
            vfs.drop_caches();
        }
        end.compare(&mut p, fd, &what);
        assert_eq!(p.pwrite(fd, Payload::Bytes(&[1]), max), Err(FsError::TooBig));
        assert_eq!(p.ftruncate(fd, max + 1), Err(FsError::TooBig));
    }
    p.exit();
}

/// The same for a file system's subject, with ordinary and with tiny caches; the file system is sound
/// afterwards.
pub fn the_largest_file_is_whole_to_its_last_byte<S: Subject>(subject: &S) {
    for (seed, config) in [(1, VfsConfig::default()), (2, super::tiny_caches()), (3, super::tiny_caches())] {
        let subject = subject.clone();
        run(move || {
            let drive = drive(Bytes::mib(64));
            subject.mkfs(&super::port(&drive)).expect("mkfs");
            let m = Mounted::with(&subject, &drive, config);
            the_end_of_the_largest_file(&m.vfs, seed, 300);
            m.check();
            m.remounted().check();
        });
    }
}
