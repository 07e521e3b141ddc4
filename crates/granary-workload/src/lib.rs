//! The workloads: the Filebench language, and the description of a run that every front end lowers to.
//!
//! ```text
//!   varmail.f ──lex──► tokens ──parse──► syntax tree ──lower──► spec::Workload ──► (runner)
//!   ^^^^^^^^^^^^^^^^^^^^^^ module `lang` ^^^^^^^^^^^^^^^^^^^     ^^ module `spec` ^^
//! ```
//!
//! [`lang`] reads `.f` files and refuses what it does not understand, with the line, the column and a way out.
//! [`spec`] is the resolved workload: no variables, no names that do not exist, every number typed. The canonical
//! files of the ByteFS paper's Table 5 are built in ([`builtin`], [`list`]).
//!
//! This crate does *not* draw random numbers (that is `granary-sim`) and touches no file system here.

pub mod error;
pub mod lang;
pub mod spec;

mod builtin;

pub use builtin::{Builtin, builtin, list};
pub use error::Error;
pub use lang::Diagnostic;
pub use spec::Workload;
