//! The crash explorer at work on every file system, and what shows that it would find something.

mod atomic;
mod failure;
mod fsync;
mod journal;
mod liar;
mod mmap;
mod planted;
mod power;
mod recorded;
mod run;
mod tails;
mod targets;
mod unnamed;
