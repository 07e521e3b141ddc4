//! [`Deadline`]: when all work ends: at an instant on the clock of the wall, or when somebody asks.
//!
//! Nothing that is found depends on it; it only says how much is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long people wait has nothing to do with virtual time.
#[allow(
    clippy::disallowed_methods,
    reason = "the budget of a campaign is time of this machine; no point depends on it"
)]
pub(crate) fn on_the_wall() -> Instant {
    Instant::now()
}

/// See the module. Without an instant and without a flag it never comes.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    end: Option<Instant>,
    asked: Option<Arc<AtomicBool>>,
}

impl Deadline {
    /// So much time from now on.
    pub fn within(time: Duration) -> Deadline {
        Deadline { end: on_the_wall().checked_add(time), asked: None }
    }

    /// Also where this is set.
    pub fn or_asked(self, asked: &Arc<AtomicBool>) -> Deadline {
        Deadline { asked: Some(Arc::clone(asked)), ..self }
    }

    /// Also in so much time from now on; never later than before.
    pub(crate) fn sooner(&self, time: Duration) -> Deadline {
        let end = on_the_wall() + time;
        Deadline { end: Some(self.end.map_or(end, |before| before.min(end))), asked: self.asked.clone() }
    }

    /// Whether it has come.
    pub fn is_over(&self) -> bool {
        let asked = self.asked.as_ref().is_some_and(|asked| asked.load(Relaxed));
        asked || self.end.is_some_and(|end| on_the_wall() >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_with_its_time_or_when_somebody_asks() {
        assert!(!Deadline::default().is_over());
        assert!(Deadline::within(Duration::ZERO).is_over());
        let asked = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::default().or_asked(&asked);
        assert!(!deadline.is_over());
        assert!(deadline.sooner(Duration::ZERO).is_over(), "time counts beside the flag");
        asked.store(true, Relaxed);
        assert!(deadline.is_over() && deadline.sooner(Duration::from_secs(1000)).is_over());
    }
}
