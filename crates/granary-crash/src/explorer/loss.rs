//! [`Loss`]: what the last power failure of a path takes, thing by thing, as text:
//! `lost=ssd.cached.12,nvm.line.40=1` names what is lost, and all else is kept; `kept=...` the other way
//! round. A number behind a thing is the part of it that is kept, in hexadecimal.
//!
//! [`Explorer::fewest_lost`] looks for the shortest such text with which the failure is still of the same
//! kind.
//!
//! ```text
//!   drawn state   lost: a b c d   kept: e f g
//!                 lost=a,c        delta debugging over what is lost            the shorter of both is told
//!                 kept=f          delta debugging over what is kept
//! ```
//!
//! Each try cuts the power of a copy of the same devices, so it costs one recovery. Earlier power failures of
//! a path stay as they are.

use super::film::{Image, Places, Wanted};
use super::kind::same;
use super::minimise::Short;
use super::place::Phase;
use super::run::Cut;
use super::{Explorer, Failure, Report};
use crate::faulty::DevicePage;
use granary_device::{Role, Structure};
use granary_sim::rng::{Fate, Forced, Thing};
use granary_units::LINES_PER_PAGE;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss(pub(super) Forced);

/// The text of no thing.
const NONE: &str = "none";
const LOST: &str = "lost=";
const KEPT: &str = "kept=";

impl Loss {
    /// Whether a text is one by its beginning.
    pub fn begins(text: &str) -> bool {
        text.starts_with(LOST) || text.starts_with(KEPT)
    }

    /// Just what a power failure took.
    pub(super) fn exactly(fates: &[Fate]) -> Loss {
        let by_name = fates.iter().map(|fate| (fate.name.clone(), Some(fate.value))).collect();
        Loss(Forced { others_kept: true, by_name })
    }

    /// Its things that the power failure did not meet.
    pub(super) fn not_met(&self, fates: &[Fate]) -> Option<String> {
        let is_met = |name: &&String| fates.iter().any(|fate| fate.name == **name);
        let absent: Vec<&str> = self.0.by_name.keys().filter(|name| !is_met(name)).map(|s| &**s).collect();
        (!absent.is_empty()).then(|| format!("the power failure cannot take '{}'", absent.join(",")))
    }

    /// These alone are lost (`others_kept`), or these alone are kept.
    fn of(others_kept: bool, fates: &[&Fate]) -> Loss {
        // A fate that is the opposite of the others' needs no number.
        let value = |fate: &Fate| {
            let opposite = if others_kept { 0 } else { fate.whole };
            (fate.value != opposite).then_some(fate.value)
        };
        let by_name = fates.iter().map(|fate| (fate.name.clone(), value(fate))).collect();
        Loss(Forced { others_kept, by_name })
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Forced { others_kept, by_name } = &self.0;
        f.write_str(if *others_kept { LOST } else { KEPT })?;
        if by_name.is_empty() {
            return f.write_str(NONE);
        }
        for (n, (name, value)) in by_name.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            write!(f, "{comma}{name}")?;
            value.map_or(Ok(()), |value| write!(f, "={value:x}"))?;
        }
        Ok(())
    }
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Loss, String> {
        let wrong = || {
            format!(
                "'{text}' does not say what is lost: write lost= or kept= and things, for example lost=ssd.cached.12,nvm.line.40=1"
            )
        };
        let (others_kept, things) = match (text.strip_prefix(LOST), text.strip_prefix(KEPT)) {
            (Some(things), _) => (true, things),
            (None, Some(things)) => (false, things),
            (None, None) => return Err(wrong()),
        };
        let thing = |text: &str| {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(u64::from_str_radix(value, 16).ok()?)),
                None => (text, None),
            };
            // A device and a kind at least.
            let sound = name.split_once('.').is_some_and(|(device, _)| Role::find(device).is_some());
            sound.then(|| (name.to_owned(), value))
        };
        let by_name = match things {
            NONE => BTreeMap::new(),
            things => things.split(',').map(thing).collect::<Option<_>>().ok_or_else(wrong)?,
        };
        Ok(Loss(Forced { others_kept, by_name }))
    }
}

