//! Images: the devices of one host on its files, which survive the death of the process and, if asked to, a
//! crash of the machine.
//!
//! ```text
//!   Image (image.rs)   create describe barrier close | open.rs | grow.rs: a larger SSD
//!      │               header.rs, devices.rs: description of an image
//!      ├── granary-mssd   the SSD from what its memory says, and the changes that it makes
//!      ├── granary-pmem   NVM DIMMs over their file, likewise
//!      └── granary-redo   files, one redo log for all, group commit, checkpoints
//! ```
//!
//! Bytes: SPEC.md 1.5; promises: docs/GUARANTEES.md.

#![forbid(unsafe_code)]

mod counters;
mod devices;
mod grow;
mod header;
mod image;
mod label;
mod open;

pub use counters::{ImageCounters, NvmCounters};
pub use devices::ImageDevices;
pub use granary_redo::files::CONTROL;
pub use granary_redo::journal::JournalCounters;
pub use granary_redo::{Durability, ImageError, host};
pub use header::{FORMAT, ImageMeta};
pub use image::{Image, ImageInfo, OpenOptions, Replayed};
