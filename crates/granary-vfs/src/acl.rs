//! [`Acl`]: a POSIX access control list, in the form that Linux keeps in `system.posix_acl_*`.
//!
//! ```text
//!   value:  version 4 B (2) | entries: tag 2 B, permissions 2 B, user or group 4 B
//!   order:  owner | users ... | owning group | groups ... | mask | others
//!                                                           a mask where there are users or groups
//!   mode:   rwx of owner, of the mask (of the owning group where there is none), of others
//! ```
//!
//! It does *not* keep or look for lists: that is [`crate::Vfs`].
//!
//! Source: POSIX 1003.1e draft 17 (withdrawn), acl(5); the value's form is linux/posix_acl_xattr.h.

use crate::posix::Access;
use crate::vfs::perm;
use granary_fs::{Attr, Cred, FsError, Result};

/// The list that permissions follow from.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The list that a new inode in a directory gets.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const OWNER: u16 = 1;
const USER: u16 = 2;
const OWNING_GROUP: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    bits: u16,
    id: u32,
}

/// A list whose entries are complete and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<Entry>);

impl Acl {
    /// Reads a value. `None`: a list without entries, which means none.
    ///
    /// # Errors
    /// `NotSupported` for another version; `Invalid`.
    pub fn parse(value: &[u8]) -> Result<Option<Acl>> {
        let (head, rest) = value.split_first_chunk::<4>().ok_or(FsError::Invalid)?;
        if u32::from_le_bytes(*head) != VERSION {
            return Err(FsError::NotSupported);
        }
        let (entries, odd) = rest.as_chunks::<8>();
        if !odd.is_empty() {
            return Err(FsError::Invalid);
        }
        let entry = |e: &[u8; 8]| Entry {
            tag: u16::from_le_bytes([e[0], e[1]]),
            bits: u16::from_le_bytes([e[2], e[3]]),
            id: u32::from_le_bytes([e[4], e[5], e[6], e[7]]),
        };
        let acl = Acl(entries.iter().map(entry).collect());
        match acl.0.is_empty() {
            true => Ok(None),
            false if acl.is_valid() => Ok(Some(acl)),
            false => Err(FsError::Invalid),
        }
    }

    fn is_valid(&self) -> bool {
        let known = [OWNER, USER, OWNING_GROUP, GROUP, MASK, OTHERS];
        let count = |tag: u16| self.0.iter().filter(|e| e.tag == tag).count();
        let named = count(USER) + count(GROUP) > 0;
        self.0.iter().all(|e| known.contains(&e.tag) && e.bits <= 7)
            && self.0.is_sorted_by_key(|e| e.tag)
            && [OWNER, OWNING_GROUP, OTHERS].into_iter().all(|tag| count(tag) == 1)
            && count(MASK) <= 1
            && (count(MASK) == 1 || !named)
    }

