//! Names: the entries of directories, the inodes that are reached from the root, and the place of the others.
//!
//! ```text
//!   root ── breadth first over names that are right ── reached
//!   not reached:  directories that no other names, then one of each circle ──> /lost+found/#number, and go
//!                                                                              on from there
//!                 files with links and without a name                      ──> /lost+found/#number
//!                 without links (or of no known type)                      ──> freed
//! ```

use super::{Found, Piece, Repair};
use crate::dir::walk;
use crate::layout::{DentryHead, InodeRecord, SLOT_SIZE, SLOTS_PER_BLOCK, dentry};
use crate::mkfs::ROOT;
use granary_device::Structure;
use granary_fs::{FileKind, Result, is_name};
use granary_units::{Lpa, PAGE_SIZE};
use std::collections::{BTreeSet, VecDeque};
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32};

/// An entry of a directory.
pub(super) struct Entry {
    pub name: Vec<u8>,
    pub child: u32,
    pub kind: u16,
    /// Where it is: block on the drive and slot in it.
    pub place: Option<(u32, u32)>,
    pub gone: bool,
    /// Its type was wrong.
    pub fixed: bool,
}

/// The content of a directory.
#[derive(Default)]
pub(super) struct Dir {
    pub entries: Vec<Entry>,
    /// Its slots are not in order, or entries are added: it is written anew.
    pub relist: bool,
}

fn text(name: &[u8]) -> String {
    granary_fs::quoted(name)
}

