//! [`F2fs`](crate::F2fs) as the vfs sees it: the traits of [`granary_fs::FileSystem`] over the operations of the other modules.

mod attributes;
mod data;
mod life;
mod names;
mod space;

/// Most hard links (F2FS_LINK_MAX is 2^32 - 1; ours leaves room for the count itself).
const LINK_MAX: u32 = u32::MAX - 1;
