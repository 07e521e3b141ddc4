//! Mounting: superblock, recovery where it is needed, bitmaps, orphans.
//!
//! ```text
//!   clean:    superblock ── bitmaps ── mark in use
//!   unclean:  superblock ── RECOVER (drops what was not committed, replays the rest; without a write log the
//!             host's redo log) ── bitmaps ── orphan table: go on freeing ── mark in use
//! ```
//!
//! After RECOVER the media show the operations up to one point of the commit order, each whole; only removals
//! and truncations in several steps are left to finish.
//!
//! A mount that changes nothing ([`MountOptions::read_only`]) succeeds even where bitmaps and orphan table
//! are damaged or cannot be read: finding and reading files takes none of them. It writes nothing, and
//! refuses every change.
//!
//! Source: ByteFS section 4.7.

use crate::core::{Core, Orphans};
use crate::fs::{ByteFs, RecoveryReport};
use crate::groups::Groups;
use crate::grow;
use crate::journal::{Bitmap, DataJournal, Journal, Redo, TxTable, area};
use crate::layout::superblock::{CLEAN, IN_USE, REPAIRING};
use crate::layout::{Geometry, Superblock, bitmap, line, orphan};
use crate::mkfs::ROOT;
use crate::node::{Standing, node};
use crate::options::{DataMode, MountOptions, Policy};
use crate::policy;
use crate::space::Space;
use crate::supers::{read_superblock, write_superblock};
use crate::truncate::blocks_of;
use granary_device::vendor::transactions::{Facts, Transactions};
use granary_device::{DriveError, Port, Structure};
use granary_fs::{FsError, Ino, Inode, Result};
use granary_kit::{Block, BlockCache};
use granary_sim::{now, sync};
use granary_units::{LINE_SIZE, Lpa};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use zerocopy::little_endian::{U32, U64};

/// Mounts the file system on the drive, recovering it where it was not unmounted properly.
///
/// # Errors
/// `Corrupt` where there is no valid file system; `Drive` where the firmware is not the variant's; drive
/// errors.
pub fn mount(port: Port, options: &MountOptions) -> Result<Arc<ByteFs>> {
    if options.variant.write_log() != port.vendor::<Transactions>().is_some() {
        let wanted = if options.variant.write_log() { "write log" } else { "page cache without a write log" };
        return Err(DriveError::Unsupported(wanted).into());
    }
    if options.data == DataMode::Journal && !options.variant.write_log() {
        return Err(DriveError::Unsupported("write log, which data journaling needs").into());
    }
    let begin = now();
    let (mut sb, from_copy) = read_superblock(&port)?;
    let geometry = sb.geometry();
    if sb.state.get() == REPAIRING {
        return Err(FsError::Corrupt(
            "a repair was interrupted; repair again (`granary fsck IMAGE --repair`)".into(),
        ));
    }
    if from_copy.is_some() {
        // How the file system was left is not known.
        sb.state = U32::new(IN_USE);
    }
    let mut report = RecoveryReport { clean: sb.is_clean(), ..RecoveryReport::default() };
    let redo = port.vendor::<Transactions>().is_none().then(|| Redo::new(&geometry));
    if !report.clean {
        (report.groups, report.data_pages) = replay(&port, &geometry)?;
        report.recover = now() - begin;
    }
    if let Some(redo) = &redo {
        redo.clear(&port)?;
    }
    if sb.growing.get() != 0 {
        grow::finish(&port, &geometry, &mut sb)?;
    }
    let core = load(port, geometry, options, &sb, redo)?;
    if core.blind {
        core.journal.fail(FsError::ReadOnly);
        report.total = now() - begin;
        return Ok(ByteFs::start(core, sb, report, from_copy));
    }
    sb.state = U32::new(IN_USE);
    sb.mounts = U64::new(sb.mounts.get() + 1);
    write_superblock(&core.port, &sb)?;
    finish_orphans(&core, &mut report)?;
    report.total = now() - begin;
    Ok(ByteFs::start(core, sb, report, from_copy))
}

