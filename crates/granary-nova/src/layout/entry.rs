//! Log entries.
//!
//! ```text
//!   write   64 B            1 | 0 3 | epoch 4 | page 8 | block 8 | pages 4 | dead pages 4* | mtime 8
//!                             | size 8 | CRC 4 | 0
//!   dentry  48 B + name     2 | length 1 | kind 1 | dead 1* | epoch 4 | inode 8 | time 8 | links 4
//!                             | CRC 4 | 0 16 | name
//!   attr    56 B            3 | flags 1* | mode 2 | epoch 4 | uid 4 | gid 4
//!                             | atime mtime ctime size 8 each | CRC 4 | links 4
//!   link    40 B            4 | dead 1* | 0 2 | epoch 4 | links 4 | CRC 4 | ctime 8 | 0 16
//!   next    1 B             0x7f: the log goes on in the next page
//! ```
//!
//! `*` changes in place and is not in the checksum. A dentry with inode 0 takes its name away. The epoch
//! counts the entries of a log: attributes come from the entry with the highest. `links` of a dentry is the
//! directory's own.

use granary_fs::{Attr, FileKind, NAME_MAX, Result, Time, flag};
use granary_pm::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use granary_pm::corrupt;

/// Bytes of a write entry.
pub const WRITE: usize = 64;
/// Bytes of a dentry before the name.
pub const DENTRY: usize = 48;
/// Bytes of an attribute entry.
pub const ATTR: usize = 56;
/// Bytes of a link-change entry.
pub const LINK: usize = 40;
/// Most bytes of an entry.
pub const MAX: usize = DENTRY + (NAME_MAX + 1).next_multiple_of(8);
/// First byte where the log goes on in the next page.
pub const NEXT_PAGE: u8 = 0x7f;
/// Offset of a write entry's dead pages, 4 B.
pub const WRITE_DEAD: u64 = 28;
/// Offset of a dentry's dead flag, 1 B.
pub const DENTRY_DEAD: u64 = 3;
/// Offset of the flags of attribute and link entries, 1 B.
pub const FLAGS: u64 = 1;
/// Flag: superseded.
pub const DEAD: u8 = 0x80;
/// Flag of an attribute entry: it cut the file.
pub const CUT: u8 = 1;
/// By how many bits the inode's flags are moved down in those of an attribute entry.
const INODE_FLAGS: u8 = 3;

/// File pages that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// First page in the file.
    pub page: u64,
    /// First block on the drive.
    pub block: u64,
    /// Number of pages.
    pub pages: u32,
    /// How many of them were superseded.
    pub dead: u32,
    /// When.
    pub mtime: Time,
    /// The file's size afterwards.
    pub size: u64,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEntry {
    /// File pages.
    Write(Write),
    /// A name added (or, with inode 0, taken away).
    Dentry {
        /// The name.
        name: Box<[u8]>,
        /// Number of its inode.
        ino: u64,
        /// Kind of that inode.
        kind: FileKind,
        /// Taken away again.
        dead: bool,
        /// When.
        time: Time,
        /// Links of the directory afterwards.
        links: u32,
    },
    /// All attributes.
    Attr {
        /// [`CUT`], [`DEAD`], [`inode_flags`].
        flags: u8,
        /// Permission bits.
        mode: u16,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Access, modification, change.
        times: [Time; 3],
        /// Size.
        size: u64,
        /// Links.
        links: u32,
    },
    /// The number of links.
    Link {
        /// Links.
        links: u32,
        /// Superseded.
        dead: bool,
        /// When.
        ctime: Time,
    },
}

/// The bytes of an entry under construction.
pub struct Bytes {
    buf: [u8; MAX],
    len: usize,
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buf[..self.len]
    }
}

fn sum_place(kind: u8) -> usize {
    match kind {
        1 | 3 => 48,
        2 => 28,
        _ => 12,
    }
}

fn crc(entry: &[u8]) -> u32 {
    let mut copy = [0; MAX];
    let copy = &mut copy[..entry.len()];
    copy.copy_from_slice(entry);
    let at = sum_place(entry[0]);
    copy[at..at + 4].fill(0);
    match entry[0] {
        1 => copy[28..32].fill(0),
        2 => copy[3] = 0,
        _ => copy[1] &= !DEAD,
    }
    crc32c::crc32c(copy)
}

fn sealed(mut buf: [u8; MAX], len: usize) -> Bytes {
    let (sum, at) = (crc(&buf[..len]), sum_place(buf[0]));
    put_u32(&mut buf, at, sum);
    Bytes { buf, len }
}

fn begin(kind: u8, epoch: u32) -> [u8; MAX] {
    let mut b = [0; MAX];
    b[0] = kind;
    put_u32(&mut b, 4, epoch);
    b
}

/// A write entry.
pub fn write(epoch: u32, w: &Write) -> Bytes {
    let mut b = begin(1, epoch);
    put_u64(&mut b, 8, w.page);
    put_u64(&mut b, 16, w.block);
    put_u32(&mut b, 24, w.pages);
    put_u32(&mut b, 28, w.dead);
    put_u64(&mut b, 32, w.mtime.0 as u64);
    put_u64(&mut b, 40, w.size);
    sealed(b, WRITE)
}

/// Length of a dentry.
pub fn dentry_len(name: &[u8]) -> usize {
    DENTRY + (name.len() + 1).next_multiple_of(8)
}

