//! [`Region`]: a memory as a file, read with its checksums and changed by redo records only; [`Regions`]:
//! those of an image.
//!
//! ```text
//!   | bytes ...            | checksums, 4 B per 4 KiB of all before |        the file, in blocks of 4 KiB
//!   records ──apply──> changed blocks in memory ──flush──> file: blocks in ascending order, then their
//!                                                          checksums
//!   read: changed block, else block of the file, which must have its checksum
//! ```
//!
//! Invariants: a block is written only with content that the redo log, still in place, can make again; so a
//! flush that is interrupted does no harm. A block that was never written is zeros and has the checksum zero.
//! It does *not* know what the bytes mean.

use super::host::HostFile;
use super::redo::Memory;
use super::{ImageError, word};
use granary_units::PAGE_SIZE;
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Unit of checksums and checkpoint writes.
pub const BLOCK: u64 = PAGE_SIZE as u64;
/// Changed blocks kept in memory before they are written: 16 MiB.
const MOST_CHANGED: usize = 4096;
/// Blocks read at once.
const WINDOW: u64 = 64;

type Block = [u8; BLOCK as usize];

/// Length of the file of a memory of so many bytes, a multiple of [`BLOCK`].
pub fn file_len(bytes: u64) -> u64 {
    (bytes + bytes / BLOCK * 4).next_multiple_of(BLOCK)
}

/// A memory that survives power loss, as a file.
pub struct Region {
    file: Arc<dyn HostFile>,
    memory: Memory,
    /// Bytes of it; behind them the checksums.
    len: u64,
    changed: FxHashMap<u64, Box<Block>>,
    /// Changes stay in memory.
    read_only: bool,
}

/// The checksum of a block that has been written; never zero.
fn checksum(block: &[u8]) -> u32 {
    super::sum::page(block).max(1)
}

impl Region {
    /// The `len` bytes of `memory` in `file`, in whole blocks; the file is as long as [`file_len`] says.
    pub fn new(file: Arc<dyn HostFile>, memory: Memory, len: u64, read_only: bool) -> Region {
        Region { file, memory, len, changed: FxHashMap::default(), read_only }
    }

    /// Reads bytes and checks the blocks that they lie in.
    ///
    /// # Errors
    /// [`ImageError::Damaged`], host errors.
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<(), ImageError> {
        let host = |e| self.reading(e);
        let end = at + out.len() as u64;
        let most = WINDOW.min(end.div_ceil(BLOCK) - at / BLOCK);
        let (mut bytes, mut sums) = (vec![0; (most * BLOCK) as usize], vec![0; most as usize * 4]);
        let mut first = at / BLOCK;
        while first * BLOCK < end {
            let n = WINDOW.min(end.div_ceil(BLOCK) - first);
            let (bytes, sums) = (&mut bytes[..(n * BLOCK) as usize], &mut sums[..n as usize * 4]);
            self.file.read_at(first * BLOCK, bytes).map_err(host)?;
            self.file.read_at(self.len + first * 4, sums).map_err(host)?;
            for (i, block) in bytes.chunks_exact(BLOCK as usize).enumerate() {
                let number = first + i as u64;
                let block: &[u8] = match self.changed.get(&number) {
                    Some(changed) => &changed[..],
                    None => {
                        self.verify(number, block, word(sums, i * 4))?;
                        block
                    }
                };
                let (from, to) = (at.max(number * BLOCK), end.min((number + 1) * BLOCK));
                let part = &block[(from - number * BLOCK) as usize..(to - number * BLOCK) as usize];
                out[(from - at) as usize..(to - at) as usize].copy_from_slice(part);
            }
            first += n;
        }
        Ok(())
    }

    fn reading(&self, e: io::Error) -> ImageError {
        ImageError::host(format!("reading {}", self.memory.file()), e)
    }

