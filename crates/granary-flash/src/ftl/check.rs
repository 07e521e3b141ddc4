//! `Ftl::check`: every invariant of the FTL's tables, proved from the tables and the medium.

use super::Ftl;
use super::alloc::Stream;
use crate::medium::{BlockHeader, BlockNo, Medium};
use granary_units::Ppa;

/// State of a block according to its plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Closed, bad, or forgotten: told apart by its header and the candidates.
    Unlisted,
    Free,
    Open {
        used: u32,
    },
    InJob,
    Retiring,
}

/// The entries of a table that are not 0, with their places. Most of a large drive is empty, so parts are
/// looked at as a whole.
pub(super) fn in_use(table: &[u32]) -> impl Iterator<Item = (usize, u32)> {
    const PART: usize = 1024;
    let parts =
        table.chunks(PART).enumerate().filter(|(_, part)| part.iter().fold(0, |any, entry| any | entry) != 0);
    let entries =
        parts.flat_map(|(n, part)| part.iter().enumerate().map(move |(i, entry)| (n * PART + i, *entry)));
    entries.filter(|(_, entry)| *entry != 0)
}

impl<M: Medium> Ftl<M> {
    /// Checks all tables against each other and against the medium: the map against the OOB areas, live pages
    /// and valid counts, block states, gc candidates, counters. Takes time proportional to the drive.
    ///
    /// # Errors
    /// A line for each violation.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut bad = Vec::new();
        self.check_map(&mut bad);
        self.check_p2l(&mut bad);
        self.check_blocks(&mut bad);
        self.check_counters(&mut bad);
        if bad.is_empty() { Ok(()) } else { Err(bad) }
    }

    fn check_map(&self, bad: &mut Vec<String>) {
        let mut mapped = 0;
        for (l, entry) in in_use(&self.l2p) {
            let ppa = entry - 1;
            mapped += 1;
            if ppa as u64 >= self.config.geometry.pages() {
                bad.push(format!("page {l} is mapped to flash page {ppa}, which does not exist"));
                continue;
            }
            if !self.live.get(ppa) {
                bad.push(format!("page {l} is mapped to flash page {ppa}, which is not live"));
            }
            match self.nand.peek(Ppa(ppa)) {
                Ok((_, oob)) if self.owner(ppa, oob.lpa) as usize == l => {}
                Ok((_, oob)) => {
                    let owner = self.owner(ppa, oob.lpa);
                    bad.push(format!("page {l} is mapped to flash page {ppa}, which says {owner}"));
                }
                Err(e) => bad.push(format!("page {l}: {e}")),
            }
        }
        // Each mapped page has its own flash page (the OOB names one), so equal numbers mean equal sets.
        let live = self.live.count();
        if mapped != self.mapped || mapped != live {
            bad.push(format!(
                "{mapped} pages are mapped, the count says {}, {live} flash pages are live",
                self.mapped
            ));
        }
    }

    fn check_blocks(&self, bad: &mut Vec<String>) {
        let states = self.states(bad);
        let per_block = self.config.geometry.pages_per_block;
        let mut lost = 0;
        for (b, &state) in states.iter().enumerate() {
            let b = b as u32;
            let header = self.nand.header(BlockNo(b));
            match self.nand.medium().header(BlockNo(b)) {
                Ok(stored) if stored == header => {}
                other => bad.push(format!("block {b}: header {header:?}, the medium says {other:?}")),
            }
            let first = b * per_block;
            let live = self.live.count_range(first, per_block);
            if live != self.valid.get(b) {
                bad.push(format!("block {b} has {live} live pages, its count says {}", self.valid.get(b)));
            }
            lost += (header.bad || state == State::Retiring || self.is_retiring_job(b)) as u32;
            if let Some(why) = self.contradiction(state, header, live, self.valid.is_candidate(b)) {
                bad.push(format!("block {b} {why}: {state:?}, {header:?}, {live} live pages"));
            }
        }
        if lost != self.lost_blocks {
            bad.push(format!("{lost} blocks are out of service, the count says {}", self.lost_blocks));
        }
        if !self.valid.minima_hold() {
            bad.push("a group's least valid count is wrong".into());
        }
    }

    fn is_retiring_job(&self, block: u32) -> bool {
        let plane = self.config.geometry.plane_of(block) as usize;
        self.planes[plane].job.is_some_and(|j| j.block == block && j.retires())
    }

    fn contradiction(
        &self,
        state: State,
        h: BlockHeader,
        live: u32,
        candidate: bool,
    ) -> Option<&'static str> {
        if state == State::Unlisted && !h.bad {
            // Closed. Blocks that a power failure left partly programmed are closed as well.
            return match (candidate, h.programmed) {
                (false, _) => Some("is in no list"),
                (true, 0) => Some("is closed but erased"),
                _ => None,
            };
        }
        if candidate {
            return Some("is a gc candidate but not closed");
        }
        match state {
            State::Unlisted => None,
            _ if h.bad => Some("is bad but still in use"),
            State::Free if h.programmed != 0 || live != 0 => Some("is free but not erased"),
            State::Open { used } if used != h.programmed => Some("is open at another page"),
            _ => None,
        }
    }

    fn states(&self, bad: &mut Vec<String>) -> Vec<State> {
        let mut states = vec![State::Unlisted; self.config.geometry.blocks() as usize];
        for (p, plane) in self.planes.iter().enumerate() {
            let open = Stream::ALL
                .map(|s| plane.open[s as usize])
                .into_iter()
                .filter(|o| o.is_open())
                .map(|o| (o.block, State::Open { used: o.used }));
            let listed = (plane.free.iter().map(|b| (b, State::Free)))
                .chain(open)
                .chain(plane.job.map(|j| (j.block, State::InJob)))
                .chain(plane.retiring.iter().map(|&b| (b, State::Retiring)));
            for (block, state) in listed {
                if self.config.geometry.plane_of(block) as usize != p {
                    bad.push(format!("block {block} is {state:?} in plane {p}, where it does not belong"));
                }
                let before = std::mem::replace(&mut states[block as usize], state);
                if before != State::Unlisted {
                    bad.push(format!("block {block} is {before:?} and {state:?}"));
                }
            }
        }
        states
    }

    fn check_counters(&self, bad: &mut Vec<String>) {
        let (ours, nand) = (self.counters, self.nand.stats());
        for (what, a, b) in [
            ("reads", ours.total_reads(), nand.reads),
            ("programs", ours.total_programs(), nand.programs),
            ("erases", ours.erases, nand.erases),
        ] {
            if a != b {
                bad.push(format!("{a} {what} by cause, {b} at the NAND"));
            }
        }
    }
}
