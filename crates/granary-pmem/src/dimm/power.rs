//! Power: losses, survivors, and the tracking that tells them apart.
//!
//! ```text
//!   power_fail   fences answered by now count
//!                | lines at risk: each word one of its versions since the last fence that counts
//!                | lines in the caches: each word arrives or not, on top of that (eADR: all of them arrive)
//!   power_on     content as it was left; queues, buffers and timelines idle
//! ```
//!
//! Without tracking every line that left a core counts as landed; only the caches are volatile. A DIMM's
//! queue and buffer are in the persistence domain: the buffer is written to the media at the failure, and
//! counted.
//!
//! Source: docs/FAULT_MODEL.md; Yang et al., FAST'20, section 2.1.

use super::state::{DimmState, host};
use crate::caches::Held;
use crate::config::Domain;
use crate::medium::Medium;
use crate::risk::{draw_words, take_words, words_of};
use granary_device::DriveError;
use granary_sim::rng::Stream;
use granary_units::{LINE_SIZE, LINES_PER_PAGE, Nanos, Payload};

impl<M: Medium> DimmState<M> {
    /// Fences that are answered by `now` count.
    pub(super) fn answer(&mut self, now: Nanos) {
        let fences = &mut self.risk.fences;
        if fences.is_empty() {
            return;
        }
        if let Some(number) = fences.iter().filter(|(done, _)| *done <= now).map(|(_, n)| *n).max() {
            fences.retain(|(done, _)| *done > now);
            self.risk.safe(number);
        }
    }

    pub(super) fn track(&mut self, on: bool) {
        if on != self.tracking {
            self.risk.forget();
        }
        self.tracking = on;
    }

    pub(super) fn power_fail(&mut self, now: Nanos, random: &mut Stream) {
        if !self.powered {
            return;
        }
        self.answer(now);
        // The words that the cores stored to, as they see them before anything is taken back.
        let held: Vec<_> =
            self.caches.take(0, u64::MAX).into_iter().map(|(n, h)| (n, self.line(n), h)).collect();
        for left in self.risk.fail(random) {
            if left.bad {
                self.bad.insert(left.line);
            }
            self.decide(left.line, left.content);
        }
        for (line, newest, held) in held {
            let words = if self.domain == Domain::Eadr { u8::MAX } else { draw_words(line, random) };
            if let Err(e) = self.arrive(line, newest, &held, words) {
                self.fault.get_or_insert(e);
            }
            if held.is_whole() && words == u8::MAX {
                self.bad.remove(&line);
            }
        }
        for module in &mut self.modules {
            module.drain(&self.times, now);
        }
        self.powered = false;
    }

    /// The words of a line in the caches that arrive.
    fn arrive(
        &mut self,
        line: u64,
        newest: Result<[u8; LINE_SIZE], DriveError>,
        held: &Held,
        words: u8,
    ) -> Result<(), DriveError> {
        let (mut newest, mut content) = (newest?, self.line(line)?);
        held.overlay(0, &mut newest);
        take_words(words & words_of(held.mask), &newest, &mut content);
        self.decide(line, content);
        Ok(())
    }

    /// The power failure has left this of a line.
    fn decide(&mut self, line: u64, content: [u8; LINE_SIZE]) {
        let (page, byte) =
            (line / LINES_PER_PAGE as u64, (line % LINES_PER_PAGE as u64) as usize * LINE_SIZE);
        if let Err(e) = self.medium.write(page, byte, Payload::Bytes(&content)) {
            self.fault.get_or_insert(host(page)(e));
        }
    }

    pub(super) fn power_on(&mut self, now: Nanos) -> Result<Nanos, DriveError> {
        if !self.powered {
            self.modules.iter_mut().for_each(|module| module.reset(now));
            self.idle_cores();
            self.accepted = 0;
            self.powered = true;
        }
        self.fault.clone().map_or(Ok(now), Err)
    }
}
