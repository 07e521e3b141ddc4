//! [`campaign`]: many inputs of one kind, each under a number that replays it.

use crate::kinds::Kind;
use crate::mutate::mutated;
use crate::watch::Watch;
use granary_crash::panic_text;
use granary_sim::rng::Stream;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An input that did what none may.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its number.
    pub number: u64,
    /// The input.
    pub bytes: Vec<u8>,
    /// The panic's text.
    pub what: String,
}

/// The input of this number.
pub fn input(kind: Kind, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut random = Stream::new(number, "fuzz");
    // The seeds themselves come first.
    match seeds.get(number as usize) {
        Some(seed) => seed.clone(),
        None if seeds.is_empty() => (0..16 + random.below(240)).map(|_| random.below(256) as u8).collect(),
        None => mutated(seeds, kind.is_text(), &mut random),
    }
}

/// The panic of one input, if it is one.
pub fn one(kind: Kind, bytes: &[u8]) -> Option<String> {
    catch_unwind(AssertUnwindSafe(|| kind.run(bytes))).err().map(|panic| panic_text(&*panic))
}

/// Runs inputs of these numbers; an input that does not end, or takes all memory, ends the process and says
/// its number.
pub fn campaign(kind: Kind, numbers: Range<u64>) -> Vec<Finding> {
    let (seeds, watch) = (kind.seeds(), Watch::new());
    let mut found = Vec::new();
    for number in numbers {
        watch.begin(replay(kind, number));
        let bytes = input(kind, &seeds, number);
        let what = one(kind, &bytes);
        watch.end();
        found.extend(what.map(|what| Finding { number, bytes, what }));
    }
    found
}

/// The command that runs one input again.
pub fn replay(kind: Kind, number: u64) -> String {
    format!("cargo xtask fuzz --kind {} --from {number} --runs 1", kind.name())
}
