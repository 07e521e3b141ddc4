//! Who holds an image's lock: a process that works keeps others out; one that was killed lets go of it shortly.

use std::time::Duration;

/// How long a dying holder is waited for. Linux closes the files of a killed process after it has given back its memory, which
/// takes some 100 ms per GiB.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// So many looks in a row have to find no dying holder before it is refused: between taking the signal and beginning to exit it
/// looks alive, and a new holder takes the lock before it writes down its number.
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

/// Whether a process is there and ending: it waits to be killed, or has begun to exit. Of its threads the first may be a zombie
/// while the others still hold its files.
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

/// Whether the process is a zombie, dead, or has the flag PF_EXITING or PF_SIGNALED (a signal ends it) of `linux/sched.h`, see
/// proc_pid_stat(5).
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
        // Between the signal and the exit it may look alive for a moment; then it is a zombie until somebody waits for it.
        assert!((0..10).all(|_| waiting.again(Some(pid))) && dies(pid));
        child.wait().expect("ended");
        assert!(!dies(pid));
        for holder in [Some(me), Some(pid), None] {
            let mut waiting = Waiting::new();
            assert!((1..LOOKS).all(|_| waiting.again(holder)) && !waiting.again(holder));
        }
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
