//! The workloads: the Filebench language, the description of a run that every front end lowers to, and the
//! runner.
//!
//! ```text
//!   varmail.f ──lex──► tokens ──parse──► syntax tree ──lower──► spec::Workload ──run──► run::Outcome
//!   ^^^^^^^^^^^^^^^^^^^^^^ module `lang` ^^^^^^^^^^^^^^^^^^^      ^^^^^ `spec` ^^^^^       ^^^ `run` ^^^
//! ```
//!
//! [`lang`] reads `.f` files and refuses what it does not understand, with the line, the column and a way
//! out. [`spec`] is the resolved workload: no variables, no names that do not exist, every number typed. The
//! canonical files of the ByteFS paper's Table 5 are built in ([`builtin`], [`list`]).
//!
//! [`run`] executes it in virtual time on anything that implements `granary_vfs::Posix`.
//!
//! fio's job files and FIU's traces of calls on files become workloads too ([`Workload::from_fio`],
//! [`Workload::from_fiu`]); granary-trace reads both.
//!
//! `lang` and `spec` draw no random numbers and touch no file system.

pub mod error;
pub mod lang;
pub mod run;
pub mod spec;

mod builtin;
mod on_files;

pub use builtin::{Builtin, builtin, list};
pub use error::Error;
pub use lang::Diagnostic;
pub use spec::Workload;
