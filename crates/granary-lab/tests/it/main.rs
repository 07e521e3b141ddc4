//! Experiments from outside.

mod offered;
mod worn;
