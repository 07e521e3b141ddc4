//! One file, random calls through a cached and a direct descriptor, compared with bytes in memory after each read: what the
//! crate fsx does, and O_DIRECT, which it cannot.
//!
//! It does *not* map the file: a page fault holds the address space until the server has answered, and the server is this
//! process. Mappings are fsx's (`scripts/programs.sh`).

use super::rig::{Rig, each};
use granary_sim::rng::Stream;
use rustix::fs::{
    Advice, FallocateFlags, OFlags, copy_file_range, fadvise, fallocate, fdatasync, fsync, ftruncate,
};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// The file is never longer, bytes.
const LONGEST: u64 = 256 << 10;
/// The longest read, write or copy, bytes.
const MOST: u64 = 40_000;
const PAGE: u64 = 4096;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// `GRANARY_OPS` calls for each of `GRANARY_SEEDS` seeds from 1 on.
#[test]
fn calls_of_every_kind_on_one_file_agree_with_bytes_in_memory() {
    each(|rig| {
        for seed in 1..=number("GRANARY_SEEDS", 1) {
            let mut file = Exercise::new(rig, seed);
            for call in 1..=number("GRANARY_OPS", 2000) {
                let what = file.step();
                assert!(
                    file.differs.is_none(),
                    "{}, seed {seed}, call {call}: {what}: {:?}",
                    rig.fs,
                    file.differs
                );
            }
            file.compare_all();
            assert!(file.differs.is_none(), "{}, seed {seed}: {:?}", rig.fs, file.differs);
        }
    });
}

struct Exercise<'a> {
    rig: &'a Rig,
    rng: Stream,
    cached: File,
    direct: File,
    /// What the file must hold.
    bytes: Vec<u8>,
    /// First difference found, as text.
    differs: Option<String>,
}

