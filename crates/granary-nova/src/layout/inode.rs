//! An inode: 128 B, two lines. The first holds its attributes at creation, the second its log.
//!
//! ```text
//!   0      8      16      24      32      40    44    48      52     56           64
//!   | word | size | atime | mtime | ctime | uid | gid | links | rdev | CRC, epoch |
//!     valid 1, deleted 1, kind 1, flags 1, mode 2, 0 2
//!   64    72     80     88  96             104     108   109 112          116
//!   | ino | head | tail | 0 | delete epoch | epoch | cut | 0 | generation | 0 ...
//!                                            epoch of the attributes in the first line; 0: those it
//!                                            was created with
//! ```
//!
//! Attributes that change later are in the log, newest last. The access time also changes in place, with the
//! epoch of the log at that time beside it, and counts where no attribute entry is newer; so do all
//! attributes where the log finds no page ([`changed`]). `valid` makes the inode exist; the tail makes a log
//! entry count. A head without a tail means nothing.

use granary_fs::{Attr, FileKind, Ino, Result, Time, flag};
use granary_pm::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use granary_pm::corrupt;

/// Bytes of an inode.
pub const SIZE: usize = 128;
/// Offset of the inode's number: its second line begins.
pub const NUMBER: u64 = 64;
/// Offset of the log's first block, 8 B.
pub const HEAD: u64 = 72;
/// Offset of the byte address behind the last log entry, 8 B.
pub const TAIL: u64 = 80;
/// Offset of the access time, 8 B.
pub const ATIME: u64 = 16;
/// Offset of the epoch of the access time, 4 B, in the same line.
pub const ATIME_EPOCH: u64 = 60;
/// Offset of the delete epoch, 8 B: not 0 once the last link is gone.
pub const DELETE_EPOCH: u64 = 96;

/// Offset of the epoch of the attributes in the first line, 4 B, and of whether they came with a truncation,
/// 1 B.
pub const ATTR_EPOCH: usize = 104;
/// Bytes that a change of attributes in place may touch.
pub const CHANGED: usize = 112;

/// Where the log lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPointers {
    /// First page.
    pub head: u64,
    /// Address behind the last entry; 0 = no log.
    pub tail: u64,
}

/// The first word of a new inode, which has no flags.
pub fn word(kind: FileKind, mode: u16, valid: bool, deleted: bool) -> u64 {
    let mut b = [0; 8];
    (b[0], b[1], b[2]) = (valid.into(), deleted.into(), kind.code());
    put_u16(&mut b, 4, mode);
    u64::from_le_bytes(b)
}

fn crc(b: &[u8; SIZE]) -> u32 {
    let mut copy = *b;
    (copy[0], copy[1]) = (0, 0);
    copy[16..24].fill(0);
    copy[56..64].fill(0);
    let first = crc32c::crc32c(&copy[..72]);
    match &copy[ATTR_EPOCH..CHANGED] {
        [0, 0, 0, 0, 0, 0, 0, 0] => first,
        since => crc32c::crc32c_append(first, since),
    }
}

/// Changes the attributes where they lie. `epoch`: of this change, as if it were the log's next entry; `cut`:
/// the file was truncated, so that bytes beyond its end may be left on media.
pub fn changed(b: &mut [u8; SIZE], attr: &Attr, epoch: u32, cut: bool) {
    put_attr(b, attr);
    b[3] = attr.flags;
    put_u16(b, 4, attr.mode);
    put_u32(b, ATIME_EPOCH as usize, epoch);
    put_u32(b, ATTR_EPOCH, epoch);
    b[ATTR_EPOCH + 4] = cut.into();
    let sum = crc(b);
    put_u32(b, 56, sum);
}

fn put_attr(b: &mut [u8; SIZE], attr: &Attr) {
    put_u64(b, 8, attr.size);
    put_u64(b, 16, attr.atime.0 as u64);
    put_u64(b, 24, attr.mtime.0 as u64);
    put_u64(b, 32, attr.ctime.0 as u64);
    put_u32(b, 40, attr.uid);
    put_u32(b, 44, attr.gid);
    put_u32(b, 48, attr.nlink);
    put_u32(b, 52, attr.rdev);
}

/// Its generation; 0: made before they were kept. No checksum covers it.
pub fn generation(b: &[u8; SIZE]) -> u32 {
    u32_at(b, CHANGED)
}

/// The bytes of a new inode, not valid yet.
pub fn bytes((ino, generation): (Ino, u32), attr: &Attr, log: LogPointers) -> [u8; SIZE] {
    let mut b = [0; SIZE];
    put_u32(&mut b, CHANGED, generation);
    put_u64(&mut b, 0, word(attr.kind, attr.mode, false, false));
    put_attr(&mut b, attr);
    put_u64(&mut b, 64, ino.0);
    put_u64(&mut b, HEAD as usize, log.head);
    put_u64(&mut b, TAIL as usize, log.tail);
    let sum = crc(&b);
    put_u32(&mut b, 56, sum);
    b
}

/// Whether the inode exists.
pub fn is_valid(b: &[u8; SIZE]) -> bool {
    b[0] == 1
}

/// The epoch of an inode's attributes (0: of its creation), and whether they came with a truncation.
pub fn since(b: &[u8; SIZE]) -> (u32, bool) {
    (u32_at(b, ATTR_EPOCH), b[ATTR_EPOCH + 4] != 0)
}

/// The attributes in a valid inode, and its log.
///
/// # Errors
/// `Corrupt`.
pub fn parse(b: &[u8; SIZE], ino: Ino) -> Result<(Attr, LogPointers)> {
    let kind = FileKind::from_code(b[2]).filter(|_| u32_at(b, 56) == crc(b) && u64_at(b, 64) == ino.0);
    let Some(kind) = kind else {
        return Err(corrupt(format!("{ino} on media: {:02x?}", &b[..72])));
    };
    let time = |at| Time(u64_at(b, at) as i64);
    let attr = Attr {
        kind,
        mode: u16_at(b, 4),
        uid: u32_at(b, 40),
        gid: u32_at(b, 44),
        nlink: u32_at(b, 48),
        size: u64_at(b, 8),
        blocks: 0,
        atime: time(16),
        mtime: time(24),
        ctime: time(32),
        rdev: u32_at(b, 52),
        flags: b[3] & flag::ALL,
    };
    let log = LogPointers { head: u64_at(b, HEAD as usize), tail: u64_at(b, TAIL as usize) };
    Ok((attr, log))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_change_in_place_are_read_and_a_new_inode_has_none() {
        let mut attr = Attr::new(FileKind::File, 0o640, Time(3));
        let mut b = bytes((Ino(9), 5), &attr, LogPointers::default());
        assert_eq!(parse(&b, Ino(9)).expect("sound").0, attr);
        attr.flags = flag::APPEND | flag::NOATIME;
        changed(&mut b, &attr, 2, false);
        assert_eq!(parse(&b, Ino(9)).expect("sound").0, attr);
        b[3] ^= flag::APPEND;
        assert!(parse(&b, Ino(9)).is_err(), "the checksum covers them");
    }
}
