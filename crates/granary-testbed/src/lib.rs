//! [`Testbed`]: a host and its devices, as a TOML file in which every value names its source.
//!
//! ```text
//!   [host]  cores   [host.costs]  [host.vfs]    [fs.ext4] ...   how file systems are mounted
//!   [drive] the SSD: link, firmware, flash   [device.nvm] NVM DIMMs   [inside] processors in the drive
//! ```
//!
//! Built-in testbeds are the files of `testbeds/`. A file that begins with `base = "NAME"` states only what
//! differs from that testbed. `--set KEY=VALUE` changes one value: KEY is a dotted path, or the end of one
//! where that is unambiguous (`nand.read_ns` for `drive.flash.nand.read_ns`), also one that the testbed
//! leaves out (`unset.rs`).
//!
//! Unknown keys, wrong types and contradictions are refused with the line; nothing is silently ignored.
//!
//! [`registry`] has the file systems that there are: a testbed states how each is mounted, and its devices
//! are made for one.

pub mod builtin;
mod devices;
mod error;
pub mod figures;
mod limits;
mod load;
pub mod measure;
mod memory;
mod options;
pub mod registry;
mod section;
mod set;
mod source;
mod testbed;
mod unset;

pub use builtin::builtins;
pub use error::TestbedError;
pub use options::FsOptions;
pub use testbed::{Host, OtherDevices, Testbed};

/// A short name of a content, to tell files of one name apart: `crc32c:` and 8 hexadecimal digits. Not for
/// those who would forge it.
pub fn hash(content: &[u8]) -> String {
    format!("crc32c:{:08x}", crc32c::crc32c(content))
}
