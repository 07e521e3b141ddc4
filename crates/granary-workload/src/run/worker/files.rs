//! Flowops that create, open, close, delete, stat and sync files, and those that make, remove and list
//! directories.
//!
//! A slot has a file open, or remembers the one that it had open last: `deletefile` with an `fd` deletes that
//! one, and `writewholefile` takes its length from it.
//!
//! Tolerated, because Filebench ignores the result: ENOENT of unlink, stat and rmdir, EEXIST of mkdir (a tree
//! that was kept can differ from what is known of it).

use super::{Exit, Node, Step, Worker};
use crate::run::aio::Write as AioRequest;
use crate::run::pool::{From, Opens, Picked, Pool, Wanted};
use crate::run::setup::make_path;
use crate::spec::{FileRef, Op, Value};
use granary_fs::FsError;
use granary_sim::now;
use granary_vfs::{OpenFlags, Posix};

/// Entries per `readdir`: glibc's 32 KiB buffer holds this many of Filebench's eight-digit names (32 bytes
/// each).
const DIRENTS: usize = 1024;
/// Bytes that Filebench adds to the length of each name: `sizeof (struct dirent) - 1` of glibc.
const DIRENT_BYTES: u64 = 279;

impl<P: Posix + Send + 'static> Worker<P> {
    /// The slot of a flowop that works on a file.
    pub(super) fn slot(&mut self, file: &FileRef) -> usize {
        match file.fileset {
            Some(set) if file.rotate && file.fd == 0 => {
                let first = self.kind.rotate[set.0].expect("the plan reserves slots for every `opennext`");
                let files = self.shared.sets[set.0].tree.files().max(1) as u32;
                let (_, given) = &mut self.rotors[set.0];
                let slot = first + *given % files;
                *given = (*given + 1) % files;
                slot as usize
            }
            _ => usize::from(file.fd),
        }
    }

    /// The slot of a flowop that needs its file open, opening one where it is not.
    pub(super) fn opened(&mut self, node: &Node, file: &FileRef) -> Step<usize> {
        let slot = self.slot(file);
        if self.slots[slot].fd.is_none() {
            self.open_slot(node, file, slot)?;
        } else if let (Some(set), Some((open, _))) = (file.fileset, self.slots[slot].file)
            && slot > 0
            && open as usize != set.0
        {
            let (open, wanted) = (&self.set(open as usize).name, &self.set(set.0).name);
            let reason = format!("fd {slot} has a file of `{open}` open, not of `{wanted}`; use another fd");
            return Err(self.misuse(node, reason));
        }
        Ok(slot)
    }

    /// How a file of this set is opened.
    pub(super) fn flags(&self, set: usize, file: &FileRef) -> OpenFlags {
        let set = self.set(set);
        let mut flags = match (set.readonly, set.writeonly) {
            (true, _) => OpenFlags::RDONLY,
            (false, true) => OpenFlags::WRONLY,
            (false, false) => OpenFlags::RDWR,
        };
        if file.flags.dsync {
            // Filebench's `dsync` opens with O_SYNC, not O_DSYNC.
            flags |= OpenFlags::SYNC;
        }
        if file.flags.direct {
            flags |= OpenFlags::DIRECT;
        }
        flags
    }

    /// Where a pick starts: at the index, if the flowop has one.
    fn index(&mut self, index: Option<Value>, entries: usize) -> Option<u64> {
        let entries = entries as u64;
        index.map(|value| (self.draws.real(value) * (entries / 2) as f64) as u64 % entries.max(1))
    }

    fn pick_file(&mut self, node: &Node, file: &FileRef, wanted: Wanted) -> Step<(usize, u32)> {
        let Some(set) = file.fileset else {
            return Err(
                self.misuse(node, format!("no file is open on fd {} and no fileset is given", file.fd))
            );
        };
        let set = set.0;
        let index = self.index(file.index, self.shared.sets[set].tree.files());
        let from = match index {
            Some(index) => From::Index(index),
            None if file.rotate && wanted == Wanted::Present => From::Own(&mut self.rotors[set].0),
            None => From::Last,
        };
        match self.shared.sets[set].files.pick(&self.shared.halt, wanted, from) {
            Picked::Entry(entry) => Ok((set, entry)),
            Picked::Over => Err(Exit::Over),
            Picked::Nothing => {
                let what =
                    if wanted == Wanted::Present { "file that exists" } else { "file that does not exist" };
                Err(self.nothing(node, what, wanted == Wanted::Absent, set))
            }
        }
    }

    pub(super) fn open(&mut self, node: &Node, file: &FileRef) -> Step {
        let slot = self.slot(file);
        if self.slots[slot].fd.is_some() {
            return Err(self.misuse(node, format!("fd {slot} is open already; close it first")));
        }
        self.open_slot(node, file, slot)
    }

    /// Opens the next file that exists; counts as an execution of `node`.
    fn open_slot(&mut self, node: &Node, file: &FileRef, slot: usize) -> Step {
        let (set, entry) = self.pick_file(node, file, Wanted::Present)?;
        let flags = self.flags(set, file);
        let fileset = &self.shared.sets[set];
        let start = now();
        let path = self.path.file(&fileset.tree, entry);
        let fd = self.client.open(path, flags, 0o666);
        fileset.files.release(entry, None, if fd.is_ok() { Opens::OneMore } else { Opens::Same });
        self.opened_as(node, slot, set, entry, fd)?;
        self.done(node, start, 0);
        Ok(())
    }

    /// Enters an opened file into the table.
    fn opened_as(
        &mut self,
        node: &Node,
        slot: usize,
        set: usize,
        entry: u32,
        fd: Result<granary_vfs::Fd, FsError>,
    ) -> Step {
        let size = self.shared.sets[set].tree.size(entry);
        let place = &mut self.slots[slot];
        place.file = Some((set as u32, entry));
        match fd {
            Ok(fd) => {
                place.fd = Some(fd);
                place.size = size;
                place.serial = place.serial.wrapping_add(1);
                Ok(())
            }
            Err(e) => Err(self.failed_on(node, "open", slot, e)),
        }
    }

    pub(super) fn create(&mut self, node: &Node, file: &FileRef) -> Step {
        let slot = usize::from(file.fd);
        if self.slots[slot].fd.is_some() {
            return Err(self.misuse(node, format!("fd {slot} is open already; close it first")));
        }
        let (set, entry) = self.pick_file(node, file, Wanted::Absent)?;
        let flags = self.flags(set, file) | OpenFlags::CREAT;
        let fileset = &self.shared.sets[set];
        let start = now();
        // Filebench looks whether the directory is there before each create.
        let dir = self.path.dir(&fileset.tree, fileset.tree.dir_of(entry));
        match self.client.stat(dir) {
            Ok(_) => {}
            Err(FsError::NoEntry) => {
                if let Err((path, e)) = make_path(&mut self.client, dir) {
                    return Err(self.failed(node, "mkdir", &path, e));
                }
            }
            Err(e) => {
                let dir = dir.to_vec();
                return Err(self.failed(node, "stat", &dir, e));
            }
        }
        let path = self.path.file(&fileset.tree, entry);
        let fd = self.client.open(path, flags, 0o666);
        let opens = if fd.is_ok() { Opens::OneMore } else { Opens::Same };
        fileset.files.release(entry, fd.is_ok().then_some(true), opens);
        self.opened_as(node, slot, set, entry, fd)?;
        self.done(node, start, 0);
        Ok(())
    }

    pub(super) fn close(&mut self, node: &Node, file: &FileRef) -> Step {
        let slot = usize::from(file.fd);
        let Some(fd) = self.slots[slot].fd else {
            return Err(self.misuse(node, format!("fd {slot} is not open")));
        };
        let held = self.slots[slot].file;
        if let Some((set, entry)) = held
            && !self.shared.sets[set as usize].files.take(&self.shared.halt, entry)
        {
            return Err(Exit::Over);
        }
        let start = now();
        let closed = self.client.close(fd);
        if let Some((set, entry)) = held {
            self.shared.sets[set as usize].files.release(entry, None, Opens::OneLess);
        }
        self.slots[slot].fd = None;
        if std::mem::take(&mut self.slots[slot].aio)
            && let Some(aio) = &self.aio
        {
            aio.close(slot as u32);
        }
        match closed {
            Ok(()) => self.done(node, start, 0),
            Err(e) => return Err(self.failed_on(node, "close", slot, e)),
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, node: &Node, file: &FileRef) -> Step {
        let slot = usize::from(file.fd);
        let mine = slot > 0 && self.slots[slot].fd.is_some();
        let (set, entry) = match self.slots[slot].file.take_if(|_| slot > 0) {
            Some((set, entry)) => {
                if !self.shared.sets[set as usize].files.take(&self.shared.halt, entry) {
                    return Err(Exit::Over);
                }
                (set as usize, entry)
            }
            None => self.pick_file(node, file, Wanted::Present)?,
        };
        let fileset = &self.shared.sets[set];
        // A file that another thread has open is left alone; that is no operation.
        if fileset.files.opens(entry) > u32::from(mine) {
            fileset.files.release(entry, None, Opens::Same);
            return Ok(());
        }
        let start = now();
        let path = self.path.file(&fileset.tree, entry);
        let result = self.client.unlink(path);
        fileset.files.release(entry, Some(false), Opens::None);
        match result {
            Ok(()) | Err(FsError::NoEntry) => self.done(node, start, 0),
            Err(e) => {
                let path = self.path.file(&self.shared.sets[set].tree, entry).to_vec();
                return Err(self.failed(node, "unlink", &path, e));
            }
        }
        Ok(())
    }

    pub(super) fn stat(&mut self, node: &Node, file: &FileRef) -> Step {
        let slot = usize::from(file.fd);
        if let Some(fd) = self.slots[slot].fd.filter(|_| slot > 0) {
            let start = now();
            if let Err(e) = self.client.fstat(fd) {
                return Err(self.failed_on(node, "fstat", slot, e));
            }
            self.done(node, start, 0);
            return Ok(());
        }
        let (set, entry) = self.pick_file(node, file, Wanted::Present)?;
        let fileset = &self.shared.sets[set];
        let start = now();
        let path = self.path.file(&fileset.tree, entry);
        let result = self.client.stat(path);
        fileset.files.release(entry, None, Opens::Same);
        match result {
            Ok(_) | Err(FsError::NoEntry) => self.done(node, start, 0),
            Err(e) => {
                let path = self.path.file(&self.shared.sets[set].tree, entry).to_vec();
                return Err(self.failed(node, "stat", &path, e));
            }
        }
        Ok(())
    }

    pub(super) fn fsync(&mut self, node: &Node, file: &FileRef) -> Step {
        let slot = usize::from(file.fd);
        let Some(fd) = self.slots[slot].fd else {
            return Err(self.misuse(node, format!("fd {slot} is not open")));
        };
        let start = now();
        if let Err(e) = self.client.fsync(fd) {
            return Err(self.failed_on(node, "fsync", slot, e));
        }
        self.done(node, start, 0);
        Ok(())
    }

    pub(super) fn fsync_set(&mut self, node: &Node, set: usize) -> Step {
        for slot in 0..self.slots.len() {
            let place = self.slots[slot];
            if let (Some(fd), Some((of, _))) = (place.fd, place.file)
                && of as usize == set
            {
                let start = now();
                if let Err(e) = self.client.fsync(fd) {
                    return Err(self.failed_on(node, "fsync", slot, e));
                }
                self.done(node, start, 0);
            }
        }
        Ok(())
    }

    /// Takes an entry of a pool of directories.
    fn pick_dir(
        &mut self,
        node: &Node,
        set: usize,
        pool: fn(&crate::run::fileset::Fileset) -> &Pool,
        wanted: Wanted,
        index: Option<u64>,
        what: &'static str,
    ) -> Step<u32> {
        let from = index.map_or(From::Last, From::Index);
        match pool(&self.shared.sets[set]).pick(&self.shared.halt, wanted, from) {
            Picked::Entry(entry) => Ok(entry),
            Picked::Over => Err(Exit::Over),
            Picked::Nothing => Err(self.nothing(node, what, wanted == Wanted::Absent, set)),
        }
    }

    pub(super) fn make_dir(&mut self, node: &Node, set: usize, index: Option<Value>) -> Step {
        self.leaf_dir(node, set, index, true)
    }

    pub(super) fn remove_dir(&mut self, node: &Node, set: usize, index: Option<Value>) -> Step {
        self.leaf_dir(node, set, index, false)
    }

    fn leaf_dir(&mut self, node: &Node, set: usize, index: Option<Value>, make: bool) -> Step {
        let index = self.index(index, self.shared.sets[set].tree.leaves());
        let (wanted, what) = match make {
            true => (Wanted::Absent, "leaf directory that does not exist"),
            false => (Wanted::Present, "leaf directory that exists"),
        };
        let leaf = self.pick_dir(node, set, |set| &set.leaves, wanted, index, what)?;
        let fileset = &self.shared.sets[set];
        let start = now();
        let path = self.path.leaf(&fileset.tree, leaf);
        let result = if make { self.client.mkdir(path, 0o755) } else { self.client.rmdir(path) };
        fileset.leaves.release(leaf, Some(make), Opens::Same);
        match result {
            Ok(()) => self.done(node, start, 0),
            Err(FsError::Exists) if make => self.done(node, start, 0),
            Err(FsError::NoEntry) if !make => self.done(node, start, 0),
            Err(e) => {
                let path = self.path.leaf(&self.shared.sets[set].tree, leaf).to_vec();
                return Err(self.failed(node, if make { "mkdir" } else { "rmdir" }, &path, e));
            }
        }
        Ok(())
    }

    pub(super) fn list_dir(&mut self, node: &Node, set: usize) -> Step {
        let dir = self.pick_dir(node, set, |set| &set.dirs, Wanted::Present, None, "directory")?;
        let start = now();
        let listed = self.list(set, dir);
        self.shared.sets[set].dirs.release(dir, None, Opens::Same);
        match listed {
            Ok(bytes) => self.done(node, start, bytes),
            Err((call, e)) => {
                let path = self.path.dir(&self.shared.sets[set].tree, dir).to_vec();
                return Err(self.failed(node, call, &path, e));
            }
        }
        Ok(())
    }

    fn list(&mut self, set: usize, dir: u32) -> Result<u64, (&'static str, FsError)> {
        let path = self.path.dir(&self.shared.sets[set].tree, dir);
        let flags = OpenFlags::RDONLY | OpenFlags::DIRECTORY;
        let fd = self.client.open(path, flags, 0).map_err(|e| ("open", e))?;
        let mut bytes = 0;
        loop {
            let part = self.client.readdir(fd, DIRENTS).map_err(|e| ("readdir", e))?;
            if part.is_empty() {
                break;
            }
            bytes += part.iter().map(|entry| entry.name.len() as u64 + DIRENT_BYTES).sum::<u64>();
        }
        self.client.close(fd).map_err(|e| ("close", e))?;
        Ok(bytes)
    }

    /// Starts a write of `len` bytes on an open slot.
    pub(super) fn start_write(&mut self, node: &Node, slot: usize, len: usize, offset: u64) -> Step {
        let Op::AioWrite(file, _) = &node.op else { unreachable!("only aiowrite starts writes") };
        let place = self.slots[slot];
        // A file that was deleted while open has no path for the writer to open: nothing is written.
        if let (Some((set, entry)), Some(aio)) = (place.file, &self.aio) {
            let flags = self.flags(set as usize, file);
            let (slot, serial) = (slot as u32, place.serial);
            if !aio.write(&self.shared, AioRequest { slot, serial, set, file: entry, flags, len, offset }) {
                return Err(Exit::Over);
            }
            self.slots[slot as usize].aio = true;
        }
        Ok(())
    }
}
