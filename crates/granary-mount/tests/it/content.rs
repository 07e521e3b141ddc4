//! The calls of an [`Exercise`] on what a file holds: reads and writes of each kind, sizes, space, copies,
//! mappings, holes, syncs.

use super::exerciser::{Exercise, Open};
use super::model::Id;
use rustix::fs::{
    Advice, FallocateFlags, SeekFrom, copy_file_range, fadvise, fallocate, fdatasync, fsync, ftruncate, seek,
};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The longest read, write or copy but for one in 32, bytes.
const MOST: u64 = 40_000;
const PAGE: u64 = 4096;

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

impl Exercise {
    /// Call number 0 to 111 on an open file.
    pub(super) fn content_call(&mut self, slot: usize, call: u64, what: &mut String) -> Result<(), String> {
        let size = self.model.file(self.slot(slot).file).size();
        match call {
            0..32 => self.write(slot, what),
            32..56 if size > 0 => self.read(slot, what),
            56..60 => self.truncate(slot, what),
            60..74 => self.allocate(slot, what),
            74..80 if size > 1 => self.copy(slot, what),
            80..88 => self.holes(slot, what),
            88..104 if size > 0 => self.map(slot, what),
            104..112 => self.sync(slot, what),
            _ => {
                *what = "nothing".to_owned();
                Ok(())
            }
        }
    }

    fn slot(&self, slot: usize) -> &Open {
        self.open[slot].as_ref().expect("the step has opened it")
    }

    /// One of the two descriptors, which they are, and the file.
    fn either(&mut self, slot: usize) -> (&File, &'static str, Id) {
        let direct = self.rng.chance(0.5);
        let open = self.slot(slot);
        (open.descriptor(direct), if direct { "direct" } else { "cached" }, open.file)
    }

    /// A range within `end`; half of them of whole pages, some of the others a few bytes.
    fn range(&mut self, end: u64) -> (u64, u64) {
        let most = if self.rng.below(32) == 0 { end } else { MOST };
        let (mut pos, mut len) = (self.rng.below(end), 1 + self.rng.below(most));
        match self.rng.below(6) {
            0..3 => (pos, len) = (pos / PAGE * PAGE, len.next_multiple_of(PAGE)),
            3 => len = 1 + len % 512,
            _ => {}
        }
        (pos, len.min(end - pos))
    }

    fn fill(&mut self, len: u64) -> Vec<u8> {
        if self.rng.chance(0.1) {
            return vec![self.rng.below(256) as u8; len as usize];
        }
        let mut data = vec![0; len as usize];
        for piece in data.chunks_mut(8) {
            piece.copy_from_slice(&self.rng.next_u64().to_le_bytes()[..piece.len()]);
        }
        data
    }

    fn write(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let (pos, len) = self.range(self.longest);
        let data = self.fill(len);
        let (descriptor, kind, file) = self.either(slot);
        *what = format!("{kind} write of {len} at {pos} of file {file}");
        descriptor.write_all_at(&data, pos).map_err(text)?;
        self.model.file_mut(file).put(pos, &data);
        Ok(())
    }

    fn read(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let (pos, len) = self.range(self.model.file(self.slot(slot).file).size());
        let mut got = vec![0; len as usize];
        let (descriptor, kind, file) = self.either(slot);
        *what = format!("{kind} read of {len} at {pos} of file {file}");
        descriptor.read_exact_at(&mut got, pos).map_err(text)?;
        self.compare(file, pos, &got, false)
    }

    fn truncate(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let half = self.longest / 2;
        let size =
            if self.rng.chance(0.7) { half + self.rng.below(half) } else { self.range(self.longest).0 };
        let (descriptor, _, file) = self.either(slot);
        *what = format!("truncate of file {file} to {size}");
        ftruncate(descriptor, size).map_err(text)?;
        self.model.file_mut(file).bytes.resize(size as usize, 0);
        Ok(())
    }