    /// The parts of `range` that may hold other bytes than zeros, ascending, in whole blocks.
    ///
    /// # Errors
    /// Host errors.
    pub fn used(&self, range: Range<u64>) -> Result<Vec<Range<u64>>, ImageError> {
        let mut used: Vec<Range<u64>> = Vec::new();
        let mut at = range.start;
        while at < range.end
            && let Some(data) = self.file.next_data(at).map_err(|e| self.reading(e))?
            && data.start < range.end
        {
            used.push(data.start / BLOCK * BLOCK..data.end.next_multiple_of(BLOCK).min(range.end));
            at = data.end;
        }
        let changed = self.changed.keys().map(|b| b * BLOCK).filter(|at| range.contains(at));
        used.extend(changed.map(|at| at..(at + BLOCK).min(range.end)));
        used.sort_unstable_by_key(|r| r.start);
        used.dedup_by(|next, last| {
            let joins = next.start <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        Ok(used)
    }

    /// Puts bytes in place.
    ///
    /// # Errors
    /// Host errors. A place outside the memory is one of kind `InvalidData`.
    pub fn apply(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at > self.len || bytes.len() as u64 > self.len - at {
            let why = format!(
                "a redo record writes {} bytes at {at}, outside the {} bytes of {}",
                bytes.len(),
                self.memory.file(),
                self.len
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let (mut at, mut bytes) = (at, bytes);
        while !bytes.is_empty() {
            let from = (at % BLOCK) as usize;
            let n = bytes.len().min(BLOCK as usize - from);
            self.block(at / BLOCK)?[from..from + n].copy_from_slice(&bytes[..n]);
            (at, bytes) = (at + n as u64, &bytes[n..]);
        }
        Ok(())
    }

    fn block(&mut self, number: u64) -> io::Result<&mut Block> {
        if self.changed.len() >= MOST_CHANGED && !self.read_only && !self.changed.contains_key(&number) {
            self.flush()?;
        }
        match self.changed.entry(number) {
            std::collections::hash_map::Entry::Occupied(e) => Ok(e.into_mut()),
            std::collections::hash_map::Entry::Vacant(e) => {
                // Not checked: an interrupted flush may have torn it, and then the records restore every
                // changed byte.
                let mut block = Box::new([0; BLOCK as usize]);
                self.file.read_at(number * BLOCK, &mut block[..])?;
                Ok(e.insert(block))
            }
        }
    }

    /// Writes all changed blocks to the file, unless it is only read.
    ///
    /// # Errors
    /// Host errors; the changes stay in memory then.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.read_only || self.changed.is_empty() {
            return Ok(());
        }
        let mut numbers: Vec<u64> = self.changed.keys().copied().collect();
        numbers.sort_unstable();
        let (mut bytes, mut sums) = (Vec::new(), Vec::new());
        for run in numbers.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(256)) {
            bytes.clear();
            sums.clear();
            for number in run {
                let block = &self.changed[number][..];
                bytes.extend_from_slice(block);
                sums.extend_from_slice(&checksum(block).to_le_bytes());
            }
            self.file.write_at(run[0] * BLOCK, &bytes)?;
            self.file.write_at(self.len + run[0] * 4, &sums)?;
        }
        self.changed.clear();
        Ok(())
    }

    /// Returns when everything flushed is on the machine's disk.
    ///
    /// # Errors
    /// Host errors.
    pub fn sync(&self) -> io::Result<()> {
        if self.read_only { Ok(()) } else { self.file.sync() }
    }

    /// Another one of the same file, which has no changes of its own and is only read.
    pub fn reader(&self) -> Region {
        Region::new(self.file.clone(), self.memory, self.len, true)
    }

    fn verify(&self, number: u64, block: &[u8], stored: u32) -> Result<(), ImageError> {
        let as_new = stored == 0 && block.iter().all(|&b| b == 0);
        if as_new || stored == checksum(block) {
            return Ok(());
        }
        Err(ImageError::damaged(
            self.memory.file(),
            format!(
                "the 4 KiB at {} have the checksum {:#010x}, recorded is {stored:#010x}",
                number * BLOCK,
                checksum(block)
            ),
        ))
    }
}

/// The memories of an image.
#[derive(Default)]
pub struct Regions([Option<Region>; Memory::ALL.len()]);

impl Regions {
    /// These, and this one in the place of the one that there was.
    pub fn put(&mut self, region: Region) {
        let place = region.memory as usize;
        self.0[place] = Some(region);
    }

