//! Workload files from outside: read, refused, run.

mod canonical;
mod errors;
mod language;
mod on_reference;
mod total;
