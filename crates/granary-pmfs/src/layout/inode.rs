//! An inode: 80 B in a place of 128 B, and 40 B for the truncate list.
//!
//! ```text
//!   0      8      16      24      32      40       48     50     51
//!   | root | size | atime | mtime | ctime | blocks | mode | kind | height |
//!   52      56    60    64     68           72      73 .. 80
//!   | links | uid | gid | rdev | generation | flags | 0     |
//!   88     92    96           104    112     120 .. 128
//!   | mode | 1   | next inode | size | mtime | ctime |
//! ```
//!
//! Operations on an existing inode change fields of the first line of 64 B only, but for the flags. An inode
//! with no links is free, unless the truncate list leads to it. The root of a tree of height 0 is a data
//! block.

use granary_fs::{Attr, FileKind, Ino, Result, Time, flag};
use granary_pm::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use granary_pm::corrupt;

/// Distance of inodes.
pub const PLACE: u64 = 128;
/// Bytes of an inode.
pub const SIZE: usize = 80;
/// Offset of the truncate item's pointer to the next inode.
pub const ITEM: u64 = 96;
/// Where the item begins, and its length: it lies in one line.
pub const ITEM_START: u64 = 88;
const ITEM_SIZE: usize = 40;

/// The bytes of a truncate item: the next inode, and the attributes to which the inode is cut (`None`: it has
/// no links).
pub fn item(next: u64, to: Option<&Attr>) -> [u8; ITEM_SIZE] {
    let mut b = [0; ITEM_SIZE];
    put_u64(&mut b, 8, next);
    if let Some(a) = to {
        put_u32(&mut b, 0, a.mode as u32);
        put_u32(&mut b, 4, 1);
        put_u64(&mut b, 16, a.size);
        put_u64(&mut b, 24, a.mtime.0 as u64);
        put_u64(&mut b, 32, a.ctime.0 as u64);
    }
    b
}

/// Applies the truncate item in the place of an inode to the attributes `attr`, but for the blocks. An item
/// without its mark is of an older version, which kept the size alone.
pub fn item_at(place: &[u8], attr: Attr) -> Attr {
    let at = |n: u64| u64_at(place, (ITEM_START + n) as usize);
    let mut cut = Attr { size: at(16), ..attr };
    if u32_at(place, ITEM_START as usize + 4) == 1 {
        cut.mode = u16_at(place, ITEM_START as usize);
        (cut.mtime, cut.ctime) = (Time(at(24) as i64), Time(at(32) as i64));
    }
    cut
}

/// An inode's tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Root node, or the only data block; 0 = none.
    pub root: u64,
    /// Levels of nodes.
    pub height: u8,
}

/// The bytes of an inode but for its generation, which never changes.
pub fn bytes(a: &Attr, t: Tree) -> [u8; SIZE] {
    let mut b = [0; SIZE];
    put_u64(&mut b, 0, t.root);
    put_u64(&mut b, 8, a.size);
    put_u64(&mut b, 16, a.atime.0 as u64);
    put_u64(&mut b, 24, a.mtime.0 as u64);
    put_u64(&mut b, 32, a.ctime.0 as u64);
    put_u64(&mut b, 40, a.blocks);
    put_u16(&mut b, 48, a.mode);
    (b[50], b[51]) = (a.kind.code(), t.height);
    put_u32(&mut b, 52, a.nlink);
    put_u32(&mut b, 56, a.uid);
    put_u32(&mut b, 60, a.gid);
    put_u32(&mut b, 64, a.rdev);
    b[72] = a.flags;
    b
}

/// The bytes of a new inode.
pub fn new_bytes(a: &Attr, t: Tree, generation: u32) -> [u8; SIZE] {
    let mut b = bytes(a, t);
    put_u32(&mut b, 68, generation);
    b
}

/// Generation of the inode; 0: made before they were kept.
pub fn generation(b: &[u8]) -> u32 {
    u32_at(b, 68)
}

/// Links of the inode.
pub fn links(b: &[u8]) -> u32 {
    u32_at(b, 52)
}

/// Reads an inode that has links, or is on the truncate list.
///
/// # Errors
/// `Corrupt`.
pub fn parse(b: &[u8], ino: Ino) -> Result<(Attr, Tree)> {
    let kind = FileKind::from_code(b[50]).filter(|_| b[51] <= super::MAX_HEIGHT);
    let Some(kind) = kind else {
        return Err(corrupt(format!("{ino} on media: {:02x?}", &b[..SIZE])));
    };
    let time = |at| Time(u64_at(b, at) as i64);
    let attr = Attr {
        kind,
        mode: u16_at(b, 48),
        uid: u32_at(b, 56),
        gid: u32_at(b, 60),
        nlink: u32_at(b, 52),
        size: u64_at(b, 8),
        blocks: u64_at(b, 40),
        atime: time(16),
        mtime: time(24),
        ctime: time(32),
        rdev: u32_at(b, 64),
        flags: b[72] & flag::ALL,
    };
    Ok((attr, Tree { root: u64_at(b, 0), height: b[51] }))
}
