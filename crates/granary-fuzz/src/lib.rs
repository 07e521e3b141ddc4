//! Input from outside, and what must never come of it: a panic, a loop, unbounded memory.
//!
//! ```text
//!   Kind ── run(bytes) ──>  one function for each kind; errors are welcome
//!    ^         ^
//!    │         ├── fuzz/fuzz_targets/KIND.rs        cargo-fuzz (nightly): bytes by coverage
//!    │         ├── tests/it/smoke.rs                `cargo test`: seeds and deterministic mutations, bounded
//!    │         └── cargo xtask fuzz                 the same by the hundred thousand
//!    └── seeds of a kind: files of the tree; of images: made by mkfs and some work
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | `kinds` | what each kind does with its bytes |
//! | `mutate` | other bytes of seeds, equal for equal numbers |
//! | `seal` | checksums that are put right after a change, so that it gets past them |
//! | `watch` | bounds in time and memory, for whoever runs many |
//! | `campaign` | many inputs of one kind |
//!
//! docs/FUZZING.md says how to run it and what is covered.

pub mod campaign;
pub mod kinds;
pub mod mutate;
pub mod seal;
pub mod watch;

pub use campaign::{Finding, campaign};
pub use kinds::Kind;
