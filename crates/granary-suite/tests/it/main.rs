//! The vfs from outside: one binary, one module for each property that is looked at.

mod acl;
mod caches;
mod concurrent;
mod flags;
mod layers;
mod mmap;
mod model;
mod more_calls;
