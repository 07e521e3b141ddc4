//! Directories: blocks of entries, looked through from the beginning, as ext2's.
//!
//! ```text
//!   block 0  . | .. | name | name ...      block 1  name | ...        a name goes into the first block with
//!                                                                     room
//! ```
//!
//! [`Index`] is in memory only: where each name is, and how much room each block has. The kernel looks
//! through the blocks, from the one where the last search ended; virtual time is charged for that. Positions
//! of `readdir` are bytes of the directory.

pub(crate) mod index;

use self::index::{Index, Place, largest_room};
use crate::dat::Virtual;
use crate::fs::Nilfs2;
use crate::layout::dirent::{self, Dirent};
use crate::layout::{BLOCK_SIZE, BS, BlockBytes, corrupt};
use crate::media::Media;
use crate::space::Want;
use crate::state::State;
use granary_fs::{DirEntry, FileKind, FsError, Ino, Inode, Result};
use granary_kit::work;
use granary_sim::cpu;

impl State {
    fn indexed(&mut self, ino: u64, media: &Media) -> Result<&mut Index> {
        self.node(ino, media)?;
        let State { nodes, dat, .. } = self;
        let node = nodes.get_mut(&ino).ok_or(FsError::Stale)?;
        if node.index.is_none() {
            node.index = Some(Index::read(&mut node.file, node.media_size, &mut Virtual { media, dat })?);
        }
        node.index.as_mut().ok_or(FsError::Stale)
    }

    /// The place of a name. Takes the processor for the search.
    pub fn find(&mut self, dir: u64, name: &[u8], media: &Media) -> Result<(Option<Place>, u64)> {
        let index = self.indexed(dir, media)?;
        let place = index.names.get(name).copied();
        let passed = index.passed(place.map(|p| p.block));
        Ok((place, passed))
    }

    /// Block of a directory, to be changed.
    fn dir_block(&mut self, dir: u64, block: u64, media: &Media) -> Result<&mut BlockBytes> {
        let State { nodes, dat, .. } = self;
        let node = nodes.get_mut(&dir).ok_or(FsError::Stale)?;
        node.file.change(block, &mut Virtual { media, dat })
    }

    /// After a directory's block changed.
    fn settle_room(&mut self, dir: u64, block: u32, media: &Media) -> Result<()> {
        let room = largest_room(self.dir_block(dir, block as u64, media)?)?;
        if let Some(place) = self.indexed(dir, media)?.room.get_mut(block as usize) {
            *place = room;
        }
        self.misc += 2;
        self.dirty.insert(dir);
        self.changed();
        Ok(())
    }

    /// Enters a name that is not there.
    pub fn dir_insert(
        &mut self,
        dir: &Inode,
        name: &[u8],
        ino: u64,
        kind: FileKind,
        media: &Media,
    ) -> Result<()> {
        let d = dir.ino().0;
        let index = self.indexed(d, media)?;
        let want = dirent::needed(name.len()) as u16;
        let block = match index.room.iter().position(|room| *room >= want) {
            Some(block) => block as u64,
            None => {
                let block = index.room.len() as u64;
                index.room.push(BLOCK_SIZE as u16);
                *self.dir_block(d, block, media)? = *dirent::empty();
                let size = (block + 1) * BS;
                dir.update(|a| a.size = size);
                let node = self.held(d)?;
                node.media_size = size;
                node.new_blocks += 1;
                self.pending_new += 1;
                self.misc += 2;
                block
            }
        };
        let at = dirent::insert(self.dir_block(d, block, media)?, name, ino, kind)?;
        let at =
            at.ok_or_else(|| corrupt(format!("block {block} of directory {d} has less room than it had")))?;
        let place = Place { block: block as u32, at: at as u16, ino };
        self.indexed(d, media)?.names.insert(name.into(), place);
        self.settle_room(d, block as u32, media)
    }

