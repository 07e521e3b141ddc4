//! An inode on the NVM: 512 B.
//!
//! ```text
//!   0 number 8 | 8 CRC-32C (itself zero) 4 | 12 generation 4 | 16 kind 1, 0 = free | 17 flags 1 | 18 mode 2
//!   20 links 4 | 24 owner 4 | 28 group 4 | 32 device 4 | 36 bytes of the target in here 4
//!   40 word of the tree's root 8 | 48 first page of a directory, or of a long target 8
//!   56 first page of attributes 8 | 64 parent of a directory 8 | 72 access time 8
//!   80 number of the last undo slot whose write counts 8 | 88 size 8 | 96 time of change of content 16
//!   112 of attributes 16    (nanoseconds 8, zero 8)
//!   128 target of a symbolic link, up to 384
//! ```
//!
//! Source: released code: 512 B, times of 16 B each. The fields that a write stamps lie together: they are
//! one record.

use crate::layout::nodes::{seal, sealed};
use crate::unit::Word;
use granary_fs::{Attr, FileKind, Result, Time};
use granary_pm::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use granary_pm::corrupt;

/// Bytes of an inode.
pub const SIZE: usize = 512;
/// Bytes before the target.
pub const HEAD: usize = 128;
/// Longest target of a symbolic link that an inode holds itself.
pub const INLINE: usize = SIZE - HEAD;
/// Where the kind lies.
pub const KIND: usize = 16;
/// Where the root lies.
pub const ROOT: usize = 40;
/// Where the first page of a directory lies.
pub const FIRST: usize = 48;
/// Where the first page of attributes lies.
pub const ATTRIBUTES: usize = 56;
/// Where the number of the last undo slot lies.
pub const UNDO: usize = 80;
/// Where the size lies.
pub const LENGTH: usize = 88;
/// Where what a write stamps lies, and how long it is: undo number, size and times.
pub const STAMPS: (usize, usize) = (UNDO, 48);

/// Fields of an inode beside its attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Its number.
    pub number: u64,
    /// Tells lives of the number apart.
    pub generation: u32,
    /// Root of its tree, as a word.
    pub root: u64,
    /// First page of a directory or of a long target; 0: none.
    pub first: u64,
    /// First page of its extended attributes; 0: none.
    pub attributes: u64,
    /// A directory's parent.
    pub parent: u64,
    /// Number of the last undo slot whose write counts; 0: none.
    pub undo: u64,
    /// A short target.
    pub target: Vec<u8>,
}

fn put_time(b: &mut [u8], at: usize, time: Time) {
    put_u64(b, at, time.0 as u64);
}

/// Its first [`HEAD`] bytes; the checksum is the digest's affair.
pub fn head(inode: &Inode, attr: &Attr) -> [u8; HEAD] {
    let mut b = [0; HEAD];
    put_u64(&mut b, 0, inode.number);
    put_u32(&mut b, 12, inode.generation);
    (b[KIND], b[17]) = (attr.kind.code(), attr.flags);
    put_u16(&mut b, 18, attr.mode);
    put_u32(&mut b, 20, attr.nlink);
    put_u32(&mut b, 24, attr.uid);
    put_u32(&mut b, 28, attr.gid);
    put_u32(&mut b, 32, attr.rdev);
    put_u32(&mut b, 36, inode.target.len() as u32);
    put_u64(&mut b, ROOT, inode.root);
    put_u64(&mut b, FIRST, inode.first);
    put_u64(&mut b, ATTRIBUTES, inode.attributes);
    put_u64(&mut b, 64, inode.parent);
    put_time(&mut b, 72, attr.atime);
    put_u64(&mut b, UNDO, inode.undo);
    put_u64(&mut b, LENGTH, attr.size);
    put_time(&mut b, 96, attr.mtime);
    put_time(&mut b, 112, attr.ctime);
    b
}

/// All of it, with its checksum.
pub fn bytes(inode: &Inode, attr: &Attr) -> [u8; SIZE] {
    let mut b = [0; SIZE];
    b[..HEAD].copy_from_slice(&head(inode, attr));
    b[HEAD..HEAD + inode.target.len()].copy_from_slice(&inode.target);
    seal(&mut b);
    b
}

/// The kind in an inode's bytes; `None`: it is free.
///
/// # Errors
/// `Corrupt` for a kind that there is not.
pub fn kind(b: &[u8]) -> Result<Option<FileKind>> {
    match b[KIND] {
        0 => Ok(None),
        code => FileKind::from_code(code)
            .map(Some)
            .ok_or_else(|| corrupt(format!("inode {} is of kind {code}", u64_at(b, 0)))),
    }
}

/// Reads one that is in use; `blocks` of the attributes is left at 0.
///
/// # Errors
/// `Corrupt` where it is none, or not this one.
pub fn parse(b: &[u8; SIZE], number: u64) -> Result<(Inode, Attr)> {
    let Some(kind) = kind(b)? else { return Err(corrupt(format!("inode {number} is free"))) };
    if u64_at(b, 0) != number || !sealed(b) {
        return Err(corrupt(format!("inode {number}: wrong checksum, or it is another")));
    }
    let target = u32_at(b, 36) as usize;
    let size = u64_at(b, LENGTH);
    if target > INLINE || size > crate::geometry::MAX_FILE_SIZE {
        return Err(corrupt(format!("inode {number} has {size} bytes and a target of {target}")));
    }
    Word::parse(u64_at(b, ROOT))?;
    let time = |at| Time(u64_at(b, at) as i64);
    let attr = Attr {
        uid: u32_at(b, 24),
        gid: u32_at(b, 28),
        rdev: u32_at(b, 32),
        nlink: u32_at(b, 20),
        size,
        flags: b[17],
        atime: time(72),
        mtime: time(96),
        ctime: time(112),
        ..Attr::new(kind, u16_at(b, 18), Time(0))
    };
    let inode = Inode {
        number,
        generation: u32_at(b, 12),
        root: u64_at(b, ROOT),
        first: u64_at(b, FIRST),
        attributes: u64_at(b, ATTRIBUTES),
        parent: u64_at(b, 64),
        undo: u64_at(b, UNDO),
        target: b[HEAD..HEAD + target].to_vec(),
    };
    Ok((inode, attr))
}
