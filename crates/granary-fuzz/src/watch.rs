//! [`Watch`]: bounds of each input in time and memory. An input that does not come to its end cannot be ended
//! from within: the process says which one it was and aborts.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest time of one input. They take milliseconds; a machine may be busy.
const LONGEST: Duration = Duration::from_secs(60);
/// Memory of the process that no input may make it exceed, KiB.
const MOST: u64 = 3 << 20;
/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    /// The input that is being run, and since how many looks.
    running: Option<(String, u32)>,
    ended: bool,
}

/// Watches one thread.
pub struct Watch {
    state: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

impl Watch {
    /// Begins to watch.
    pub fn new() -> Watch {
        let state = Arc::<(Mutex<State>, Condvar)>::default();
        let of_thread = Arc::clone(&state);
        let thread =
            std::thread::Builder::new().name("watch".to_owned()).spawn(move || look(&of_thread)).ok();
        Watch { state, thread }
    }

    /// The next input begins; `name` is what replays it.
    pub fn begin(&self, name: String) {
        self.state.0.lock().running = Some((name, 0));
    }

    /// It has ended.
    pub fn end(&self) {
        self.state.0.lock().running = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.state.0.lock().ended = true;
        self.state.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn look((state, changed): &(Mutex<State>, Condvar)) {
    let most = (LONGEST.as_millis() / EVERY.as_millis()) as u32;
    let mut state = state.lock();
    while !state.ended {
        changed.wait_for(&mut state, EVERY);
        let Some((name, looks)) = &mut state.running else { continue };
        *looks += 1;
        let what = match resident() {
            _ if *looks > most => format!("does not end within {} s", LONGEST.as_secs()),
            Some(kib) if kib > MOST => format!("takes {} MiB of memory", kib >> 10),
            _ => continue,
        };
        stop(&format!("an input {what}\n  replay: {name}\n"));
    }
}

/// Memory of this process, KiB, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Says it past whatever holds stderr, and ends the process.
fn stop(text: &str) -> ! {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(text.as_bytes());
    std::process::abort()
}
