//! mkfs: the first state of the media.
//!
//! The whole drive is trimmed, so NAT, SIT and SSA read as zeros: all free. Written are the superblocks, the
//! root directory (first block of the hot node log) and a checkpoint that says "unmounted".

use crate::checkpoint::{Journals, data_summaries};
use crate::dir::make_empty;
use crate::geometry::Geometry;
use crate::layout::checkpoint::{COMPACT, Checkpoint, LogPlace, UMOUNT};
use crate::layout::nat::NatEntry;
use crate::layout::node::{Extra, Footer, INLINE_BYTES, INLINE_DENTRY, ROOT_INO, encode};
use crate::layout::summary::{Summary, set_kind};
use crate::layout::{BLOCK_SIZE, superblock};
use crate::options::MkfsOptions;
use crate::segs::{Seg, Segs, log};
use granary_device::{Port, Structure};
use granary_fs::{Attr, FileKind, FsError, Result, Time};
use granary_kit::BlockCache;
use granary_units::{Bytes, Lpa, Page};
use std::sync::Arc;

/// Makes an empty file system on the drive, and destroys its previous content.
///
/// # Errors
/// `Invalid` where the drive is too small (under 16 MiB) or the size does not fit it; the drive's.
pub fn mkfs(port: &Port, options: &MkfsOptions) -> Result<()> {
    let pages = port.info().pages;
    let blocks = options.size.map_or(pages, |s| s.0 / BLOCK_SIZE as u64);
    if blocks > pages {
        return Err(FsError::Invalid);
    }
    let geo = Geometry::plan(blocks, options.segment_blocks);
    let geo = if options.payload { geo.and_then(Geometry::with_payload) } else { geo };
    let geo = geo.ok_or(FsError::Invalid)?;
    port.wait(port.trim(Lpa(0), pages)?);
    let sb = Page::from_bytes(&superblock::encode(&geo));
    port.write(Lpa(0), &[sb.clone(), sb], Structure::Superblock)?;
    // The logs in the first six segments.
    let tables = Arc::new(BlockCache::new(port.clone(), Bytes::kib(64)));
    let mut segs = Segs::new(geo, tables, vec![Seg::default(); geo.main_segs as usize], 0, 0);
    for l in 0..6u8 {
        let mut sum = Box::new([0; BLOCK_SIZE]);
        set_kind(&mut sum, l);
        segs.restore(LogPlace { segno: l as u32, next: 0, ssr: false }, sum)?;
        segs.touched.insert(l as u32);
    }
    let root = segs.alloc(log::HOT_NODE, Summary { nid: ROOT_INO, version: 0, ofs: 0 })?;
    let block = root_block(segs.next_addr(log::HOT_NODE));
    port.write(Lpa(root as u64), &[block], Structure::Inode)?;
    let nat = [(ROOT_INO, NatEntry { version: 0, ino: ROOT_INO, addr: root })];
    let sit: Vec<_> = (0..6).map(|n| (n, segs.segs[n as usize].entry())).collect();
    let (summaries, compact) = data_summaries(&segs, &Journals::encode(&nat, &sit));
    let mut body = summaries;
    body.extend((3..6).map(|l| Page::from_bytes(&segs.logs[l].sum)));
    let (reserved, overprovision) = geo.reserved();
    let mut logs = [LogPlace::default(); 6];
    for (to, l) in logs.iter_mut().zip(&segs.logs) {
        *to = LogPlace { segno: l.segno, next: l.next as u16, ssr: false };
    }
    let cp = Checkpoint {
        version: 1,
        user_blocks: (geo.main_segs - overprovision) as u64 * geo.seg_blocks as u64,
        valid_blocks: 1,
        valid_nodes: 1,
        valid_inodes: 1,
        reserved,
        overprovision,
        free_segs: segs.free_count,
        flags: UMOUNT | if compact { COMPACT } else { 0 },
        pack_blocks: body.len() as u32 + geo.payload + 2,
        orphan_blocks: 0,
        next_nid: 0,
        elapsed: 0,
        payload: geo.payload,
        logs,
        sit_copies: vec![0; geo.sit_blocks.div_ceil(8) as usize],
        nat_copies: vec![0; geo.nat_blocks.div_ceil(8) as usize],
    };
    let head = Page::from_bytes(&cp.encode());
    body.splice(..0, [head.clone()].into_iter().chain(cp.encode_payload().map(|b| Page::from_bytes(&b))));
    port.write(Lpa(geo.pack(0)), &body, Structure::Superblock)?;
    // The pack counts with its last block: a volatile cache must have lost nothing that it names.
    port.flush()?;
    port.write(Lpa(geo.pack(0) + body.len() as u64), &[head], Structure::Superblock)?;
    Ok(port.flush()?)
}

/// The root directory's node.
fn root_block(next: u32) -> Page {
    let attr = Attr { size: INLINE_BYTES as u64, ..Attr::new(FileKind::Dir, 0o755, Time(0)) };
    let x = Extra { inline: INLINE_DENTRY, parent: ROOT_INO, size: INLINE_BYTES as u64, ..Extra::default() };
    let mut b = Box::new([0; BLOCK_SIZE]);
    encode(&mut b, &attr, &x);
    make_empty(&mut b, ROOT_INO, ROOT_INO);
    Footer { nid: ROOT_INO, ino: ROOT_INO, version: 1, next, ..Footer::default() }.store(&mut b);
    Page::from_bytes(&b)
}
