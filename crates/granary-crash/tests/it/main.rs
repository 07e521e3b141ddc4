//! The crash explorer at work on every file system, and what shows that it would find something.

mod accessed;
mod atomic;
mod beyond;
mod erring;
mod errors;
mod exercise;
mod failure;
mod fsync;
mod generated;
mod journal;
mod liar;
mod loads;
mod making;
mod media;
mod minimise;
mod mmap;
mod oracle;
mod planted;
mod plants;
mod power;
mod recorded;
mod run;
mod steps;
mod tails;
mod targets;
mod unnamed;
