//! [`Calls`]: calls of a run by number, as text: `1.3,1.7-9,2.4` is the third call of client 1, its calls 7 to 9, and the fourth of client 2;
//! `none` is no call at all.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A call: the number of its client, in the order of their beginnings, and its own in that client; both from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallId {
    pub(crate) client: u32,
    pub(crate) nth: u32,
}

/// Calls of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(BTreeSet<CallId>);

/// The text of no call.
const NONE: &str = "none";
/// Longer ranges are of nobody's run, and would take memory.
const LONGEST: u32 = 1 << 20;

impl Calls {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, call: CallId) -> bool {
        self.0.contains(&call)
    }
}

impl FromIterator<CallId> for Calls {
    fn from_iter<I: IntoIterator<Item = CallId>>(calls: I) -> Calls {
        Calls(calls.into_iter().collect())
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(NONE);
        }
        let mut calls = self.0.iter().peekable();
        let mut comma = "";
        while let Some(&CallId { client, nth }) = calls.next() {
            let mut last = nth;
            while calls.next_if_eq(&&CallId { client, nth: last + 1 }).is_some() {
                last += 1;
            }
            write!(f, "{comma}{client}.{nth}")?;
            if last > nth {
                write!(f, "-{last}")?;
            }
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
        if text == NONE {
            return Ok(Calls::default());
        }
        let wrong = || format!("'{text}' are no calls: write client.call, for example 1.3,1.7-9,2.4");
        let ranges = text.split(',').map(range).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        Ok(ranges.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_back_from_their_text() {
        for text in ["none", "1.3", "1.3,1.7-9,2.4", "1.1-2,2.3"] {
            assert_eq!(text.parse::<Calls>().expect("calls").to_string(), text);
        }
        assert_eq!("2.4,1.2,1.1".parse::<Calls>().expect("calls").to_string(), "1.1-2,2.4");
        for wrong in ["", "1", "1.", "1.3-2", "1.0", "a.1", "1.1,", "1.1-4000000000"] {
            assert!(wrong.parse::<Calls>().is_err(), "{wrong}");
        }
    }
}
