//! The superblock: blocks 0 and 1, written by mkfs; the first again by a mount that cannot read it.
//!
//! It holds the shape and nothing that changes; changing state is in the checkpoint.

use super::{BLOCK_SIZE, BlockBytes, corrupt, le32, le64, put32, put64};
use crate::geometry::Geometry;
use granary_fs::Result;

/// "GRNYF2FS".
pub const MAGIC: u64 = u64::from_le_bytes(*b"GRNYF2FS");
/// Version of the format.
pub const VERSION: u32 = 1;
/// Bytes before the checksum.
const SIZE: usize = 64;

/// Writes a superblock: magic 8, version 4, blocks 4, blocks per segment 4, SIT blocks 4, NAT blocks 4, SSA
/// blocks 4, main segments 4, root inode 4, payload blocks 4, zero 20, CRC-32C 4.
pub fn encode(geo: &Geometry) -> Box<BlockBytes> {
    let mut b = Box::new([0; BLOCK_SIZE]);
    put64(&mut b[..], 0, MAGIC);
    put32(&mut b[..], 8, VERSION);
    put32(&mut b[..], 12, geo.blocks);
    put32(&mut b[..], 16, geo.seg_blocks);
    put32(&mut b[..], 20, geo.sit_blocks);
    put32(&mut b[..], 24, geo.nat_blocks);
    put32(&mut b[..], 28, geo.ssa_blocks);
    put32(&mut b[..], 32, geo.main_segs);
    put32(&mut b[..], 36, super::node::ROOT_INO);
    put32(&mut b[..], 40, geo.payload);
    let sum = crc32c::crc32c(&b[..SIZE]);
    put32(&mut b[..], SIZE, sum);
    b
}

/// Reads and checks a superblock of a drive with `pages` pages.
///
/// # Errors
/// `Corrupt` where it is none.
pub fn parse(b: &BlockBytes, pages: u64) -> Result<Geometry> {
    if le64(b, 0) != MAGIC || le32(b, 8) != VERSION {
        return Err(corrupt(format!("no F2FS superblock (magic {:#x}, version {})", le64(b, 0), le32(b, 8))));
    }
    if le32(b, SIZE) != crc32c::crc32c(&b[..SIZE]) {
        return Err(corrupt("superblock checksum is wrong"));
    }
    let geo = Geometry {
        blocks: le32(b, 12),
        seg_blocks: le32(b, 16),
        sit_blocks: le32(b, 20),
        nat_blocks: le32(b, 24),
        ssa_blocks: le32(b, 28),
        main_segs: le32(b, 32),
        payload: le32(b, 40),
    };
    if !geo.is_sane() || geo.blocks as u64 > pages || le32(b, 36) != super::node::ROOT_INO {
        return Err(corrupt(format!("the superblock describes an impossible shape: {geo:?}")));
    }
    Ok(geo)
}
