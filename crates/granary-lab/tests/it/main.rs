//! Experiments from outside, and what is known of the registry.

mod named;
mod offered;
mod worn;
