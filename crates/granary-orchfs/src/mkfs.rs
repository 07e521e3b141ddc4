//! mkfs: shape of the NVM, an empty root directory, the first checkpoint. Of the SSD nothing is written.

use crate::geometry::{BLOCK, PAGE};
use crate::layout::checkpoint::Checkpoint;
use crate::layout::inode;
use crate::layout::superblock::{MOST_JOURNALS, SHORTEST_JOURNAL, SIZE, Superblock};
use crate::layout::{Area, Layout};
use crate::options::MkfsOptions;
use granary_device::{Port, Structure};
use granary_fs::{Attr, FileKind, FsError, Result};
use granary_pm::{Pm, superblock};

/// The root directory's inode.
pub const ROOT: u64 = 1;
/// Each library's journal is this part of the NVM.
const JOURNAL_PART: u64 = 256;
/// Longest journal without being asked for.
const LONGEST_JOURNAL: u64 = 64 << 20;
/// ext4 has an inode for each 16 KiB (mke2fs.conf).
const BYTES_PER_INODE: u64 = 16 << 10;

/// The shape for devices of so many pages and blocks.
fn shape(device: u64, blocks: u64, options: &MkfsOptions) -> Result<Superblock> {
    let nvm = device * PAGE;
    let journal = match options.journal {
        Some(bytes) => bytes.0.next_multiple_of(PAGE),
        None => (nvm / JOURNAL_PART).clamp(SHORTEST_JOURNAL, LONGEST_JOURNAL).next_multiple_of(PAGE),
    };
    if !(1..=MOST_JOURNALS).contains(&options.journals) || journal < SHORTEST_JOURNAL {
        return Err(FsError::Invalid);
    }
    let most = nvm / 8 / inode::SIZE as u64;
    let inodes = 1 + options.inodes.unwrap_or(((nvm + blocks * BLOCK) / BYTES_PER_INODE).min(most)).max(16);
    // A level 0 node names 64 blocks: four times what all blocks of the SSD take. Each file of more than a
    // block has one of its own: as many as there are inodes, or pairs of blocks.
    let index = 1 + blocks / 16 + inodes.min(blocks / 2) + 16;
    let fixed = Superblock {
        device,
        blocks,
        journals: options.journals,
        journal,
        inodes,
        index,
        appends: 1,
        overs: 1,
        pages: 1,
        ..Superblock::default()
    };
    // The superblock's copy, and what aligning five areas takes.
    let used = Layout::of(&fixed).end() + 6 * PAGE;
    let left = nvm.checked_sub(used).ok_or(FsError::NoSpace)?;
    // An A-ELN for each page, since a small file has one page, and an O-ELN for four.
    let four = 4 * PAGE + 4 * Area::Append.size() + Area::Over.size();
    let groups = left / four;
    if groups < 4 {
        return Err(FsError::NoSpace);
    }
    Ok(Superblock { appends: 1 + 4 * groups, overs: 1 + groups, pages: 1 + 4 * groups, ..fixed })
}

/// Makes a file system: everything on the devices is lost.
///
/// # Errors
/// `NoSpace` where the NVM is too small, `Invalid` for impossible options; the drives'.
pub fn mkfs(nvm: &Port, ssd: &Port, options: &MkfsOptions) -> Result<()> {
    let pm = Pm::new(nvm.clone());
    let device = pm.info().pages;
    let mut sb = shape(device, ssd.info().pages / (BLOCK / PAGE), options)?;
    // Groups of an older file system here must not count.
    let old = superblock::read::<SIZE, _>(&pm, (device > 1).then(|| device - 1), Superblock::parse);
    sb.era = old.map_or(0, |old| old.era) + 1;
    let layout = Layout::of(&sb);
    let mut b = pm.batch();
    // No superblock while it is half made.
    b.put(0, &[0; SIZE], Structure::Superblock)?;
    b.put((device - 1) * PAGE, &[0; SIZE], Structure::Superblock)?;
    for slot in [1, 2] {
        b.put(slot * PAGE, &[0; 64], Structure::Superblock)?;
    }
    for journal in 0..sb.journals {
        b.put(layout.journals + journal * sb.journal, &[0; 64], Structure::Journal)?;
        b.put(layout.undo(journal), &[0; 64], Structure::Journal)?;
    }
    let attr = Attr::new(FileKind::Dir, options.root_mode.unwrap_or(0o755), options.made());
    let root = inode::Inode { number: ROOT, generation: 1, parent: ROOT, ..inode::Inode::default() };
    b.put(layout.at(Area::Inode, ROOT), &inode::bytes(&root, &attr), Structure::Inode)?;
    b.fence()?;
    let heads = vec![0; sb.journals as usize];
    let mut first = Checkpoint { inodes_end: ROOT + 1, clean: true, heads, ..Checkpoint::default() };
    first.write(&pm)?;
    superblock::write(&pm, device - 1, &sb.bytes())
}