impl<'a> Exercise<'a> {
    fn new(rig: &'a Rig, seed: u64) -> Exercise<'a> {
        let _ = std::fs::remove_file(rig.path("exercise"));
        let (cached, direct) = (open(rig, OFlags::empty()), open(rig, OFlags::DIRECT));
        let rng = Stream::new(seed, rig.fs);
        Exercise { rig, rng, cached, direct, bytes: Vec::new(), differs: None }
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// A range within `end`; half of them of whole pages, some of the others a few bytes.
    fn range(&mut self, end: u64) -> (u64, u64) {
        let (mut pos, mut len) = (self.rng.below(end), 1 + self.rng.below(MOST));
        match self.rng.below(6) {
            0..3 => (pos, len) = (pos / PAGE * PAGE, len.next_multiple_of(PAGE)),
            3 => len = 1 + len % 512,
            _ => {}
        }
        (pos, len.min(end - pos))
    }

    fn is_direct(&mut self) -> bool {
        self.rng.chance(0.5)
    }

    fn file(&self, direct: bool) -> &File {
        if direct { &self.direct } else { &self.cached }
    }

    /// Checks what was read at `pos`.
    fn compare(&mut self, pos: u64, got: &[u8]) {
        let expected = &self.bytes[pos as usize..pos as usize + got.len()];
        if let Some(i) = (0..got.len()).find(|&i| got[i] != expected[i]) {
            let at = pos + i as u64;
            self.differs = Some(format!("byte {at} is {:#x}, not {:#x}", got[i], expected[i]));
        }
    }

    fn compare_all(&mut self) {
        let got = std::fs::read(self.rig.path("exercise")).expect("read");
        if got.len() != self.bytes.len() {
            self.differs = Some(format!("{} bytes, not {}", got.len(), self.bytes.len()));
        } else {
            self.compare(0, &got);
        }
    }

    fn fill(&mut self, len: u64) -> Vec<u8> {
        if self.rng.chance(0.1) {
            return vec![self.rng.below(256) as u8; len as usize];
        }
        (0..len.div_ceil(8)).flat_map(|_| self.rng.next_u64().to_le_bytes()).take(len as usize).collect()
    }

    fn put(&mut self, pos: u64, data: &[u8]) {
        let end = pos as usize + data.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[pos as usize..end].copy_from_slice(data);
    }

    /// One call; returns what it was.
    fn step(&mut self) -> String {
        match self.rng.below(17) {
            0..5 => self.write(),
            5..9 if self.size() > 0 => self.read(),
            9 => self.truncate(),
            10 | 11 if self.size() > 0 => self.allocate(),
            12 if self.size() > 1 => self.copy(),
            13 => {
                fsync(&self.direct).expect("fsync");
                fadvise(&self.cached, 0, None, Advice::DontNeed).expect("fadvise");
                "fsync, cache dropped".to_owned()
            }
            14 => {
                fdatasync(&self.cached).expect("fdatasync");
                "fdatasync".to_owned()
            }
            15 if self.rng.chance(0.3) => {
                (self.cached, self.direct) =
                    (open(self.rig, OFlags::empty()), open(self.rig, OFlags::DIRECT));
                "close and open".to_owned()
            }
            16 if self.rng.chance(0.1) => {
                self.compare_all();
                "everything".to_owned()
            }
            _ => "nothing".to_owned(),
        }
    }

    fn write(&mut self) -> String {
        let ((pos, len), direct) = (self.range(LONGEST), self.is_direct());
        let data = self.fill(len);
        self.file(direct).write_all_at(&data, pos).expect("write");
        self.put(pos, &data);
        format!("write of {len} at {pos}, direct: {direct}")
    }

    fn read(&mut self) -> String {
        let ((pos, len), direct) = (self.range(self.size()), self.is_direct());
        let mut got = vec![0; len as usize];
        self.file(direct).read_exact_at(&mut got, pos).expect("read");
        self.compare(pos, &got);
        format!("read of {len} at {pos}, direct: {direct}")
    }

    fn truncate(&mut self) -> String {
        let size = if self.rng.chance(0.7) {
            LONGEST / 2 + self.rng.below(LONGEST / 2)
        } else {
            self.range(LONGEST).0
        };
        ftruncate(&self.cached, size).expect("truncate");
        self.bytes.resize(size as usize, 0);
        format!("truncate to {size}")
    }

    /// The kinds of fallocate; one that the file system does not know changes nothing.
    fn allocate(&mut self) -> String {
        let keep = FallocateFlags::KEEP_SIZE;
        let kinds = [
            FallocateFlags::empty(),
            keep,
            FallocateFlags::PUNCH_HOLE | keep,
            FallocateFlags::ZERO_RANGE,
            FallocateFlags::ZERO_RANGE | keep,
        ];
        let (kind, (pos, len)) = (kinds[self.rng.below(5) as usize], self.range(LONGEST));
        let text = format!("fallocate {kind:?} of {len} at {pos}");
        match fallocate(&self.cached, kind, pos, len) {
            Err(Errno::OPNOTSUPP) => return text,
            done => done.expect("fallocate"),
        }
        let size = self.bytes.len();
        let end = (pos + len) as usize;
        if !kind.contains(keep) {
            self.bytes.resize(size.max(end), 0);
        }
        if kind.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            let end = end.min(self.bytes.len());
            self.bytes[(pos as usize).min(end)..end].fill(0);
        }
        text
    }

    /// Within the file, between ranges that do not overlap.
    fn copy(&mut self) -> String {
        let ((from, len), (to, _)) = (self.range(self.size()), self.range(LONGEST));
        let len = len.min(from.abs_diff(to)).min(LONGEST - to);
        let text = format!("copy of {len} from {from} to {to}");
        let (mut src, mut dst) = (from, to);
        while src < from + len {
            let left = (from + len - src) as usize;
            let n = copy_file_range(&self.cached, Some(&mut src), &self.direct, Some(&mut dst), left);
            assert!(n.expect("copy_file_range") > 0, "{text}: nothing");
        }
        let data = self.bytes[from as usize..(from + len) as usize].to_vec();
        if len > 0 {
            self.put(to, &data);
        }
        text
    }
}

fn open(rig: &Rig, flags: OFlags) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(flags.bits() as i32);
    options.open(rig.path("exercise")).expect("open")
}
