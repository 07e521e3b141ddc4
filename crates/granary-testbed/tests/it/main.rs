//! The registry, and what devices do and need on the built-in testbeds.

mod mechanisms;
mod memory;
mod moves;
mod named;
mod words;
