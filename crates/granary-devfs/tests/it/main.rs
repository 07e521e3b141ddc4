//! DevFS from outside: one binary, one module for each property that is looked at.

mod common;
mod memory;
mod model;
mod power;
mod whole;
