//! [`Calls`]: calls of a run by number, as text: `1.3,1.7-9,2.4` is the third call of client 1, its calls 7
//! to 9, and the fourth of client 2; `none` is no call at all. In a try of errors of metadata `1.7!2!5` is a
//! call, and the second and the fifth command for metadata behind its beginning fail; `!3` is the third
//! before all calls.

use crate::faulty::Nth;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A call: the number of its client, in the order of their beginnings, and its own in that client; both from
/// 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallId {
    pub(crate) client: u32,
    pub(crate) nth: u32,
}

/// Calls of a run, and commands that fail behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    calls: BTreeSet<CallId>,
    failing: BTreeSet<Nth>,
}

/// The text of no call.
const NONE: &str = "none";
/// Longer ranges are of nobody's run, and would take memory.
const LONGEST: u32 = 1 << 20;

impl Calls {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn contains(&self, call: CallId) -> bool {
        self.calls.contains(&call)
    }

    /// These calls, and those behind which commands fail.
    pub(crate) fn named(&self) -> impl Iterator<Item = CallId> + '_ {
        self.calls.iter().copied().chain(self.failing.iter().filter_map(|nth| nth.after))
    }

    /// Commands for metadata that fail.
    pub(crate) fn failing(&self) -> &BTreeSet<Nth> {
        &self.failing
    }

    /// The same calls, and these commands fail.
    pub(crate) fn with_failing(self, failing: impl IntoIterator<Item = Nth>) -> Calls {
        Calls { failing: failing.into_iter().collect(), ..self }
    }

    /// Numbers of the commands that fail behind a call, or before all.
    fn behind(&self, after: Option<CallId>) -> impl Iterator<Item = u64> + '_ {
        let first = Nth { after, n: 0 };
        self.failing.range(first..).take_while(move |nth| nth.after == after).map(|nth| nth.n)
    }
}

impl FromIterator<CallId> for Calls {
    fn from_iter<I: IntoIterator<Item = CallId>>(calls: I) -> Calls {
        Calls { calls: calls.into_iter().collect(), failing: BTreeSet::new() }
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        self.behind(None).try_for_each(|n| write!(f, "{}!{n}", std::mem::replace(&mut comma, ",")))?;
        if self.calls.is_empty() {
            return write!(f, "{comma}{NONE}");
        }
        let fails = |call: CallId| self.behind(Some(call)).next().is_some();
        let mut calls = self.calls.iter().peekable();
        while let Some(&CallId { client, nth }) = calls.next() {
            let mut last = nth;
            let next = |last| CallId { client, nth: last + 1 };
            while !fails(CallId { client, nth: last })
                && calls.next_if(|call| **call == next(last) && !fails(**call)).is_some()
            {
                last += 1;
            }
            write!(f, "{comma}{client}.{nth}")?;
            if last > nth {
                write!(f, "-{last}")?;
            }
            self.behind(Some(CallId { client, nth })).try_for_each(|n| write!(f, "!{n}"))?;
            comma = ",";
        }
        Ok(())
    }
}

fn range(text: &str) -> Option<impl Iterator<Item = CallId>> {
    let (client, calls) = text.split_once('.')?;
    let (first, last) = calls.split_once('-').unwrap_or((calls, calls));
    let (client, first, last) = (client.parse().ok()?, first.parse().ok()?, last.parse().ok()?);
    let sound = (1..=last).contains(&first) && last - first < LONGEST;
    sound.then(|| (first..=last).map(move |nth| CallId { client, nth }))
}

impl FromStr for Calls {
    type Err = String;

    fn from_str(text: &str) -> Result<Calls, String> {
        let wrong = || format!("'{text}' are no calls: write client.call, for example 1.3,1.7-9,2.4");
        let mut all = Calls::default();
        for part in text.split(',') {
            let mut numbers = part.split('!');
            let named = numbers.next().unwrap_or_default();
            let calls: Vec<CallId> = match named {
                "" if part.starts_with('!') => Vec::new(),
                NONE => Vec::new(),
                named => range(named).ok_or_else(wrong)?.collect(),
            };
            let numbers: Vec<u64> =
                numbers.map(|n| n.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
            // Behind which of several calls it is nobody could say.
            if !numbers.is_empty() && (calls.len() > 1 || named == NONE) {
                return Err(wrong());
            }
            let after = calls.last().copied();
            all.failing.extend(numbers.into_iter().map(|n| Nth { after, n }));
            all.calls.extend(calls);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_back_from_their_text() {
        for text in ["none", "1.3", "1.3,1.7-9,2.4", "1.1-2,2.3", "!2,!9,1.1-2,1.3!1!7,1.4-5", "!2,none"] {
            assert_eq!(text.parse::<Calls>().expect("calls").to_string(), text);
        }
        assert_eq!("2.4,1.2,1.1".parse::<Calls>().expect("calls").to_string(), "1.1-2,2.4");
        for wrong in
            ["", "1", "1.", "1.3-2", "1.0", "a.1", "1.1,", "1.1-4000000000", "1.1-2!3", "1.1!", "none!1"]
        {
            assert!(wrong.parse::<Calls>().is_err(), "{wrong}");
        }
    }
}
