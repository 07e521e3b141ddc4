//! A directory of the host from outside: as every file system, and what only it does.

mod beside;
mod suite;
