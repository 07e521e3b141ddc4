//! Checksums over content that may have CRCs of its own: [`page`], [`Frame`].
//!
//! ```text
//!   frame:  CRC-32C( head ‖ head of a page ‖ XXH3(page) ‖ ... ‖ XXH3(records) )
//! ```
//!
//! A CRC-32C over bytes that end in their own CRC-32C is the same for all such bytes. File systems are full
//! of them (ByteFS' lines, the kernel's ext4 and btrfs), so a CRC of the same kind takes an old version of a
//! block for the new one. XXH3 is not linear. A page's sum goes into its frame's sum, which saves a second
//! walk over the page.

use xxhash_rust::xxh3::xxh3_64;

/// The sum of a page or another block.
#[inline]
pub fn page(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

/// The sum of a frame of the redo log, as it is put together.
pub struct Frame(u32);

impl Frame {
    /// Begins with the bytes of its head that are covered.
    pub fn new(head: &[u8]) -> Frame {
        Frame(crc32c::crc32c(head))
    }

    /// A page comes next, that has this sum.
    pub fn page(&mut self, head: &[u8], sum: u32) {
        self.0 = crc32c::crc32c_append(crc32c::crc32c_append(self.0, head), &sum.to_le_bytes());
    }

    /// The sum, with the rest of the frame.
    pub fn finish(self, rest: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, &xxh3_64(rest).to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_a_crc_of_their_own_differ() {
        let version = |fill: u8| {
            let mut bytes = vec![fill; 60];
            bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
            bytes
        };
        let (old, new) = (version(1), version(2));
        assert_eq!(crc32c::crc32c(&old), crc32c::crc32c(&new), "why this module is there");
        assert_ne!(page(&old), page(&new));
        assert_ne!(Frame::new(b"head").finish(&old), Frame::new(b"head").finish(&new));
    }
}
