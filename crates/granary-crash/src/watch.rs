//! [`longest`]: which life, or mkfs, has been under way for too long, for somebody with a clock of this
//! machine.
//!
//! ```text
//!   worker    Watched::over(failure) ── a life: mount, load, check; or mkfs ── dropped
//!   monitor         longest(5 min) -> the failure, with its replay line
//! ```
//!
//! A life that asks drives for ever meets a limit of commands (faulty.rs). In a loop that asks for nothing,
//! virtual time stands still, and a thread cannot be ended from outside. So the monitor of a campaign tells
//! what it gets, and ends the process.

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

impl Watched {
    /// A life begins; `failure` says where.
    pub(crate) fn over(failure: Failure) -> Watched {
        let began = on_the_wall();
        let lives = &mut *LIVES.lock();
        lives.began += 1;
        lives.under_way.insert(lives.began, (began, failure));
        Watched(lives.began)
    }
}

/// The life that has been under way longest, if that is more than `than`: as a failure that says so. A
/// process that was stopped and goes on counts the time between.
pub fn longest(than: Duration) -> Option<Failure> {
    let lives = LIVES.lock();
    let (began, failure) = lives.under_way.values().next()?;
    let spent = on_the_wall().saturating_duration_since(*began);
    let evidence = [format!("it has not ended after {} s on the clock of this machine", spent.as_secs())];
    (spent > than).then(|| Failure { evidence: evidence.into(), ..failure.clone() })
}
