//! Linux's permission rules, and the cutting of a path into components.
//!
//! The superuser (uid 0) stands for the capabilities DAC_OVERRIDE, FOWNER, CHOWN, FSETID and MKNOD. Access
//! control lists, where there are any, decide instead (`acls`).

use crate::posix::Access;
use granary_fs::{Attr, Cred, FileKind, FsError, NAME_MAX, Result, flag, mode};

/// Whether the caller has all of `wanted` on an inode (`generic_permission` of Linux).
pub(crate) fn permits(cred: &Cred, attr: &Attr, wanted: Access) -> bool {
    let bits = if cred.uid == attr.uid {
        attr.mode >> 6
    } else if in_group(cred, attr.gid) {
        attr.mode >> 3
    } else {
        attr.mode
    };
    if wanted.bits() as u16 & !bits == 0 {
        return true;
    }
    let executable = attr.kind == FileKind::Dir || attr.mode & 0o111 != 0;
    cred.uid == 0 && (executable || !wanted.contains(Access::EXEC))
}

/// Fails with `Access` where the caller lacks any of `wanted`, with `NotPermitted` where nobody may.
pub(crate) fn check(cred: &Cred, attr: &Attr, wanted: Access) -> Result<()> {
    is_mutable(attr, wanted)?;
    if permits(cred, attr, wanted) { Ok(()) } else { Err(FsError::Access) }
}

/// Fails where an immutable inode would change, whoever the caller is (`inode_permission` of Linux).
pub(crate) fn is_mutable(attr: &Attr, wanted: Access) -> Result<()> {
    let changes = wanted.contains(Access::WRITE) && attr.flags & flag::IMMUTABLE != 0;
    if changes { Err(FsError::NotPermitted) } else { Ok(()) }
}

/// Fails where the flags of a file forbid a change of its content, though it is open for one; `appends`: no
/// byte of it changes.
pub(crate) fn content_may_change(attr: &Attr, appends: bool) -> Result<()> {
    let forbid = if appends { flag::IMMUTABLE } else { flag::FIXED };
    if attr.flags & forbid != 0 { Err(FsError::NotPermitted) } else { Ok(()) }
}

/// Whether the caller belongs to group `gid`.
pub(crate) fn in_group(cred: &Cred, gid: u32) -> bool {
    cred.gid == gid || cred.groups.contains(&gid)
}

/// Whether the caller owns the inode or may act as its owner.
pub(crate) fn owns(cred: &Cred, attr: &Attr) -> bool {
    cred.uid == 0 || cred.uid == attr.uid
}

/// Whether the mode alone decides the caller's rights, so that no access control list matters.
pub(crate) fn mode_decides(cred: &Cred, attr: &Attr) -> bool {
    cred.uid == 0 || cred.uid == attr.uid || attr.mode & 0o070 == 0
}

/// Whether the sticky bit and the flags of both let the caller, who may write to `dir`, remove or rename the
/// entry of `victim` there (`may_delete` of Linux).
pub(crate) fn may_remove_under(cred: &Cred, dir: &Attr, victim: &Attr) -> Result<()> {
    if dir.flags & flag::APPEND != 0 || victim.flags & flag::FIXED != 0 {
        return Err(FsError::NotPermitted);
    }
    if dir.mode & mode::STICKY != 0 && !owns(cred, victim) && cred.uid != dir.uid {
        return Err(FsError::NotPermitted);
    }
    Ok(())
}

/// Mode and group that a new node gets in `dir`, `gid` else: a set-group-ID directory hands its group on, and
/// the bit itself to directories.
pub(crate) fn inherit(cred: &Cred, gid: u32, dir: &Attr, kind: FileKind, wanted: u16) -> (u16, u32) {
    let wanted = wanted & mode::ALL;
    if dir.mode & mode::SGID == 0 {
        return (wanted, gid);
    }
    if kind == FileKind::Dir {
        return (wanted | mode::SGID, dir.gid);
    }
    let executable_sgid = mode::SGID | 0o010;
    let strip = wanted & executable_sgid == executable_sgid && !in_group(cred, dir.gid) && cred.uid != 0;
    (if strip { wanted & !mode::SGID } else { wanted }, dir.gid)
}

/// The permission bits after content or size of a regular file were changed by the caller: privileges go,
/// unless the superuser did it. `None` = unchanged.
pub(crate) fn mode_after_write(cred: &Cred, attr: &Attr) -> Option<u16> {
    if cred.uid == 0 || attr.kind != FileKind::File {
        return None;
    }
    without_privileges(cred, attr, attr.mode)
}

/// `bits` without set-user-ID, and without set-group-ID where that one means execution as the group (or the
/// caller is not in it). `None` = unchanged.
pub(crate) fn without_privileges(cred: &Cred, attr: &Attr, bits: u16) -> Option<u16> {
    let mut kept = bits & !mode::SUID;
    if bits & 0o010 != 0 || (!in_group(cred, attr.gid) && cred.uid != 0) {
        kept &= !mode::SGID;
    }
    (kept != bits).then_some(kept)
}

/// Fails where `name` cannot be the name of an entry.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    match name {
        b"" => Err(FsError::NoEntry),
        b"." | b".." => Err(FsError::Invalid),
        _ if name.iter().any(|&c| c == b'/' || c == 0) => Err(FsError::Invalid),
        _ => Ok(()),
    }
}

/// The component of `path` that begins at `at` (not a slash), and where the next one begins, slashes skipped.
pub(crate) fn component(path: &[u8], at: usize) -> (&[u8], usize) {
    let rest = &path[at..];
    let len = rest.iter().position(|&c| c == b'/').unwrap_or(rest.len());
    let slashes = rest[len..].iter().take_while(|&&c| c == b'/').count();
    (&rest[..len], at + len + slashes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_fs::Time;

    fn attr(kind: FileKind, mode: u16, uid: u32, gid: u32) -> Attr {
        let t = Time(0);
        Attr { uid, gid, nlink: 1, ..Attr::new(kind, mode, t) }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let user = Cred { uid: 5, gid: 6, groups: vec![7] };
        let file = |mode, uid, gid| attr(FileKind::File, mode, uid, gid);
        assert!(!permits(&user, &file(0o077, 5, 6), Access::READ), "the owner has nothing");
        assert!(!permits(&user, &file(0o707, 1, 7), Access::READ), "the group has nothing");
        assert!(permits(&user, &file(0o004, 1, 1), Access::READ));
        assert!(permits(&Cred::ROOT, &file(0, 1, 1), Access::READ | Access::WRITE));
        assert!(!permits(&Cred::ROOT, &file(0o666, 1, 1), Access::EXEC), "nobody may execute it");
        assert!(permits(&Cred::ROOT, &attr(FileKind::Dir, 0, 1, 1), Access::EXEC));
    }

    #[test]
    fn a_path_is_cut_at_slashes() {
        let (mut at, mut all) = (0, Vec::new());
        let path = b"a//bc/./d//";
        while at < path.len() {
            let (name, next) = component(path, at);
            all.push(name);
            at = next;
        }
        assert_eq!(all, [&b"a"[..], b"bc", b".", b"d"]);
    }
}
