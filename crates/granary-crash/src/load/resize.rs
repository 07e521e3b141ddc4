//! [`Resize`]: files cut and grown around the borders of pages, extents and blocks, with an fsync between any
//! two.
//!
//! ```text
//!   size  |----------------x|        cut inside a page: what was behind it must never come back
//!         |----------------x00000|   grown again, by truncate, a write behind it, or reserved space
//! ```
//!
//! In some visits each write is durable when it returns, while the page of the old end is not: what media
//! have there must not show. Sizes are borders of [`BORDERS`] and a few bytes beside them. So the page of the
//! old end is cut, zeroed and filled again and again; so are the last block of an extent and the first of the
//! next.

use super::torture::expected;
use super::{Clients, Load, at_once};
use crate::recorded::Recorded;
use granary_fs::Allocate;
use granary_sim::rng::Stream;
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process};

/// The load of sizes.
#[derive(Clone, Copy, Debug)]
pub struct Resize {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Resize {
    /// Three clients, 90 operations each.
    fn default() -> Resize {
        Resize { clients: 3, ops: 90 }
    }
}

const FILES: u64 = 2;
/// Pages at whose ends something ends in one of the layouts: direct pointers, inline data, extents, large
/// blocks, nodes.
const BORDERS: [u64; 13] = [0, 1, 2, 7, 8, 9, 11, 12, 13, 16, 64, 128, 512];

impl Load for Resize {
    fn name(&self) -> &str {
        "resize"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random };
            move || {
                let mut left = ops;
                while left > 0 {
                    left = left.saturating_sub(one.visit()?);
                }
                Ok(one.posix)
            }
        })
    }
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
}

impl One {
    /// A border, or a few bytes beside it.
    fn size(&mut self) -> u64 {
        let border = BORDERS[self.random.below(BORDERS.len() as u64) as usize] * 4096;
        let beside = [0, 0, 1, 7, 64, 100, 511, 2000][self.random.below(8) as usize];
        if self.random.chance(0.5) { border + beside } else { border.saturating_sub(beside) }
    }

    /// Opens a file, changes it some times, closes it; says how many calls that were.
    fn visit(&mut self) -> Result<u32, String> {
        let path = format!("/r{}.{}", self.id, self.random.below(FILES));
        if self.random.chance(0.03) {
            expected("unlink", self.posix.unlink(&path))?;
        }
        // A write that is durable when it returns takes the size past an old end whose page is still dirty.
        let durable = if self.random.chance(0.3) { OpenFlags::DSYNC } else { OpenFlags::empty() };
        let fd = self.posix.open(&path, OpenFlags::RDWR | OpenFlags::CREAT | durable, 0o644);
        let Some(fd) = expected("open", fd)? else { return Ok(1) };
        if !durable.is_empty() && self.random.chance(0.5) {
            self.regrow(fd)?;
        }
        let steps = 1 + self.random.below(12) as u32;
        for _ in 0..steps {
            self.step(fd)?;
        }
        expected("close", self.posix.close(fd))?;
        Ok(steps)
    }

    /// Data, a cut within it, both durable; then a write beyond that page, durable by itself.
    fn regrow(&mut self, fd: Fd) -> Result<(), String> {
        let page = self.size() / 4096 * 4096;
        let len = 200 + self.random.below(3800);
        expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len: len as usize }, page))?;
        expected("truncate", self.posix.ftruncate(fd, page + self.random.below(len)))?;
        expected("fsync", self.posix.fsync(fd))?;
        let (beyond, len) = (page + 4096 * (1 + self.random.below(3)), 1 + self.random.below(500));
        expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len: len as usize }, beyond))
            .map(drop)
    }

    fn step(&mut self, fd: Fd) -> Result<(), String> {
        let size = self.size();
        let len = 1 + self.random.below(6_000);
        match self.random.below(100) {
            0..34 => expected("truncate", self.posix.ftruncate(fd, size)).map(drop),
            34..58 => {
                // Up to the border, over it, or behind it.
                let at = size.saturating_sub(self.random.below(len + 1));
                let data = Payload::Fill { word: 1, len: len as usize };
                expected("write", self.posix.pwrite(fd, data, at)).map(drop)
            }
            58..66 => {
                let keep_size = self.random.chance(0.5);
                let how = match self.random.below(3) {
                    0 => Allocate::Reserve { keep_size },
                    1 => Allocate::PunchHole,
                    _ => Allocate::ZeroRange { keep_size },
                };
                expected("fallocate", self.posix.fallocate(fd, how, size, len)).map(drop)
            }
            66..86 => {
                let done =
                    if self.random.chance(0.4) { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
                expected("fsync", done).map(drop)
            }
            86..91 => {
                // The page of an old end comes back into memory.
                expected("let go", self.posix.let_go(fd))?;
                let mut buffer = vec![0; len as usize];
                expected("read", self.posix.pread(fd, Dest::Bytes(&mut buffer), size)).map(drop)
            }
            91 => expected("sync", self.posix.sync()).map(drop),
            _ => {
                granary_sim::sleep(Nanos(20_000 + self.random.below(2_000_000)));
                Ok(())
            }
        }
    }
}
