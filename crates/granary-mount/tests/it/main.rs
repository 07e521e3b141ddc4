//! The mount as programs see it: real mounts of every file system of the registry on drives in memory.

mod async_direct;
mod content;
mod data;
mod direct;
mod direct_names;
mod durability;
mod exercise;
mod exerciser;
mod flags;
mod handles;
mod hostile;
mod image;
mod lifetime;
mod locks;
mod machine;
mod model;
mod names;
mod overlay;
mod parallel;
mod permissions;
mod rig;
mod shadow;
mod space;
mod trim;
mod unnamed;
mod xattrs;
