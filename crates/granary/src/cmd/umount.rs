//! `granary umount DIR`: unmounts, and returns when everything is written back and the image is closed.
//!
//! Exit codes: 1 where it is unmounted and not everything was written back, or not yet; 2 where it is still
//! mounted.

use crate::cli::mount::UmountArgs;
use crate::cmd::live::{Stats, ask, is_of_the_dead};
use crate::cmd::loopdev;
use crate::cmd::outcome::Watched;
use crate::cmd::serve;
use crate::failure::Failure;
use granary_mount::{DRIVE_FILE, MountError, Unmounter, mountinfo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// How long a serving process may take to write everything back, seconds.
const PATIENCE: u32 = 600;

/// Runs the command.
pub fn run(args: &UmountArgs) -> Result<(), Failure> {
    let unmounter = find(&args.dir)?;
    if args.lazy {
        return Ok(unmounter.unmount(true)?);
    }
    let answer = ask(unmounter.dir())?;
    // One that is of another version has nothing to say that we understand: then there is nobody to wait for.
    let dead = answer.as_ref().is_err_and(is_of_the_dead);
    let stats = answer.ok().and_then(|t| serde_json::from_str::<Stats>(&t).ok());
    let server = stats.as_ref().and_then(|s| Server::find(s.pid));
    let export = stats.is_some_and(|s| s.is_export());
    if export {
        loopdev::detach_all(&unmounter.dir().join(DRIVE_FILE))?;
    }
    unmount(&unmounter, export)?;
    if dead {
        return Err(Failure::found(format!(
            "{} is unmounted, but the process that served it had died: what was not synced may be lost; mounting the image again \
             recovers the rest",
            unmounter.dir().display()
        )));
    }
    server.map_or(Ok(()), |server| server.wait(&unmounter))
}

/// The mount on a directory, or of an image.
fn find(path: &Path) -> Result<Unmounter, MountError> {
    match Unmounter::of(path) {
        Err(e @ MountError::NotMounted(_)) => {
            let names = [path.canonicalize(), std::path::absolute(path)];
            let there = names.iter().flatten().find_map(|image| {
                mountinfo::of_source(&serve::table_source(image.as_os_str())).ok().flatten()
            });
            there.map_or(Err(e), |m| Unmounter::of(&m.mount_point))
        }
        other => other,
    }
}

/// Unmounts. A loop device lets go of its file a moment after it was detached.
fn unmount(unmounter: &Unmounter, export: bool) -> Result<(), MountError> {
    for _ in 0..if export { 40 } else { 0 } {
        match unmounter.unmount(false) {
            Err(MountError::InUse(_)) => {
                #[allow(clippy::disallowed_methods)] // the kernel tells nobody when
                std::thread::sleep(Duration::from_millis(50));
            }
            other => return other,
        }
    }
    unmounter.unmount(false)
}

/// The process that serves the mount.
struct Server {
    pid: u32,
    ends: OwnedFd,
    outcome: Option<Watched>,
}

impl Server {
    fn find(pid: u32) -> Option<Server> {
        let ends = Pid::from_raw(pid as i32).filter(|_| is_granary(pid));
        let ends = pidfd_open(ends?, PidfdFlags::empty()).ok()?;
        Some(Server { pid, ends, outcome: Watched::of(pid) })
    }

    /// Waits until it has ended, and says how.
    fn wait(self, unmounter: &Unmounter) -> Result<(), Failure> {
        let (dir, pid) = (unmounter.dir().display(), self.pid);
        for _ in 0..PATIENCE {
            // It goes on serving, for ever perhaps.
            if let Some(there) = unmounter.elsewhere() {
                let whose =
                    there.process.map_or(String::new(), |p| format!(" for process {p} (see nsenter)"));
                return Err(Failure::found(format!(
                    "{dir} is unmounted, but the same file system is mounted on {}{whose}: process {pid} serves it, writes \
                     back and closes its image when it is unmounted there, too",
                    there.mount_point.display()
                )));
            }
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            if poll(&mut [PollFd::new(&self.ends, PollFlags::IN)], Some(&second)).is_ok_and(|n| n > 0) {
                return self.outcome.map_or(Ok(()), Watched::read).map_err(|why| {
                    Failure::found(format!(
                        "{dir} is unmounted, but its process did not end well: not everything may have been written back; \
                         what was synced is in the image ({why})"
                    ))
                });
            }
            if is_stopped(pid) {
                return Err(Failure::found(format!(
                    "{dir} is unmounted, but its process {pid} is stopped and writes nothing back: kill -CONT {pid}"
                )));
            }
        }
        Err(Failure::found(format!(
            "{dir} is unmounted, but its process {pid} has not ended after {PATIENCE} s: look at its messages"
        )))
    }
}

/// Processes of this program that somebody has stopped.
pub fn stopped_servers() -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|&pid| is_stopped(pid) && is_granary(pid)).collect()
}

/// Whether a signal or a debugger has stopped the process.
fn is_stopped(pid: u32) -> bool {
    // "NUMBER (NAME) STATE ...", and the name may hold anything.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// The number may be of another process namespace.
fn is_granary(pid: u32) -> bool {
    let name = |of: &str| fs::read_to_string(format!("/proc/{of}/comm")).ok();
    let there = name(&pid.to_string());
    // Or whatever this program has been renamed to.
    there.as_deref() == Some("granary\n") || (there.is_some() && there == name("self"))
}
