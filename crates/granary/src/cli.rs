//! The arguments (clap).

pub mod crash;
mod drive;
pub mod export;
pub mod mount;

use crate::cmd::results::{self, Export};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use drive::{DriveArgs, DriveBenchArgs, DriveBenchKind, DriveCommand, DriveReplayArgs};
use granary_units::{Bytes, Nanos};
use std::path::PathBuf;

/// Exit codes of a command.
const EXIT_CODES: &str = "Exit codes: 0 done, 1 a check found something, 2 usage or environment, 130 (143) stopped by Ctrl-C \
                          (SIGTERM) with what was measured until then.";

/// File systems for memory-semantic SSDs: run them on an emulated drive and see what moves.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a workload on file systems and compare them
    Run(RunArgs),
    /// Run a paper's experiments and print its numbers beside ours
    Reproduce(ReproduceArgs),
    /// List or show the built-in workloads
    #[command(subcommand)]
    Workload(WorkloadCommand),
    /// List, show, check or measure testbeds: a drive and its host in TOML
    #[command(subcommand)]
    Testbed(TestbedCommand),
    /// Make an image: an emulated drive on files, with an empty file system
    Mkfs(MkfsArgs),
    /// Make an image larger, mounted or not: its drive and the file system on it (bytefs); nothing shrinks
    Grow {
        /// The image directory, or where it is mounted
        #[arg(value_name = "IMAGE|DIR")]
        path: PathBuf,
        /// The new capacity of the drive, for example 128GiB; rounded up to whole flash packages
        #[arg(long, value_parser = mount::bytes)]
        size: Bytes,
    },
    /// Check an image: its files, the drive, the file system; exit code 1 if anything is (or stays) wrong
    Fsck {
        /// The image directory
        image: PathBuf,
        /// Mend what is wrong with the file system (bytefs); what has no name any more goes to /lost+found
        #[arg(long, conflicts_with = "stack_dir")]
        repair: bool,
        #[command(flatten)]
        stack: StackArgs,
        /// Print a JSON object instead of sentences
        #[arg(long)]
        json: bool,
    },
    /// List the checkpoints of an image that is not mounted (nilfs2); `granary mount --read-only --set
    /// fs.nilfs2.cp=N` mounts one
    Lscp {
        /// The image directory
        image: PathBuf,
        /// Snapshots only
        #[arg(short, long)]
        snapshots: bool,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Make a checkpoint of an image that is not mounted (nilfs2), and print its number
    Mkcp {
        /// The image directory
        image: PathBuf,
        /// Make it a snapshot, which the cleaner keeps
        #[arg(short, long)]
        snapshot: bool,
    },
    /// Make checkpoints snapshots, or snapshots checkpoints (nilfs2)
    Chcp {
        /// ss: snapshots, which the cleaner keeps; cp: checkpoints
        mode: Kept,
        /// The image directory
        image: PathBuf,
        /// Their numbers
        #[arg(required = true)]
        number: Vec<u64>,
    },
    /// End checkpoints of an image that is not mounted (nilfs2); a snapshot must become a checkpoint first
    Rmcp {
        /// The image directory
        image: PathBuf,
        /// Their numbers
        #[arg(required = true)]
        number: Vec<u64>,
    },
    /// Cut the power at thousands of points and hold file systems to what they promise; exit code 1 if a
    /// promise was broken
    Crash(crash::CrashArgs),
    /// List a directory of an image that is not mounted
    Ls {
        /// The image directory
        image: PathBuf,
        /// Paths in the image
        #[arg(default_value = "/")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        stack: StackArgs,
        /// One line per entry with mode, links, owner, size, time
        #[arg(short)]
        long: bool,
    },
    /// Print files of an image that is not mounted
    Cat {
        /// The image directory
        image: PathBuf,
        /// Paths in the image
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        stack: StackArgs,
    },
    /// Copy files and directories into an image that is not mounted
    CpIn {
        /// The image directory
        image: PathBuf,
        /// Files and directories of this machine, then the place in the image
        #[arg(required = true, num_args = 2..)]
        paths: Vec<PathBuf>,
    },
    /// Copy files and directories out of an image that is not mounted
    CpOut {
        /// The image directory
        image: PathBuf,
        /// Paths in the image, then the place on this machine
        #[arg(required = true, num_args = 2..)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        stack: StackArgs,
    },
    /// Mount an image, or a new file system in memory, for programs
    Mount(mount::MountArgs),
    /// Run a program whose calls on files of a mount (`granary mount --direct`) go past the kernel's FUSE
    Exec(mount::ExecArgs),
    /// Compare the traffic of a modelled file system with the kernel's
    Calibrate(CalibrateArgs),
    /// Serve a drive's blocks as a file, for a loop device and the kernel's own file systems
    Export(export::ExportArgs),
    /// Unmount, and wait until everything is written back
    Umount(mount::UmountArgs),
    /// Show what moves in a mounted file system, or what an image is, its space and its counters
    Stat(mount::StatArgs),
    /// The drive on its own, without a file system
    #[command(subcommand)]
    Drive(DriveCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual: the page of granary and that of each command, one after the other
    Man {
        /// Write each page into this directory instead, as granary.1, granary-run.1, ...
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// For an image of persistent memory in front of a directory.
#[derive(Args, Clone)]
pub struct StackArgs {
    /// Of persistent memory in front of a directory: that directory, as for `granary mount --stack DIR IMAGE
    /// MNT`. Neither it nor the image is changed
    #[arg(id = "stack_dir", long = "stack", value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Args)]
pub struct MkfsArgs {
    /// The image directory: to be made, or empty
    pub image: PathBuf,
    /// File system, or none for a blank drive (`granary export` serves it)
    #[arg(long, default_value = "bytefs")]
    pub fs: String,
    /// Capacity of the drive, for example 64GiB; the image takes space only for what is written
    #[arg(long, default_value = "1GiB")]
    pub size: String,
    /// Built-in testbed (see `granary testbed list`) or path of a .toml file
    #[arg(long, default_value = "bytefs-emulator")]
    pub testbed: String,
    /// Change a value of the testbed, for example firmware.log_region=64MiB; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A name for people
    #[arg(long, default_value = "")]
    pub label: String,
    /// Replace an image that is there: everything in it is lost
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
pub struct RunArgs {
    /// Built-in workload (see `granary workload list`) or path of a Filebench .f, a fio .fio or an FIU .fiu
    /// file
    pub workload: String,
    /// File systems to compare, comma-separated; ratios are to the first
    #[arg(long, value_delimiter = ',', default_value = "bytefs,ext4")]
    pub fs: Vec<String>,
    /// Built-in testbed (see `granary testbed list`) or path of a .toml file
    #[arg(long, default_value = "bytefs-emulator")]
    pub testbed: String,
    /// Factor on the number of files and operations; 1 is the workload as written (the paper's size for
    /// built-in ones)
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Scale page cache, drive cache and log region along: a hundredth of the files in a hundredth of the
    /// memory
    #[arg(long)]
    pub scale_memory: bool,
    /// Share of the 64-byte lines that a random write changes, 0 to 1; Filebench rewrites what was there,
    /// which is 0
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub changed_lines: f64,
    /// After the run, be idle for this many virtual seconds and clean the log of all segments that are not
    /// younger (f2fs, nilfs2)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub then_clean: Option<Nanos>,
    /// After --then-clean and the unmount, write the whole SSD once in the order of its addresses: what its
    /// own gc then costs
    #[arg(long, requires = "then_clean")]
    pub then_overwrite: bool,
    /// Number of threads of the kind of which the workload has most, instead of its own; other kinds stay as
    /// they are
    #[arg(long)]
    pub threads: Option<u32>,
    /// Root seed: equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Change a value of the testbed, for example nand.read_ns=40000; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Set a variable of the workload file, for example nfiles=1000; may be repeated
    #[arg(long = "var", value_name = "NAME=VALUE")]
    pub vars: Vec<String>,
    /// Print one JSON object per file system instead of tables (docs/RESULTS.md)
    #[arg(long)]
    pub json: bool,
    /// Also show the other percentiles of latencies, beside mean and 99th
    #[arg(long, conflicts_with = "json")]
    pub latencies: bool,
    /// Also write results.jsonl and results.txt into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write the results into this file, as its name ends: .csv, .html (one page), .json or .jsonl; may
    /// be repeated
    #[arg(long, value_name = "FILE", value_parser = results::export)]
    pub export: Vec<Export>,
    /// Record what the drive is asked into this file, for `granary drive replay`; one file system only
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// File systems to run at the same time; each takes a core and its own memory
    #[arg(long, default_value_t = default_jobs(), value_parser = at_least_one)]
    pub jobs: usize,
}

/// Virtual seconds, up to the longest that experiments wait for.
fn seconds(text: &str) -> Result<Nanos, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=1e6).contains(&s) => Ok(Nanos((s * 1e9) as u64)),
        _ => Err("seconds from 0 to 1000000, for example 600".to_owned()),
    }
}

/// A number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1, for example 0.125".to_owned()),
    }
}