/// A failure of the same kind in which the devices lose, or keep, as little as possible.
#[derive(Clone, Debug)]
pub struct Lost {
    /// The failure; it names what is lost.
    pub failure: Failure,
    /// The list is of what is kept.
    pub kept: bool,
    /// The things of the list, in words.
    pub things: Vec<String>,
    /// Things that the power failure could take.
    pub of: usize,
    units: &'static str,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost { kept, things, of, units, .. } = self;
        let count = things.len();
        match (kept, count) {
            (false, 0) => write!(f, "lost: none of {of} {units}"),
            (false, _) => write!(f, "lost: {count} of {of} {units}"),
            (true, _) => write!(f, "lost: all but {count} of {of} {units}; kept"),
        }
    }
}

/// A thing in words, with what its page holds.
fn words(fate: &Fate, holds: &BTreeMap<DevicePage, Structure>, kept: bool) -> String {
    let Fate { device, thing, value, whole, .. } = fate;
    let (what, page) = match thing {
        Thing::Page(kind, page) => (format!("{device} page {page}, {kind}"), Some(*page)),
        Thing::Line(kind, line) => {
            let page = line / LINES_PER_PAGE as u64;
            (format!("{device} line {line} (page {page}), {kind}"), Some(page))
        }
        Thing::Other(kind) => (format!("{device}: {kind}"), None),
    };
    let role = Role::find(device);
    let structure = role.zip(page).and_then(|at| holds.get(&at));
    let structure = structure.map_or(String::new(), |structure| format!(": {}", structure.name()));
    let part = if *value == if kept { *whole } else { 0 } { "" } else { ", in part" };
    format!("{what}{part}{structure}")
}

/// The fewest of `items` with which `fails` says yes, as far as leaving out parts finds them; with all of
/// them it does.
pub(super) fn fewest<T: Copy>(items: &[T], fails: &mut dyn FnMut(&[T]) -> bool) -> Vec<T> {
    let mut best = items.to_vec();
    if !best.is_empty() && fails(&[]) {
        return Vec::new();
    }
    let mut part = best.len().div_ceil(2);
    while part > 0 && best.len() > 1 {
        let (mut from, mut fewer) = (0, false);
        while from < best.len() {
            let end = (from + part).min(best.len());
            let without: Vec<T> = best[..from].iter().chain(&best[end..]).copied().collect();
            if !without.is_empty() && fails(&without) {
                (best, fewer) = (without, true);
            } else {
                from = end;
            }
        }
        part = match part {
            1 if fewer => 1,
            1 => 0,
            part => part.div_ceil(2).min(best.len().div_ceil(2)),
        };
    }
    best
}

/// A power failure that is tried again and again.
struct Trial<'a> {
    explorer: &'a Explorer,
    failure: &'a Failure,
    images: Vec<Image>,
    over: &'a dyn Fn() -> bool,
}

impl Trial<'_> {
    fn fails(&self, loss: &Loss) -> Option<Failure> {
        let Failure { seed, path, .. } = self.failure;
        let loss = Arc::new(loss.clone());
        let failed = self.explorer.cut_again(*seed, path, &self.images, Some(&loss), &mut |_| ()).err()?;
        let failed = Failure { loss: Some(loss), only: self.failure.only.clone(), ..failed };
        same(self.failure, &failed).then_some(failed)
    }

    /// The shortest list of these that leads to the failure; `None`: not even all of them do.
    fn shortest<'f>(&self, others_kept: bool, fates: &[&'f Fate]) -> Option<(Vec<&'f Fate>, Failure)> {
        let mut best = self.fails(&Loss::of(others_kept, fates))?;
        let mut fails = |fates: &[&Fate]| {
            let failed = if (self.over)() { None } else { self.fails(&Loss::of(others_kept, fates)) };
            failed.map(|failed| best = failed).is_some()
        };
        let list = fewest(fates, &mut fails);
        Some((list, best))
    }
}

