//! The holder of an image's lock. A running process keeps others out; a killed one lets go of the lock
//! shortly.

use rustix::fs::{fstat, major, minor};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// How long a dying holder is waited for. Linux closes the files of a killed process after it has given back
/// its memory, which takes some 100 ms per GiB.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// So many looks in a row have to find no dying holder before it is refused: between taking the signal and
/// beginning to exit it looks alive, and a new holder takes the lock before it writes down its number.
const LOOKS: u32 = 5;

/// Waits for a holder that is about to end.
pub struct Waiting {
    left: u128,
    alive: u32,
}

impl Waiting {
    pub fn new() -> Waiting {
        Waiting { left: PATIENCE.as_nanos() / PAUSE.as_nanos(), alive: 0 }
    }

    /// Sleeps a little if it is worth trying again: `pid` is dying, or has not been looked at often enough.
    #[allow(clippy::disallowed_methods, reason = "other processes live on the wall clock")]
    pub fn again(&mut self, pid: Option<u32>) -> bool {
        self.alive = if pid.is_some_and(dies) { 0 } else { self.alive + 1 };
        if self.left == 0 || self.alive == LOOKS {
            return false;
        }
        self.left -= 1;
        std::thread::sleep(PAUSE);
        true
    }
}

/// Process that holds a `flock` of a file: from the kernel, or else from the file, where the last holder that
/// could write has left its number.
pub fn holder(file: &File) -> Option<u32> {
    let found = fstat(file).ok()?;
    let device = format!("{:02x}:{:02x}", major(found.st_dev), minor(found.st_dev));
    if let Some(pid) =
        holder_in(&std::fs::read_to_string("/proc/locks").unwrap_or_default(), &device, found.st_ino)
    {
        // Its children may hold on to it when it has ended.
        return Path::new(&format!("/proc/{pid}")).exists().then_some(pid);
    }
    let mut text = [0; 16];
    let len = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}

/// The same in /proc/locks, see proc_locks(5). Some file systems have devices of their own there: then the
/// inode has to do, where it is the only one.
fn holder_in(locks: &str, device: &str, inode: u64) -> Option<u32> {
    let lock = |line: &str| {
        // "1: FLOCK ADVISORY WRITE PID DEVICE:INODE START END"; one who waits has an arrow behind the number.
        let mut fields = line.split_whitespace().skip(1);
        let kind = fields.next()?;
        let pid = fields.nth(2)?.parse::<u32>().ok().filter(|&pid| pid != 0)?;
        let (on, of) = fields.next()?.rsplit_once(':')?;
        (kind == "FLOCK" && of.parse() == Ok(inode)).then(|| (on.to_owned(), pid))
    };
    let all: Vec<(String, u32)> = locks.lines().filter_map(lock).collect();
    match all.iter().find(|(on, _)| on == device) {
        None if all.len() == 1 => Some(all[0].1),
        found => found.map(|(_, pid)| *pid),
    }
}

/// Whether a process is there and ending: it waits to be killed, or has begun to exit. Of its threads the
/// first may be a zombie while the others still hold its files.
fn dies(pid: u32) -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    // In this order: the signal is taken first, and the exit begins after it.
    killed(&read("status")) || exits(&read("stat"))
}

/// Whether SIGKILL is among the pending signals, see proc_pid_status(5).
fn killed(status: &str) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let pending = |line: &&str| line.starts_with("SigPnd:") || line.starts_with("ShdPnd:");
    let bits = |line: &str| line.split_whitespace().nth(1).and_then(|n| u64::from_str_radix(n, 16).ok());
    status.lines().filter(pending).filter_map(bits).any(|b| b & SIGKILL != 0)
}

/// Whether the process is a zombie, dead, or has the flag PF_EXITING or PF_SIGNALED (a signal ends it) of
/// `linux/sched.h`, see proc_pid_stat(5).
fn exits(stat: &str) -> bool {
    const ENDING: u32 = 0x4 | 0x400;
    // The name, in parentheses, may hold anything.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|n| n.parse::<u32>().ok());
    matches!(state, Some("Z" | "X")) || flags.is_some_and(|f| f & ENDING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_works_is_refused_soon_and_one_that_ends_is_waited_for() {
        let mut child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().expect("started");
        let (me, pid) = (std::process::id(), child.id());
        assert!(!dies(me) && !dies(pid));
        child.kill().expect("killed");
        let mut waiting = Waiting::new();
        // Between the signal and the exit it may look alive for a moment; then it is a zombie until somebody
        // waits for it.
        assert!((0..10).all(|_| waiting.again(Some(pid))) && dies(pid));
        child.wait().expect("ended");
        assert!(!dies(pid));
        for holder in [Some(me), Some(pid), None] {
            let mut waiting = Waiting::new();
            assert!((1..LOOKS).all(|_| waiting.again(holder)) && !waiting.again(holder));
        }
    }

    #[test]
    fn what_the_system_says_of_locks_is_read() {
        let locks = "1: FLOCK  ADVISORY  WRITE 700 fe:00:42 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 701 fe:00:42 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 702 fe:00:43 0 EOF\n3: FLOCK  ADVISORY  WRITE 0 fe:00:44 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 703 fe:01:42 0 EOF\n5: FLOCK  ADVISORY  WRITE 704 00:1b:45 0 EOF\n";
        let who = |device: &str, inode| holder_in(locks, device, inode);
        assert_eq!([who("fe:00", 42), who("fe:01", 42), who("00:2a", 45)], [Some(700), Some(703), Some(704)]);
        assert_eq!([who("00:2a", 42), who("fe:00", 43), who("fe:00", 44), who("fe:00", 46)], [None; 4]);
        let file = tempfile::tempfile().expect("a file");
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("locked");
        assert_eq!(holder(&file), Some(std::process::id()));
    }

    #[test]
    fn what_the_system_says_of_a_process_is_read() {
        assert!(killed("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(killed("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000102\n"));
        assert!(!killed("SigPnd:\t0000000000000002\nShdPnd:\t0000000000000000\nSigBlk:\tffffffffffffffff\n"));
        assert!(
            exits("7 (a) Z 1 7 7 0 -1 4194560 1")
                && [4194564, 4195584].iter().all(|flags| exits(&format!("7 (a) b) R 1 7 7 0 -1 {flags} 1")))
        );
        assert!(!exits("") && !exits("7 (a) Z 1) S 1 7 7 0 -1 4194560 1"));
    }
}
