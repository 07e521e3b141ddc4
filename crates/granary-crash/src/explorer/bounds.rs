//! [`Bounds`]: how much of a run is looked at, at most.

use super::Report;

/// The first that is met ends it, behind the point at hand.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    over: &'a dyn Fn() -> bool,
    points: u64,
    to_the_first: bool,
}

impl<'a> Bounds<'a> {
    /// All of it.
    pub const NONE: Bounds<'static> = Bounds { over: &|| false, points: u64::MAX, to_the_first: false };

    /// Until `over` says that there is no time left.
    pub fn until(over: &'a dyn Fn() -> bool) -> Bounds<'a> {
        Bounds { over, ..Bounds::NONE }
    }

    /// So many points.
    #[must_use]
    pub fn points(self, points: u64) -> Bounds<'a> {
        Bounds { points, ..self }
    }

    /// Until the first failure, where that is asked for.
    #[must_use]
    pub fn to_the_first(self, asked: bool) -> Bounds<'a> {
        Bounds { to_the_first: asked, ..self }
    }

    /// Whether there is no more to look at.
    pub(crate) fn are_met(&self, report: &Report) -> bool {
        let found = self.to_the_first && !report.failures.is_empty();
        found || report.points >= self.points || (self.over)()
    }
}
