//! The commands: one module each.
//!
//! ```text
//!   run reproduce workload testbed    workloads in virtual time
//!                         (interrupt.rs: what a signal leaves of their records)
//!   drive                   the drive alone
//!   crash                   power failures, of file systems in memory, or of the kernel's on an export
//!                           (crash/kernel.rs)
//!   mkfs fsck stat grow     an image as a whole (control.rs: asks the process that has it mounted)
//!   ls cat cp-in cp-out     its files, without a mount: a Process on a Vfs on the wall clock (files.rs)
//!                         (stacked.rs: those of persistent memory in front of a directory)
//!   lscp mkcp chcp rmcp     its checkpoints and snapshots (checkpoints.rs)
//!   mount umount stat       an image as a file system of this machine (live.rs: its counters, serve.rs: its
//!                           process,
//!                         outcome.rs: how that ended)
//!   exec                  a program with direct access to a mount (direct.rs: where they meet)
//!   calibrate              the model of ext4 beside the kernel's, on an export of its own
//!   export                  a drive as a file, for the kernel's own file systems (loopdev.rs: as a block
//!                           device)
//! ```

pub mod calibrate;
pub mod cat;
pub mod checkpoints;
pub mod completions;
pub mod control;
pub mod cp_in;
pub mod cp_out;
pub mod crash;
pub mod direct;
pub mod drive;
pub mod exec;
pub mod export;
pub mod files;
pub mod fsck;
pub mod grow;
pub mod interrupt;
pub mod live;
pub mod loopdev;
pub mod ls;
pub mod man;
pub mod mkfs;
pub mod mount;
pub mod moves;
pub mod outcome;
pub mod ram;
pub mod reproduce;
pub mod results;
pub mod run;
pub mod serve;
pub mod stacked;
pub mod stat;
pub mod testbed;
pub mod umount;
pub mod workload;
pub mod xattrs;

use granary_fs::Time;
use std::time::SystemTime;

/// User and group of this process.
pub fn me() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// The date.
#[allow(clippy::disallowed_methods, reason = "files of an image carry the date of the machine")]
pub fn date() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
