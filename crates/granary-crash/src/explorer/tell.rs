//! A failure, told as a story: what clients did, where the power failed, and what was done to the file that
//! is wrong.

use super::place::{At, Phase, Place};
use super::run::Cut;
use super::{Explorer, Failure};
use crate::oracle::{Promises, Story};
use std::fmt::Display;

/// Calls on the files that are wrong which are told.
const OF_FILES: usize = 12;
/// Calls before the power failed which are told.
const BEFORE: usize = 8;

/// A failure that was done once more.
pub(super) struct Tale {
    /// The calls until the power failed last.
    pub(super) until: Story,
    /// Those behind that, too.
    whole: Story,
    pub(super) again: Failure,
}

impl Explorer {
    /// Does a failure once more with a story; `None` where it has no place in a run or does not come again.
    pub(super) fn tale(&mut self, failure: &Failure) -> Option<Tale> {
        self.tells = true;
        let first = failure.path.0.first().copied();
        if let Some(place) = first.filter(|place| place.phase == Phase::Erring) {
            let told = self.erring_again(failure.seed, place);
            self.tells = false;
            let mut until = told.story?;
            until.cut(told.end.to_string());
            return Some(Tale { whole: until.clone(), until, again: told.ended.err()? });
        }
        if first.is_some_and(|place| place.phase == Phase::Damaged) {
            let (story, again) = self.damaged_again(failure.seed, &failure.path);
            self.tells = false;
            let until = story?;
            return Some(Tale { whole: until.clone(), until, again: again.err()? });
        }
        let mut last: Option<(Story, Promises)> = None;
        let mut places = failure.path.0.iter();
        let again = self.replay_with(failure.seed, &failure.path, &mut |&Cut { image, promises, .. }| {
            let Some(place) = places.next() else { return };
            let command = image.given.map(|given| given.to_string());
            let how = format!("the power fails {}", when(place, command.as_deref()));
            promises.with(|m| m.story.iter_mut().for_each(|story| story.cut(how.clone())));
            last = promises.story().map(|story| (story, promises.clone()));
        });
        self.tells = false;
        let (until, promises) = last?;
        Some(Tale { until, whole: promises.story()?, again: again.err()? })
    }

    /// Does a failure once more and tells what led to it; nothing, where the failure has no place in a run or
    /// does not come again.
    pub fn tell(&mut self, failure: &Failure) -> Vec<String> {
        let Some(Tale { until, whole, again }) = self.tale(failure) else { return Vec::new() };
        let mut out = Vec::new();
        let mut part = |title: String, calls: &mut dyn Iterator<Item = String>| {
            let calls: Vec<String> = calls.map(|call| format!("    {call}")).collect();
            if !calls.is_empty() {
                out.push(title);
                out.extend(calls);
            }
        };
        let files = files(&again);
        let calls = if files.is_empty() { Vec::new() } else { whole.of(&files, OF_FILES) };
        part(format!("calls on {}:", files.join(", ")), &mut calls.into_iter().map(show));
        part("the last calls:".to_owned(), &mut until.last(BEFORE + 1).iter().map(show));
        out
    }
}

fn show(call: &impl Display) -> String {
    call.to_string()
}

/// The files that the evidence begins with.
fn files(failure: &Failure) -> Vec<String> {
    let named = failure.evidence.iter().filter_map(|what| Some(what.split_once(": ")?.0));
    let mut files: Vec<String> = named.filter(|name| name.starts_with('/')).map(str::to_owned).collect();
    files.dedup();
    files.truncate(3);
    files
}

fn when(place: &Place, command: Option<&str>) -> String {
    let phase = match place.phase {
        Phase::Recovery => "in the recovery",
        Phase::Load => "in the load",
        Phase::Remount => "in the mount behind a clean unmount",
        Phase::Making => "in mkfs",
        Phase::Damaged | Phase::Repair => "in a repair",
        Phase::Erring => "behind errors of metadata",
    };
    let command = command.unwrap_or("a command");
    match place.at {
        At::Before(n) => format!("{phase}, before command {n}: {command}"),
        At::After(n) => format!("{phase}, after command {n}, not answered yet: {command}"),
        At::Instant(after) => format!("{phase}, {after} after it began; the last command was {command}"),
    }
}
