//! [`MemoryHost`]: an image in memory that can stop at any write and lose what was not synced, for tests.
//!
//! ```text
//!   write 1 | write 2 | sync | write 3 | write 4 |X  stop_after(4, 100 bytes of the 5th)
//!   ----------- safe --------|--- unsynced ------|
//!   after_process_death:  all of them             after_machine_crash:  any subset of the blocks of 3 and 4
//! ```
//!
//! Invariants: from the stop on every write and sync fails and nothing changes any more; a dropped block has
//! the content of the last kept write to it. It does *not* model a disk that lies about syncs.

use super::{Host, HostFile, Map};
use crate::ImageError;
use granary_sim::rng::Stream;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Default)]
struct Content {
    /// Content as of the last sync.
    safe: Vec<u8>,
    /// Content that reads see.
    now: Vec<u8>,
    /// Writes since the last sync, in order.
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<&'static str, Content>,
    writes: u64,
    syncs: u64,
    /// After this many writes the host stops; of the next one this many bytes are written.
    stop: Option<(u64, usize)>,
    stopped: bool,
    /// Bytes that all files together may have written; beyond it the disk is full.
    space: Option<u64>,
    written: u64,
}

/// Files in memory.
#[derive(Clone, Default)]
pub struct MemoryHost(Arc<Mutex<State>>);

impl MemoryHost {
    /// An empty place.
    pub fn new() -> MemoryHost {
        MemoryHost::default()
    }

    /// Writes so far.
    pub fn writes(&self) -> u64 {
        self.0.lock().writes
    }

    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// Lets `writes` more writes through, then `bytes` bytes of the next one; everything after that fails.
    pub fn stop_after(&self, writes: u64, bytes: usize) {
        let mut s = self.0.lock();
        s.stop = Some((s.writes + writes, bytes));
    }

    /// Whether the stop has come.
    pub fn has_stopped(&self) -> bool {
        self.0.lock().stopped
    }

    /// The disk takes `bytes` more bytes, then it is full; `None` for no limit.
    pub fn limit_space(&self, bytes: Option<u64>) {
        let mut s = self.0.lock();
        (s.space, s.written) = (bytes, 0);
    }

    /// Changes the bytes of a file behind everybody's back: returns false where there is no such file.
    pub fn tamper(&self, name: &'static str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut s = self.0.lock();
        let Some(file) = s.files.get_mut(name) else { return false };
        change(&mut file.now);
        (file.safe, file.unsynced) = (file.now.clone(), Vec::new());
        true
    }

    /// The state after the death of the process: everything written is there.
    pub fn after_process_death(&self) -> MemoryHost {
        let files = &self.0.lock().files;
        let keep = |c: &Content| Content { safe: c.now.clone(), now: c.now.clone(), unsynced: Vec::new() };
        MemoryHost::with(files.iter().map(|(n, c)| (*n, keep(c))).collect())
    }

    /// A possible state after a crash of the machine: everything synced is there. Of later writes each block
    /// of `block` bytes is there or not, of one file perhaps all and of another none.
    pub fn after_machine_crash(&self, block: usize, random: &mut Stream) -> MemoryHost {
        let files = &self.0.lock().files;
        let mut lose = |c: &Content| {
            // Sometimes all or nothing, which independent draws would never give; and of each file on its
            // own, because the order between files is what an image has to get right.
            let share = [0.0, 0.5, 0.9, 1.0][random.below(4) as usize];
            let mut safe = c.safe.clone();
            safe.resize(c.now.len(), 0);
            for (at, data) in &c.unsynced {
                let mut from = 0;
                while from < data.len() {
                    let n = (block - (at + from) % block).min(data.len() - from);
                    let end = at + from + n;
                    if random.chance(share) && end <= safe.len() {
                        safe[at + from..end].copy_from_slice(&data[from..from + n]);
                    }
                    from += n;
                }
            }
            Content { now: safe.clone(), safe, unsynced: Vec::new() }
        };
        MemoryHost::with(files.iter().map(|(n, c)| (*n, lose(c))).collect())
    }

    fn with(files: BTreeMap<&'static str, Content>) -> MemoryHost {
        MemoryHost(Arc::new(Mutex::new(State { files, ..State::default() })))
    }
}

fn stopped() -> io::Error {
    io::Error::other("the host has stopped")
}

impl State {
    /// Bytes of a write of `len` that go through, and what to say about it.
    fn admit(&mut self, len: usize) -> (usize, io::Result<()>) {
        if self.stopped {
            return (0, Err(stopped()));
        }
        if let Some((writes, bytes)) = self.stop
            && self.writes >= writes
        {
            self.stopped = true;
            return (bytes.min(len), Err(stopped()));
        }
        if let Some(space) = self.space
            && self.written + len as u64 > space
        {
            return (0, Err(io::ErrorKind::StorageFull.into()));
        }
        self.writes += 1;
        self.written += len as u64;
        (len, Ok(()))
    }
}

