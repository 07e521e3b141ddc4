//! [`OrchFs`](crate::OrchFs) as the vfs sees it: the traits of [`granary_vfs::FileSystem`].

mod attributes;
mod data;
mod life;
mod names;
mod space;
