//! Images: drives on files of the host, which survive the death of the process and, if asked to, a crash of the machine.
//!
//! ```text
//!   Image (image.rs)   create open describe barrier close | grow.rs: a larger SSD | header.rs: what an image is
//!      ├── granary-mssd   the SSD from what its memory says, and the changes that it makes
//!      └── granary-redo   files, redo log, group commit, checkpoints
//! ```
//!
//! Bytes: SPEC.md 1.5; promises: docs/GUARANTEES.md.

#![forbid(unsafe_code)]

mod grow;
mod header;
mod image;

pub use granary_redo::files::CONTROL;
pub use granary_redo::journal::JournalCounters;
pub use granary_redo::{Durability, ImageError, host};
pub use header::{FORMAT, ImageMeta};
pub use image::{Image, ImageInfo, OpenOptions, Replayed};
