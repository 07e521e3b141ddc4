//! A complete small file system: docs/ADDING.md says how to begin one's own from it.
//!
//! ```text
//!   lib.rs     mkfs, mount, and what others know of it (ENTRY)
//!   calls.rs   the five traits
//!   tree.rs    the tree in memory; as bytes, and its check
//!   media.rs   two areas of blocks, written in turn
//! ```
//!
//! The whole tree is in memory. Each sync and fsync writes all of it into the older of two areas, with a number and a
//! checksum; a mount takes the newer whole one. So a power failure leaves what the last fsync saw, or one that was under way.
//! Before the first of them nothing is safe. It does *not* scale: an fsync costs the whole tree, a lookup the whole
//! directory, and a tree that would outgrow an area does not grow (`NoSpace`).

mod calls;
mod media;
mod tree;

use granary_device::{Devices, Need};
use granary_vfs::entry::{CrashCase, nothing_periodic};
use granary_vfs::{FsEntry, Result};
use media::Media;
use parking_lot::Mutex;
use std::sync::Arc;
use tree::Tree;

/// What others know of it. A line in the registry (`granary-lab/src/registry.rs`) names it.
pub const ENTRY: FsEntry = FsEntry {
    name: "minimal",
    about: "the example: each fsync writes the whole tree, block interface only",
    needs: &[Need::Blocks],
    write_log: false,
    below: None,
    options: None,
    periodic: nothing_periodic,
    mkfs: |devices, _| mkfs(devices),
    mount: |devices, _| Ok(mount(devices)?),
    repair: None,
    crash: &[CrashCase::plain("minimal")],
};

/// The mounted file system.
pub struct Minimal {
    /// Held for moments: nobody waits with it.
    tree: Mutex<Tree>,
    /// Held while an area is written. Taken before the tree.
    media: granary_sim::sync::Mutex<Media>,
}

/// Makes an empty one.
///
/// # Errors
/// No device with blocks, or too small a one; drive errors.
pub fn mkfs(devices: &Devices) -> Result<()> {
    let mut media = Media::erased(devices.serving(Need::Blocks)?)?;
    media.write(&Tree::empty(media.room()).encode()?)
}

/// Mounts what is there; nothing is written.
///
/// # Errors
/// `Corrupt` where neither area holds a tree; drive errors.
pub fn mount(devices: &Devices) -> Result<Arc<Minimal>> {
    let (media, bytes) = Media::newest(devices.serving(Need::Blocks)?)?;
    let tree = Tree::decode(&bytes, media.room())?;
    Ok(Arc::new(Minimal { tree: Mutex::new(tree), media: granary_sim::sync::Mutex::new(media) }))
}
