//! [`Mapped`]: files that are mapped and written, read, cut by others at the same time.
//!
//! ```text
//!   /m0 /m1 /m2     twelve pages each: stores of some bytes, of lines, of pages; msync of some pages, fsync,
//!                   write, read
//! ```
//!
//! A page of a mapping is dirty without a call that says so: what is written back, and when, is the page
//! cache's business. Each client has mappings of its own of files that all share. Sizes stay: a store beyond
//! a file's end is nobody's.

use super::torture::expected;
use super::{Clients, Load, at_once};
use crate::recorded::Recorded;
use granary_fs::Allocate;
use granary_sim::rng::Stream;
use granary_units::{Dest, Nanos, PAGE_SIZE, Payload};
use granary_vfs::{Fd, MapHow, MapId, OpenFlags, Posix, Process};

/// The load of mappings.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Mapped {
    /// Three clients, 80 operations each.
    fn default() -> Mapped {
        Mapped { clients: 3, ops: 80 }
    }
}

const FILES: u64 = 3;
const PAGES: u64 = 12;
const PAGE: u64 = PAGE_SIZE as u64;
const SIZE: u64 = PAGES * PAGE;

impl Load for Mapped {
    fn name(&self) -> &str {
        "mapped"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let mut first = clients.client();
        for file in 0..FILES {
            let fd = first.open(format!("/m{file}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o644);
            let Some(fd) = expected("create", fd)? else { continue };
            // A file that was cut or is new: it has its full size again, half of it without blocks.
            expected("truncate", first.ftruncate(fd, SIZE))?;
            let data = Payload::Fill { word: 1, len: SIZE as usize / 2 };
            expected("write", first.pwrite(fd, data, 0))?;
            expected("close", first.close(fd))?;
        }
        first.into_inner().exit();
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |_, posix, random| {
            let mut one = One { posix, random, open: Vec::new() };
            move || {
                (0..ops).try_for_each(|_| one.step())?;
                one.close_all().map(|()| one.posix)
            }
        })
    }
}

struct One {
    posix: Recorded<Process>,
    random: Stream,
    /// Descriptors, each with a mapping of the whole file.
    open: Vec<(Fd, MapId)>,
}

impl One {
    fn step(&mut self) -> Result<(), String> {
        if self.open.is_empty() || (self.open.len() < 3 && self.random.chance(0.1)) {
            return self.open();
        }
        let (fd, map) = self.open[self.random.below(self.open.len() as u64) as usize];
        match self.random.below(100) {
            0..40 => {
                let (at, len) = self.place();
                let data = Payload::Fill { word: 1, len: len as usize };
                expected("store", self.posix.map_store(map, at, data)).map(drop)
            }
            40..55 => {
                let first = self.random.below(PAGES);
                let pages = 1 + self.random.below(PAGES - first);
                let wait = self.random.chance(0.8);
                expected("msync", self.posix.msync(map, first * PAGE, pages * PAGE, wait)).map(drop)
            }
            55..63 => {
                let done =
                    if self.random.chance(0.4) { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
                expected("fsync", done).map(drop)
            }
            63..73 => {
                let (at, len) = self.place();
                let data = Payload::Fill { word: 1, len: len as usize };
                expected("write", self.posix.pwrite(fd, data, at)).map(drop)
            }
            73..79 => {
                let (at, len) = self.place();
                let mut buffer = vec![0; len as usize];
                expected("read", self.posix.pread(fd, Dest::Bytes(&mut buffer), at)).map(drop)
            }
            79..85 => {
                let (at, len) = self.place();
                let mut buffer = vec![0; len as usize];
                expected("load", self.posix.map_load(map, at, Dest::Bytes(&mut buffer))).map(drop)
            }
            85..89 => {
                let (at, len) = self.place();
                expected("punch", self.posix.fallocate(fd, Allocate::PunchHole, at, len)).map(drop)
            }
            89 => expected("sync", self.posix.sync()).map(drop),
            90..93 => self.close(),
            _ => {
                granary_sim::sleep(Nanos(20_000 + self.random.below(1_500_000)));
                Ok(())
            }
        }
    }

    /// A place within the file: some bytes, some lines, some pages.
    fn place(&mut self) -> (u64, u64) {
        let (unit, most) = [(1, 100), (64, 6), (PAGE, 3)][self.random.below(3) as usize];
        let len = unit * (1 + self.random.below(most));
        (self.random.below((SIZE - len) / unit + 1) * unit, len)
    }

    fn open(&mut self) -> Result<(), String> {
        let path = format!("/m{}", self.random.below(FILES));
        let Some(fd) = expected("open", self.posix.open(path, OpenFlags::RDWR, 0))? else { return Ok(()) };
        let how = MapHow { shared: true, write: true };
        match expected("mmap", self.posix.mmap(fd, 0, SIZE, how))? {
            Some(map) => self.open.push((fd, map)),
            None => expected("close", self.posix.close(fd)).map(drop)?,
        }
        Ok(())
    }

    /// The mapping, the descriptor, or first the one, then the other: a mapping outlives its descriptor.
    fn close(&mut self) -> Result<(), String> {
        let Some((fd, map)) = self.open.pop() else { return Ok(()) };
        if self.random.chance(0.5) {
            expected("close", self.posix.close(fd))?;
            expected("store", self.posix.map_store(map, 0, Payload::Fill { word: 1, len: 64 }))?;
            return expected("munmap", self.posix.munmap(map)).map(drop);
        }
        expected("munmap", self.posix.munmap(map))?;
        expected("fsync", self.posix.fsync(fd))?;
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn close_all(&mut self) -> Result<(), String> {
        while !self.open.is_empty() {
            self.close()?;
        }
        Ok(())
    }
}