/// Replays the firmware's log and the data journal, or the host's redo log. Returns how many groups the redo
/// log had, and how many pages the data journal.
///
/// # Errors
/// `Corrupt` where the journal area is; of the drive.
pub fn replay(port: &Port, geometry: &Geometry) -> Result<(u64, u64)> {
    if port.vendor::<Transactions>().is_some() {
        port.require::<Transactions>()?.recover()?;
        return Ok((0, area::recover(port, geometry)?));
    }
    let redo = Redo::new(geometry);
    let groups = redo.recover(port, geometry.blocks(), &BTreeSet::new())?;
    redo.clear(port)?;
    Ok((groups, 0))
}

/// [`replay`] for a repair: damaged records of the data journal are left out, with what was made on them, and
/// told. The host's redo log is for one that is not `clean`, and leaves pages out that are `lost`: they take
/// no lines.
///
/// # Errors
/// `Corrupt` where the host's redo log is; of the drive.
pub fn replay_sound(
    port: &Port,
    geometry: &Geometry,
    lost: &BTreeSet<u64>,
    clean: bool,
) -> Result<Vec<area::Lost>> {
    if port.vendor::<Transactions>().is_some() {
        port.require::<Transactions>()?.recover()?;
        return area::salvage(port, geometry);
    }
    let redo = Redo::new(geometry);
    // Of a clean one all is where it belongs: one half without the other would bring old lines back.
    if !clean {
        redo.recover(port, geometry.blocks(), lost)?;
    }
    redo.clear(port)?;
    Ok(Vec::new())
}

/// Whether a read failed because of its page alone.
pub fn is_unreadable<T>(read: &Result<T>) -> bool {
    matches!(read, Err(FsError::Drive(DriveError::Unreadable(_))))
}

/// The error for damage to a structure that only changes need.
fn useless(what: String) -> FsError {
    FsError::Corrupt(format!("{what}: files can be read (--read-only, cp-out), fsck --repair makes it anew"))
}

/// A block of the bitmaps or the orphan table as it was read, and the lines of it that mean nothing. Without
/// `blind` there must be none; with it, a block that cannot be read is one of `filler`.
fn sound(
    what: &str,
    (cache, lpa): (&BlockCache, Lpa),
    read: Result<Arc<Block>>,
    blind: Option<u8>,
) -> Result<(Arc<Block>, u64)> {
    let lost = is_unreadable(&read);
    match (lost, blind) {
        (true, None) => return Err(useless(format!("{what}: block {} of the drive cannot be read", lpa.0))),
        (true, Some(filler)) => {
            let block = cache.fresh(lpa, Structure::Bitmap);
            block.change(|b| b.fill(filler));
            return Ok((block, u64::MAX));
        }
        (false, _) => {}
    }
    let block = read?;
    match block.with(|b| line::damaged_or_zero(b, lpa.0)) {
        lines if lines != 0 && blind.is_none() => Err(useless(line::sentence(what, lpa.0, lines))),
        lines => Ok((block, lines)),
    }
}