    /// The value to keep.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for e in &self.0 {
            value.extend_from_slice(&e.tag.to_le_bytes());
            value.extend_from_slice(&e.bits.to_le_bytes());
            value.extend_from_slice(&e.id.to_le_bytes());
        }
        value
    }

    fn of(&self, tag: u16) -> Option<u16> {
        self.0.iter().find(|e| e.tag == tag).map(|e| e.bits)
    }

    fn of_mut(&mut self, tag: u16) -> Option<&mut u16> {
        self.0.iter_mut().find(|e| e.tag == tag).map(|e| &mut e.bits)
    }

    /// The entry that the group bits of the mode show.
    fn group_class(&self) -> u16 {
        if self.of(MASK).is_some() { MASK } else { OWNING_GROUP }
    }

    /// The nine bits of the mode.
    pub fn mode(&self) -> u16 {
        let of = |tag| self.of(tag).unwrap_or(0);
        of(OWNER) << 6 | of(self.group_class()) << 3 | of(OTHERS)
    }

    /// Whether the mode says all that the list says.
    pub fn is_mode(&self) -> bool {
        self.0.len() == 3
    }

    /// Whether the caller has all of `wanted`. (The superuser needs no list.)
    pub fn permits(&self, cred: &Cred, attr: &Attr, wanted: Access) -> bool {
        let wanted = wanted.bits() as u16;
        let mask = self.of(MASK).unwrap_or(7);
        let mut in_a_group = false;
        for e in &self.0 {
            let masked = e.bits & mask & wanted == wanted;
            match e.tag {
                OWNER if cred.uid == attr.uid => return e.bits & wanted == wanted,
                USER if cred.uid == e.id => return masked,
                OWNING_GROUP if perm::in_group(cred, attr.gid) => in_a_group = true,
                GROUP if perm::in_group(cred, e.id) => in_a_group = true,
                OTHERS => return !in_a_group && e.bits & wanted == wanted,
                _ => continue,
            }
            if masked {
                return true;
            }
        }
        false
    }

    /// The list and mode of an inode that is made with `mode` where this one is the default.
    pub fn inherited(&self, mode: u16) -> (Acl, u16) {
        let mut acl = self.clone();
        for (tag, shift) in [(OWNER, 6), (self.group_class(), 3), (OTHERS, 0)] {
            if let Some(bits) = acl.of_mut(tag) {
                *bits &= mode >> shift;
            }
        }
        let mode = mode & !0o777 | acl.mode();
        (acl, mode)
    }

    /// The list after a chmod.
    pub fn with_mode(&self, mode: u16) -> Acl {
        let mut acl = self.clone();
        for (tag, shift) in [(OWNER, 6), (self.group_class(), 3), (OTHERS, 0)] {
            if let Some(bits) = acl.of_mut(tag) {
                *bits = mode >> shift & 7;
            }
        }
        acl
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_fs::{FileKind, Time};

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        Acl(entries.iter().map(|&(tag, bits, id)| Entry { tag, bits, id }).collect()).encode()
    }

    fn full() -> Acl {
        let value = list(&[
            (OWNER, 7, 0),
            (USER, 6, 5),
            (USER, 7, 6),
            (OWNING_GROUP, 4, 0),
            (GROUP, 7, 30),
            (MASK, 6, 0),
            (OTHERS, 1, 0),
        ]);
        Acl::parse(&value).expect("valid").expect("entries")
    }

    #[test]
    fn a_list_survives_the_round_trip_and_wrong_ones_are_refused() {
        assert_eq!(Acl::parse(&full().encode()), Ok(Some(full())));
        assert_eq!(Acl::parse(&[2, 0, 0, 0]), Ok(None));
        assert_eq!(Acl::parse(&[1, 0, 0, 0]), Err(FsError::NotSupported));
        for wrong in [
            &[(OWNER, 7, 0), (OWNING_GROUP, 7, 0)][..],
            &[(OWNER, 7, 0), (OTHERS, 7, 0), (OWNING_GROUP, 7, 0)],
            &[(OWNER, 7, 0), (USER, 7, 3), (OWNING_GROUP, 7, 0), (OTHERS, 7, 0)],
            &[(OWNER, 8, 0), (OWNING_GROUP, 7, 0), (OTHERS, 7, 0)],
            &[(OWNER, 7, 0), (3, 7, 0), (OWNING_GROUP, 7, 0), (OTHERS, 7, 0)],
            &[(OWNER, 7, 0), (OWNER, 7, 0), (OWNING_GROUP, 7, 0), (OTHERS, 7, 0)],
        ] {
            assert_eq!(Acl::parse(&list(wrong)), Err(FsError::Invalid), "{wrong:?}");
        }
        let value = full().encode();
        assert!((0..value.len()).all(|n| n == 4 || Acl::parse(&value[..n]).is_err()));
    }

    #[test]
    fn the_entry_that_fits_decides_under_the_mask() {
        let t = Time(0);
        let (uid, gid) = (1, 2);
        let attr = Attr {
            kind: FileKind::File,
            mode: 0o761,
            uid,
            gid,
            nlink: 1,
            size: 0,
            blocks: 0,
            atime: t,
            mtime: t,
            ctime: t,
            rdev: 0,
            flags: 0,
        };
        let may = |uid, gid, groups: &[u32], wanted| {
            full().permits(&Cred { uid, gid, groups: groups.to_vec() }, &attr, wanted)
        };
        assert!(may(1, 9, &[], Access::EXEC), "the owner is not masked");
        assert!(may(5, 9, &[], Access::READ | Access::WRITE));
        assert!(!may(6, 9, &[], Access::EXEC), "masked");
        assert!(may(9, 2, &[], Access::READ) && !may(9, 2, &[], Access::WRITE));
        assert!(may(9, 2, &[30], Access::WRITE), "one of the groups is enough");
        assert!(!may(9, 30, &[], Access::EXEC), "a member of a group is no other");
        assert!(may(9, 9, &[], Access::EXEC) && !may(9, 9, &[], Access::READ));
    }

    #[test]
    fn modes_and_lists_follow_each_other() {
        assert_eq!((full().mode(), full().is_mode()), (0o761, false));
        let (acl, mode) = full().inherited(0o2640);
        assert_eq!((mode, acl.mode()), (0o2640, 0o640));
        assert_eq!(full().with_mode(0o777).mode(), 0o777);
        assert_eq!(full().with_mode(0o777).of(OWNING_GROUP), Some(4), "only the mask changes");
    }
}
