//! A block of extended attributes: a 32 B header and a string of entries. Inodes whose attributes are the
//! same share one.
//!
//! ```text
//!   magic 0xEA020000 4 | bytes 4 | CRC-32C 4 | users 4 | zero 16 | bytes (at most 4064)
//!                                   └─ of users and bytes, begun with the block's number
//! ```
//!
//! Users are the inodes that point here. 0 is the form of before blocks were shared: one user, and the
//! CRC-32C is of the bytes alone, begun with the inode's number.

use super::{BLOCK_SIZE, BlockBytes, corrupt, le32, put32};
use granary_fs::Result;
use granary_kit::xattr_string;

const MAGIC: u32 = 0xEA02_0000;
const HEAD: usize = 32;
/// Bytes that a block holds.
pub const ROOM: usize = BLOCK_SIZE - HEAD;
/// Most inodes that share a block (the kernel's `EXT4_XATTR_REFCOUNT_MAX`).
pub const MAX_USERS: u32 = 1024;

/// Content of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Inodes that point to it, 1 to [`MAX_USERS`].
    pub users: u32,
    /// The entries.
    pub string: Vec<u8>,
}

fn sum(lba: u64, users: u32, string: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(lba as u32, &users.to_le_bytes()), string)
}

/// Makes the block at `lba` say `users` and `string`.
pub fn write(block: &mut BlockBytes, lba: u64, users: u32, string: &[u8]) {
    block.fill(0);
    put32(block, 0, MAGIC);
    put32(block, 4, string.len() as u32);
    put32(block, 8, sum(lba, users, string));
    put32(block, 12, users);
    block[HEAD..HEAD + string.len()].copy_from_slice(string);
}

/// Reads the content of the block at `lba` for inode `ino`.
///
/// # Errors
/// `Corrupt`.
pub fn read(block: &BlockBytes, lba: u64, ino: u32) -> Result<Shared> {
    let (magic, len, crc, users) = (le32(block, 0), le32(block, 4) as usize, le32(block, 8), le32(block, 12));
    let whole = |s: &&[u8]| {
        let expected = if users == 0 { crc32c::crc32c_append(ino, s) } else { sum(lba, users, s) };
        magic == MAGIC && crc == expected && users <= MAX_USERS && xattr_string::is_sound(s)
    };
    match block[HEAD..].get(..len).filter(whole) {
        Some(s) => Ok(Shared { users: users.max(1), string: s.to_vec() }),
        None => Err(corrupt(format!(
            "extended attributes of inode {ino} in block {lba}: magic {magic:#x}, {len} bytes, {users} users"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string() -> Vec<u8> {
        xattr_string::set(b"", b"user.name", Some(&[7; 300]))
    }

    #[test]
    fn a_block_says_what_was_written_and_no_flipped_bit_passes() {
        let mut block = [0; BLOCK_SIZE];
        write(&mut block, 77, 3, &string());
        assert_eq!(read(&block, 77, 12).expect("sound"), Shared { users: 3, string: string() });
        assert!(read(&block, 78, 12).is_err(), "of another place");
        // Bytes 16 to 31 of the header mean nothing.
        for bit in (0..16 * 8).chain(HEAD * 8..(HEAD + string().len()) * 8) {
            let mut bad = block;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bad, 77, 12).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_block_of_before_they_were_shared_has_one_user() {
        let mut block = [0; BLOCK_SIZE];
        write(&mut block, 0, 0, &string());
        put32(&mut block, 8, crc32c::crc32c_append(12, &string()));
        assert_eq!(read(&block, 77, 12).expect("sound"), Shared { users: 1, string: string() });
        assert!(read(&block, 77, 13).is_err(), "of another inode");
    }
}
