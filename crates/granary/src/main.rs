//! The granary command line.
fn main() {}