#[derive(Args)]
pub struct ReproduceArgs {
    /// The paper: bytefs (ASPLOS'25), pebblessd (MEMSYS'17), devfs (FAST'18), orchfs (FAST'25), spfs
    /// (FAST'23)
    pub paper: String,
    /// Figures, tables and sections of the paper, comma-separated; all where left out
    #[arg(long, value_delimiter = ',')]
    pub figure: Vec<String>,
    /// Of their workloads only these, comma-separated
    #[arg(long, value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Of their file systems only these, comma-separated
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<String>,
    /// Instead: each result under each choice of the paper's testbed, which no source states, and with three
    /// seeds
    #[arg(long, conflicts_with_all = ["json", "export", "record"])]
    pub sensitivity: bool,
    /// Instead: the experiment that shows why ours is another than the paper's in a row, by the name that the
    /// table has (6-read-direct): its runs without a change of the testbed and with it
    #[arg(long, value_name = "ROW", conflicts_with_all = ["sensitivity", "json", "export", "record", "figure", "workload", "fs"])]
    pub why: Option<String>,
    /// Built-in testbed or path of a .toml file; where left out the paper's
    #[arg(long)]
    pub testbed: Option<String>,
    /// Factor on the paper's files, operations and memories; of oltp on its running time alone. Where left
    /// out 0.02, of pebblessd and orchfs 0.005, of devfs 0.01, of spfs 0.05
    #[arg(long)]
    pub scale: Option<f64>,
    /// Root seed: equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Change a value of the testbed; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON object per run instead of tables (docs/RESULTS.md)
    #[arg(long)]
    pub json: bool,
    /// Also write results.jsonl and results.txt into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write the results into this file, as its name ends: .csv, .html (one page), .json or .jsonl; may
    /// be repeated
    #[arg(long, value_name = "FILE", value_parser = results::export)]
    pub export: Vec<Export>,
    /// Record what the drives are asked into this directory, WORKLOAD-FS.trace each, for `granary drive
    /// replay`
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Runs at the same time; each takes a core and its own memory
    #[arg(long, default_value_t = default_jobs(), value_parser = at_least_one)]
    pub jobs: usize,
}

