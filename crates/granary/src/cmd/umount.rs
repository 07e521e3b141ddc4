//! `granary umount DIR`: unmounts, and returns when everything is written back and the image is closed.

use crate::cli::mount::UmountArgs;
use crate::cmd::live::Stats;
use crate::cmd::loopdev;
use crate::failure::Failure;
use granary_mount::{DRIVE_FILE, MountError, STATS_FILE, Unmounter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::time::Duration;

/// How long a serving process may take to write everything back.
const PATIENCE: Timespec = Timespec { tv_sec: 600, tv_nsec: 0 };

/// Runs the command.
pub fn run(args: &UmountArgs) -> Result<(), Failure> {
    let unmounter = Unmounter::of(&args.dir)?;
    // A dead or foreign server does not tell: then there is nobody to wait for.
    let text = fs::read_to_string(unmounter.dir().join(STATS_FILE)).ok();
    let stats = text.and_then(|t| serde_json::from_str::<Stats>(&t).ok());
    let pid = stats.as_ref().map(|s| s.pid);
    let export = stats.is_some_and(|s| s.is_export());
    let server = pid.filter(|&p| is_granary(p)).and_then(|p| Pid::from_raw(p as i32));
    let server = server.and_then(|p| pidfd_open(p, PidfdFlags::empty()).ok());
    if export && !args.lazy {
        loopdev::detach_all(&unmounter.dir().join(DRIVE_FILE))?;
    }
    unmount(&unmounter, args.lazy, export)?;
    let Some(server) = server.filter(|_| !args.lazy) else { return Ok(()) };
    let ended = poll(&mut [PollFd::new(&server, PollFlags::IN)], Some(&PATIENCE));
    match ended {
        Ok(n) if n > 0 => Ok(()),
        _ => Err(Failure::usage(format!(
            "{} is unmounted, but its process {} has not ended after {} s: look at its messages",
            args.dir.display(),
            pid.unwrap_or_default(),
            PATIENCE.tv_sec
        ))),
    }
}

/// Unmounts. A loop device lets go of its file a moment after it was detached.
fn unmount(unmounter: &Unmounter, lazy: bool, export: bool) -> Result<(), MountError> {
    for _ in 0..if export { 40 } else { 0 } {
        match unmounter.unmount(lazy) {
            Err(MountError::InUse(_)) => {
                #[allow(clippy::disallowed_methods)] // the kernel tells nobody when
                std::thread::sleep(Duration::from_millis(50));
            }
            other => return other,
        }
    }
    unmounter.unmount(lazy)
}

/// The number may be of another process namespace.
fn is_granary(pid: u32) -> bool {
    let name = |of: &str| fs::read_to_string(format!("/proc/{of}/comm")).ok();
    let there = name(&pid.to_string());
    // Or whatever this program has been renamed to.
    there.as_deref() == Some("granary\n") || (there.is_some() && there == name("self"))
}
