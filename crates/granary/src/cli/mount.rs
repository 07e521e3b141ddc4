//! Arguments of `mount`, `umount` and `stat`.

use crate::cli::StackArgs;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use granary_image::Durability;
use granary_sim::wall::Pacing;
use granary_units::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `granary mount`.
#[derive(Args, Clone)]
pub struct MountArgs {
    /// Image directory made by `granary mkfs`, or ram:FS for a new file system on a drive in memory
    /// (ram:bytefs)
    pub image: OsString,
    /// Empty directory to mount on
    pub dir: PathBuf,
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Let other users in; permissions are checked as everywhere
    #[arg(long)]
    pub allow_other: bool,
    /// Let programs that `granary exec` starts reach the files past the kernel's FUSE, through shared memory
    #[arg(long)]
    pub direct: bool,
    /// Set-user-ID programs of the image run as such (root only); without it the mount is nosuid: an image
    /// may come from anywhere
    #[arg(long)]
    pub suid: bool,
    /// Devices of the image can be opened (root only); without it the mount is nodev
    #[arg(long)]
    pub dev: bool,
    /// Extended attributes; they cost a request before every write
    #[arg(long)]
    pub xattrs: bool,
    /// Memory for the page cache, and at most as much again for metadata; the kernel has its own above it
    #[arg(long, default_value = "512MiB", value_parser = bytes)]
    pub page_cache: Bytes,
    /// Mount this directory of the host, with IMAGE as the persistent memory in front of it: small
    /// synchronous writes go there (SPFS). IMAGE is made where there is nothing, of --size. While it is
    /// mounted, change DIR's files through the mount only
    #[arg(long, value_name = "DIR")]
    pub stack: Option<PathBuf>,
    /// With --stack: the unmount writes all that IMAGE has into the directory, for whoever uses that alone
    #[arg(long, requires = "stack")]
    pub demote_all: bool,
    /// With --stack: give up what IMAGE, or another image, has of DIR's files where it does not fit: the
    /// image or the directory is an older copy, or of another pair, or files are gone from the directory.
    /// Their newest bytes are lost
    #[arg(long, requires = "stack")]
    pub forget: bool,
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Change a value of the testbed's host for this mount, for example
    /// host.vfs.writeback_interval=1000000000; may be repeated. An image has the values it was made with
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Arguments that only a drive in memory takes; `mount ram:FS` and `export ram:` share them.
#[derive(Args, Clone)]
pub struct MemoryArgs {
    /// Of a drive in memory: its capacity [default: 1GiB to mount, 8GiB to export]
    #[arg(long, value_parser = bytes)]
    pub size: Option<Bytes>,
    /// Of a drive in memory: built-in testbed or path of a .toml file [default: bytefs-emulator]
    #[arg(long)]
    pub testbed: Option<String>,
    /// Of a drive in memory: record what it is asked into this file, for `granary drive replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

impl MemoryArgs {
    /// The testbed's name or path.
    pub fn testbed(&self) -> &str {
        self.testbed.as_deref().unwrap_or("bytefs-emulator")
    }
}

/// How a FUSE daemon serves: what `mount` and `export` share.
#[derive(Args, Clone)]
pub struct ServeArgs {
    /// Return when requests are answered; serve in the background
    #[arg(long)]
    pub daemon: bool,
    /// Refuse changes
    #[arg(long)]
    pub read_only: bool,
    /// Threads that serve requests: as many can wait for files of the image that the host has to read, or for
    /// a paced drive [default: the processors, at least 2; 16 with --pace on]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Whether programs wait as long as the modelled drive takes
    #[arg(long, value_enum, default_value_t = Pace::Off)]
    pub pace: Pace,
    /// With --pace on: how many times slower modelled time passes than the clock [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    dilate: Option<u32>,
    /// Failure that acknowledged changes survive: the death of this process, or a crash of the machine too
    #[arg(long, value_enum, default_value_t = Survives::Process)]
    pub durability: Survives,
    /// With --daemon: where messages go afterwards
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// This is the background process of --daemon: say "mounted" on stdout
    #[arg(long, hide = true)]
    pub background: bool,
}

impl ServeArgs {
    /// Threads that serve requests: where requests wait as long as the modelled drive takes, as many as it
    /// can work on.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(|| self.pace.threads(), usize::from)
    }

    /// How modelled time passes.
    pub fn pacing(&self) -> Pacing {
        self.pace.pacing(self.dilate.unwrap_or(1))
    }

    /// Refuses options that would say nothing. `in_memory`: the drive is no image.
    ///
    /// # Errors
    /// Those that contradict each other.
    pub fn check(&self, in_memory: bool) -> Result<(), Failure> {
        if self.dilate.is_some() && self.pace == Pace::Off {
            return Err(Failure::usage(
                "--dilate slows modelled time down that is felt: add --pace on".to_owned(),
            ));
        }
        if in_memory && self.durability == Survives::Machine {
            return Err(Failure::usage(
                "--durability machine: a drive in memory is gone with its process; make an image (`granary mkfs IMAGE`)".to_owned(),
            ));
        }
        Ok(())
    }
}

/// Whether modelled time is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// Full speed
    Off,
    /// The modelled latencies are felt
    On,
}

impl Pace {
    /// Threads that serve requests unless told: where requests wait as long as the modelled drive takes, as
    /// many as it can work on.
    pub fn threads(self) -> usize {
        match self {
            Pace::Off => granary_mount::default_threads(),
            Pace::On => 16,
        }
    }

    /// With time `dilation` times as slow.
    pub fn pacing(self, dilation: u32) -> Pacing {
        match self {
            Pace::Off => Pacing::Off,
            Pace::On => Pacing::On { dilation },
        }
    }
}

/// See `--durability`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Survives {
    /// kill -9 of this process
    Process,
    /// That and a crash of the machine
    Machine,
}

/// Arguments of `granary exec`.
#[derive(Args)]
pub struct ExecArgs {
    /// Directory that a file system is mounted on with --direct
    pub dir: PathBuf,
    /// The program, found as a shell finds it, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
    /// Say on stderr why a process is left to the kernel's way
    #[arg(long)]
    pub report: bool,
}

/// Arguments of `granary umount`.
#[derive(Args)]
pub struct UmountArgs {
    /// Directory that a granary file system is mounted on, or a drive is exported to; or its image
    pub dir: PathBuf,
    /// Take it out of sight now, and end it when nobody uses it any more
    #[arg(long)]
    pub lazy: bool,
}

/// Arguments of `granary stat`.
#[derive(Args)]
pub struct StatArgs {
    /// Directory that a granary file system is mounted on or a drive is exported to, or an image
    pub path: PathBuf,
    #[command(flatten)]
    pub stack: StackArgs,
    /// Print the counters as one JSON object (docs/RESULTS.md)
    #[arg(long)]
    pub json: bool,
    /// Show what moves, again and again
    #[arg(long, conflicts_with = "stack_dir")]
    pub watch: bool,
    /// With --watch: seconds between two looks, 0.05 to 3600
    #[arg(long, default_value = "1", value_parser = seconds, requires = "watch")]
    pub interval: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    if (0.05..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("0.05 to 3600 seconds".to_owned()) }
}

pub(super) fn bytes(text: &str) -> Result<Bytes, String> {
    text.parse::<Bytes>().map_err(|e| e.to_string())
}

impl From<Survives> for Durability {
    fn from(it: Survives) -> Durability {
        match it {
            Survives::Process => Durability::Process,
            Survives::Machine => Durability::Machine,
        }
    }
}