impl Host for MemoryHost {
    fn path(&self) -> &Path {
        Path::new("(memory)")
    }

    fn create(&self, force: bool) -> Result<(), ImageError> {
        let mut s = self.0.lock();
        if !s.files.is_empty() && !force {
            return Err(ImageError::Exists { path: self.path().to_owned() });
        }
        s.files.clear();
        Ok(())
    }

    fn open(&self, name: &'static str, read_only: bool) -> io::Result<Arc<dyn HostFile>> {
        let mut s = self.0.lock();
        if read_only && !s.files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        s.files.entry(name).or_default();
        Ok(Arc::new(MemoryFile { state: self.0.clone(), name }))
    }

    fn exists(&self, name: &'static str) -> bool {
        self.0.lock().files.contains_key(name)
    }

    fn replace(&self, name: &'static str, content: &[u8]) -> io::Result<()> {
        let mut s = self.0.lock();
        let (n, said) = s.admit(content.len());
        if n == content.len() && said.is_ok() {
            let (safe, now) = (content.to_vec(), content.to_vec());
            s.files.insert(name, Content { safe, now, unsynced: Vec::new() });
        }
        said
    }

    fn rename(&self, from: &'static str, to: &'static str) -> io::Result<()> {
        let mut s = self.0.lock();
        s.admit(0).1?;
        let file = s.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        s.files.insert(to, file);
        Ok(())
    }

    fn remove(&self, name: &'static str) -> io::Result<()> {
        let mut s = self.0.lock();
        s.admit(0).1?;
        s.files.remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn lock(&self, _read_only: bool) -> Result<Box<dyn Send + Sync>, ImageError> {
        Ok(Box::new(()))
    }
}

struct MemoryFile {
    state: Arc<Mutex<State>>,
    name: &'static str,
}

impl MemoryFile {
    fn with<T>(&self, f: impl FnOnce(&mut Content) -> io::Result<T>) -> io::Result<T> {
        f(self.state.lock().files.entry(self.name).or_default())
    }
}

impl HostFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|c| Ok(c.now.len() as u64))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.state.lock().stopped {
            return Err(stopped());
        }
        self.with(|c| {
            c.now.resize(len as usize, 0);
            c.safe.resize(len as usize, 0);
            c.unsynced.retain(|(at, data)| at + data.len() <= len as usize);
            Ok(())
        })
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|c| {
            let from = usize::try_from(at).map_err(io::Error::other)?;
            let bytes = from.checked_add(out.len()).and_then(|end| c.now.get(from..end));
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut s = self.state.lock();
        let (n, said) = s.admit(data.len());
        if n > 0 {
            let (at, data) = (at as usize, &data[..n]);
            let c = s.files.entry(self.name).or_default();
            let end = at + data.len();
            if c.now.len() < end {
                c.now.resize(end, 0);
            }
            c.now[at..end].copy_from_slice(data);
            c.unsynced.push((at, data.to_vec()));
        }
        said
    }

    fn sync(&self) -> io::Result<()> {
        let mut s = self.state.lock();
        if s.stopped {
            return Err(stopped());
        }
        s.syncs += 1;
        let c = s.files.entry(self.name).or_default();
        for (at, data) in c.unsynced.drain(..) {
            let end = at + data.len();
            if c.safe.len() < end {
                c.safe.resize(end, 0);
            }
            c.safe[at..end].copy_from_slice(&data);
        }
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.state.lock().stopped {
            return Err(stopped());
        }
        self.with(|c| {
            if c.now.len() < len as usize {
                c.now.resize(len as usize, 0);
                c.safe.resize(len as usize, 0);
            }
            Ok(())
        })
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        let len = len.min(self.len()?.saturating_sub(at));
        self.write_at(at, &vec![0; len as usize])
    }

    fn next_data(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        self.with(|c| {
            // A block at a time, as a disk knows its holes; comparing whole ones is fast even where little is
            // optimised.
            const HOLE: [u8; 4096] = [0; 4096];
            let rest = c.now.get(at as usize..).unwrap_or_default();
            let from = rest.chunks(HOLE.len()).position(|b| *b != HOLE[..b.len()]);
            Ok(from.map(|n| at + (n * HOLE.len()) as u64..c.now.len() as u64))
        })
    }

    fn map(&self, _len: u64) -> io::Result<Option<Map>> {
        Ok(None)
    }
}
