//! Experiments from outside, and what is known of the registry.

mod memory;
mod moves;
mod named;
mod offered;
mod worn;
