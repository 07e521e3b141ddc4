//! [`Nova`](crate::Nova) as the vfs sees it: the traits of [`granary_fs::FileSystem`].

mod attributes;
mod data;
mod life;
mod names;
mod space;
