//! The lab's results beside others': what papers state ([`reproduce`]), and the kernel's own file systems
//! ([`calibrate`]).
//!
//! Nobody but the command line uses this crate; it names particular file systems, for it compares with them.

pub mod calibrate;
pub mod reproduce;
