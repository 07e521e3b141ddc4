//! Long checks that do not belong into `cargo test`.
fn main() {}