fn load(
    port: Port,
    geometry: Geometry,
    options: &MountOptions,
    sb: &Superblock,
    redo: Option<Redo>,
) -> Result<Core> {
    let cache = BlockCache::new(port.clone(), options.metadata_cache);
    // Of a bitmap that means nothing everything is in use.
    let unknown = options.read_only.then_some(u8::MAX);
    let mut blind = false;
    let mut area = |which: Bitmap, name: &str| -> Result<(Vec<Arc<Block>>, Vec<u64>)> {
        let (mut blocks, mut words) = (Vec::new(), Vec::new());
        for n in 0..geometry.bitmap_blocks(which) {
            let (at, end) = geometry.bitmap_block(which, n);
            let read = cache.get_window(Lpa(at), at..(at + 64).min(end), Structure::Bitmap);
            let (block, bad) = sound(name, (&cache, Lpa(at)), read, unknown)?;
            block.pin();
            let mut bytes = block.with(|b| *b);
            let lines = bytes.chunks_exact_mut(LINE_SIZE).enumerate();
            lines.filter(|(n, _)| bad >> n & 1 == 1).for_each(|(_, line)| line.fill(u8::MAX));
            blind |= bad != 0;
            words.extend(bitmap::words(&bytes));
            blocks.push(block);
        }
        Ok((blocks, words))
    };
    let (inode_bitmap, inode_words) = area(Bitmap::Inodes, "inode bitmap")?;
    let (block_bitmap, block_words) = area(Bitmap::Blocks, "block bitmap")?;
    let groups = |words: Vec<u64>, bits: u64| Groups::new(bits, words, options.cpus);
    let inodes = groups(inode_words, geometry.inodes());
    let blocks = groups(block_words, geometry.blocks());
    let fixed = geometry.fixed().flatten().find(|&b| !blocks.is_taken(b));
    let wrong = match fixed {
        Some(block) => Some(format!("block {block} of the fixed areas is free in the bitmap")),
        None if !inodes.is_taken(0) || !inodes.is_taken(ROOT as u64) => {
            Some("the root directory is free in the inode bitmap".into())
        }
        None => None,
    };
    blind |= wrong.is_some();
    if let Some(what) = wrong.filter(|_| !options.read_only) {
        return Err(useless(what));
    }
    let most_lines = redo.as_ref().map_or(usize::MAX, Redo::capacity);
    let options = options.effective(most_lines, port.identify::<Facts>().half);
    let threshold = match options.policy {
        Policy::Ratio => options.byte_threshold_lines,
        Policy::Cost => policy::break_even(&port, Lpa(geometry.journal + geometry.journal_blocks - 1))?,
    };
    let journal = Journal::new(sb.next_tx.get(), redo);
    let at = Lpa(geometry.orphans);
    let read = cache.get(at, Structure::Superblock);
    let (orphans, bad) = sound("orphan table", (&cache, at), read, options.read_only.then_some(0))?;
    orphans.pin();
    blind |= bad != 0;
    Ok(Core {
        data_journal: DataJournal::new(&geometry),
        space: Space::new(blocks, Space::to_keep(geometry.data_blocks())),
        geometry,
        options,
        most_lines,
        threshold,
        cache,
        inodes: Mutex::new(inodes),
        inode_bitmap: RwLock::new(inode_bitmap),
        block_bitmap: RwLock::new(block_bitmap),
        orphans: Orphans::new(orphans),
        locks: TxTable::new(),
        journal,
        loose: sb.state.get() != CLEAN,
        blind,
        dirty: Mutex::default(),
        syncing: sync::Mutex::new(()),
        growing: sync::Mutex::new(()),
        committer: OnceLock::new(),
        releasing: sync::Mutex::new(()),
        port,
    })
}

/// Finishes removals and truncations that took several steps.
fn finish_orphans(core: &Core, report: &mut RecoveryReport) -> Result<()> {
    let places: Vec<(u32, u32)> = core
        .orphans
        .block
        .with(|b| (0..orphan::PLACES).map(|n| (n, orphan::get(b, n))).filter(|(_, ino)| *ino != 0).collect());
    if places.is_empty() {
        return Ok(());
    }
    let _step = granary_sim::step("bytefs: a mount finishes removals and truncations");
    let before = core.space.free();
    for (place, ino) in places {
        let loaded = core.load(Ino(ino as u64)).map_err(|e| match e {
            FsError::Stale => FsError::Corrupt(format!("the orphan table names the free inode {ino}")),
            other => other,
        })?;
        let inode = Inode::new(Ino(ino as u64), loaded);
        if inode.attr().nlink == 0 {
            node(&inode).body.lock().standing = Standing::Orphan(place);
            core.evict(&inode)?;
            report.orphans += 1;
        } else {
            core.cut_on(&inode, blocks_of(inode.size()), Some(place))?;
            report.truncations += 1;
        }
    }
    core.commit_to(core.journal.sealed())?;
    report.blocks = core.space.free() - before;
    Ok(())
}
