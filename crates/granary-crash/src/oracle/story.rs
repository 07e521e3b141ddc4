//! [`Story`]: the calls that clients made, for a report of what was lost.
//!
//! Nobody keeps one while exploring: a failure is done once more with it.

use crate::recorded::{Begun, CallId};
use std::fmt;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// `None`: no call, but what happened between calls.
    client: Option<u32>,
    /// Its number in the client, where calls have numbers.
    pub(crate) nth: u32,
    pub(crate) text: String,
    /// It has returned.
    returned: bool,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = if self.returned { "" } else { "    (under way)" };
        match self.client {
            Some(client) => write!(f, "client {client}: {}{under_way}", self.text),
            None => write!(f, "-- {}", self.text),
        }
    }
}

/// Calls in the order of their beginnings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    clients: u32,
    pub(crate) calls: Vec<Told>,
}

impl Story {
    /// A new client's number.
    pub(crate) fn client(&mut self) -> u32 {
        self.clients += 1;
        self.clients
    }

    /// The `nth` call of `client` begins; returns its number in the story.
    pub(crate) fn begins(&mut self, (client, nth): (u32, u32), text: String) -> usize {
        self.calls.push(Told { client: Some(client), nth, text, returned: false });
        self.calls.len() - 1
    }

    /// It returns.
    pub(crate) fn returns(&mut self, n: usize) {
        if let Some(told) = self.calls.get_mut(n) {
            told.returned = true;
        }
    }

    /// The power fails. Calls under way never return.
    pub(crate) fn cut(&mut self, how: String) {
        self.calls.push(Told { client: None, nth: 0, text: how, returned: true });
    }

    /// The last `n` calls that name one of `paths`.
    pub(crate) fn of(&self, paths: &[String], n: usize) -> Vec<&Told> {
        let named = |told: &&Told| {
            told.client.is_none()
                || paths.iter().any(|path| told.text.split([' ', ',', '(', ')']).any(|word| word == path))
        };
        let all: Vec<&Told> = self.calls.iter().filter(named).collect();
        all[all.len().saturating_sub(n)..].to_vec()
    }

    /// The words for a call that has a number.
    pub(crate) fn words(&self, begun: &Begun) -> String {
        let CallId { client, nth } = begun.call;
        let told = self.calls.iter().find(|told| (told.client, told.nth) == (Some(client), nth));
        told.map_or_else(|| format!("client {client}: {}", begun.name), ToString::to_string)
    }

    /// Events between calls.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = &Told> {
        self.calls.iter().filter(|told| told.client.is_none())
    }

    /// The last `n` calls.
    pub(crate) fn last(&self, n: usize) -> &[Told] {
        &self.calls[self.calls.len().saturating_sub(n)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_knows_what_had_returned_and_what_was_done_to_a_file() {
        let mut story = Story::default();
        let (one, two) = (story.client(), story.client());
        let made = story.begins((one, 1), "creat(/a)".to_owned());
        story.returns(made);
        story.begins((two, 1), "rename(/a, /ab)".to_owned());
        story.begins((one, 2), "fsync(/ab)".to_owned());
        story.cut("the power fails".to_owned());
        let all: Vec<String> = story.of(&["/a".to_owned()], 9).iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            ["client 1: creat(/a)", "client 2: rename(/a, /ab)    (under way)", "-- the power fails"]
        );
        assert_eq!(story.last(2).len(), 2);
    }
}
