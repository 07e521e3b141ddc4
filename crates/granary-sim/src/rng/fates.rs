//! [`Fates`]: the fate at a power failure of each thing that it may take, as a list: recorded, and forced
//! where a caller says so.
//!
//! ```text
//!   drive: fate(thing, whole, draw) ── draws as ever ── no list is kept: that is it
//!                                          `── a list is kept: recorded ── forced: the list's value instead
//! ```
//!
//! A fate is a number: `whole` is all of it, 0 is nothing, others are parts (a bit for each line of an entry,
//! or a byte for each word of a line). The draw is made where a fate is forced, too, so that draws behind it
//! stay what they were.

use super::Stream;
use std::collections::BTreeMap;

/// Things that a power failure may take from a device: their kind, and their number in units of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// Pages of 4 KiB, from this one on.
    Page(&'static str, u64),
    /// Lines of 64 B, from this one on.
    Line(&'static str, u64),
    /// No place on the device.
    Other(&'static str),
}

/// The fate of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// No other thing of this power failure has this name: `ssd.cached.12`, and the second of these
    /// `ssd.cached.12.2`.
    pub name: String,
    /// The device.
    pub device: &'static str,
    /// The thing.
    pub thing: Thing,
    /// The part of it that is kept.
    pub value: u64,
    /// All of it.
    pub whole: u64,
}

/// Fates by name, and the fate of things that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forced {
    /// Others are kept, else they are lost.
    pub others_kept: bool,
    /// `None`: the opposite of the others' fate.
    pub by_name: BTreeMap<String, Option<u64>>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fates {
    device: &'static str,
    times: BTreeMap<String, u32>,
    forced: Option<Forced>,
    met: Vec<Fate>,
}

impl Forced {
    fn value(&self, name: &str, whole: u64) -> u64 {
        let (others, listed) = if self.others_kept { (whole, 0) } else { (0, whole) };
        self.by_name.get(name).map_or(others, |value| value.unwrap_or(listed))
    }
}

impl Stream {
    /// The same draws; fates are written down from now on, and where `forced` is given they are what that
    /// says.
    pub fn with_fates(self, forced: Option<Forced>) -> Stream {
        Stream { fates: Some(Box::new(Fates { forced, ..Fates::default() })), ..self }
    }

    /// The fates so far, of a stream that writes them down.
    pub fn fates(&mut self) -> Vec<Fate> {
        self.fates.as_mut().map(|fates| std::mem::take(&mut fates.met)).unwrap_or_default()
    }

    /// The things of the next fates are on this device.
    pub fn fates_of(&mut self, device: &'static str) {
        if let Some(fates) = &mut self.fates {
            fates.device = device;
        }
    }

    /// The fate of a thing at a power failure: the part that it leaves, of which `whole` is all; `draw` draws
    /// it.
    pub fn fate(&mut self, thing: Thing, whole: u64, draw: impl FnOnce(&mut Stream) -> u64) -> u64 {
        let drawn = draw(self);
        let Some(fates) = self.fates.as_mut().filter(|_| whole > 0) else { return drawn };
        let mut name = match thing {
            Thing::Page(kind, n) | Thing::Line(kind, n) => format!("{}.{kind}.{n}", fates.device),
            Thing::Other(kind) => format!("{}.{kind}", fates.device),
        };
        let times = fates.times.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            name = format!("{name}.{times}");
        }
        let value = fates.forced.as_ref().map_or(drawn, |forced| forced.value(&name, whole));
        fates.met.push(Fate { name, device: fates.device, thing, value, whole });
        value
    }

    /// The same for a thing that is there or not.
    pub fn survives(&mut self, thing: Thing) -> bool {
        self.fate(thing, 1, |random| u64::from(random.chance(0.5))) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Thing = Thing::Page("cached", 7);

    #[test]
    fn a_list_of_fates_changes_no_draw_and_can_be_forced() {
        let draws = |mut random: Stream| {
            random.fates_of("ssd");
            let drawn: Vec<u64> = (0..40).map(|_| u64::from(random.survives(PAGE))).collect();
            (drawn, random.next_u64(), random.fates())
        };
        let (plain, behind, none) = draws(Stream::new(3, "fates"));
        let (same, same_behind, met) = draws(Stream::new(3, "fates").with_fates(None));
        assert!(none.is_empty());
        assert_eq!((&plain, behind), (&same, same_behind));
        assert_eq!(met.iter().map(|fate| fate.value).collect::<Vec<_>>(), plain);
        assert_eq!((&met[0].name[..], &met[1].name[..]), ("ssd.cached.7", "ssd.cached.7.2"));
        let named = |n, value| (format!("ssd.cached.7.{n}"), value);
        let by_name = BTreeMap::from([named(3, None), named(5, Some(0)), named(6, Some(1))]);
        for (others_kept, others, listed) in [(true, 1, 0), (false, 0, 1)] {
            let forced = Forced { others_kept, by_name: by_name.clone() };
            let (values, behind_forced, _) = draws(Stream::new(3, "fates").with_fates(Some(forced)));
            let expected = (1..=40).map(|n| match n {
                3 => listed,
                5 => 0,
                6 => 1,
                _ => others,
            });
            assert_eq!(values, expected.collect::<Vec<_>>());
            assert_eq!(behind_forced, behind, "draws behind it stay");
        }
    }
}
