//! Arguments of `export`.

use super::mount::{Pace, Survives, bytes};
use clap::Args;
use granary_units::Bytes;
use std::path::PathBuf;

/// Arguments of `granary export`.
#[derive(Args, Clone)]
pub struct ExportArgs {
    /// Image directory (make a blank one with `granary mkfs --fs none`), or ram: for a new drive in memory
    pub image: String,
    /// Empty directory, in which the drive will be the file "drive"
    pub dir: PathBuf,
    /// Return when the file is there; serve in the background
    #[arg(long)]
    pub daemon: bool,
    /// Also make a loop device of 4 KiB sectors over the file, and print its name; needs root
    #[arg(long = "loop")]
    pub loop_device: bool,
    /// Refuse changes
    #[arg(long)]
    pub read_only: bool,
    /// Export an image that holds a file system of granary's: what is written to it may destroy that
    #[arg(long)]
    pub force: bool,
    /// Threads that serve requests: so many commands can be under way
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Whether requests wait as long as the modelled drive takes
    #[arg(long, value_enum, default_value_t = Pace::Off)]
    pub pace: Pace,
    /// With --pace on: how many times slower modelled time passes than the clock
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub dilate: u32,
    /// What a flush makes safe: from the death of this process, or from a crash of the machine too
    #[arg(long, value_enum, default_value_t = Survives::Process)]
    pub durability: Survives,
    /// With ram: capacity of the drive
    #[arg(long, default_value = "8GiB", value_parser = bytes)]
    pub size: Bytes,
    /// With ram: built-in testbed or path of a .toml file
    #[arg(long, default_value = "bytefs-emulator")]
    pub testbed: String,
    /// With ram: change a value of the testbed, for example firmware.cache=64MiB; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// With ram: record what the drive is asked into this file, for `granary drive replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// With --daemon: where messages go afterwards
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// This is the background process of --daemon: say "mounted" on stdout
    #[arg(long, hide = true)]
    pub background: bool,
}
