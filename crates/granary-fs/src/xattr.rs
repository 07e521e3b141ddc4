//! Extended attributes: limits, and a caller's demands. The vfs checks names and rights.

/// Longest name of an extended attribute in bytes, namespace included.
pub const XATTR_NAME_MAX: usize = 255;
/// Longest value in bytes.
pub const XATTR_SIZE_MAX: usize = 65536;
/// Longest list of names in bytes, each with its terminator.
pub const XATTR_LIST_MAX: usize = 65536;

/// The demand of a `setxattr` on an attribute that may be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SetXattr {
    /// Nothing.
    #[default]
    Any,
    /// There is none of this name (XATTR_CREATE).
    Create,
    /// There is one (XATTR_REPLACE).
    Replace,
}