    /// The one of a memory.
    pub fn get(&self, memory: Memory) -> Option<&Region> {
        self.0[memory as usize].as_ref()
    }

    /// Takes one out.
    pub fn take(&mut self, memory: Memory) -> Option<Region> {
        self.0[memory as usize].take()
    }

    /// Puts bytes in place.
    ///
    /// # Errors
    /// As [`Region::apply`]; `InvalidData` for a memory that the image does not have.
    pub fn apply(&mut self, memory: Memory, at: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            // Zeros behind a frame read as such.
            return Ok(());
        }
        let Some(region) = &mut self.0[memory as usize] else {
            let why = format!("a redo record writes to {}, which the image does not have", memory.file());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        };
        region.apply(at, bytes)
    }

    /// Writes all that has changed to the files.
    ///
    /// # Errors
    /// Host errors, with what was being done.
    pub fn flush(&mut self) -> Result<(), ImageError> {
        self.0.iter_mut().flatten().try_for_each(|r| {
            r.flush().map_err(|e| ImageError::host(format!("writing {}", r.memory.file()), e))
        })
    }

    /// Returns when everything flushed is on the machine's disk.
    ///
    /// # Errors
    /// As [`Regions::flush`].
    pub fn sync(&self) -> Result<(), ImageError> {
        self.0.iter().flatten().try_for_each(|r| {
            r.sync().map_err(|e| ImageError::host(format!("syncing {}", r.memory.file()), e))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::DRAM;
    use crate::host::{Host, memory::MemoryHost};

    const LEN: u64 = 16 * BLOCK;

    fn dram(host: &MemoryHost) -> Region {
        let file = host.open(DRAM, false).expect("file");
        file.set_len(file_len(LEN)).expect("length");
        Region::new(file, Memory::Dram, LEN, false)
    }

    #[test]
    fn what_is_outside_or_of_another_memory_is_refused() {
        let host = MemoryHost::new();
        let mut regions = Regions::default();
        regions.put(dram(&host));
        for (memory, at, len) in
            [(Memory::Dram, LEN - 1, 2), (Memory::Dram, u64::MAX, 1), (Memory::Nvm, 0, 1)]
        {
            let e = regions.apply(memory, at, &[1; 2][..len]).expect_err("refused");
            assert_eq!(e.kind(), io::ErrorKind::InvalidData, "{e}");
        }
        regions.apply(Memory::Dram, LEN - 2, &[1; 2]).expect("inside");
        regions.apply(Memory::Nvm, 0, &[]).expect("nothing");
        regions.flush().expect("flushed");
        assert!(regions.get(Memory::Dram).is_some() && regions.get(Memory::Nvm).is_none());
    }

    #[test]
    fn what_was_applied_is_read_back_before_and_after_the_flush() {
        let host = MemoryHost::new();
        let mut d = dram(&host);
        d.apply(4000, &[7; 200]).expect("applied");
        let mut out = [1; 300];
        for _ in 0..2 {
            d.read(3950, &mut out).expect("read");
            assert!(
                out[..50].iter().all(|b| *b == 0)
                    && out[50..250].iter().all(|b| *b == 7)
                    && out[250..] == [0; 50]
            );
            d.flush().expect("flushed");
        }
        assert_eq!(d.used(0..1 << 14).expect("used").first().map(|r| r.start), Some(0));
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let host = MemoryHost::new();
        let mut d = dram(&host);
        d.apply(5000, &[9; 10]).expect("applied");
        d.flush().expect("flushed");
        host.tamper(DRAM, |b| b[5003] ^= 4);
        assert!(matches!(d.read(5000, &mut [0; 4]), Err(ImageError::Damaged { file: DRAM, .. })));
        d.read(9000, &mut [0; 4]).expect("another block");
    }
}
