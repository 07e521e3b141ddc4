//! Repair: makes damaged media a file system again, without mounting it.
//!
//! ```text
//!   replay what is sound ── read: inodes, their extents, names
//!           ── tree: who is reached from the root, the rest to /lost+found
//!           ── claims: each block one owner, a second one gets a copy ── link counts, parents
//!           ── write: superblock "repairing" | data, directories, extents | inodes | bitmaps, orphans
//!              | "clean"
//! ```
//!
//! Names and inodes are believed; bitmaps and counts follow from them. Lines with a right checksum are
//! believed before others. The content of an inode with a wrong checksum is kept as far as the bitmap and
//! everybody else agree.
//!
//! Invariants: nothing is written before all is decided. Blocks that somebody may still need are not
//! overwritten: rebuilt directories, extent blocks and copies go to blocks that nobody owns, and the inode,
//! one line, switches over. So another repair mends the state after a crash in the middle; until then the
//! superblock's state keeps mounts away.
//!
//! Pages that the drive cannot read are looked for first (`lost`); a superblock that cannot be read is made
//! anew from its copy. It does *not* mend file data.
//!
//! Source: our own; the order of beliefs is e2fsck's.

mod claims;
mod lost;
mod names;
mod read;
mod strays;
mod write;

use crate::grow;
use crate::journal::area::Lost;
use crate::layout::superblock::{CLEAN_LOOSE, REPAIRING};
use crate::layout::{Geometry, InodeRecord};
use crate::mount::{is_unreadable, replay_sound};
use crate::supers::{check_copies, read_superblock, write_copies, write_superblock};
use granary_device::vendor::transactions::Transactions;
use granary_device::{Port, Structure};
use granary_fs::{FileKind, FsError, Repaired, Result};
use granary_units::PAGE_SIZE;
use names::Dir;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zerocopy::little_endian::U32;

type Bytes = [u8; PAGE_SIZE];

/// An extent: file block, block on the drive, length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    block: u64,
    lba: u32,
    len: u32,
}

/// An inode that is in use, or may be.
struct Found {
    record: InodeRecord,
    kind: Option<FileKind>,
    /// A line of the record has a wrong checksum.
    doubtful: bool,
    /// In use only if a name says so: the bitmap's line is damaged.
    maybe: bool,
    /// In the orphan table.
    orphan: bool,
    pieces: Vec<Piece>,
    slot_blocks: Vec<u32>,
    index_blocks: Vec<u32>,
    /// The extents are to be written anew.
    remap: bool,
    xattr_blocks: Vec<u32>,
    xattrs: Vec<u8>,
    /// The attributes are to be written anew.
    rewrite_xattrs: bool,
    names: u32,
    subdirs: u32,
    parent: u32,
    reached: bool,
    /// The record is to be written.
    changed: bool,
}

impl Found {
    /// Bytes of the target that lies in the inode, if it is a symbolic link with a short one.
    fn target_len(&self) -> u64 {
        let bytes = self.record.inline_bytes();
        bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()) as u64
    }

    /// An inode with this record, before its blocks and names are looked at.
    fn new(record: InodeRecord, kind: Option<FileKind>) -> Found {
        Found {
            record,
            kind,
            doubtful: false,
            maybe: false,
            orphan: false,
            pieces: Vec::new(),
            slot_blocks: Vec::new(),
            index_blocks: Vec::new(),
            remap: false,
            xattr_blocks: Vec::new(),
            xattrs: Vec::new(),
            rewrite_xattrs: false,
            names: 0,
            subdirs: 0,
            parent: record.parent.get(),
            reached: false,
            changed: false,
        }
    }
}

struct Repair<'a> {
    port: &'a Port,
    g: Arc<Geometry>,
    report: Repaired,
    inodes: BTreeMap<u32, Found>,
    dirs: BTreeMap<u32, Dir>,
    /// Blocks to write.
    out: BTreeMap<u64, (Structure, Box<Bytes>)>,
    /// The bitmaps as they are on media.
    inode_bits: Vec<u64>,
    block_bits: Vec<u64>,
    /// Blocks with an owner.
    owned: Vec<u64>,
    /// Where the search for free blocks goes on.
    cursor: u64,
    /// Pages of the drive that cannot be read.
    lost: BTreeSet<u64>,
    /// Inodes that were or may have been in use are in them.
    lost_inodes: bool,
    /// Directories that are made anew because their inodes are lost.
    restored: BTreeSet<u32>,
    /// Blocks of directories whose inodes are lost: kept until everything they name has another place.
    stray_blocks: Vec<u64>,
    /// Where an inode has a name, for people: filled where pages are lost.
    named: BTreeMap<u32, (u32, Vec<u8>)>,
    /// When the file system was made, nanoseconds since 1970.
    made: i64,
}

fn bit(words: &[u64], n: u64) -> bool {
    words[(n / 64) as usize] >> (n % 64) & 1 == 1
}

fn set_bit(words: &mut [u64], n: u64, on: bool) {
    let word = &mut words[(n / 64) as usize];
    *word = *word & !(1 << (n % 64)) | (on as u64) << (n % 64);
}

