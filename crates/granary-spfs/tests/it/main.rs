//! SPFS from outside: one binary, one module for each property that is looked at.

mod common;
mod files;
mod full;
mod model;
mod power;
mod traffic;