/// A dentry; `ino` 0 takes the name away, and the entry is dead from the start.
pub fn dentry(epoch: u32, name: &[u8], ino: u64, kind: FileKind, time: Time, links: u32) -> Bytes {
    let mut b = begin(2, epoch);
    (b[1], b[2], b[3]) = (name.len() as u8, kind.code(), (ino == 0).into());
    put_u64(&mut b, 8, ino);
    put_u64(&mut b, 16, time.0 as u64);
    put_u32(&mut b, 24, links);
    b[DENTRY..DENTRY + name.len()].copy_from_slice(name);
    sealed(b, dentry_len(name))
}

/// The flags of an attribute entry.
pub fn attr_flags(a: &Attr, cut: bool) -> u8 {
    a.flags >> INODE_FLAGS | if cut { CUT } else { 0 }
}

/// The inode's flags in those of an attribute entry.
pub fn inode_flags(flags: u8) -> u8 {
    (flags & !DEAD) << INODE_FLAGS & flag::ALL
}

/// All attributes.
pub fn attr(epoch: u32, a: &Attr, cut: bool) -> Bytes {
    let mut b = begin(3, epoch);
    b[1] = attr_flags(a, cut);
    put_u16(&mut b, 2, a.mode);
    put_u32(&mut b, 8, a.uid);
    put_u32(&mut b, 12, a.gid);
    put_u64(&mut b, 16, a.atime.0 as u64);
    put_u64(&mut b, 24, a.mtime.0 as u64);
    put_u64(&mut b, 32, a.ctime.0 as u64);
    put_u64(&mut b, 40, a.size);
    put_u32(&mut b, 52, a.nlink);
    sealed(b, ATTR)
}

/// The number of links.
pub fn link(epoch: u32, links: u32, ctime: Time) -> Bytes {
    let mut b = begin(4, epoch);
    put_u32(&mut b, 8, links);
    put_u64(&mut b, 16, ctime.0 as u64);
    sealed(b, LINK)
}

/// Reads the entry at the start of `b`, which ends where the log page's entries end: (entry, epoch, length).
///
/// # Errors
/// `Corrupt`.
pub fn parse(b: &[u8]) -> Result<(LogEntry, u32, usize)> {
    let bad = || corrupt(format!("log entry {:02x?}", &b[..b.len().min(16)]));
    let len = match b[0] {
        1 => WRITE,
        2 if b.len() > 1 => DENTRY + (b[1] as usize + 1).next_multiple_of(8),
        3 => ATTR,
        4 => LINK,
        _ => return Err(bad()),
    };
    if len > b.len() || u32_at(b, sum_place(b[0])) != crc(&b[..len]) {
        return Err(bad());
    }
    let time = |at| Time(u64_at(b, at) as i64);
    let entry = match b[0] {
        1 => LogEntry::Write(Write {
            page: u64_at(b, 8),
            block: u64_at(b, 16),
            pages: u32_at(b, 24),
            dead: u32_at(b, 28),
            mtime: time(32),
            size: u64_at(b, 40),
        }),
        2 => LogEntry::Dentry {
            name: b[DENTRY..DENTRY + b[1] as usize].into(),
            ino: u64_at(b, 8),
            kind: FileKind::from_code(b[2]).ok_or_else(bad)?,
            dead: b[3] != 0,
            time: time(16),
            links: u32_at(b, 24),
        },
        3 => LogEntry::Attr {
            flags: b[1],
            mode: u16_at(b, 2),
            uid: u32_at(b, 8),
            gid: u32_at(b, 12),
            times: [time(16), time(24), time(32)],
            size: u64_at(b, 40),
            links: u32_at(b, 52),
        },
        _ => LogEntry::Link { links: u32_at(b, 8), dead: b[1] & DEAD != 0, ctime: time(16) },
    };
    Ok((entry, u32_at(b, 4), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back_as_written_and_nothing_else_is_accepted() {
        let w = Write { page: 3, block: 99, pages: 7, dead: 0, mtime: Time(5), size: 12345 };
        let mut bytes = write(8, &w).to_vec();
        assert_eq!(parse(&bytes).expect("sound"), (LogEntry::Write(w), 8, WRITE));
        put_u32(&mut bytes, WRITE_DEAD as usize, 2);
        assert!(parse(&bytes).is_ok(), "dead pages change in place");
        for at in (0..28).chain(32..52) {
            let mut torn = bytes.clone();
            torn[at] ^= 0x11;
            assert!(parse(&torn).is_err(), "byte {at}");
        }
        let d = dentry(9, b"name", 12, FileKind::Dir, Time(6), 3);
        assert_eq!(d.len(), 56);
        let (entry, epoch, len) = parse(&d).expect("sound");
        assert!(matches!(entry, LogEntry::Dentry { ino: 12, links: 3, dead: false, .. }));
        assert_eq!((epoch, len), (9, 56));
        assert!(parse(&d[..40]).is_err());
    }

    #[test]
    fn an_attribute_entry_keeps_the_inode_flags_whatever_else_its_flags_say() {
        for set in (0..=u8::MAX).map(|f| f & flag::ALL) {
            for cut in [false, true] {
                let a = Attr { flags: set, ..Attr::new(FileKind::File, 0o600, Time(1)) };
                let mut bytes = attr(7, &a, cut).to_vec();
                for dead in [0, DEAD] {
                    bytes[FLAGS as usize] = attr_flags(&a, cut) | dead;
                    let Ok((LogEntry::Attr { flags, .. }, 7, ATTR)) = parse(&bytes) else {
                        panic!("{set:#x}")
                    };
                    assert_eq!((inode_flags(flags), flags & CUT, flags & DEAD), (set, cut.into(), dead));
                }
            }
        }
    }
}
