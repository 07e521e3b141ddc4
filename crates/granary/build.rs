//! Tells the program which commit it is built from, for the result records.

use std::path::Path;

#[path = "build/commit.rs"]
mod commit;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for path in commit::watched(&root) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let commit = commit::commit(&root).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=GRANARY_COMMIT={commit}");
}
