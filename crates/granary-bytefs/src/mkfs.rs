//! Making a file system: superblock, empty orphan table, bitmaps, root directory; the rest of the drive is
//! garbage.

use crate::journal::area::table_blocks;
use crate::layout::superblock::{CLEAN, MAGIC, VERSION};
use crate::layout::{Extent, Geometry, INODE_SIZE, InodeRecord, Superblock, bitmap, inode, line};
use crate::options::MkfsOptions;
use crate::supers::{write_copies, write_superblock};
use granary_device::vendor::transactions::Transactions;
use granary_device::{Port, Structure};
use granary_fs::{FileKind, FsError, Result};
use granary_sim::rng::Stream;
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE, Page};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// The root directory's inode.
pub const ROOT: u32 = 1;

/// Bitmap blocks written with one command.
const BATCH: usize = 64;

/// Makes a file system on the drive; whatever was there is lost.
///
/// # Errors
/// `Invalid` where the drive is too small, too large (2^32 blocks), or has no room for data beside the inode
/// table and the journal area; drive errors.
pub fn mkfs(port: &Port, options: &MkfsOptions) -> Result<()> {
    let blocks = options.blocks.unwrap_or(port.info().pages);
    if blocks > port.info().pages {
        return Err(FsError::Invalid);
    }
    let journal = match options.journal {
        Some(size) => size.0 / PAGE_SIZE as u64,
        None => Geometry::default_journal(blocks),
    };
    let g = Geometry::new(blocks, options.inode_ratio, journal).ok_or(FsError::Invalid)?;
    if port.vendor::<Transactions>().is_some() {
        // The log and the TxLog of whoever used the drive before must not meet our transaction numbers.
        port.require::<Transactions>()?.recover()?;
    }
    if options.discard {
        let ticket = port.trim(Lpa(0), blocks)?;
        port.wait(ticket);
    }
    port.write(Lpa(g.orphans), &[Page::ZERO], Structure::Superblock)?;
    // Both users of the journal area find it empty.
    let table = vec![Page::ZERO; table_blocks(g.journal_blocks) as usize];
    port.write(Lpa(g.journal), &table, Structure::Journal)?;
    port.write(Lpa(g.journal + g.journal_blocks / 2), &[Page::ZERO], Structure::Journal)?;
    // Inode 0 does not exist, inode 1 is the root.
    write_bitmap(port, g.inode_bitmap, g.inodes(), g.inodes(), ROOT as u64 + 1)?;
    // The first data block is the root directory's.
    write_bitmap(port, g.block_bitmap, g.blocks(), g.blocks() - 1, g.data + 1)?;
    write_root(port, &g, options)?;
    let mut random = Stream::new(options.uuid_seed, "uuid");
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&random.next_u64().to_le_bytes());
    uuid[8..].copy_from_slice(&random.next_u64().to_le_bytes());
    // RFC 9562: version 4, variant 1.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    let superblock = Superblock {
        magic: MAGIC,
        version: U32::new(VERSION),
        state: U32::new(CLEAN),
        uuid,
        blocks: U64::new(g.blocks()),
        inodes: U64::new(g.inodes()),
        orphans: U64::new(g.orphans),
        inode_bitmap: U64::new(g.inode_bitmap),
        block_bitmap: U64::new(g.block_bitmap),
        inode_table: U64::new(g.inode_table),
        data: U64::new(g.data),
        journal: U32::new(g.journal as u32),
        journal_blocks: U32::new(g.journal_blocks as u32),
        next_tx: U32::new(1),
        root: U32::new(ROOT),
        mounts: U64::ZERO,
        made: I64::new(options.made().0),
        place: U32::ZERO,
        grown: U32::ZERO,
        growing: U32::ZERO,
        added: Default::default(),
        crc: U32::ZERO,
    };
    write_copies(port, &superblock)?;
    // Last: until then a mount takes the copy, and says so.
    write_superblock(port, &superblock)?;
    Ok(port.flush()?)
}

/// Writes a bitmap of `bits` bits whose first `used` and whose bits from `end` on are set.
fn write_bitmap(port: &Port, first: u64, bits: u64, end: u64, used: u64) -> Result<()> {
    let blocks = bitmap::blocks_for(bits);
    let page = |n: u64| {
        let (from, to) = (n * bitmap::BITS_PER_BLOCK, (n + 1) * bitmap::BITS_PER_BLOCK);
        if used <= from && to <= end {
            return Page::ZERO;
        }
        let mut bytes = [0; PAGE_SIZE];
        let mut set = |a: u64, b: u64| {
            let (a, b) = (a.clamp(from, to), b.clamp(from, to));
            bitmap::flip(&mut bytes, a - from, b - a, true);
        };
        set(0, used);
        set(end.max(used), to);
        line::seal(&mut bytes, first + n, u64::MAX);
        Page::from_bytes(&bytes)
    };
    let pages: Vec<Page> = (0..blocks).map(page).collect();
    let mut at = first;
    for batch in pages.chunks(BATCH) {
        port.write(Lpa(at), batch, Structure::Bitmap)?;
        at += batch.len() as u64;
    }
    Ok(())
}

fn write_root(port: &Port, g: &Geometry, options: &MkfsOptions) -> Result<()> {
    let (lpa, at) = g.inode_place(ROOT);
    let time = I64::new(options.made().0);
    let record = InodeRecord {
        mtime: time,
        ctime: time,
        atime: time,
        nlink: U32::new(2),
        mode: U16::new((FileKind::Dir.code() as u16) << 12 | options.root_mode & 0o7777),
        generation: U32::new(1),
        parent: U32::new(ROOT),
        slots: U32::new(1),
        first: Extent::new(0, g.data as u32, 1),
        ..InodeRecord::new_zeroed()
    };
    let mut block = [0; PAGE_SIZE];
    block[at..at + INODE_SIZE].copy_from_slice(record.as_bytes());
    line::seal(&mut block, lpa.0, inode::LINES << (at / LINE_SIZE));
    Ok(port.write(lpa, &[Page::from_bytes(&block)], Structure::Inode)?)
}
