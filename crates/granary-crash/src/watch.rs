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

/// Lives under way.
struct Lives {
    /// How many began.
    began: u64,
    /// By number: numbers ascend, so the first is the oldest.
    under_way: BTreeMap<u64, (Instant, Failure)>,
}

static LIVES: Mutex<Lives> = Mutex::new(Lives { began: 0, under_way: BTreeMap::new() });

#[allow(clippy::disallowed_methods, reason = "a loop in which nothing happens has no virtual time")]
fn on_the_wall() -> Instant {
    Instant::now()
}

/// A life that is under way until this is dropped.
pub(crate) struct Watched(u64);

impl Drop for Watched {
    fn drop(&mut self) {
        LIVES.lock().under_way.remove(&self.0);
    }
}

/// A life begins; `failure` is what is wrong should it never end.
pub(crate) fn over(failure: Failure) -> Watched {
    let began = on_the_wall();
    let lives = &mut *LIVES.lock();
    lives.began += 1;
    lives.under_way.insert(lives.began, (began, failure));
    Watched(lives.began)
}

/// The life that has been under way longest, if that is more than `than`: as a failure that says so.
pub fn longest(than: Duration) -> Option<Failure> {
    let lives = LIVES.lock();
    let (began, failure) = lives.under_way.values().next()?;
    let spent = on_the_wall().saturating_duration_since(*began);
    (spent > than).then(|| failure.clone())
}
