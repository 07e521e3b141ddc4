//! ByteFS from outside: one binary, one module for each property that is looked at.

mod attributes;
mod common;
mod concurrency;
mod contiguity;
mod damage;
mod fallocate;
mod full;
mod grow;
mod limits;
mod model;
mod posix;
mod records;
mod redo;
mod traffic;
mod transactions;
mod unreadable;
mod whole;
