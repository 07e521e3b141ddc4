//! [`PathPlace`]: the place of a name, as a program gives it.
//!
//! ```text
//!   in the data area:  ino 8 | bytes of base 4 | bytes of path 4 | base | path
//!                      a second one, or other bytes, may follow
//! ```
//!
//! A relative path begins at a working directory or at an open directory. The program knows that one by its
//! descriptor; the server finds it by its path, and takes it only if it has this number. So a directory that
//! has been moved meanwhile is not mistaken for the one that has its name now. And a number alone opens
//! nothing: a caller that may not walk the path to a directory does not come in by its number.

use crate::segment::{DATA, Segment};

/// Bytes before the base.
const HEAD: usize = 16;
/// The longest path of a call, with the zero at its end (PATH_MAX).
pub const LONGEST: usize = 4096;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPlace<'a> {
    /// The directory that the path begins at, from the mount's root; empty: the root.
    pub base: &'a [u8],
    /// Its number as `stat(2)` shows it; 0: any directory there.
    pub ino: u64,
    /// The path from there.
    pub path: &'a [u8],
}

impl<'a> PathPlace<'a> {
    /// A path from the mount's root.
    pub fn at_root(path: &'a [u8]) -> PathPlace<'a> {
        PathPlace { base: b"", ino: 0, path }
    }

    /// Bytes that it takes in the data area.
    pub fn bytes(&self) -> usize {
        HEAD + self.base.len() + self.path.len()
    }

    /// Puts it at an offset of the data area; returns where it ends. `None`: it is longer than paths are, or
    /// does not fit.
    pub fn put(&self, segment: &Segment, at: usize) -> Option<usize> {
        let long = self.base.len() >= LONGEST || self.path.len() >= LONGEST;
        if long || at.checked_add(self.bytes())? > DATA {
            return None;
        }
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&self.ino.to_ne_bytes());
        head[8..12].copy_from_slice(&(self.base.len() as u32).to_ne_bytes());
        head[12..].copy_from_slice(&(self.path.len() as u32).to_ne_bytes());
        segment.put_data_at(at, &head);
        segment.put_data_at(at + HEAD, self.base);
        segment.put_data_at(at + HEAD + self.base.len(), self.path);
        Some(at + self.bytes())
    }

    /// The one at the beginning of these bytes, and what is behind it. `None`: they are none.
    pub fn parse(bytes: &'a [u8]) -> Option<(PathPlace<'a>, &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let ino = u64::from_ne_bytes(*head.first_chunk()?);
        let len = |at: usize| head[at..].first_chunk().map(|b| u32::from_ne_bytes(*b) as usize);
        let (base, rest) = rest.split_at_checked(len(8).filter(|n| *n < LONGEST)?)?;
        let (path, rest) = rest.split_at_checked(len(12).filter(|n| *n < LONGEST)?)?;
        Some((PathPlace { base, ino, path }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_places_come_out_as_they_went_in_and_nothing_else_is_one() {
        let (segment, _file) = Segment::make().expect("made");
        let first = PathPlace { base: b"a/b", ino: 77, path: b"../c" };
        let second = PathPlace::at_root(b"x");
        let end = second.put(&segment, first.put(&segment, 0).expect("fits")).expect("fits");
        let mut bytes = vec![0; end];
        segment.data(&mut bytes);
        let (one, rest) = PathPlace::parse(&bytes).expect("a place");
        assert_eq!(one, first);
        assert_eq!(PathPlace::parse(rest), Some((second, &b""[..])));
        for cut in 0..rest.len() {
            assert_eq!(PathPlace::parse(&rest[..cut]), None, "{cut} bytes of it");
        }
        let long = vec![b'x'; LONGEST];
        assert_eq!(PathPlace::at_root(&long).put(&segment, 0), None);
        bytes[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(PathPlace::parse(&bytes), None);
    }
}