#[derive(Args)]
pub struct CalibrateArgs {
    /// File system: ext4, the kernel's on an exported drive and granary's under the same operations
    #[arg(required_unless_present = "reference")]
    pub fs: Option<String>,
    /// Instead: the isolated operations that were measured of Linux 6.1, ext4, F2FS and NILFS2; needs neither
    /// root nor devices
    #[arg(long, conflicts_with_all = ["fs", "load", "data", "scale", "seed", "size", "json"])]
    pub reference: bool,
    /// Loads to run, comma-separated
    #[arg(long, value_delimiter = ',', default_values_t = granary_papers::calibrate::LOADS.map(str::to_owned))]
    pub load: Vec<String>,
    /// How the journal treats file data, on both sides
    #[arg(long, value_enum, default_value_t = DataArg::Ordered)]
    pub data: DataArg,
    /// Factor on the paper's number of files and operations
    #[arg(long, default_value_t = 0.01)]
    pub scale: f64,
    /// Root seed: the operations on both sides
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Capacity of the drive
    #[arg(long, default_value = "8GiB")]
    pub size: String,
    /// Print one JSON object per load instead of tables
    #[arg(long)]
    pub json: bool,
}

/// ext4's mount option `data=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataArg {
    /// New data is on the drive before the commit
    Ordered,
    /// The commit waits for no data
    Writeback,
    /// Data is journalled
    Journal,
}

impl DataArg {
    /// As granary-ext4 says it.
    pub fn mode(self) -> granary_papers::calibrate::DataMode {
        match self {
            DataArg::Ordered => granary_papers::calibrate::DataMode::Ordered,
            DataArg::Writeback => granary_papers::calibrate::DataMode::Writeback,
            DataArg::Journal => granary_papers::calibrate::DataMode::Journal,
        }
    }

    /// As `mount -o data=` says it.
    pub fn option(self) -> &'static str {
        match self {
            DataArg::Ordered => "ordered",
            DataArg::Writeback => "writeback",
            DataArg::Journal => "journal",
        }
    }
}

/// A count of what there must be one of.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("give at least 1".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err("give a whole number, at least 1".to_owned()),
    }
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

#[derive(Subcommand)]
pub enum WorkloadCommand {
    /// Names and one line each
    List,
    /// Print the .f file of a built-in workload
    Show {
        /// Its name
        name: String,
    },
}

#[derive(Subcommand)]
pub enum TestbedCommand {
    /// Names and one line each
    List,
    /// Print a testbed file
    Show {
        /// Its name, or the path of a file
        name: String,
        /// Print every value instead, also those that the file takes from its base or leaves at their default
        #[arg(long)]
        values: bool,
    },
    /// Measure testbeds with the drive bench, beside what their papers state: the tables of docs/TESTBEDS.md
    Measure {
        /// Names, or paths of files [default: all built-in ones]
        names: Vec<String>,
    },
    /// Validate testbeds; print what they come to, and warn where values contradict each other; exit code 1
    /// if one is wrong
    Check {
        /// Names, or paths of files
        #[arg(required = true)]
        files: Vec<String>,
    },
}

/// Whether the cleaner keeps a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kept {
    /// A checkpoint
    Cp,
    /// A snapshot
    Ss,
}
