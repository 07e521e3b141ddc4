//! OrchFS from outside: one binary, one module for each property that is looked at.

mod cache;
mod common;
mod damage;
mod model;
mod parallel;
mod power;
mod space;
mod ssd;
