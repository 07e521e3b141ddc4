//! Extended attributes: one string over the inode's 200 B and, where these are not enough, a node of its own.
//!
//! ```text
//!   inode  ... | head 24 | string 176 |     node (place XATTR_PLACE)  | string, continued 4072 | footer 24
//!   head   magic 0xF2F52011 4 | bytes of the string 4 | CRC-32C of them 4 (begun with the inode's number)
//!          | zero 12
//! ```
//!
//! 200 B of zeros: no attributes. Source: the kernel's fs/f2fs/xattr.h (`struct f2fs_xattr_header`,
//! `MIN_OFFSET`); the entries are `granary_kit::xattr_string`'s.

use super::node::{NIDS_AT, XATTR_AT};
use super::{BlockBytes, corrupt, le32, put32};
use granary_fs::Result;
use granary_kit::xattr_string;

const MAGIC: u32 = 0xF2F5_2011;
const HEAD: usize = 24;
/// Bytes of the string that an inode holds.
pub const INLINE_ROOM: usize = NIDS_AT - XATTR_AT - HEAD;
/// Bytes of the string that a node holds.
pub const NODE_ROOM: usize = super::node::FOOTER;
/// Bytes of the string.
pub const ROOM: usize = INLINE_ROOM + NODE_ROOM;

/// Whether the inode has attributes that need the node, too.
pub fn needs_node(string: &[u8]) -> bool {
    string.len() > INLINE_ROOM
}

/// Writes the inode's part.
pub fn write_inline(b: &mut BlockBytes, ino: u32, string: &[u8]) {
    let area = &mut b[XATTR_AT..NIDS_AT];
    area.fill(0);
    if string.is_empty() {
        return;
    }
    put32(area, 0, MAGIC);
    put32(area, 4, string.len() as u32);
    put32(area, 8, crc32c::crc32c_append(ino, string));
    let part = &string[..string.len().min(INLINE_ROOM)];
    area[HEAD..HEAD + part.len()].copy_from_slice(part);
}

/// Writes the node's part; its footer stays.
pub fn write_node(b: &mut BlockBytes, string: &[u8]) {
    let part = string.get(INLINE_ROOM..).unwrap_or(&[]);
    b[..NODE_ROOM].fill(0);
    b[..part.len()].copy_from_slice(part);
}

/// The string, from the inode and its node.
///
/// # Errors
/// `Corrupt`.
pub fn read(inode: &BlockBytes, node: Option<&BlockBytes>, ino: u32) -> Result<Vec<u8>> {
    let area = &inode[XATTR_AT..NIDS_AT];
    let (magic, len, crc) = (le32(area, 0), le32(area, 4) as usize, le32(area, 8));
    if area.iter().all(|byte| *byte == 0) && node.is_none() {
        return Ok(Vec::new());
    }
    let mut string = area[HEAD..].to_vec();
    string.extend(node.iter().flat_map(|b| &b[..NODE_ROOM]));
    let fits = (1..=string.len()).contains(&len) && (len > INLINE_ROOM) == node.is_some();
    string.truncate(len);
    let sound = magic == MAGIC
        && fits
        && crc32c::crc32c_append(ino, &string) == crc
        && xattr_string::is_sound(&string);
    if sound { Ok(string) } else { Err(corrupt(format!("extended attributes of inode {ino}: {len} bytes"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for len in [1, 60, INLINE_ROOM - 7, INLINE_ROOM - 6, 1000, ROOM - 7] {
            let string = xattr_string::set(b"", b"a", Some(&vec![9; len]));
            let (mut inode, mut node) = ([0; 4096], [7; 4096]);
            write_inline(&mut inode, 5, &string);
            write_node(&mut node, &string);
            let other = needs_node(&string).then_some(&node);
            assert_eq!(read(&inode, other, 5).expect("as written"), string);
            assert!(read(&inode, other, 6).is_err(), "another inode's");
            assert!(read(&inode, if other.is_some() { None } else { Some(&node) }, 5).is_err());
            inode[XATTR_AT + HEAD + 3] ^= 1;
            assert!(read(&inode, other, 5).is_err(), "torn");
        }
        assert!(read(&[0; 4096], None, 5).expect("none").is_empty());
    }
}
