//! The crash explorer at work on every file system, and what shows that it would find something.

mod atomic;
mod failure;
mod fsync;
mod journal;
mod liar;
mod mmap;
mod planted;
mod plants;
mod power;
mod recorded;
mod tails;
mod targets;
mod unnamed;
