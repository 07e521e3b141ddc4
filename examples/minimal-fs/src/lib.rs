//! A complete small file system: docs/ADDING.md says how to begin one's own from it.
//!
//! ```text
//!   lib.rs     mkfs, mount, and what others know of it (ENTRY)
//!   calls.rs   the five traits
//!   tree.rs    the tree in memory; as bytes, and its check
//!   media.rs   two areas of blocks, written in turn
//! ```
//!
//! The whole tree is in memory. Each sync and fsync writes all of it into the older of two areas, with a
//! number and a checksum; a mount takes the newer whole one. So a power failure leaves what the last fsync
//! saw, or one that was under way. Before the first of them nothing is safe. It does *not* scale: an fsync
//! costs the whole tree, a lookup the whole directory, and a tree that would outgrow an area does not grow
//! (`NoSpace`).

mod calls;
mod media;
mod tree;

use granary_device::{Devices, Need};
use granary_fs::entry::CrashCase;
use granary_fs::{Attr, FileKind, FsEntry, Result, Time};
use media::Media;
use parking_lot::Mutex;
use std::sync::Arc;
use tree::{Node, ROOT, SIZE, Tree};

/// The entry for the registry, where a line names it (`granary-testbed/src/registry.rs`).
pub const ENTRY: FsEntry = FsEntry {
    crash: &[CrashCase::plain("minimal")],
    ..FsEntry::new(
        "minimal",
        "the example: each fsync writes the whole tree, block interface only",
        |devices, _| mkfs(devices),
        |devices, _| Ok(mount(devices)?),
    )
};

/// The mounted file system.
pub struct Minimal {
    /// Held for moments: nobody waits with it.
    tree: Mutex<Tree>,
    /// Held while an area is written. Taken before the tree.
    media: granary_sim::sync::Mutex<Media>,
}

/// Makes an empty one over any former content.
///
/// # Errors
/// No device with blocks; drive errors.
pub fn mkfs(devices: &Devices) -> Result<()> {
    let (attr, (entries, pages)) = (Attr::new(FileKind::Dir, 0o755, Time(0)), Default::default());
    let root = Node { attr, parent: ROOT, target: Vec::new(), entries, pages };
    let mut media = Media::open(devices.serving(Need::Blocks)?)?;
    let tree = Tree { nodes: [(ROOT, root)].into(), last: ROOT, room: media.half * SIZE };
    tree.fits(1).and_then(|()| media.write(tree.encode()?))
}

/// Mounts what is there; nothing is written.
///
/// # Errors
/// `Corrupt` where neither area holds a tree; drive errors.
pub fn mount(devices: &Devices) -> Result<Arc<Minimal>> {
    let media = Media::open(devices.serving(Need::Blocks)?)?;
    let tree = Mutex::new(Tree::decode(&media.newest, media.half * SIZE)?);
    Ok(Arc::new(Minimal { tree, media: granary_sim::sync::Mutex::new(media) }))
}
