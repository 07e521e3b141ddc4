//! Flowops that name other flowops: limits and counters in their own thread, posts and wake-ups anywhere.
//!
//! ```text
//!   flowop bwlimit name=b, target=r        ──► index of `r` among the thread's own flowops
//!   flowop sempost name=s, target=lock     ──► a `semblock` named `lock` must exist in some thread
//! ```
//!
//! It does *not* resolve `sempost` and `wakeup` to flowops: many threads may run the same target, and the
//! runner knows them by name.

use std::collections::{BTreeMap, BTreeSet};

use super::parse::shorten;
use super::source::{Result, Source, Span};
use crate::spec::{FlowopSpec, Op, ProcessSpec};
use granary_trace::suggest::nearest;

/// A target in the same thread.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// It limits or counts reads and writes, so the target must do some.
    pub(crate) moves_data: bool,
}

/// A target in any thread.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// The type that it must have.
    pub(crate) wanted: &'static str,
}

/// Replaces the thread's targets, which so far hold their number in `targets`, by indices of its flowops.
pub(crate) fn resolve(source: &Source<'_>, specs: &mut [FlowopSpec], targets: &[Local]) -> Result<()> {
    let mut found = Vec::with_capacity(targets.len());
    for Local { name, span, moves_data } in targets {
        let Some(at) = specs.iter().position(|s| s.name == *name) else {
            let help = match nearest(name, specs.iter().map(|s| s.name.as_str())) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "a target is the name of a flowop in the same thread".to_owned(),
            };
            let message = format!("there is no flowop named `{}` in this thread", shorten(name));
            return source.error(*span, message, help);
        };
        if *moves_data && specs[at].op.direction().is_none() {
            let message = format!("the flowop `{}` reads and writes nothing", shorten(name));
            return source.error(*span, message, "name a flowop that reads or writes");
        }
        found.push(at);
    }
    patch(specs, &found);
    Ok(())
}

/// `found[i]` replaces the target numbered `i`.
fn patch(specs: &mut [FlowopSpec], found: &[usize]) {
    for spec in specs {
        match &mut spec.op {
            Op::OpsLimit { target }
            | Op::IopsLimit { target }
            | Op::BwLimit { target }
            | Op::FinishOnCount { target, .. }
            | Op::FinishOnBytes { target, .. } => *target = target.map(|number| found[number]),
            Op::Composite(inner) => patch(inner, found),
            _ => {}
        }
    }
}

/// The types of the flowops that have a name.
type Types<'s> = BTreeMap<&'s str, BTreeSet<&'static str>>;

fn gather<'s>(flowops: &'s [FlowopSpec], into: &mut Types<'s>) {
    for flowop in flowops {
        into.entry(&flowop.name).or_default().insert(flowop.op.type_name());
        if let Op::Composite(inner) = &flowop.op {
            gather(inner, into);
        }
    }
}

/// Checks that every target exists in some thread and has the right type.
pub(crate) fn check(source: &Source<'_>, processes: &[ProcessSpec], targets: &[Remote]) -> Result<()> {
    let mut all = Types::new();
    for thread in processes.iter().flat_map(|p| &p.threads) {
        gather(&thread.flowops, &mut all);
    }
    for Remote { name, span, wanted } in targets {
        match all.get(name.as_str()) {
            Some(types) if types.contains(wanted) => {}
            Some(_) => {
                let message = format!("the flowop `{}` is no `{wanted}`", shorten(name));
                return source.error(*span, message, format!("name a flowop of type `{wanted}`"));
            }
            None => {
                let candidates =
                    all.iter().filter(|(_, types)| types.contains(wanted)).map(|(name, _)| *name);
                let help = match nearest(name, candidates) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("name a flowop of type `{wanted}`, in any thread"),
                };
                let message = format!("there is no flowop named `{}`", shorten(name));
                return source.error(*span, message, help);
            }
        }
    }
    Ok(())
}
