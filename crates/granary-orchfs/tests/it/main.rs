//! OrchFS from outside: one binary, one module for each property that is looked at.

mod common;
mod damage;
mod model;
mod power;
mod space;
mod ssd;
