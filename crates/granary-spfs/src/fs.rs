//! The calls of the vfs, trait by trait.

mod attributes;
mod data;
mod life;
mod names;
mod space;
