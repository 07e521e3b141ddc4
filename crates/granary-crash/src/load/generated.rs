//! [`Sequences`]: every short program over a few names, numbered; [`Sequence`]: one of them, as a load.
//!
//! ```text
//!   creat(/A/foo) fsync   rename(/A/foo,/B/bar)   link(/B/bar,/foo) sync
//!   '------ step ------'  '------- step -------'  '------ last ------'
//!      core   flush            core, unflushed       the last is always flushed
//! ```
//!
//! The space is bounded in the manner of ACE (Mohan et al., OSDI '18): most crash bugs of Linux file systems
//! showed after three calls or fewer on a new file system, each followed by a flush or not. The needs of a
//! call are provided first: a file that it changes is made, a name that it makes is freed.
//!
//! Invariants: program n is the same for ever, as long as the names and the calls are. No more than the list
//! of steps is in memory. Every name is one of [`Names::ALL`]. It does *not* leave out programs that are
//! equal but for the names.

mod core;
mod run;

pub use self::core::Names;

use self::core::{Core, Flush};
use super::{Clients, Load};
use crate::recorded::Recorded;
use granary_sim::rng::Stream;
use granary_vfs::Posix;
use std::collections::BTreeSet;

/// One call of a program, and what is made durable behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    core: Core,
    flush: Option<Flush>,
}

/// All programs of some calls over some names.
#[derive(Clone, Debug)]
pub struct Sequences {
    depth: u32,
    /// Calls that may stand before the last.
    inner: Vec<Step>,
    /// Calls that may be the last.
    last: Vec<Step>,
}

impl Sequences {
    /// All programs of `depth` calls (at least one) over `names`.
    ///
    /// # Panics
    /// Where `depth` is 0, or there are more than 2^64 of them.
    pub fn new(depth: u32, names: Names) -> Sequences {
        assert!(depth > 0, "a program has a call");
        let cores = Core::all(names);
        let flushed = |core: Core| core.flushes().into_iter().map(move |f| Step { core, flush: Some(f) });
        let last: Vec<Step> = cores.iter().flat_map(|&core| flushed(core)).collect();
        let inner =
            cores.iter().map(|&core| Step { core, flush: None }).chain(last.iter().copied()).collect();
        let all = Sequences { depth, inner, last };
        assert!(all.size().is_some(), "{depth} calls make too many programs to number");
        all
    }

    fn size(&self) -> Option<u64> {
        (self.inner.len() as u64).checked_pow(self.depth - 1)?.checked_mul(self.last.len() as u64)
    }

    /// How many programs there are.
    pub fn count(&self) -> u64 {
        self.size().expect("checked in `new`")
    }

    /// The program with this number, from 0 to [`Sequences::count`] - 1. Neighbours differ in their first
    /// call.
    ///
    /// # Panics
    /// Beyond the last.
    pub fn nth(&self, index: u64) -> Sequence {
        assert!(index < self.count(), "program {index} of {}", self.count());
        let radix = self.inner.len() as u64;
        let mut rest = index;
        let mut steps = Vec::with_capacity(self.depth as usize);
        for _ in 1..self.depth {
            steps.push(self.inner[(rest % radix) as usize]);
            rest /= radix;
        }
        steps.push(self.last[rest as usize]);
        Sequence::of(steps)
    }

    /// `n` programs of `depth` calls over all names, drawn by `seed`; one may come twice.
    pub fn sample(depth: u32, n: usize, seed: u64) -> Vec<Sequence> {
        let all = Sequences::new(depth, Names::ALL);
        let mut random = Stream::new(seed, "sequences");
        (0..n).map(|_| all.nth(random.below(all.count()))).collect()
    }
}

/// A short program over a few names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    steps: Vec<Step>,
    /// The program, as [`Sequence::parse`] reads it.
    name: String,
}

impl Sequence {
    fn of(steps: Vec<Step>) -> Sequence {
        let words = steps.iter().map(|step| match step.flush {
            Some(flush) => format!("{} {}", step.core, flush.word()),
            None => step.core.to_string(),
        });
        let name = words.collect::<Vec<_>>().join(" ");
        Sequence { steps, name }
    }

