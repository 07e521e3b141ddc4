//! Parts that several file systems share: a cache of metadata blocks, generations of inode numbers,
//! attributes as strings, an index of hashes, the costs of work on structures, pages of an O_DIRECT request.
//!
//! A file system takes of it what it needs. It does *not* know any on-media format, nor the vfs.

mod block_cache;
pub mod direct;
mod generation;
mod hash_index;
pub mod work;
pub mod xattr_string;

pub use block_cache::{Block, BlockCache};
pub use generation::Generations;
pub use hash_index::{HashIndex, Vacant};
