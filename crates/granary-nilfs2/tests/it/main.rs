//! NILFS2 from outside: one binary, one module for each property that is looked at.

mod cleaning;
mod common;
mod damage;
mod logs;
mod model;
mod pebble;
mod power;
mod snapshots;
mod space;
mod variants;
mod whole;
