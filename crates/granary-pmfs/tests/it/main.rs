//! PMFS from outside: one binary, one module for each property that is looked at.

mod common;
mod damage;
mod kernel_table;
mod model;
mod nvm;
mod power;
mod whole;
