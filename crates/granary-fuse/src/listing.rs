//! [`Listing`]: the entries of a directory as READDIR and READDIRPLUS want them, in one buffer.
//!
//! ```text
//!   READDIR:                  Dirent | name | zeros up to 8 bytes | Dirent ...
//!   READDIRPLUS:   EntryOut | Dirent | name | zeros up to 8 bytes | EntryOut ...
//! ```
//!
//! Invariant: it is never longer than the kernel asked for, and an entry is there whole or not at all.
//!
//! Source: `include/uapi/linux/fuse.h`, `fuse_dirent`, `fuse_direntplus`, FUSE_DIRENT_ALIGN.

use crate::abi::{Dirent, EntryOut};
use zerocopy::IntoBytes;

const ALIGN: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    most: usize,
}

impl Listing {
    /// An empty one, for up to `most` bytes.
    pub fn new(most: u32) -> Listing {
        Listing { bytes: Vec::new(), most: most as usize }
    }

    /// Adds an entry: the inode's number, the position after it, the kind (bits 12 to 15 of a mode), the
    /// name. Returns whether there was room.
    pub fn add(&mut self, ino: u64, next: u64, kind: u32, name: &[u8]) -> bool {
        self.put(None, ino, next, kind, name)
    }

    /// Adds an entry with its node; with node 0 the kernel takes no lookup.
    pub fn add_plus(&mut self, entry: &EntryOut, next: u64, name: &[u8]) -> bool {
        self.put(Some(entry), entry.attr.ino, next, entry.attr.mode >> 12 & 0o17, name)
    }

    fn put(&mut self, entry: Option<&EntryOut>, ino: u64, off: u64, kind: u32, name: &[u8]) -> bool {
        let before = entry.map_or(0, size_of_val);
        let len = (before + size_of::<Dirent>() + name.len()).next_multiple_of(ALIGN);
        let end = self.bytes.len() + len;
        if end > self.most {
            return false;
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(self.most.min(64 << 10));
        }
        if let Some(entry) = entry {
            self.bytes.extend_from_slice(entry.as_bytes());
        }
        let head = Dirent { ino, off, namelen: name.len() as u32, kind };
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Attr;
    use zerocopy::FromBytes;

    #[test]
    fn entries_are_whole_and_padded_to_eight_bytes() {
        let mut list = Listing::new(72);
        assert!(list.add(5, 1, 8, b"a"));
        assert!(list.add(6, 2, 4, b"eightbyt"));
        assert!(!list.add(7, 3, 8, b""), "64 of 72 bytes are taken");
        let (first, rest) = Dirent::read_from_prefix(list.bytes()).expect("there");
        assert_eq!(first, Dirent { ino: 5, off: 1, namelen: 1, kind: 8 });
        assert_eq!(&rest[..8], b"a\0\0\0\0\0\0\0");
        let (second, rest) = Dirent::read_from_prefix(&rest[8..]).expect("there");
        assert_eq!((second, rest), (Dirent { ino: 6, off: 2, namelen: 8, kind: 4 }, b"eightbyt".as_slice()));
    }

    #[test]
    fn entries_with_nodes_say_number_and_kind_twice() {
        let attr = Attr { ino: 9, mode: 0o100_644, ..Attr::default() };
        let entry = EntryOut { nodeid: 9, attr, ..EntryOut::default() };
        let mut list = Listing::new(160);
        assert!(list.add_plus(&entry, 3, b"name"));
        assert!(!list.add_plus(&entry, 4, b""), "160 bytes are full");
        let (told, rest) = EntryOut::read_from_prefix(list.bytes()).expect("there");
        let (dirent, rest) = Dirent::read_from_prefix(rest).expect("there");
        assert_eq!((told, dirent), (entry, Dirent { ino: 9, off: 3, namelen: 4, kind: 8 }));
        assert_eq!(rest, b"name\0\0\0\0");
    }
}
