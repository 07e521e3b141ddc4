//! The fewest failed commands of a try of errors of metadata that lead to a failure of the same kind, and
//! then the fewest calls.
//!
//! ```text
//!   drawn      1.4!1!2 1.9!7 2.3!1      commands that failed, counted from the beginning of the last call
//!                                       before each
//!   commands   1.9!7                    delta debugging; the others are answered as ever, so the load may go
//!                                       on otherwise
//!   calls      1.2,1.9!7                as of any run: the load hears what it heard with these commands
//! ```
//!
//! A command is found again by the call before it: that call stays.

use super::erring::Tried;
use super::kind::same;
use super::loss::fewest;
use super::minimise::{AGAIN, fewest_calls};
use super::probe::Hit;
use super::{Explorer, Failure, Minimal};
use crate::faulty::Nth;
use crate::recorded::{Begun, Calls, Tape};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Explorer {
    /// See the module.
    pub(super) fn minimise_errors(
        &mut self,
        failure: &Failure,
        over: &dyn Fn() -> bool,
    ) -> Result<Minimal, String> {
        let seed = failure.seed;
        let place = *failure.path.0.first().ok_or(AGAIN)?;
        let n = self.try_at(seed, place).map_err(|failure| failure.to_string())?;
        let is_same = |tried: Tried| tried.ended.err().filter(|other| same(failure, other));
        // Its numbers are those of calls.
        let whole = self.attempt(seed, n, Some(&Tape::default()), None);
        let drawn: Vec<Nth> = whole.failed.iter().map(|(nth, _)| *nth).collect();
        is_same(whole).ok_or(AGAIN)?;
        let with = |tape: &Tape, some: &[Nth]| {
            let failing: BTreeSet<Nth> = some.iter().copied().collect();
            is_same(self.attempt(seed, n, Some(tape), Some(&failing)))
        };
        let mut fails = |some: &[Nth]| !over() && with(&Tape::default(), some).is_some();
        let needed = fewest(&drawn, &mut fails);
        let tape = Tape::default();
        with(&tape, &needed).ok_or(AGAIN)?;
        let (begun, answers) = (tape.begun(), Arc::new(tape.take()));
        let short = |kept: &[Begun]| {
            let calls: Calls = kept.iter().map(|begun| begun.call).collect();
            Tape::playing(&answers, calls)
        };
        let fails = |kept: &[Begun], _: &dyn Fn() -> bool| {
            // The line names the commands by these calls. One that is kept may lack its open file, and is not
            // made.
            let has_all = |made: &[Begun]| {
                let is_made = |nth: &Nth| nth.after.is_none_or(|call| made.iter().any(|b| b.call == call));
                needed.iter().all(is_made)
            };
            let tape = short(kept);
            let failure = has_all(kept).then(|| with(&tape, &needed)).flatten()?;
            Some(Hit { failure, begun: tape.begun() }).filter(|hit| has_all(&hit.begun))
        };
        let best = fewest_calls(&begun, &fails, over)?;
        let tape = short(&best.begun);
        let failing: BTreeSet<Nth> = needed.iter().copied().collect();
        self.tells = true;
        let told = self.attempt(seed, n, Some(&tape), Some(&failing));
        self.tells = false;
        let lines = lines(&told, &best.begun);
        let found = told.ended.err().filter(|other| same(failure, other)).ok_or(AGAIN)?;
        let calls: Calls = best.begun.iter().map(|begun| begun.call).collect();
        let only = Some(Arc::new(calls.with_failing(needed)));
        Ok(Minimal { failure: Failure { only, ..found }, calls: lines, of: begun.len() })
    }
}

/// The calls in their order, behind each the commands that failed, and how it ended.
fn lines(told: &Tried, begun: &[Begun]) -> Vec<String> {
    let behind = |after| {
        let failed = told.failed.iter().filter(move |(nth, _)| nth.after == after);
        failed.map(|(_, given)| format!("-- this fails: {given}"))
    };
    let mut lines: Vec<String> = behind(None).collect();
    for begun in begun {
        lines.extend(told.story.iter().map(|story| story.words(begun)));
        lines.extend(behind(Some(begun.call)));
    }
    lines.push(format!("-- {}", told.end));
    lines
}
