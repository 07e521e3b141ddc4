//! Names of an image's files, and the beginning of its header. This crate knows no more of an image as a
//! whole.

/// The header.
pub const HEADER: &str = "image.toml";
/// The redo log.
pub const WAL: &str = "wal";
/// Battery-backed memory of the SSD.
pub const DRAM: &str = "dram";
/// The same of a larger drive, until it is in place.
pub const GROWN: &str = "dram.grown";
/// Contents of flash pages.
pub const FLASH: &str = "flash";
/// Content of the NVM DIMMs.
pub const NVM: &str = "nvm";
/// Which image the files belong to, and the last run in which the devices may have changed.
pub const EPOCH: &str = "epoch";
/// Counters as of the last clean close.
pub const COUNTERS: &str = "counters.toml";
/// Name in the image's directory of the socket of the process that has it mounted; the image itself knows
/// nothing of it.
pub const CONTROL: &str = "control";
/// How a header begins.
pub const MAGIC: &str = "granary-image = ";

/// Whether a file called [`HEADER`] begins like one of ours.
pub fn is_ours(start: &[u8]) -> bool {
    start.starts_with(MAGIC.as_bytes())
}
