//! [`Index`]: where each name of a directory is, and how much room each block has. It is in memory only.

use crate::buffers::Buffers;
use crate::layout::dirent;
use crate::layout::{BS, BlockBytes, corrupt};
use crate::tree::Blocks;
use granary_fs::Result;
use rustc_hash::FxHashMap;

/// Where a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub block: u32,
    pub at: u16,
    pub ino: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Index {
    pub names: FxHashMap<Box<[u8]>, Place>,
    /// Largest entry that each block has room for.
    pub room: Vec<u16>,
    /// Block where the last search ended (`i_dir_start_lookup`).
    pub hint: u32,
}

pub(crate) fn largest_room(b: &BlockBytes) -> Result<u16> {
    dirent::entries(b).try_fold(0, |most, e| Ok(most.max(e?.room() as u16)))
}

impl Index {
    pub fn read(file: &mut Buffers, size: u64, from: &mut dyn Blocks) -> Result<Index> {
        let mut index = Index::default();
        let blocks = size / BS;
        if blocks > file.tree.count + file.dirty.len() as u64 {
            return Err(corrupt(format!(
                "directory {} has {blocks} blocks, its map {}",
                file.ino, file.tree.count
            )));
        }
        for block in 0..blocks {
            let page = file.block(block, from)?;
            let bytes = page.to_bytes();
            index.room.push(largest_room(&bytes)?);
            for e in dirent::entries(&bytes) {
                let e = e?;
                if e.ino != 0 && e.name != b"." && e.name != b".." && e.has_good_name() {
                    let place = Place { block: block as u32, at: e.at as u16, ino: e.ino };
                    index.names.entry(e.name.into()).or_insert(place);
                }
            }
        }
        Ok(index)
    }

    fn per_block(&self) -> u64 {
        self.names.len() as u64 / (self.room.len() as u64).max(1) + 1
    }

    /// Entries that a search from the hint on passes.
    pub fn passed(&mut self, block: Option<u32>) -> u64 {
        let blocks = self.room.len() as u64;
        match block {
            None => self.names.len() as u64,
            Some(block) => {
                let on = (block as u64 + blocks - self.hint as u64 % blocks.max(1)) % blocks.max(1);
                self.hint = block;
                on * self.per_block() + self.per_block() / 2
            }
        }
    }
}