    /// The kinds of fallocate; one that the file system does not know changes nothing.
    fn allocate(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let keep = FallocateFlags::KEEP_SIZE;
        let kinds = [
            FallocateFlags::empty(),
            keep,
            FallocateFlags::PUNCH_HOLE | keep,
            FallocateFlags::ZERO_RANGE,
            FallocateFlags::ZERO_RANGE | keep,
        ];
        let (kind, (pos, len)) = (kinds[self.rng.below(5) as usize], self.range(self.longest));
        let (descriptor, _, file) = self.either(slot);
        *what = format!("fallocate {kind:?} of {len} at {pos} of file {file}");
        match fallocate(descriptor, kind, pos, len) {
            Err(Errno::OPNOTSUPP) => return Ok(()),
            done => done.map_err(text)?,
        }
        let content = self.model.file_mut(file);
        if !kind.contains(keep) {
            content.bytes.resize(content.bytes.len().max((pos + len) as usize), 0);
        }
        if kind.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            content.zero(pos, len);
        }
        Ok(())
    }

    /// To any open file; within one between ranges that do not overlap.
    fn copy(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let file = self.slot(slot).file;
        let other = self.rng.below(self.open.len() as u64) as usize;
        let other = if self.open[other].is_some() { other } else { slot };
        let ((from, len), (to, _)) = (self.range(self.model.file(file).size()), self.range(self.longest));
        let mut len = len.min(self.longest - to);
        let target = self.slot(other).file;
        if target == file {
            len = len.min(from.abs_diff(to));
        }
        *what = format!("copy of {len} from {from} of file {file} to {to} of file {target}");
        let (src_direct, dst_direct) = (self.rng.chance(0.5), self.rng.chance(0.5));
        let (src, dst) = (self.slot(slot).descriptor(src_direct), self.slot(other).descriptor(dst_direct));
        let (mut read, mut written) = (from, to);
        while read < from + len {
            let left = (from + len - read) as usize;
            if copy_file_range(src, Some(&mut read), dst, Some(&mut written), left).map_err(text)? == 0 {
                return Err("copied nothing".to_owned());
            }
        }
        if len > 0 {
            let data = self.model.file(file).bytes[from as usize..(from + len) as usize].to_vec();
            self.model.file_mut(target).put(to, &data);
        }
        Ok(())
    }

    /// SEEK_DATA and SEEK_HOLE: bytes before data are zeros, a hole is one, and both are within the file.
    fn holes(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let pos = self.range(self.longest).0;
        let direct = self.rng.chance(0.5);
        let (file, descriptor) = (self.slot(slot).file, self.slot(slot).descriptor(direct));
        *what = format!("SEEK_DATA and SEEK_HOLE from {pos} of file {file}");
        // Pages that were stored into through mappings count, written back or not.
        let content = self.model.file(file);
        let size = content.size();
        let data = seek(descriptor, SeekFrom::Data(pos));
        let hole = seek(descriptor, SeekFrom::Hole(pos));
        if pos >= size {
            let both = (data, hole);
            return if both == (Err(Errno::NXIO), Err(Errno::NXIO)) {
                Ok(())
            } else {
                Err(format!("{both:?}"))
            };
        }
        let first = match data {
            Ok(at) if at >= pos && at < size => at,
            Err(Errno::NXIO) => size,
            other => return Err(format!("data at {other:?} of {size}")),
        };
        if !content.is_zero(pos, first) {
            return Err(format!("data at {first}, but there is some before"));
        }
        let hole = match hole {
            Ok(at) if at >= pos && at <= size => at,
            other => return Err(format!("a hole at {other:?} of {size}")),
        };
        if hole < size && seek(descriptor, SeekFrom::Data(hole)) == Ok(hole) {
            return Err(format!("both a hole and data at {hole}"));
        }
        if hole > pos && first != pos {
            return Err(format!("{pos} is data (a hole at {hole}) and is not (data at {first})"));
        }
        Ok(())
    }

    /// Loads and stores through a mapping, where there are some.
    fn map(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let Some(mappings) = self.mappings else {
            *what = "nothing".to_owned();
            return Ok(());
        };
        let (pos, len) = self.range(self.model.file(self.slot(slot).file).size());
        if self.rng.chance(0.4) {
            let mut got = vec![0; len as usize];
            let (descriptor, kind, file) = self.either(slot);
            *what = format!("load of {len} at {pos} of file {file}, mapped {kind}");
            mappings.load(descriptor, pos, &mut got).map_err(text)?;
            return self.compare(file, pos, &got, false);
        }
        let (data, sync) = (self.fill(len), self.rng.chance(0.2));
        let (descriptor, kind, file) = self.either(slot);
        *what = format!("store of {len} at {pos} of file {file}, mapped {kind}, msync: {sync}");
        mappings.store(descriptor, pos, &data, sync).map_err(text)?;
        self.model.file_mut(file).put(pos, &data);
        Ok(())
    }

    /// fsync, fdatasync, and clean pages dropped.
    fn sync(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let (drops, all) = (self.rng.chance(0.4), self.rng.chance(0.5));
        let (descriptor, kind, file) = self.either(slot);
        let call = if all { "fsync" } else { "fdatasync" };
        *what = format!("{kind} {call} of file {file}, cache dropped: {drops}");
        if all { fsync(descriptor) } else { fdatasync(descriptor) }.map_err(text)?;
        if drops {
            fadvise(descriptor, 0, None, Advice::DontNeed).map_err(text)?;
        }
        Ok(())
    }
}
