//! The drive from outside: one binary, one module for each property that is looked at.

mod balance;
mod bam;
mod chains;
mod companion;
mod configs;
mod latency;
mod model;
mod names;
mod plain;
mod priority;
mod transactions;
