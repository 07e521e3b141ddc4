//! F2FS from outside: one binary, one module for each property that is looked at.

mod cleaning;
mod common;
mod damage;
mod kernel_table;
mod model;
mod payload;
mod pebble;
mod policies;
mod power;
mod space;
mod variants;
mod whole;
