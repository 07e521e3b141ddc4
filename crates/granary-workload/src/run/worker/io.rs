//! Flowops that move data.
//!
//! Sizes are drawn for each execution. A random offset is a multiple of the I/O size below
//! `working set - I/O size`, so the last block of the file is never chosen, as in Filebench. The working set
//! is the size that the file was given, whatever its size is now.
//!
//! Data written to a file repeats its word ([`crate::run::content_word`]); data read is discarded.

use super::{Exit, Node, Step, Worker};
use crate::run::content::Content;
use crate::spec::{FileRef, Io};
use granary_sim::now;
use granary_units::{Dest, Payload};
use granary_vfs::{Posix, Whence};

/// Bytes that a buffer of direct I/O needs beyond the I/O size, for its alignment.
const DIRECT_SLACK: u64 = 512;

impl<P: Posix + Send + 'static> Worker<P> {
    /// Checks that an I/O fits into the thread's memory.
    fn buffer(&self, node: &Node, file: &FileRef, size: u64) -> Step {
        let needed = size + if file.flags.direct { DIRECT_SLACK } else { 0 };
        let memsize = self.kind.memsize;
        if size == 0 {
            return Err(self.misuse(node, "an I/O of 0 bytes; give an iosize"));
        }
        if memsize != 0 && memsize < needed {
            let reason = format!(
                "an I/O of {size} bytes needs {needed} bytes of memory, the thread has {memsize}; raise its memsize"
            );
            return Err(self.misuse(node, reason));
        }
        Ok(())
    }

    /// Bytes of the file of `slot` that `node` uses.
    fn working_set(&self, node: &Node, slot: usize) -> u64 {
        match self.locals[node.local].working_set {
            0 => self.slots[slot].size,
            set => set,
        }
    }

    fn random_offset(&mut self, node: &Node, slot: usize, size: u64) -> Step<u64> {
        let set = self.working_set(node, slot);
        if size > set {
            let reason =
                format!("an I/O of {size} bytes at a random offset in a file (or working set) of {set}");
            return Err(self.misuse(node, reason));
        }
        Ok(if size == set { 0 } else { self.stream.below(set - size) / size * size })
    }

    /// The word of the file of a slot; that of a file deleted while open is not known any more.
    fn word(&self, slot: usize) -> u64 {
        self.slots[slot].file.map_or(1, |(set, file)| self.set(set as usize).word(file))
    }

    pub(super) fn read(&mut self, node: &Node, file: &FileRef, io: &Io) -> Step {
        let size = self.draws.int(io.size);
        let slot = self.opened(node, file)?;
        self.buffer(node, file, size)?;
        let at = if io.random { Some(self.random_offset(node, slot, size)?) } else { None };
        let fd = self.slots[slot].fd.expect("it was opened");
        let start = now();
        let dest = Dest::Discard(size as usize);
        let read = match at {
            Some(at) => self.client.pread(fd, dest, at).map_err(|e| ("pread", e)),
            None => self.client.read(fd, dest).map_err(|e| ("read", e)),
        };
        let read = read.map_err(|(call, e)| self.failed_on(node, call, slot, e))?;
        self.read_bytes(read);
        self.done(node, start, read as u64);
        if read == 0 {
            self.seek(node, slot, Whence::Set)?;
        }
        Ok(())
    }

    fn seek(&mut self, node: &Node, slot: usize, whence: Whence) -> Step {
        let fd = self.slots[slot].fd.expect("it was opened");
        match self.client.lseek(fd, 0, whence) {
            Ok(_) => Ok(()),
            Err(e) => Err(self.failed_on(node, "lseek", slot, e)),
        }
    }

    pub(super) fn read_whole(&mut self, node: &Node, file: &FileRef, io: &Io) -> Step {
        let slot = self.opened(node, file)?;
        let mut size = self.draws.int(io.size);
        if size == 0 {
            size = self.working_set(node, slot);
        }
        if size > 0 {
            self.buffer(node, file, size)?;
        }
        let fd = self.slots[slot].fd.expect("it was opened");
        let start = now();
        self.seek(node, slot, Whence::Set)?;
        let mut bytes = 0;
        loop {
            match self.client.read(fd, Dest::Discard(size as usize)) {
                Ok(0) => break,
                Ok(read) => {
                    self.read_bytes(read);
                    bytes += read as u64;
                }
                Err(e) => return Err(self.failed_on(node, "read", slot, e)),
            }
        }
        self.done(node, start, bytes);
        Ok(())
    }

    pub(super) fn write(&mut self, node: &Node, file: &FileRef, io: &Io) -> Step {
        let size = self.draws.int(io.size);
        let slot = self.opened(node, file)?;
        self.buffer(node, file, size)?;
        let at = if io.random { Some(self.random_offset(node, slot, size)?) } else { None };
        let fd = self.slots[slot].fd.expect("it was opened");
        // Over what is there where the place is random; elsewhere more of the same.
        let share = if at.is_some() { self.shared.changed_lines } else { 0.0 };
        let data = Content::new(self.word(slot), size as usize, at.unwrap_or(0), share, now());
        let data = data.payload();
        let start = now();
        let written = match at {
            Some(at) => self.client.pwrite(fd, data, at).map_err(|e| ("pwrite", e)),
            None => self.client.write(fd, data).map_err(|e| ("write", e)),
        };
        let written = written.map_err(|(call, e)| self.failed_on(node, call, slot, e))?;
        self.wrote_bytes(written);
        self.done(node, start, written as u64);
        Ok(())
    }

    pub(super) fn write_whole(&mut self, node: &Node, file: &FileRef, io: &Io, size_from: u16) -> Step {
        let slot = self.opened(node, file)?;
        let mut size = self.draws.int(io.size);
        if size == 0 {
            size = self.working_set(node, slot);
        }
        if size > 0 {
            self.buffer(node, file, size)?;
        }
        let source = if size_from == 0 { slot } else { usize::from(size_from) };
        let whole = match self.slots[source].file {
            Some((set, file)) => self.set(set as usize).tree.size(file),
            None if size_from == 0 => self.working_set(node, slot),
            None => {
                return Err(self.misuse(node, format!("srcfd {source} has no file to take the length from")));
            }
        };
        let fd = self.slots[slot].fd.expect("it was opened");
        let word = self.word(slot);
        let start = now();
        let mut bytes = 0;
        while bytes < whole {
            let len = size.max(1).min(whole - bytes) as usize;
            match self.client.write(fd, Payload::Fill { word, len }) {
                Ok(written) => {
                    self.wrote_bytes(written);
                    bytes += written as u64;
                }
                Err(e) => return Err(self.failed_on(node, "write", slot, e)),
            }
        }
        self.done(node, start, bytes);
        Ok(())
    }

    /// `appendfile`, and `appendfilerand` with a random size below the I/O size.
    pub(super) fn append(&mut self, node: &Node, file: &FileRef, io: &Io, random: bool) -> Step {
        let mut size = self.draws.int(io.size);
        if random {
            // Filebench draws from 0 up to, not including, iosize - 1; drawing 0 is an operation that does
            // nothing.
            size = if size > 1 { self.stream.below(size - 1) } else { 0 };
            if size == 0 {
                self.done(node, now(), 0);
                return Ok(());
            }
        }
        let slot = self.opened(node, file)?;
        self.buffer(node, file, size)?;
        let fd = self.slots[slot].fd.expect("it was opened");
        let data = Payload::Fill { word: self.word(slot), len: size as usize };
        let start = now();
        self.seek(node, slot, Whence::End)?;
        let written = match self.client.write(fd, data) {
            Ok(written) => written,
            Err(e) => return Err(self.failed_on(node, "write", slot, e)),
        };
        self.wrote_bytes(written);
        self.done(node, start, written as u64);
        Ok(())
    }

    pub(super) fn aio_write(&mut self, node: &Node, file: &FileRef, io: &Io) -> Step {
        if !io.random {
            return Err(self.misuse(node, "aiowrite works at random offsets only; add `random`"));
        }
        let size = self.draws.int(io.size);
        let slot = self.opened(node, file)?;
        self.buffer(node, file, size)?;
        let at = self.random_offset(node, slot, size)?;
        let start = now();
        self.start_write(node, slot, size as usize, at)?;
        self.done(node, start, size);
        Ok(())
    }

    pub(super) fn aio_wait(&mut self, node: &Node) -> Step {
        let start = now();
        if let Some(aio) = &self.aio
            && !aio.wait(&self.shared)
        {
            return Err(Exit::Over);
        }
        self.done(node, start, 0);
        Ok(())
    }
}