impl Repair<'_> {
    /// Reads what a directory holds, jumping over what is damaged.
    fn read_dir(&mut self, ino: u32) -> Result<Dir> {
        let found = self.inode(ino)?;
        let (size, pieces) = (found.record.size.get(), found.pieces.clone());
        let per_block = SLOTS_PER_BLOCK as u64;
        let blocks = pieces.iter().try_fold(0, |n, p| (p.block == n).then_some(n + p.len as u64));
        let whole = blocks
            .filter(|b| size.is_multiple_of(SLOT_SIZE as u64) && size / SLOT_SIZE as u64 <= b * per_block);
        let mut dir = Dir { entries: Vec::new(), relist: whole.is_none() };
        let mut lost = 0;
        let end = (size / SLOT_SIZE as u64).min(u32::MAX as u64);
        for Piece { block, lba, len } in pieces {
            for i in 0..len as u64 {
                let (n, lba) = (block + i, lba + i as u32);
                let stop = end.saturating_sub(n * per_block).min(per_block) as u32;
                if stop > 0 {
                    let bytes = self.read(lba as u64, Structure::Dentry)?;
                    if self.lost.contains(&(lba as u64)) {
                        self.say(format!("directory {ino}: block {lba} cannot be read"));
                    }
                    lost += read_block(&bytes, lba, stop, &mut dir.entries);
                }
            }
        }
        if lost > 0 {
            self.say(format!("directory {ino}: {lost} damaged slots: names in them are lost"));
            dir.relist = true;
        } else if dir.relist {
            self.say(format!("directory {ino} had {size} bytes in {blocks:?} blocks: written anew"));
        }
        Ok(dir)
    }

    pub(super) fn tree(&mut self) -> Result<()> {
        let strays = self.strays()?;
        self.visit(ROOT)?;
        self.adopt(strays)?;
        loop {
            let lost: Vec<u32> = self.lost(|f| f.kind == Some(FileKind::Dir));
            if lost.is_empty() {
                break;
            }
            let named = self.named_by(&lost)?;
            // A circle has no first one: any will do.
            let first = lost.iter().copied().find(|d| !named.contains(d)).unwrap_or(lost[0]);
            let found = self.inode(first)?;
            if found.record.nlink.get() == 0 || found.orphan {
                self.free(first, "a directory without links");
                continue;
            }
            self.inode(first)?.reached = true;
            self.rescue(first)?;
            self.visit(first)?;
        }
        for ino in self.lost(|_| true) {
            let found = self.inode(ino)?;
            match found.kind {
                None => self.free(ino, "of no type and without a name"),
                Some(_) if found.record.nlink.get() == 0 => self.free(ino, "without links"),
                Some(_) => self.rescue(ino)?,
            }
        }
        self.inodes.retain(|_, f| !f.maybe);
        Ok(())
    }

    /// Inodes that are in use and that nothing names.
    fn lost(&self, which: impl Fn(&Found) -> bool) -> Vec<u32> {
        let lost = |f: &Found| !f.reached && f.names == 0 && !f.maybe && which(f);
        self.inodes.iter().filter(|(_, f)| lost(f)).map(|(&ino, _)| ino).collect()
    }

    /// Those of `dirs` that another of them names.
    fn named_by(&mut self, dirs: &[u32]) -> Result<BTreeSet<u32>> {
        let mut named = BTreeSet::new();
        for &dir in dirs {
            if !self.dirs.contains_key(&dir) {
                let read = self.read_dir(dir)?;
                self.dirs.insert(dir, read);
            }
            named.extend(self.dirs[&dir].entries.iter().map(|e| e.child).filter(|&c| c != dir));
        }
        Ok(named)
    }

    fn free(&mut self, ino: u32, why: &str) {
        self.say(format!("inode {ino}, {why}: freed"));
        self.inodes.remove(&ino);
        self.dirs.remove(&ino);
    }

    /// Goes over everything below a directory that is in the tree.
    pub(super) fn visit(&mut self, from: u32) -> Result<()> {
        let mut todo = VecDeque::from([from]);
        while let Some(dir) = todo.pop_front() {
            let mut content = match self.dirs.remove(&dir) {
                Some(content) => content,
                None => self.read_dir(dir)?,
            };
            let mut names = BTreeSet::new();
            for entry in &mut content.entries {
                let name = text(&entry.name);
                if let Some(why) = self.wrong_entry(dir, entry, &mut names) {
                    self.say(format!("directory {dir}: {name:?} removed: {why}"));
                    entry.gone = true;
                    continue;
                }
                let found = self.inode(entry.child)?;
                found.maybe = false;
                found.names += 1;
                found.reached = true;
                let kind = *found.kind.get_or_insert_with(|| {
                    found.changed = true;
                    FileKind::from_code(entry.kind as u8).unwrap_or(FileKind::File)
                });
                if found.record.kind() != Some(kind) && kind != FileKind::Dir && entry.child != ROOT {
                    self.report
                        .done
                        .push(format!("inode {} had no type: it is what {name:?} says", entry.child));
                }
                if entry.kind != kind.code() as u16 {
                    self.say(format!("directory {dir}: {name:?} named the wrong type, {kind:?} is right"));
                    (entry.kind, entry.fixed) = (kind.code() as u16, true);
                }
                if !self.lost.is_empty() {
                    self.named.insert(entry.child, (dir, entry.name.clone()));
                }
                if kind == FileKind::Dir {
                    self.inode(entry.child)?.parent = dir;
                    self.inode(dir)?.subdirs += 1;
                    todo.push_back(entry.child);
                }
            }
            self.dirs.insert(dir, content);
        }
        Ok(())
    }

    fn wrong_entry(&self, dir: u32, entry: &Entry, names: &mut BTreeSet<Vec<u8>>) -> Option<&'static str> {
        if !is_name(&entry.name) {
            return Some("no path can have this name");
        }
        let Some(child) = self.inodes.get(&entry.child) else {
            let lost = self.is_lost_inode(entry.child);
            return Some(if lost { "its inode is lost" } else { "its inode is free" });
        };
        let is_dir = child.kind == Some(FileKind::Dir);
        if entry.child == ROOT || entry.child == dir || (is_dir && child.reached) {
            return Some("the directory has a name already");
        }
        if child.kind.is_none() && FileKind::from_code(entry.kind as u8).is_none() {
            return Some("its inode is of no type");
        }
        (!names.insert(entry.name.clone())).then_some("there is one of this name already")
    }

    /// Changes the entries of a directory that is not written anew, where they are: one line each.
    pub(super) fn edit_dir(&mut self, ino: u32) -> Result<()> {
        let dir = self.dirs.remove(&ino).unwrap_or_default();
        for entry in dir.entries.iter().filter(|e| e.gone || e.fixed) {
            let Some((lba, slot)) = entry.place else { continue };
            self.change(lba as u64, Structure::Dentry, |b| {
                let (at, line) = (slot as usize * SLOT_SIZE, dentry::line_of(lba as u64, slot));
                match entry.gone {
                    true => dentry::write_free(&mut b[at..], line, dentry::slots_for(entry.name.len())),
                    false => dentry::point_at(&mut b[at..], line, entry.child, entry.kind),
                }
            })?;
        }
        Ok(())
    }

    /// Gives an inode a name in /lost+found.
    pub(super) fn rescue(&mut self, ino: u32) -> Result<()> {
        let Some(shelter) = self.shelter()? else {
            self.report.left.push(format!("inode {ino} has no name, and there is no inode for /lost+found"));
            return Ok(());
        };
        let found = self.inode(ino)?;
        found.names += 1;
        found.reached = true;
        let kind = found.kind.unwrap_or(FileKind::File);
        if kind == FileKind::Dir {
            found.parent = shelter;
            self.inode(shelter)?.subdirs += 1;
        }
        let name = self.add_entry(shelter, &format!("#{ino}"), ino, kind)?;
        self.say(format!("inode {ino} had no name: it is /lost+found/{name} now"));
        Ok(())
    }

    /// Adds an entry, under a name that is free.
    fn add_entry(&mut self, dir: u32, wish: &str, child: u32, kind: FileKind) -> Result<String> {
        let content = self.dirs.entry(dir).or_default();
        let mut name = wish.to_owned();
        let mut n = 0;
        while content.entries.iter().any(|e| !e.gone && e.name == name.as_bytes()) {
            n += 1;
            name = format!("{wish}.{n}");
        }
        let kind = kind.code() as u16;
        content.entries.push(Entry {
            name: name.clone().into_bytes(),
            child,
            kind,
            place: None,
            gone: false,
            fixed: false,
        });
        content.relist = true;
        if !self.lost.is_empty() {
            self.named.insert(child, (dir, name.clone().into_bytes()));
        }
        Ok(name)
    }

    /// The directory for what has no name; made where there is none.
    fn shelter(&mut self) -> Result<Option<u32>> {
        let is_dir = |ino: u32| self.inodes.get(&ino).is_some_and(|f| f.kind == Some(FileKind::Dir));
        let root = self.dirs.entry(ROOT).or_default();
        let there =
            root.entries.iter().find(|e| !e.gone && e.name.starts_with(b"lost+found") && is_dir(e.child));
        if let Some(entry) = there {
            return Ok(Some(entry.child));
        }
        let Some(ino) = self.fresh_inode() else { return Ok(None) };
        let like = self.inode(ROOT)?.record;
        let record = InodeRecord {
            mtime: like.mtime,
            ctime: like.mtime,
            atime: like.mtime,
            mode: U16::new((FileKind::Dir.code() as u16) << 12 | 0o700),
            generation: U32::new(like.generation.get().wrapping_add(1)),
            ..InodeRecord::new_zeroed()
        };
        let fresh = Found::new(record, Some(FileKind::Dir));
        let found = Found { names: 1, parent: ROOT, reached: true, changed: true, ..fresh };
        self.inodes.insert(ino, found);
        self.inode(ROOT)?.subdirs += 1;
        self.dirs.insert(ino, Dir::default());
        let name = self.add_entry(ROOT, "lost+found", ino, FileKind::Dir)?;
        self.say(format!("/{name} was made"));
        Ok(Some(ino))
    }
}

