//! Failures, told: how it came to them, and the calls that alone lead to them.

use super::{CrashArgs, explorer};
use crate::cmd::interrupt::Stop;
use granary_crash::{Deadline, Failure, Load, Minimal, Target};
use std::sync::Arc;
use std::time::Duration;

/// Failures that are told.
const TOLD: usize = 3;
/// Time for minimising each.
const MINIMISING: Duration = Duration::from_secs(20);

/// A failure that was done once more.
pub(super) struct Told<'a> {
    pub(super) failure: &'a Failure,
    story: Vec<String>,
    /// The fewest calls, or why they are not known; `None`: nobody looked.
    pub(super) minimal: Option<Result<Minimal, String>>,
}

impl<'a> Told<'a> {
    /// Does the failure once more and looks for the fewest calls that lead to it.
    pub(super) fn of(
        args: &CrashArgs,
        explorer: &mut granary_crash::Explorer,
        failure: &'a Failure,
        stop: &Stop,
    ) -> Told<'a> {
        // A story is read, not parsed.
        let story = if args.json { Vec::new() } else { explorer.tell(failure) };
        let wanted = !args.no_minimise && failure.only.is_none() && (args.json || !story.is_empty());
        let until = Deadline::within(MINIMISING).or_asked(&stop.flag());
        let minimal = wanted.then(|| explorer.minimise(failure, &|| until.is_over()));
        Told { failure, story, minimal }
    }

    /// The story and the calls, in lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = self.story.clone();
        match &self.minimal {
            None => {}
            Some(Err(why)) => lines.push(format!("not minimised: {why}")),
            Some(Ok(Minimal { failure, calls, of })) => {
                let needed = failure.only.as_ref().map_or(0, |calls| calls.len());
                lines.push(format!("needed calls ({needed} of {of}):"));
                lines.extend(calls.iter().map(|call| format!("    {call}")));
                lines
                    .extend(failure.evidence.first().map(|what| format!("    -- {}: {what}", failure.stage)));
                lines
                    .extend(failure.replay_command().map(|command| format!("with these alone: `{command}`")));
            }
        }
        lines
    }
}

/// The first failures, told; none any more once somebody asks to stop.
pub(super) fn told<'a>(
    args: &CrashArgs,
    stop: &Stop,
    targets: &[Arc<dyn Target>],
    loads: &[Arc<dyn Load>],
    failures: impl Iterator<Item = &'a Failure>,
) -> Vec<Told<'a>> {
    let told = |failure: &'a Failure| {
        let target = targets.iter().find(|target| target.name() == &*failure.fs)?;
        let load = loads.iter().find(|load| load.name() == &*failure.load)?;
        let explorer = explorer(args, target, load).ok()?;
        Some(Told::of(args, &mut explorer.write_errors(failure.errors), failure, stop))
    };
    failures.take(TOLD).take_while(|_| !stop.is_asked()).filter_map(told).collect()
}

/// Prints stories.
pub(super) fn print(told: &[Told]) {
    for told in told {
        let lines = told.lines();
        if let Some(line) = told.failure.replay_line().filter(|_| !lines.is_empty()) {
            outln!("\nhow it came to {}:", line.replace('\t', " "));
            lines.iter().for_each(|line| outln!("  {line}"));
        }
    }
}

/// The needed calls of a failure, for programs to read.
pub(super) fn json(told: &[Told], failure: &Failure) -> serde_json::Value {
    let told = told.iter().find(|told| told.failure == failure);
    let minimal = told.and_then(|told| told.minimal.as_ref()?.as_ref().ok());
    minimal.map_or(serde_json::Value::Null, |Minimal { failure, calls, of }| {
        serde_json::json!({ "calls": calls, "of": of, "evidence": failure.evidence, "replay": failure.replay_line() })
    })
}
