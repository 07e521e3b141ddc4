//! [`Dies`]: when operations can run whose planes share a die, or whose die has no cache operations.
//!
//! ```text
//!   multi-plane     bus  |x0|x1|                       x1 is loaded before the array begins: it joins
//!                   die  | former |== program 0 and 1 ==|
//!
//!   no cache        bus     |x0|           |x1|        the die waits for its register
//!                   die        |= program =|   |= program =|
//! ```
//!
//! In an idle die the first operation begins at once and later ones find it begun: they wait for its end, and
//! then share the next one. A controller that holds pages back to pair them would do better at low load and
//! is not modelled.
//!
//! Invariant: an operation that joins goes to a plane that is not in the command yet, at the command's page,
//! and its data is loaded by the command's start. Times of joined operations are counted for each (they keep
//! their planes busy).
//!
//! Source: ONFI 4.0, multi-plane and page cache operations; [`crate::PlaneMode`].

use crate::config::{FtlConfig, PlaneMode};
use crate::timeline::Timeline;
use granary_units::Nanos;

/// Operations of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Program,
    Erase,
}

/// The newest command of a die, which others may join until it begins.
#[derive(Clone, Copy, Debug)]
struct Command {
    op: Op,
    page: u32,
    /// Bit i: plane i of the die takes part.
    planes: u32,
    start: Nanos,
    end: Nanos,
}

/// Rules and newest commands of all dies.
#[derive(Clone, Debug)]
pub(super) struct Dies {
    /// Timelines: dies, or planes where these are independent.
    timelines: u32,
    multi_plane: bool,
    cache_read: bool,
    cache_program: bool,
    newest: Vec<Option<Command>>,
}

fn timelines(config: &FtlConfig) -> u32 {
    match config.plane_mode {
        PlaneMode::Independent => config.geometry.plane_count(),
        _ => config.geometry.die_count(),
    }
}

impl Dies {
    /// None where planes are independent and have cache operations: then there are no rules.
    pub(super) fn new(config: &FtlConfig) -> Option<Box<Dies>> {
        let independent = config.plane_mode == PlaneMode::Independent;
        if independent && config.cache_read && config.cache_program {
            return None;
        }
        let timelines = timelines(config);
        Some(Box::new(Dies {
            timelines,
            multi_plane: config.plane_mode == PlaneMode::MultiPlane,
            cache_read: config.cache_read,
            cache_program: config.cache_program,
            newest: vec![None; timelines as usize],
        }))
    }

    /// For a drive with more planes; returns the number of timelines.
    pub(super) fn grow(&mut self, config: &FtlConfig) -> u32 {
        self.timelines = timelines(config);
        self.newest.resize(self.timelines as usize, None);
        self.timelines
    }

    pub(super) fn timelines(&self) -> u32 {
        self.timelines
    }

    pub(super) fn timeline_of(&self, plane: u32) -> u32 {
        plane % self.timelines
    }

    /// Nothing can be joined any more.
    pub(super) fn forget(&mut self) {
        self.newest.fill(None);
    }

    /// The command that an operation on `plane` may join if it is ready by its start.
    fn joinable(&self, op: Op, plane: u32, page: u32) -> Option<&Command> {
        let newest = self.newest[self.timeline_of(plane) as usize].as_ref()?;
        let bit = 1 << (plane / self.timelines);
        (newest.op == op && newest.page == page && newest.planes & bit == 0).then_some(newest)
    }

    /// From when on the data of a program should cross the bus.
    pub(super) fn load_from(
        &self,
        timelines: &[Timeline],
        plane: u32,
        page: u32,
        now: Nanos,
        transfer: Nanos,
        program: Nanos,
    ) -> Nanos {
        if let Some(command) = self.joinable(Op::Program, plane, page) {
            // The plane's register is empty since the command before this one began.
            let from = now.max(command.start.saturating_sub(program));
            if from + transfer <= command.start {
                return from;
            }
        }
        let free = timelines[self.timeline_of(plane) as usize].horizon();
        now.max(if self.cache_program { free.saturating_sub(transfer) } else { free })
    }

    /// Reserves array time for an operation that is ready at `ready`; returns its end, and whether it joined
    /// a command.
    pub(super) fn array(
        &mut self,
        timelines: &mut [Timeline],
        op: Op,
        plane: u32,
        page: u32,
        ready: Nanos,
        len: Nanos,
    ) -> (Nanos, bool) {
        let at = self.timeline_of(plane) as usize;
        let bit = 1 << (plane / self.timelines);
        if let Some(&Command { start, end, .. }) = self.joinable(op, plane, page)
            && ready <= start
        {
            timelines[at].charge(1, len);
            if let Some(command) = &mut self.newest[at] {
                command.planes |= bit;
            }
            return (end, true);
        }
        let before = timelines[at].horizon();
        // Without cache reads the register has to be emptied after a read, so no other operation may follow
        // closely.
        let span = match op {
            Op::Read if self.cache_read => timelines[at].fill(ready, len),
            _ => timelines[at].append(ready, len),
        };
        if self.multi_plane && span.start >= before {
            self.newest[at] = Some(Command { op, page, planes: bit, start: span.start, end: span.end });
        }
        (span.end, false)
    }

    /// A page that was read has left the die at `done`.
    pub(super) fn leave(&self, timelines: &mut [Timeline], plane: u32, done: Nanos) {
        if !self.cache_read {
            timelines[self.timeline_of(plane) as usize].hold(done);
        }
    }
}
