//! Experiments from outside.

mod worn;
