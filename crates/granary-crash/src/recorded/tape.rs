//! [`Tape`]: the calls of a run and their answers, so that the same load runs once more with some of its
//! calls left out.
//!
//! ```text
//!   first run   call 1.7 ── made ── its answer is kept                      (recording)
//!   later run   call 1.7 ── kept?  made; the load is told the first run's answer
//!                           else   not made; the load is told the same
//! ```
//!
//! The load hears what it heard in the first run, whatever is left out. So it makes the same calls, and their
//! numbers stay. A load that looks at the clock may go astray all the same: calls without an answer of the
//! first run are made.

use super::numbers::{CallId, Calls};
use crate::faulty::Faults;
use granary_fs::Result;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answer to one call: a `Result` of what the call gives.
struct Answer {
    name: &'static str,
    result: Box<dyn Any + Send + Sync>,
}

/// The answers of a whole run.
#[derive(Default)]
pub(crate) struct Answers(BTreeMap<CallId, Answer>);

/// A call that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) call: CallId,
    pub(crate) name: &'static str,
    /// Commands that the devices had when it began.
    pub(crate) commands: u64,
}

impl Begun {
    /// It changes nothing.
    pub(crate) fn looks(&self) -> bool {
        const LOOKS: &[&str] = &[
            "stat",
            "lstat",
            "fstat",
            "access",
            "getxattr",
            "listxattr",
            "readlink",
            "readdir",
            "statfs",
            "pread",
        ];
        LOOKS.contains(&self.name)
    }
}

#[derive(Default)]
struct State {
    clients: u32,
    /// The answers for the load, and the calls that are made. `None`: all are made, and this is the first
    /// run.
    played: Option<(Arc<Answers>, Calls)>,
    answers: Answers,
    begun: Vec<Begun>,
    faults: Option<Arc<Faults>>,
}

/// Of one run; all its clients share it.
#[derive(Clone, Default)]
pub(crate) struct Tape(Arc<Mutex<State>>);

impl Tape {
    /// For a run whose answers `answers` has, in which `kept` alone are made.
    pub(crate) fn playing(answers: &Arc<Answers>, kept: Calls) -> Tape {
        let played = Some((Arc::clone(answers), kept));
        Tape(Arc::new(Mutex::new(State { played, ..State::default() })))
    }

    /// Commands are counted here.
    pub(crate) fn counts(&self, faults: &Arc<Faults>) {
        self.0.lock().faults = Some(Arc::clone(faults));
    }

    /// The calls that were made so far, in the order of their beginnings.
    pub(crate) fn begun(&self) -> Vec<Begun> {
        self.0.lock().begun.clone()
    }

    /// Named calls of clients that the run does not have. Which calls a client makes may depend on the clock,
    /// and on answers that are other ones where a fault has been mended.
    pub(crate) fn not_begun(&self) -> Option<String> {
        let state = self.0.lock();
        let (_, kept) = state.played.as_ref()?;
        let absent = kept.named().filter(|call| !(1..=state.clients).contains(&call.client));
        let absent: Vec<CallId> = absent.collect();
        (!absent.is_empty()).then(|| format!("the run has no call '{}'", Calls::from_iter(absent)))
    }

    /// Everything recorded; nothing is left.
    pub(crate) fn take(&self) -> Answers {
        std::mem::take(&mut self.0.lock().answers)
    }

    /// A new client's number.
    pub(super) fn client(&self) -> u32 {
        let mut state = self.0.lock();
        state.clients += 1;
        state.clients
    }

    /// The answer that the load gets to a call: `None` where only the call itself can say.
    pub(super) fn answer<T: Clone + 'static>(&self, call: CallId, name: &str) -> Option<Result<T>> {
        let state = self.0.lock();
        let answer = state.played.as_ref()?.0.0.get(&call).filter(|answer| answer.name == name)?;
        answer.result.downcast_ref().cloned()
    }

    /// Whether a call is made that has an answer already.
    pub(super) fn keeps(&self, call: CallId) -> bool {
        self.0.lock().played.as_ref().is_none_or(|(_, kept)| kept.contains(call))
    }

    pub(super) fn begins(&self, call: CallId, name: &'static str) {
        let mut state = self.0.lock();
        let commands = state.faults.as_ref().map_or(0, |faults| faults.commands());
        state.faults.iter().for_each(|faults| faults.call_begins(call));
        state.begun.push(Begun { call, name, commands });
    }

    pub(super) fn ends<T: Clone + Send + Sync + 'static>(
        &self,
        call: CallId,
        name: &'static str,
        result: &Result<T>,
    ) {
        let mut state = self.0.lock();
        if state.played.is_none() {
            state.answers.0.insert(call, Answer { name, result: Box::new(result.clone()) });
        }
    }
}
