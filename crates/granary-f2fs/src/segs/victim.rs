//! Which segment to clean, or to fill the holes of.
//!
//! Greedy (foreground, SSR): fewest valid blocks. Cost-benefit (background): (100 - u) * age / (100 + u), u the share
//! of valid blocks and age that of the time since the segment last changed, both in percent (`get_cb_cost`).

use super::{Seg, Segs, log};
use std::collections::BTreeSet;

/// How to choose a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Greedy,
    CostBenefit,
}

impl Segs {
    fn dirty(&self) -> impl Iterator<Item = (u32, &Seg)> {
        let full = self.geo.seg_blocks as u16;
        let all = self.segs.iter().enumerate().map(|(n, s)| (n as u32, s));
        all.filter(move |(n, s)| s.valid > 0 && s.valid < full && !self.is_open(*n))
    }

    /// The segment to clean, if any: not one of `except`.
    pub fn victim(&self, choice: Choice, search: u32, except: &BTreeSet<u32>) -> Option<u32> {
        let candidates = || self.dirty().filter(|(n, _)| !except.contains(n)).take(search as usize);
        match choice {
            Choice::Greedy => candidates().min_by_key(|(_, s)| s.valid).map(|(n, _)| n),
            Choice::CostBenefit => {
                let (min, max) =
                    candidates().fold((u64::MAX, 0), |(a, b), (_, s)| (a.min(s.mtime), b.max(s.mtime)));
                let benefit = |s: &Seg| {
                    let u = s.valid as u64 * 100 / self.geo.seg_blocks as u64;
                    let age = match max - min {
                        0 => 100,
                        span => 100 - 100 * (s.mtime - min) / span,
                    };
                    100 * (100 - u) * age / (100 + u)
                };
                // Of equals the first.
                candidates().max_by_key(|(n, s)| (benefit(s), std::cmp::Reverse(*n))).map(|(n, _)| n)
            }
        }
    }

    /// The segment whose holes a log is to fill: of its own kind, else of its class.
    pub(super) fn ssr_victim(&self, log: usize) -> Option<u32> {
        let usable =
            |s: &Seg| (0..8).map(|i| (s.map[i] | s.keep[i]).count_ones()).sum::<u32>() < self.geo.seg_blocks;
        let rank = |s: &Seg| (s.log as usize != log, s.valid);
        self.dirty()
            .filter(|(_, s)| log::is_node(s.log as usize) == log::is_node(log) && usable(s))
            .min_by_key(|(_, s)| rank(s))
            .map(|(n, _)| n)
    }
}
