//! Tools for tests of file systems: random calls compared with a reference, power failures, damage, and the
//! file system of the vfs's own tests.
//!
//! ```text
//!   suite      tests that every file system has to pass, written once; a subject is mkfs, mount and its
//!              options
//!   model      random calls, in one task and in several; what each may answer, and whether a history has a
//!              serial order
//!   reference  POSIX in plain memory, written independently of the vfs
//!   memfs      the simplest file system, which asserts that the vfs keeps the contract
//!   passthrough  the simplest stacked file system, on another vfs
//! ```
//!
//! It is support of tests: nothing that a user runs depends on it. It does *not* know any file system.

pub mod memfs;
pub mod model;
pub mod passthrough;
pub mod reference;
pub mod skip;
pub mod suite;

/// For the macros' expansions.
#[doc(hidden)]
pub use granary_fs as fs;
