//! `run`, `psrun`, `sleep` and `system`: what happens around the measured phase, and when it ends.
//!
//! It does *not* run a shell: only commands that mean something in virtual time are understood.

use super::args::warn;
use super::ast::{Run, Value, ValueKind};
use super::parse::shorten;
use super::source::{Result, Source, Span};
use super::vars::{Held, Scope};
use crate::spec::{FlowopSpec, Op, ProcessSpec, QuitMode, RunSpec, Step, Warning};

/// Filebench's run time where a run that ends by time gives none (1.5-alpha3, `TIMED_RUNTIME_DEFAULT` in
/// parser_gram.y).
const DEFAULT_SECONDS: u64 = 60;
/// Filebench's time between reports where `psrun` gives none.
const DEFAULT_PERIOD: u64 = 10;
/// Longest run or sleep: some 31 years, so that it fits in 64 bits of nanoseconds.
const MAX_SECONDS: u64 = 1_000_000_000;

/// Seconds as a constant.
pub(crate) fn seconds(source: &Source<'_>, scope: Scope<'_>, value: &Value<'_>) -> Result<u64> {
    match scope.eval(source, value)? {
        Held::Int(seconds) if seconds <= MAX_SECONDS => Ok(seconds),
        Held::Int(seconds) => source.error(
            value.span,
            format!("{seconds} seconds are too long"),
            format!("give at most {MAX_SECONDS}"),
        ),
        other => source.error(
            value.span,
            format!("seconds are a whole number, but this is {}", other.describe()),
            "write `run 60` or set the variable to a number",
        ),
    }
}

/// So many seconds and so many more, not longer than anything may take.
pub(crate) fn longer(source: &Source<'_>, span: Span, seconds: u64, more: u64) -> Result<u64> {
    match seconds + more {
        both if both <= MAX_SECONDS => Ok(both),
        both => source.error(
            span,
            format!("with the `sleep`s before it {both} seconds are too long"),
            format!("give at most {MAX_SECONDS}"),
        ),
    }
}

/// When a run ends by time.
pub(crate) struct End {
    pub(crate) run: RunSpec,
    /// The file gives no time, so that it is Filebench's.
    pub(crate) by_default: bool,
}

/// The end of the run by time.
pub(crate) fn spec(source: &Source<'_>, scope: Scope<'_>, run: &Run<'_>, mode: QuitMode) -> Result<End> {
    let given = match &run.seconds {
        Some(value) => Some(seconds(source, scope, value)?).filter(|&seconds| seconds > 0),
        None => None,
    };
    let (period, reset_each_period) = match &run.period {
        None => (run.reports.then_some(DEFAULT_PERIOD), false),
        Some(Value { kind: ValueKind::Neg(period), .. }) => (Some((*period).min(MAX_SECONDS)), true),
        Some(value) => (Some(seconds(source, scope, value)?), false),
    };
    let by_default = given.is_none() && mode == QuitMode::Timeout;
    let run = RunSpec {
        seconds: given.or(by_default.then_some(DEFAULT_SECONDS)),
        period: period.map(|period| if period == 0 { DEFAULT_PERIOD } else { period }),
        reset_each_period,
    };
    Ok(End { run, by_default })
}

/// Warns of a run that neither time, nor a count, nor running out of files ends, or the time alone that the
/// file does not give.
pub(crate) fn warn_if_endless(
    source: &Source<'_>,
    at: Span,
    run: RunSpec,
    by_default: bool,
    processes: &[ProcessSpec],
    warnings: &mut Vec<Warning>,
) {
    fn can_end(flowops: &[FlowopSpec]) -> bool {
        flowops.iter().any(|flowop| match &flowop.op {
            Op::FinishOnCount { .. }
            | Op::FinishOnBytes { .. }
            | Op::Create(_)
            | Op::Delete(_)
            | Op::MakeDir { .. }
            | Op::RemoveDir { .. } => true,
            Op::Composite(inner) => can_end(inner),
            _ => false,
        })
    }
    if processes.iter().any(|p| p.threads.iter().any(|t| can_end(&t.flowops))) {
        return;
    }
    match run.seconds {
        None => {
            warn(
                source,
                warnings,
                at,
                "nothing ends this run: give `run` some seconds, or add `finishoncount`",
            );
        }
        Some(seconds) if by_default => {
            let message = format!(
                "nothing ends this run but Filebench's default of {seconds} (virtual) seconds: give `run` some seconds, or add \
                 `finishoncount`"
            );
            warn(source, warnings, at, message);
        }
        Some(_) => {}
    }
}

/// The steps that a shell command stands for.
pub(crate) fn shell(source: &Source<'_>, text: &str, span: Span) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for command in text.split([';', '\n']).flat_map(|part| part.split("&&")) {
        let words: Vec<&str> = command.split_whitespace().filter(|word| *word != "sudo").collect();
        let step = match words[..] {
            [] => continue,
            ["sync"] => Step::Sync,
            ["sleep", seconds] => match seconds.parse() {
                Ok(seconds) if seconds <= MAX_SECONDS => Step::Sleep { seconds },
                _ => return refused(source, command, span),
            },
            ["echo", "1" | "2" | "3", ">", "/proc/sys/vm/drop_caches"]
            | ["echo", "1" | "2" | "3", ">/proc/sys/vm/drop_caches"] => Step::DropCaches,
            _ => return refused(source, command, span),
        };
        steps.push(step);
    }
    Ok(steps)
}

fn refused<T>(source: &Source<'_>, command: &str, span: Span) -> Result<T> {
    source.error(
        span,
        format!("`system` cannot run `{}`", shorten(command.trim())),
        "workloads run in virtual time, where there is no shell; only `sync`, `sleep N` and \
         `echo 3 > /proc/sys/vm/drop_caches` are understood",
    )
}
