//! Arguments of `export`.

use super::mount::{MemoryArgs, ServeArgs};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `granary export`.
#[derive(Args, Clone)]
pub struct ExportArgs {
    /// Image directory (make a blank one with `granary mkfs --fs none`), or ram: for a new drive in memory
    pub image: OsString,
    /// Empty directory, in which the drive will be the file "drive"
    pub dir: PathBuf,
    /// Also make a loop device of 4 KiB sectors over the file, and print its name; needs root
    #[arg(long = "loop")]
    pub loop_device: bool,
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Export an image that holds a file system of granary's: what is written to it may destroy that
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// With ram: change a value of the testbed, for example firmware.cache=64MiB; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}
