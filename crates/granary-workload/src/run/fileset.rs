//! [`Fileset`]: a tree and what exists of it, shared by all threads.

use super::error::RunError;
use super::halt::Wake;
use super::index_set::IndexSet;
use super::pool::Pool;
use super::tree::Tree;
use crate::spec::{FilesetId, FilesetSpec, RandomVar};
use std::sync::Arc;

pub(crate) struct Fileset {
    pub(crate) name: String,
    number: u32,
    pub(crate) tree: Tree,
    pub(crate) files: Pool,
    pub(crate) leaves: Pool,
    pub(crate) dirs: Pool,
    pub(crate) readonly: bool,
    pub(crate) writeonly: bool,
    /// It is one file (`define file`).
    pub(crate) single_file: bool,
    /// Share of its entries that were made before the run, percent.
    pub(crate) prealloc_percent: u8,
}

impl Fileset {
    /// A fileset of which these files and leaf directories exist.
    pub(crate) fn new(
        spec: &FilesetSpec,
        id: FilesetId,
        tree: Tree,
        files: IndexSet,
        leaves: IndexSet,
    ) -> Fileset {
        Fileset {
            name: spec.name.clone(),
            number: id.0 as u32,
            files: Pool::new(tree.files(), files),
            leaves: Pool::new(tree.leaves(), leaves),
            dirs: Pool::new(tree.dirs(), IndexSet::full(tree.dirs())),
            tree,
            readonly: spec.readonly,
            writeonly: spec.writeonly,
            single_file: spec.single_file,
            prealloc_percent: spec.prealloc_percent,
        }
    }

    /// The word that a file of this set is full of.
    pub(crate) fn word(&self, file: u32) -> u64 {
        content_word(FilesetId(self.number as usize), file)
    }

    /// Forgets what threads had open.
    pub(crate) fn settle(&self) {
        self.files.settle();
        self.leaves.settle();
        self.dirs.settle();
    }
}

impl Wake for Fileset {
    fn wake(&self) {
        self.files.wake();
        self.leaves.wake();
        self.dirs.wake();
    }
}

/// The 8-byte word that every byte of a file repeats: a function of the file's identity only, never 0, so
/// that appended data continues the file and a reader can tell one file's data from another's.
pub fn content_word(fileset: FilesetId, file: u32) -> u64 {
    // SplitMix64's finaliser: neighbouring files get unrelated words.
    let mut z =
        ((fileset.0 as u64) << 32 | u64::from(file)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31) | 1
}

/// Draws the trees of all filesets.
pub(crate) fn trees(
    specs: &[FilesetSpec],
    randoms: &Arc<[RandomVar]>,
    seed: u64,
) -> Result<Vec<Tree>, RunError> {
    specs.iter().map(|spec| Tree::new(spec, randoms, seed)).collect()
}
