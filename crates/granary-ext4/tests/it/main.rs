//! ext4 from outside: one binary, one module for each property that is looked at.

mod common;
mod damage;
mod extent_tree;
mod kernel_table;
mod layout;
mod model;
mod power;
mod reserved;
mod space;
mod whole;
mod xattrs;
