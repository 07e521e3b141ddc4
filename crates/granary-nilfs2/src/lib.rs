//! NILFS2: a log-structured file system whose every log is a checkpoint.
//!
//! ```text
//!   namei  dir  file               operations: change memory, under `ops` shared
//!     |     |    |
//!   state: nodes with maps (tree) and dirty blocks (buffers);  dat  ifile  cpfile  sufile
//!     |
//!   log: dirty blocks, in order    construct: writers and times    clean: moves blocks    `ops` exclusive
//!     |                              |                               |
//!   segments: places               media: the drive, and blocks on their way to it
//! ```
//!
//! Nothing is overwritten. A log has the blocks that changed, the nodes above them, and the files of metadata
//! up to a super root. Replaced blocks stay readable until the cleaner takes their segment. A power loss goes
//! back to the newest whole log, and forward over logs of data that fdatasync left. Protocol, sizes and
//! timers are those of Linux 6.1 (`granary calibrate --reference` compares the blocks of each operation); the
//! bytes on media are our own.
//!
//! Source: reference/nilfs2.md; PebbleSSD section 4.2.

mod buffers;
mod check;
mod clean;
mod construct;
mod counts;
mod cpfile;
mod dat;
mod dir;
mod entry;
mod file;
mod fs;
mod geometry;
mod groups;
pub mod layout;
mod log;
mod media;
mod mkfs;
mod mount;
mod namei;
mod options;
mod recover;
mod remap;
mod segments;
mod snapshot;
mod space;
mod state;
mod sync;
mod tree;

pub use entry::{NILFS2, NILFS2_FSWRITE, NILFS2_PEBBLE, NILFS2_REMAP};
pub use fs::{Nilfs2, Recovery, Stats};
pub use geometry::Geometry;
pub use layout::{LINK_MAX, MAX_FILE_SIZE};
pub use mkfs::mkfs;
pub use mount::mount;
pub use options::{Fsync, MkfsOptions, MountOptions};
