//! `granary drive`.

use crate::cmd::moves::{MoveArgs, SpaceArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum DriveCommand {
    /// Measure raw accesses: throughput, latency, how busy each part of the drive is
    Bench(DriveBenchArgs),
    /// Replay a trace: of MSR-Cambridge, SPC, Alibaba, Tencent, FIU, blkparse, fio, DiskSim, MQSim, or a
    /// record made with --record (docs/WORKLOADS.md)
    Replay(DriveReplayArgs),
    /// Show what the tables of a PebbleSSD take of its persistent memory
    Space(SpaceArgs),
    /// List the firmwares that a drive can have
    List,
}

#[derive(Subcommand)]
pub enum DriveBenchKind {
    /// Move pages by PebbleSSD's remap and by read and write, with one thread and with four
    Move(MoveArgs),
}

/// The drive, and what it holds.
#[derive(Args)]
pub struct DriveArgs {
    /// Firmware: log (ByteFS), cache (the baselines), or another of `granary drive list` [default: the
    /// testbed's]
    #[arg(long, value_name = "MODE")]
    pub firmware: Option<String>,
    /// Built-in testbed (see `granary testbed list`) or path of a .toml file [default: bytefs-emulator; the
    /// drive of a record]
    #[arg(long)]
    pub testbed: Option<String>,
    /// Change a value of the testbed, for example nand.read_ns=3000; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Root seed: equal seeds give equal results [default: 1; that of a record]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Leave host data out: flash pages keep no content and read as zeros; for drives larger than memory
    #[arg(long)]
    pub no_data: bool,
    /// Record what the drive is asked into this file, for `granary drive replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Print a JSON object instead of tables (docs/RESULTS.md)
    #[arg(long)]
    pub json: bool,
    /// Also show the other percentiles of latencies, beside mean and 99th
    #[arg(long, conflicts_with = "json")]
    pub latencies: bool,
}

#[derive(Args)]
pub struct DriveReplayArgs {
    /// The trace, or - for standard input
    pub trace: PathBuf,
    /// Its format: granary, msr, blkparse, iolog (fio), spc, alibaba, tencent, fiu, disksim, mqsim [default:
    /// found out]
    #[arg(long)]
    pub format: Option<String>,
    /// Issue each operation as soon as one of --depth places is free, instead of when its time stamp says
    #[arg(long)]
    pub as_fast_as_possible: bool,
    /// Operations under way, as fast as possible
    #[arg(long, value_name = "N", default_value_t = 32, requires = "as_fast_as_possible")]
    pub depth: u32,
    /// Factor on the intervals between time stamps: 0.1 replays ten times as fast
    #[arg(long, value_name = "X", default_value_t = 1.0, conflicts_with = "as_fast_as_possible")]
    pub scale: f64,
    /// Fold addresses beyond the drive's end onto it
    #[arg(long)]
    pub wrap: bool,
    /// blkparse: events to replay, D (given to the driver) or Q (queued) [default: D]
    #[arg(long, value_name = "D|Q")]
    pub event: Option<String>,
    /// The device, where a trace is of several: 8,16 (blkparse), usr.0 (MSR), /dev/sda (iolog), a number
    /// (others)
    #[arg(long)]
    pub device: Option<String>,
    /// Replay what there is of a record that is cut off, because the process that wrote it was killed
    #[arg(long)]
    pub cut: bool,
    /// Content of the drive before: none, fill, or random:N for N times its capacity in random pages
    /// [default: fill; that of a record]
    #[arg(long, value_name = "HOW")]
    pub precondition: Option<String>,
    #[command(flatten)]
    pub drive: DriveArgs,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DriveBenchArgs {
    /// A comparison instead of jobs
    #[command(subcommand)]
    pub kind: Option<DriveBenchKind>,
    /// The testbed's device that is measured: ssd, or nvm, which takes loads and stores only
    #[arg(long, value_name = "DEVICE", default_value = "ssd")]
    pub device: String,
    /// Kinds of jobs, comma-separated for jobs that run at the same time: read, write, rw, load, store,
    /// persist, and with "rand" before the name in random order
    #[arg(long, value_delimiter = ',', default_value = "randread", conflicts_with = "job")]
    pub rw: Vec<String>,
    /// Read the jobs from a fio job file instead (docs/WORKLOADS.md says what of it is understood)
    #[arg(long, value_name = "FILE")]
    pub job: Option<PathBuf>,
    /// Bytes of one access [default: 4KiB, over the byte window 64]
    #[arg(long, value_name = "SIZE", conflicts_with = "job")]
    pub bs: Option<String>,
    /// Accesses that each client keeps in flight [default: 32, over the byte window 1]
    #[arg(long, value_name = "N", conflicts_with = "job")]
    pub iodepth: Option<u32>,
    /// Clients per job
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "job")]
    pub numjobs: u32,
    /// Where the part of the drive begins that is touched
    #[arg(long, value_name = "SIZE", default_value = "0", conflicts_with = "job")]
    pub offset: String,
    /// Size of the part of the drive that is touched [default: to the drive's end]
    #[arg(long, value_name = "SIZE", conflicts_with = "job")]
    pub size: Option<String>,
    /// Share of reads in rw and randrw, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 50, conflicts_with = "job")]
    pub rwmixread: u32,
    /// Draw every random block anew instead of touching each once in every pass, in an order of its own
    #[arg(long, conflicts_with = "job")]
    pub norandommap: bool,
    /// Accesses of each client [default: 200000, or until --runtime]
    #[arg(long, value_name = "N", conflicts_with = "job")]
    pub accesses: Option<u64>,
    /// Virtual time to run, for example 2s or 500ms
    #[arg(long, value_name = "TIME", conflicts_with = "job")]
    pub runtime: Option<String>,
    /// Content of the drive before: none, fill, or random:N for N times its capacity in random pages
    /// [default: fill if anything is read]
    #[arg(long, value_name = "HOW")]
    pub precondition: Option<String>,
    /// Store every line that byte jobs touch before the run, so that the drive's DRAM holds them;
    /// needs --size
    #[arg(long)]
    pub warm: bool,
    #[command(flatten)]
    pub drive: DriveArgs,
}
