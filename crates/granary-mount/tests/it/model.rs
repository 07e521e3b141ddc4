//! Model of a directory after the calls of [`super::exerciser`]: files as bytes in memory, and the names that
//! lead to them.
//!
//! ```text
//!   names ── a ──┐
//!            x/b ┴── file 3 ── bytes          a file lives while it has a name or somebody has it open
//! ```

use rustix::fs::RenameFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Names that calls draw from: few, so that they meet, in three directories.
pub const NAMES: [&str; 8] = ["a", "b", "c", "d", "x/a", "x/b", "y/a", "y/b"];
/// The directories below the root, which are always there.
pub const DIRECTORIES: [&str; 2] = ["x", "y"];

/// Number of a file, never used again.
pub type Id = u32;

/// One file.
#[derive(Default)]
pub struct Content {
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// Made without a name, and may get its first.
    unnamed: bool,
}

impl Content {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// As pwrite; a gap before `pos` is zeros.
    pub fn put(&mut self, pos: u64, data: &[u8]) {
        let end = pos as usize + data.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[pos as usize..end].copy_from_slice(data);
    }

    /// Zeros in what the file has of `len` bytes from `pos` on.
    pub fn zero(&mut self, pos: u64, len: u64) {
        let end = ((pos + len) as usize).min(self.bytes.len());
        self.bytes[(pos as usize).min(end)..end].fill(0);
    }

    /// Whether that range, which the file has, is zeros.
    pub fn is_zero(&self, pos: u64, end: u64) -> bool {
        self.bytes[pos as usize..end as usize].iter().all(|&b| b == 0)
    }
}

/// Files and names.
#[derive(Default)]
pub struct Model {
    files: BTreeMap<Id, Content>,
    names: BTreeMap<&'static str, Id>,
    next: Id,
}

impl Model {
    /// A new file without a name.
    pub fn create(&mut self) -> Id {
        self.next += 1;
        self.files.insert(self.next, Content::default());
        self.next
    }

    /// open(2) with O_TMPFILE, and O_EXCL where `exclusive`: then it never gets a name.
    pub fn create_unnamed(&mut self, exclusive: bool) -> Id {
        let file = self.create();
        self.file_mut(file).unnamed = !exclusive;
        file
    }

    /// Gives the file a name that leads nowhere yet.
    pub fn name(&mut self, name: &'static str, file: Id) {
        self.file_mut(file).unnamed = false;
        self.names.insert(name, file);
    }

    /// The file of that name.
    pub fn find(&self, name: &str) -> Option<Id> {
        self.names.get(name).copied()
    }

    /// The file of that number, which is alive.
    pub fn file(&self, file: Id) -> &Content {
        &self.files[&file]
    }

    /// As [`Model::file`].
    pub fn file_mut(&mut self, file: Id) -> &mut Content {
        self.files.get_mut(&file).expect("alive: named or open")
    }

    /// Names that lead to the file.
    pub fn links(&self, file: Id) -> u64 {
        self.names.values().filter(|&&f| f == file).count() as u64
    }

    /// All names and their files.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, Id)> {
        self.names.iter().map(|(&name, &file)| (name, file))
    }

    /// link(2).
    pub fn link(&mut self, from: &str, to: &'static str) -> Result<(), Errno> {
        let file = self.find(from).ok_or(Errno::NOENT)?;
        self.link_open(file, to)
    }

    /// linkat(2) of an open file.
    pub fn link_open(&mut self, file: Id, to: &'static str) -> Result<(), Errno> {
        if self.find(to).is_some() {
            return Err(Errno::EXIST);
        }
        if self.links(file) == 0 && !self.file(file).unnamed {
            return Err(Errno::NOENT);
        }
        self.name(to, file);
        Ok(())
    }

    /// unlink(2).
    pub fn unlink(&mut self, name: &str) -> Result<(), Errno> {
        self.names.remove(name).map(drop).ok_or(Errno::NOENT)
    }

    /// renameat2(2); between two names of one file nothing happens.
    pub fn rename(&mut self, from: &'static str, to: &'static str, how: RenameFlags) -> Result<(), Errno> {
        let (file, there) = (self.find(from).ok_or(Errno::NOENT)?, self.find(to));
        if how.contains(RenameFlags::NOREPLACE) && there.is_some() {
            return Err(Errno::EXIST);
        }
        if how.contains(RenameFlags::EXCHANGE) && there.is_none() {
            return Err(Errno::NOENT);
        }
        if there == Some(file) {
            return Ok(());
        }
        match there.filter(|_| how.contains(RenameFlags::EXCHANGE)) {
            Some(there) => self.name(from, there),
            None => self.unlink(from)?,
        }
        self.name(to, file);
        Ok(())
    }

    /// Forgets files that have no name and are not among the open ones.
    pub fn drop_dead(&mut self, open: &[Id]) {
        let names = &self.names;
        self.files.retain(|id, _| open.contains(id) || names.values().any(|f| f == id));
    }
}
