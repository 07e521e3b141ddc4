//! [`Register`]: something that holds one value at a time (a name, a mode), with every value that it may
//! show.
//!
//! Invariants: at least one version is always possible. The last version pushed is the load's present view.

use super::stamp::{StampId, Stamps, Tick};

/// The history of one value, as far as it still matters.
#[derive(Clone, Debug)]
pub(crate) struct Register<T> {
    versions: Vec<(StampId, T)>,
}

/// Histories longer than this are pruned when they grow.
const PRUNE_ABOVE: usize = 8;

impl<T: Copy + PartialEq> Register<T> {
    pub(crate) fn new(initial: T) -> Register<T> {
        Register { versions: vec![(StampId::ORIGIN, initial)] }
    }

    /// A change to `value` begins.
    pub(crate) fn push(&mut self, stamps: &Stamps, by: StampId, value: T) {
        if self.versions.len() > PRUNE_ABOVE {
            self.prune(stamps);
        }
        self.versions.push((by, value));
    }

    /// The value of a change that is still known.
    pub(crate) fn of(&self, by: StampId) -> Option<T> {
        self.versions.iter().find(|v| v.0 == by).map(|v| v.1)
    }

    /// The value that the load saw before a change that is still known.
    pub(crate) fn before(&self, by: StampId) -> Option<T> {
        let nth = self.versions.iter().position(|v| v.0 == by)?;
        self.versions[..nth].last().map(|v| v.1)
    }

    /// The values of all other changes that are still known.
    pub(crate) fn all_but(&self, by: StampId) -> impl Iterator<Item = T> + '_ {
        self.versions.iter().filter(move |v| v.0 != by).map(|v| v.1)
    }

    /// The value of the change was not quite known when it began.
    pub(crate) fn settle(&mut self, by: StampId, value: T) {
        self.versions.iter_mut().filter(|v| v.0 == by).for_each(|v| v.1 = value);
    }

    /// The change failed: it never was.
    pub(crate) fn remove(&mut self, by: StampId) {
        self.versions.retain(|(stamp, _)| *stamp != by);
    }

    /// The present view.
    pub(crate) fn current(&self) -> T {
        self.versions.last().expect("a register always has a version").1
    }

    /// Every version that may show at `horizon` (0: after a power failure).
    pub(crate) fn possible<'a>(
        &'a self,
        stamps: &'a Stamps,
        horizon: Tick,
    ) -> impl Iterator<Item = (StampId, T)> + 'a {
        let hidden = move |v: StampId| self.versions.iter().any(|&(w, _)| stamps.supersedes(w, v, horizon));
        self.versions.iter().copied().filter(move |&(v, _)| !hidden(v))
    }

    /// Whether `value` may show after a power failure.
    pub(crate) fn may_be(&self, stamps: &Stamps, value: T) -> bool {
        self.possible(stamps, 0).any(|(_, v)| v == value)
    }

    /// The changes made durable by a flush that began at `horizon`.
    pub(crate) fn keep(&self, stamps: &mut Stamps, horizon: Tick) {
        for &(stamp, _) in &self.versions {
            stamps.keep(stamp, horizon);
        }
    }

    fn prune(&mut self, stamps: &Stamps) {
        let kept: Vec<(StampId, T)> = self.possible(stamps, 0).collect();
        self.versions = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(r: &Register<u32>, s: &Stamps) -> Vec<u32> {
        r.possible(s, 0).map(|(_, v)| v).collect()
    }

    #[test]
    fn unsynced_changes_may_or_may_not_show() {
        let (mut s, mut r) = (Stamps::new(), Register::new(0));
        for value in [1, 2] {
            let id = s.begin();
            r.push(&s, id, value);
            s.end(id);
        }
        assert_eq!(shown(&r, &s), [0, 1, 2]);
    }

    #[test]
    fn a_durable_change_hides_what_ended_before_it_began_and_nothing_else() {
        let (mut s, mut r) = (Stamps::new(), Register::new(0));
        let (a, b) = (s.begin(), s.begin());
        r.push(&s, a, 1);
        r.push(&s, b, 2);
        s.end(a);
        s.end(b);
        let c = s.begin();
        r.push(&s, c, 3);
        s.keep(b, Tick::MAX - 1);
        assert_eq!(shown(&r, &s), [1, 2, 3], "1 and 2 overlapped; 3 is in flight; 0 is over");
    }

    #[test]
    fn a_failed_change_never_was() {
        let (mut s, mut r) = (Stamps::new(), Register::new(0));
        let a = s.begin();
        r.push(&s, a, 1);
        r.remove(a);
        assert_eq!((shown(&r, &s), r.current()), (vec![0], 0));
    }
}