impl Explorer {
    /// From now on the last power failure of what is replayed or told takes this.
    pub fn losing(mut self, loss: &Loss) -> Explorer {
        self.loss = Some(Arc::new(loss.clone()));
        self
    }

    /// Looks for the fewest things that the last power failure must take, or leave, for a failure of the same
    /// kind. `None`: there is nothing that it may take, or the failure does not come again.
    pub fn fewest_lost(&mut self, failure: &Failure, over: &dyn Fn() -> bool) -> Option<Lost> {
        let before = self.short.take();
        if let Some(calls) = &failure.only {
            self.short = Some(Short::new(self, failure.seed, calls));
        }
        let lost = self.lost(failure, over);
        self.short = before;
        lost
    }

    fn lost(&mut self, failure: &Failure, over: &dyn Fn() -> bool) -> Option<Lost> {
        let (mut fates, mut holds) = (Vec::new(), BTreeMap::new());
        self.tells = true;
        let again = self.replay_with(failure.seed, &failure.path, &mut |cut: &Cut<'_>| {
            (fates, holds) = (cut.fates.to_vec(), cut.image.written.clone());
        });
        self.tells = false;
        let images = self.images_of(failure);
        if fates.is_empty() || !again.is_err_and(|again| same(failure, &again)) {
            return None;
        }
        let trial = Trial { explorer: self, failure, images, over };
        let of_lost: Vec<&Fate> = fates.iter().filter(|fate| fate.value < fate.whole).collect();
        let of_kept: Vec<&Fate> = fates.iter().filter(|fate| fate.value > 0).collect();
        let (list, best) = trial.shortest(true, &of_lost)?;
        let shorter = (list.len() > 1).then(|| trial.shortest(false, &of_kept)).flatten();
        let shorter = shorter.filter(|(kept, _)| kept.len() < list.len());
        let kept = shorter.is_some();
        let (list, best) = shorter.unwrap_or((list, best));
        let things = list.iter().map(|fate| words(fate, &holds, kept)).collect();
        let units = match () {
            () if fates.iter().all(|fate| matches!(fate.thing, Thing::Page(..))) => "pages",
            () if fates.iter().all(|fate| matches!(fate.thing, Thing::Line(..))) => "lines",
            () => "pages and lines",
        };
        Some(Lost { failure: best, kept, things, of: fates.len(), units })
    }

    /// The images at the first place of a failure.
    fn images_of(&self, failure: &Failure) -> Vec<Image> {
        let Some(place) = failure.path.0.first() else { return Vec::new() };
        let wanted = Wanted::one(place.at);
        match place.phase {
            Phase::Making => self.images_of_making(failure.seed, wanted).0,
            Phase::Damaged => Vec::new(),
            phase => {
                let tape = self.short.as_ref().map(Short::tape);
                let wanted = Places::from([(phase, wanted)]);
                self.trunk(failure.seed, wanted, 0, tape.as_ref(), &mut Report::default()).1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_read_back_from_its_text() {
        for text in [
            "lost=none",
            "kept=none",
            "lost=ssd.cached.12",
            "kept=nvm.line.40.2,nvm.line.41=ff01,ssd.commits=1",
        ] {
            assert_eq!(text.parse::<Loss>().expect("a loss").to_string(), text);
        }
        for wrong in
            ["", "lost", "lost=", "lost=a", "lost=hdd.cached.1", "lost=ssd.cached.1=g", "kept=ssd.cached.1,"]
        {
            assert!(wrong.parse::<Loss>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_fewest_items_are_found_wherever_they_are() {
        let items: Vec<u32> = (0..40).collect();
        for needed in [&[][..], &[0], &[39], &[3, 4], &[0, 17, 39]] {
            let mut fails = |some: &[u32]| needed.iter().all(|n| some.contains(n));
            assert_eq!(fewest(&items, &mut fails), needed);
        }
    }
}