/// Reads the entries of one block's first `stop` slots. Returns how many slots make no sense.
pub(super) fn read_block(bytes: &[u8; PAGE_SIZE], lba: u32, stop: u32, entries: &mut Vec<Entry>) -> u32 {
    let mut take = |slot: u32, head: &DentryHead, rest: &[u8]| {
        if !head.is_free() {
            entries.push(Entry {
                name: dentry::name(rest, head).to_vec(),
                child: head.ino.get(),
                kind: head.kind.get(),
                place: Some((lba, slot)),
                gone: false,
                fixed: false,
            });
        }
    };
    let (mut slot, mut lost) = (0, 0);
    while slot < stop {
        let rest = &bytes[slot as usize * SLOT_SIZE..];
        let head = DentryHead::read(rest);
        let stride = head.stride().filter(|n| slot + n <= stop);
        match stride.filter(|_| head.is_sound(rest, dentry::line_of(lba as u64, slot))) {
            Some(n) => {
                take(slot, &head, rest);
                slot += n;
            }
            None => {
                // The next head with a right checksum is where the next entry begins.
                lost += 1;
                slot += 1;
            }
        }
    }
    debug_assert!(lost > 0 || walk(bytes, (0, Lpa(lba as u64)), stop, 0, |_, _, _| true).is_ok());
    lost
}
