//! [`longest`]: which life has been under way for too long, for somebody with a clock of this machine.
//!
//! ```text
//!   worker   over(failure) ── a life: mount, load, check ── dropped        asks drives for ever: a limit of commands ends it
//!   monitor        longest(2 min) -> the failure, with its replay line     asks no drive for anything: nothing can end it
//! ```
//!
//! Virtual time stands still in a loop that waits for nothing, and a thread cannot be ended from outside. So whoever runs a campaign asks
//! from a thread of its own, tells what it gets, and ends the process.

use crate::explorer::Failure;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Lives under way, by number: numbers ascend, so the first is the oldest.
static UNDER_WAY: Mutex<(u64, BTreeMap<u64, (Instant, Failure)>)> = Mutex::new((0, BTreeMap::new()));

#[allow(clippy::disallowed_methods, reason = "a loop in which nothing happens has no virtual time")]
fn on_the_wall() -> Instant {
    Instant::now()
}

/// A life that is under way until this is dropped.
pub(crate) struct Watched(u64);

impl Drop for Watched {
    fn drop(&mut self) {
        UNDER_WAY.lock().1.remove(&self.0);
    }
}

/// A life begins; `failure` is what is wrong should it never end.
pub(crate) fn over(failure: Failure) -> Watched {
    let began = on_the_wall();
    let all = &mut *UNDER_WAY.lock();
    all.0 += 1;
    all.1.insert(all.0, (began, failure));
    Watched(all.0)
}

/// The life that has been under way longest, if that is more than `than`: as a failure that says so.
pub fn longest(than: Duration) -> Option<Failure> {
    let all = UNDER_WAY.lock();
    let (began, failure) = all.1.values().next()?;
    let spent = on_the_wall().saturating_duration_since(*began);
    (spent > than).then(|| failure.clone())
}
