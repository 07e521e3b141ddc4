//! OrchFS from outside: one binary, one module for each property that is looked at.

mod cache;
mod common;
mod model;
mod parallel;
mod power;
mod space;
mod ssd;
mod whole;
