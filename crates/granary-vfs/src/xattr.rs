//! Extended attributes: namespaces, limits, and who may do what with them (Linux's `xattr_permission`).
//!
//! ```text
//!   user.*                      read and write as the file's content; files and directories only
//!   trusted.*                   root; for others they do not exist
//!   security.*                  everybody reads, root writes
//!   system.posix_acl_access     everybody reads, the owner writes; the mode follows (`vfs::acls`)
//!   system.posix_acl_default    the same, directories only
//! ```
//!
//! It does *not* read values: access control lists are checked and enforced by `vfs::acls`.

use crate::posix::Access;
use crate::vfs::perm;
use granary_fs::{Attr, Cred, FileKind, FsError, Result, XATTR_NAME_MAX, flag, mode};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    AccessAcl,
    DefaultAcl,
}

fn space(name: &[u8]) -> Result<Space> {
    match name {
        b"system.posix_acl_access" => return Ok(Space::AccessAcl),
        b"system.posix_acl_default" => return Ok(Space::DefaultAcl),
        _ => {}
    }
    let known =
        [(&b"user."[..], Space::User), (b"trusted.", Space::Trusted), (b"security.", Space::Security)];
    match known.into_iter().find(|(prefix, _)| name.starts_with(prefix)) {
        Some((prefix, _)) if name.len() == prefix.len() => Err(FsError::Invalid),
        Some((_, space)) => Ok(space),
        None => Err(FsError::NotSupported),
    }
}

/// Checks a name by itself.
///
/// # Errors
/// `Range` where it is empty or too long, `Invalid` with a zero byte.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name.len() {
        1..=XATTR_NAME_MAX if name.contains(&0) => Err(FsError::Invalid),
        1..=XATTR_NAME_MAX => Ok(()),
        _ => Err(FsError::Range),
    }
}

/// Whether the caller may read attribute `name`; `allow` says whether he has access to the content.
///
/// # Errors
/// `NotSupported` for an unknown namespace; `NoAttribute`; `Access`.
pub(crate) fn may_read(
    cred: &Cred,
    attr: &Attr,
    name: &[u8],
    allow: impl FnOnce(Access) -> Result<()>,
) -> Result<()> {
    let carries_user = matches!(attr.kind, FileKind::File | FileKind::Dir);
    match space(name)? {
        Space::User if !carries_user => Err(FsError::NoAttribute),
        Space::User => allow(Access::READ),
        Space::Trusted if cred.uid != 0 => Err(FsError::NoAttribute),
        Space::AccessAcl | Space::DefaultAcl if attr.kind == FileKind::Symlink => Err(FsError::NotSupported),
        _ => Ok(()),
    }
}

/// Whether the caller may set or (`removes`) remove attribute `name`; `allow` as for [`may_read`].
///
/// # Errors
/// `NotSupported` for an unknown namespace, or an ACL of a symbolic link; `NotPermitted`; `Access`.
pub(crate) fn may_write(
    cred: &Cred,
    attr: &Attr,
    name: &[u8],
    removes: bool,
    allow: impl FnOnce(Access) -> Result<()>,
) -> Result<()> {
    match space(name)? {
        _ if attr.flags & flag::FIXED != 0 => Err(FsError::NotPermitted),
        Space::User if !matches!(attr.kind, FileKind::File | FileKind::Dir) => Err(FsError::NotPermitted),
        Space::User
            if attr.kind == FileKind::Dir && attr.mode & mode::STICKY != 0 && !perm::owns(cred, attr) =>
        {
            Err(FsError::NotPermitted)
        }
        Space::User => allow(Access::WRITE),
        Space::Trusted | Space::Security if cred.uid != 0 => Err(FsError::NotPermitted),
        Space::AccessAcl | Space::DefaultAcl if attr.kind == FileKind::Symlink => Err(FsError::NotSupported),
        Space::AccessAcl | Space::DefaultAcl if !perm::owns(cred, attr) => Err(FsError::NotPermitted),
        Space::DefaultAcl if attr.kind != FileKind::Dir && !removes => Err(FsError::Access),
        _ => Ok(()),
    }
}

/// Whether the caller sees the name in a list.
pub(crate) fn is_listed(cred: &Cred, name: &[u8]) -> bool {
    cred.uid == 0 || !name.starts_with(b"trusted.")
}
