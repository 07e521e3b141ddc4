//! SPFS from outside: one binary, one module for each property that is looked at.

mod alone;
mod common;
mod damage;
mod files;
mod full;
mod model;
mod names_below;
mod pair;
mod power;
mod punch;
mod traffic;
mod whole;