/// Mends the file system on the drive. It is not mounted.
///
/// # Errors
/// `Corrupt` where the superblock and its copies are damaged; of the drive, other than that pages of it
/// cannot be read.
pub fn repair(port: &Port) -> Result<Repaired> {
    let (mut sb, from_copy) = read_superblock(port)?;
    let g = Arc::new(sb.geometry());
    if port.vendor::<Transactions>().is_some() {
        port.require::<Transactions>()?.recover()?;
    }
    let mut lost = lost::find(port)?;
    let emptied = lost::empty_journal(port, &g, &lost)?;
    let dropped = replay_sound(port, &g, &lost, sb.is_clean())?;
    // Some may have been written.
    lost::still(port, &mut lost)?;
    if sb.growing.get() != 0 {
        match grow::finish(port, &g, &mut sb) {
            // The bitmap is made anew below.
            lost if is_unreadable(&lost) => sb.growing = U32::new(0),
            other => other?,
        }
    }
    let mut r = Repair {
        port,
        g: Arc::clone(&g),
        report: Repaired::default(),
        inodes: BTreeMap::new(),
        dirs: BTreeMap::new(),
        out: BTreeMap::new(),
        inode_bits: Vec::new(),
        block_bits: Vec::new(),
        owned: vec![0; g.blocks().div_ceil(64) as usize],
        cursor: g.data,
        lost,
        lost_inodes: false,
        restored: BTreeSet::new(),
        stray_blocks: Vec::new(),
        named: BTreeMap::new(),
        made: sb.made.get(),
    };
    for lba in emptied {
        r.lost.remove(&lba);
        r.say(format!(
            "journal area: block {lba} cannot be read: emptied, changes that were only there are lost"
        ));
    }
    if let Some(n) = from_copy {
        r.say(format!("block 0: the superblock was damaged: made anew from its copy in block {n}"));
    }
    for bad in check_copies(port, &sb) {
        r.say(format!("{bad}: written anew"));
    }
    r.read_all()?;
    r.tree()?;
    r.tell_lost(&dropped);
    r.claim_all()?;
    r.settle()?;
    r.encode()?;
    r.renew()?;
    if sb.state.get() == REPAIRING {
        r.report.done.push("an interrupted repair was finished".into());
    }
    if r.out.is_empty() && r.report.done.is_empty() {
        return Ok(r.report);
    }
    sb.state = U32::new(REPAIRING);
    write_copies(port, &sb)?;
    write_superblock(port, &sb)?;
    port.flush()?;
    r.write_out()?;
    sb.state = U32::new(CLEAN_LOOSE);
    write_copies(port, &sb)?;
    port.flush()?;
    write_superblock(port, &sb)?;
    port.flush()?;
    Ok(r.report)
}

impl Repair<'_> {
    fn say(&mut self, what: String) {
        self.report.done.push(what);
    }

    /// Reports the lost records of the data journal, and the pages of files that are older for that reason.
    fn tell_lost(&mut self, lost: &[Lost]) {
        let mut blocks = BTreeSet::new();
        for record in lost {
            let pages = match &record.blocks {
                Some(list) => format!("its {} pages stay as they were", list.len()),
                None => "which pages it had is not known".to_owned(),
            };
            self.say(format!("{}: dropped, {pages}", record.why));
            blocks.extend(record.blocks.iter().flatten().copied());
        }
        let mut told = Vec::new();
        for (&ino, found) in &self.inodes {
            let name = || {
                let mut entries = self.dirs.values().flat_map(|d| &d.entries);
                entries
                    .find(|e| e.child == ino && !e.gone)
                    .map_or_else(String::new, |e| format!(", named \"{}\"", e.name.escape_ascii()))
            };
            let old = |p: &Piece| {
                let lbas: Vec<u64> =
                    blocks.range(p.lba..p.lba + p.len).map(|&lba| (lba - p.lba) as u64).collect();
                lbas.into_iter().map(|at| p.block + at).collect::<Vec<u64>>()
            };
            let pages: Vec<u64> = found.pieces.iter().flat_map(old).collect();
            let runs = pages.chunk_by(|a, b| a + 1 == *b).filter_map(|run| Some((run.first()?, run.last()?)));
            let runs: Vec<String> = runs.map(|(first, last)| format!("{first}-{last}")).collect();
            if !runs.is_empty() {
                told.push(format!(
                    "inode {ino}{}: pages {} are from before the lost writes",
                    name(),
                    runs.join(", ")
                ));
            }
        }
        told.into_iter().for_each(|what| self.say(what));
    }

    /// A block as it will be.
    fn read(&self, lba: u64, what: Structure) -> Result<Bytes> {
        if let Some((_, bytes)) = self.out.get(&lba) {
            return Ok(**bytes);
        }
        self.on_media(lba, what)
    }

    /// Changes a block.
    fn change(&mut self, lba: u64, what: Structure, f: impl FnOnce(&mut Bytes)) -> Result<()> {
        let mut bytes = self.read(lba, what)?;
        let before = bytes;
        f(&mut bytes);
        if bytes != before {
            self.out.insert(lba, (what, Box::new(bytes)));
        }
        Ok(())
    }

    /// Replaces a block.
    fn put(&mut self, lba: u64, what: Structure, bytes: &Bytes) {
        self.out.insert(lba, (what, Box::new(*bytes)));
    }

    fn is_data(&self, lba: u32, len: u32) -> bool {
        len > 0 && self.g.has_data(lba as u64, len as u64)
    }

    /// A block that nobody owns, now taken.
    fn take_block(&mut self) -> Option<u32> {
        while self.cursor < self.g.blocks() {
            let n = self.cursor;
            self.cursor += 1;
            if !bit(&self.owned, n) {
                set_bit(&mut self.owned, n, true);
                return Some(n as u32);
            }
        }
        None
    }

    fn inode(&mut self, ino: u32) -> Result<&mut Found> {
        let missing = || FsError::Corrupt(format!("inode {ino} went away during the repair"));
        self.inodes.get_mut(&ino).ok_or_else(missing)
    }
}
