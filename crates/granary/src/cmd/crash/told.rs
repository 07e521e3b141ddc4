//! Failures, told: how it came to them, and the calls that alone lead to them.

use super::{CrashArgs, explorer};
use crate::cmd::interrupt::Stop;
use granary_crash::{Deadline, Failure, Load, Lost, Minimal, Target};
use std::sync::Arc;
use std::time::Duration;

/// Failures that are told.
const TOLD: usize = 3;
/// Time for minimising the calls of each.
const MINIMISING: Duration = Duration::from_secs(20);
/// Time for what the devices lose, behind that.
const LOSING: Duration = Duration::from_secs(5);

/// A failure that was done once more.
pub(super) struct Told<'a> {
    pub(super) failure: &'a Failure,
    story: Vec<String>,
    /// The fewest calls, or why they are not known; `None`: nobody looked.
    minimal: Option<Result<Minimal, String>>,
    /// The fewest things that the devices lose with these calls; `None`: nobody looked, or nothing can be
    /// lost.
    lost: Option<Lost>,
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
        let wanted = !args.no_minimise && (args.json || !story.is_empty());
        let within = |time| Deadline::within(time).or_asked(&stop.flag());
        let until = within(MINIMISING);
        let minimal =
            (wanted && failure.only.is_none()).then(|| explorer.minimise(failure, &|| until.is_over()));
        let fewest = minimal.as_ref().and_then(|minimal| Some(&minimal.as_ref().ok()?.failure));
        let until = within(LOSING);
        let lost = (wanted && failure.loss.is_none() && !stop.is_asked())
            .then(|| explorer.fewest_lost(fewest.unwrap_or(failure), &|| until.is_over()))
            .flatten();
        Told { failure, story, minimal, lost }
    }

    /// The failure with the fewest calls and the fewest lost things that are known.
    fn fewest(&self) -> &Failure {
        let minimal = self.minimal.as_ref().and_then(|minimal| Some(&minimal.as_ref().ok()?.failure));
        self.lost.as_ref().map(|lost| &lost.failure).or(minimal).unwrap_or(self.failure)
    }

    /// The story and the calls, in lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = self.story.clone();
        match &self.minimal {
            None => {}
            Some(Err(why)) => lines.push(format!("not minimised: {why}")),
            Some(Ok(Minimal { failure, calls, of })) => {
                lines.push(match &failure.only {
                    Some(needed) => format!("needed calls ({} of {of}):", needed.len()),
                    None => "no call is needed:".to_owned(),
                });
                lines.extend(calls.iter().map(|call| format!("    {call}")));
                lines
                    .extend(failure.evidence.first().map(|what| format!("    -- {}: {what}", failure.stage)));
            }
        }
        if let Some(lost) = &self.lost {
            lines.push(format!("{lost}{}", if lost.things.is_empty() { "" } else { ":" }));
            lines.extend(lost.things.iter().map(|thing| format!("    {thing}")));
        }
        let fewest = self.fewest();
        if fewest != self.failure {
            lines.extend(fewest.replay_command().map(|command| format!("with these alone: `{command}`")));
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

fn found<'t>(told: &'t [Told], failure: &Failure) -> Option<&'t Told<'t>> {
    told.iter().find(|told| told.failure == failure)
}

/// The needed calls of a failure, for programs to read.
pub(super) fn needed(told: &[Told], failure: &Failure) -> serde_json::Value {
    let minimal = found(told, failure).and_then(|told| told.minimal.as_ref()?.as_ref().ok());
    minimal.map_or(serde_json::Value::Null, |Minimal { failure, calls, of }| {
        serde_json::json!({ "calls": calls, "of": of, "evidence": failure.evidence, "replay": failure.replay_line() })
    })
}

/// The fewest things that the devices lose there, or keep.
pub(super) fn lost(told: &[Told], failure: &Failure) -> serde_json::Value {
    let lost = found(told, failure).and_then(|told| told.lost.as_ref());
    lost.map_or(serde_json::Value::Null, |lost| {
        let list = if lost.kept { "kept" } else { "lost" };
        serde_json::json!({
            list: lost.things, "of": lost.of, "evidence": lost.failure.evidence, "replay": lost.failure.replay_line(),
        })
    })
}
