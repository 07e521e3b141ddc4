//! [`Nilfs2`] as a file system of the vfs: one file for each trait.

mod attributes;
mod data;
mod life;
mod names;
mod space;