    /// Removes a name.
    pub fn dir_remove(&mut self, dir: &Inode, name: &[u8], media: &Media) -> Result<()> {
        let d = dir.ino().0;
        let place = self.find(d, name, media)?.0.ok_or(FsError::NoEntry)?;
        dirent::remove(self.dir_block(d, place.block as u64, media)?, place.at as usize)?;
        self.indexed(d, media)?.names.remove(name);
        self.settle_room(d, place.block, media)
    }

    /// Lets a name stand for another inode.
    pub fn dir_repoint(
        &mut self,
        dir: &Inode,
        name: &[u8],
        ino: u64,
        kind: FileKind,
        media: &Media,
    ) -> Result<()> {
        let d = dir.ino().0;
        let place = self.find(d, name, media)?.0.ok_or(FsError::NoEntry)?;
        dirent::repoint(self.dir_block(d, place.block as u64, media)?, place.at as usize, ino, kind);
        self.indexed(d, media)?.names.insert(name.into(), Place { ino, ..place });
        self.settle_room(d, place.block, media)
    }

    /// The ".." of a directory.
    pub fn dir_parent(&mut self, dir: u64, media: &Media) -> Result<u64> {
        self.node(dir, media)?;
        let State { nodes, dat, .. } = self;
        let node = nodes.get_mut(&dir).ok_or(FsError::Stale)?;
        let page = node.file.block(0, &mut Virtual { media, dat })?.to_bytes();
        parent_entry(&page, dir).map(|e| e.ino)
    }

    /// A moved directory's "..".
    pub fn dir_set_parent(&mut self, dir: u64, parent: u64, media: &Media) -> Result<()> {
        self.node(dir, media)?;
        let b = self.dir_block(dir, 0, media)?;
        let at = parent_entry(b, dir)?.at;
        dirent::repoint(b, at, parent, FileKind::Dir);
        self.misc += 2;
        self.dirty.insert(dir);
        self.changed();
        Ok(())
    }
}

fn parent_entry(b: &BlockBytes, dir: u64) -> Result<Dirent<'_>> {
    let second = dirent::entries(b).nth(1).transpose()?;
    second.filter(|e| e.name == b"..").ok_or_else(|| corrupt(format!("directory {dir} has no \"..\"")))
}

impl Nilfs2 {
    pub(crate) fn dir_lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let (place, passed) = self.state.lock().find(dir.ino().0, name, &self.media)?;
        cpu(work::search(passed, false));
        Ok(place.map(|p| Ino(p.ino)))
    }

    /// Entries from a byte of the directory on.
    pub(crate) fn dir_read(
        &self,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let (size, mut start) = (dir.size(), (from % BS) as usize);
        for block in from / BS..size / BS {
            let bytes = {
                let mut s = self.state.lock();
                s.node(dir.ino().0, &self.media)?;
                let State { nodes, dat, .. } = &mut *s;
                let node = nodes.get_mut(&dir.ino().0).ok_or(FsError::Stale)?;
                node.file.block(block, &mut Virtual { media: &self.media, dat })?.to_bytes()
            };
            for e in dirent::entries(&bytes) {
                let e = e?;
                let special = e.name == b"." || e.name == b"..";
                if e.at < start || e.ino == 0 || special || !e.has_good_name() {
                    continue;
                }
                let Some(kind) = e.kind else { return Err(corrupt("a directory entry of no kind")) };
                let next = block * BS + e.at as u64 + 1;
                if !emit(DirEntry { name: e.name, ino: Ino(e.ino), kind, next }) {
                    return Ok(());
                }
            }
            start = 0;
        }
        Ok(())
    }

    pub(crate) fn dir_is_empty(&self, dir: &Inode) -> Result<bool> {
        let mut s = self.state.lock();
        Ok(s.indexed(dir.ino().0, &self.media)?.names.is_empty())
    }

    /// Room for the blocks of names that an operation makes dirty.
    pub(crate) fn room_for_names(&self, want: Want, names: u64) -> Result<()> {
        self.space_for(want, 0, 0, names)
    }
}
