//! The DIMM from outside: one binary, one module for each property that is looked at.

mod amplification;
mod balance;
mod bandwidth;
mod configs;
mod errors;
mod latency;
mod model;
mod power;
mod rig;
mod world;