    /// The program of a text like `creat(/A/foo) fsync rename(/A/foo,/B/bar) sync`.
    ///
    /// # Errors
    /// The first word that is neither a call over the names nor a flush that fits the call before it.
    pub fn parse(text: &str) -> Result<Sequence, String> {
        let cores = Core::all(Names::ALL);
        let mut steps: Vec<Step> = Vec::new();
        for word in text.split_whitespace() {
            if word.contains('(') {
                let core = cores.iter().find(|core| core.to_string() == word);
                let core = *core.ok_or_else(|| {
                    let calls: BTreeSet<String> = cores.iter().map(Core::to_string).collect();
                    let name = word.split('(').next().unwrap_or_default();
                    let like: Vec<&str> =
                        calls.iter().map(String::as_str).filter(|c| c.starts_with(name)).collect();
                    match like.is_empty() {
                        true => {
                            format!("{word:?} is no call of generated programs (docs/CRASH.md, \"Programs\")")
                        }
                        false => {
                            format!("{word:?} is no call of generated programs: there are {}", like.join(" "))
                        }
                    }
                })?;
                steps.push(Step { core, flush: None });
                continue;
            }
            let step = steps.last_mut().filter(|step| step.flush.is_none());
            let step = step.ok_or_else(|| format!("{word:?} follows no call"))?;
            let flush = step.core.flushes().into_iter().find(|flush| flush.word() == word);
            let told = || {
                let fit: Vec<_> = step.core.flushes().into_iter().map(|flush| flush.word()).collect();
                format!("{word:?} does not fit {}: behind it goes {}", step.core, fit.join(", "))
            };
            step.flush = Some(flush.ok_or_else(told)?);
        }
        if steps.is_empty() {
            return Err("a program has a call".into());
        }
        Ok(Sequence::of(steps))
    }
}

impl Sequence {
    /// Makes the program's calls; on a `new` file system the state that programs begin from is made first.
    ///
    /// # Errors
    /// An error that the program did not provoke, in one sentence.
    pub fn calls<P: Posix>(&self, posix: &mut Recorded<P>, new: bool) -> Result<(), String> {
        let mut runner = run::Runner { posix };
        if new {
            runner.prepare()?;
        }
        self.steps.iter().try_for_each(|step| runner.step(step).map_err(|e| format!("{}: {e}", self.name)))
    }
}

impl Load for Sequence {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, clients: &Clients, round: u32, _random: &mut Stream) -> Result<(), String> {
        let mut posix = clients.client();
        self.calls(&mut posix, round == 0)?;
        posix.into_inner().exit();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TINY: Names = Names { files: &["/foo", "/A/bar"], dirs: &["/A"] };

    #[test]
    fn the_count_is_that_of_the_enumeration_and_no_program_comes_twice() {
        for depth in 1..=2 {
            let all = Sequences::new(depth, TINY);
            let texts: BTreeSet<String> = (0..all.count()).map(|i| all.nth(i).name).collect();
            assert_eq!(texts.len() as u64, all.count(), "depth {depth}");
        }
        let all = Sequences::new(1, Names::ALL);
        let texts: BTreeSet<String> = (0..all.count()).map(|i| all.nth(i).name).collect();
        assert_eq!(texts.len() as u64, all.count());
    }

    #[test]
    fn every_program_is_read_back_from_its_name() {
        let one = Sequences::new(1, Names::ALL);
        let all = (0..one.count()).map(|i| one.nth(i)).chain(Sequences::sample(3, 300, 1));
        for program in all {
            assert_eq!(Sequence::parse(program.name()).as_ref(), Ok(&program));
        }
        for (wrong, why) in [
            ("", "has a call"),
            ("sync", "follows no call"),
            ("creat(/foo) sync sync", "follows no call"),
            ("creat(/etc/passwd) sync", "is no call"),
            ("unlink(/foo) fsync", "does not fit"),
        ] {
            let told = Sequence::parse(wrong).expect_err(wrong);
            assert!(told.contains(why), "{wrong:?}: {told}");
        }
    }

    #[test]
    fn the_last_call_of_every_program_is_flushed_and_a_sample_is_its_seeds() {
        let sample = Sequences::sample(3, 200, 7);
        assert!(sample.iter().all(|s| s.steps.len() == 3 && s.steps[2].flush.is_some()));
        assert!(sample.iter().any(|s| s.steps[0].flush.is_none()));
        assert_eq!(sample, Sequences::sample(3, 200, 7));
        assert_ne!(sample, Sequences::sample(3, 200, 8));
    }

    #[test]
    fn every_path_is_one_of_the_names() {
        for core in Core::all(Names::ALL) {
            let text = core.to_string();
            let inside = text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).expect("a call");
            for path in inside.split(',').filter(|arg| arg.starts_with('/')) {
                assert!(Names::ALL.files.contains(&path) || Names::ALL.dirs.contains(&path), "{text}");
            }
        }
    }
}
