//! A block of extended attributes: a 32 B header and a string of entries.
//!
//! ```text
//!   magic 0xEA020000 4 | bytes 4 | CRC-32C of them 4 (begun with the inode's number) | zero 20 | bytes (at most 4064)
//! ```

use super::{BLOCK_SIZE, BlockBytes, corrupt, le32, put32};
use granary_vfs::{Result, xattr_string};

const MAGIC: u32 = 0xEA02_0000;
const HEAD: usize = 32;
/// Bytes that a block holds.
pub const ROOM: usize = BLOCK_SIZE - HEAD;

/// Makes the block hold `string`.
pub fn write(block: &mut BlockBytes, ino: u32, string: &[u8]) {
    block.fill(0);
    put32(block, 0, MAGIC);
    put32(block, 4, string.len() as u32);
    put32(block, 8, crc32c::crc32c_append(ino, string));
    block[HEAD..HEAD + string.len()].copy_from_slice(string);
}

/// The string in the block.
///
/// # Errors
/// `Corrupt`.
pub fn read(block: &BlockBytes, ino: u32) -> Result<Vec<u8>> {
    let (magic, len, crc) = (le32(block, 0), le32(block, 4) as usize, le32(block, 8));
    let string = block[HEAD..].get(..len).filter(|_| magic == MAGIC);
    match string {
        Some(s) if crc32c::crc32c_append(ino, s) == crc && xattr_string::is_sound(s) => Ok(s.to_vec()),
        _ => Err(corrupt(format!("extended attributes of inode {ino}: magic {magic:#x}, {len} bytes"))),
    }
}
