//! Group commit (machine mode): a leader makes the open group safe, at a moment that serves many waiters.
//!
//! ```text
//!   barrier ──────────┬─ nobody leads, no crowd ──> leads itself: write frame, sync ──> safe
//!   barrier_then(f) ──┘      └─ a crowd ──> waiting: the commit thread leads as soon as all of the crowd
//!                                           have come, or nobody for a sync's time ──> safe ──> f() of each
//! ```
//!
//! A *crowd* is the set of threads that asked for the last group or during its sync: they will probably come
//! again soon. Waiting for them makes one sync serve all; jbd2 waits for the same reason, for a commit's
//! usual time (`jbd2_journal_stop`). If a wait brings nobody, the next groups are not waited for: twice as
//! many each time, up to [`MOST_SKIPPED`].
//!
//! Invariants: one leader at a time. A callback is called by a later leader at the latest, and never under a
//! lock. It does *not* decide what a group holds (journal.rs).

use super::journal::Journal;
use super::pending::Rider;
use granary_units::PAGE_SIZE;
use parking_lot::{Condvar, MutexGuard};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Called once: the barrier's promise holds, or why it never will.
pub type Done = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Groups at most that are not waited for after waits in vain.
const MOST_SKIPPED: u32 = 64;
/// A crowd is waited for this long at most, whatever a sync takes: ext4's `max_batch_time`.
const LONGEST_WAIT: Duration = Duration::from_millis(15);

/// The group that is open for changes, and the waiters for it and for earlier ones.
#[derive(Default)]
pub(super) struct Group {
    pub(super) number: u64,
    /// With room for the frame's head in front, once there are any.
    pub(super) records: Vec<u8>,
    pub(super) riders: Vec<Rider>,
    pub(super) wrote_flash: bool,
    /// Newest group that is safe.
    safe: u64,
    /// Barriers asked for since the start.
    pub(super) barriers: u64,
    leader: bool,
    /// Waiters by callback, each with its group.
    waiting: Vec<(u64, Done)>,
    /// Waiters that block in threads of their own.
    blocked: usize,
    /// Barriers of the open group.
    arrived: usize,
    crowd: usize,
    /// Recent duration of a sync.
    usual: Duration,
    /// Groups still not to be waited for, and how many the next wait in vain adds.
    skip: u32,
    in_vain: u32,
    stop: bool,
}

impl Group {
    pub(super) fn new() -> Group {
        Group { number: 1, in_vain: 1, ..Group::default() }
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.riders.is_empty()
    }

    pub(super) fn size(&self) -> u64 {
        (self.records.len() + self.riders.len() * PAGE_SIZE) as u64
    }

    /// Notes a barrier; returns the group that it needs.
    fn arrive(&mut self) -> u64 {
        self.barriers += 1;
        if self.is_empty() {
            return self.number - 1;
        }
        self.arrived += 1;
        self.number
    }

    fn expects_more(&self) -> bool {
        self.skip == 0 && self.arrived < self.crowd
    }
}

/// Condition variables of a group commit.
#[derive(Default)]
pub(super) struct Bells {
    /// A group has become safe, or nothing will any more.
    committed: Condvar,
    /// The crowd that the leader waits for has come.
    gathered: Condvar,
    /// Somebody waits by callback and nobody leads: for the commit thread.
    called: Condvar,
}

impl Journal {
    /// Returns when everything published before is safe from a crash of the machine (machine mode).
    ///
    /// # Errors
    /// Why no more changes are taken.
    pub fn barrier(&self) -> Result<(), String> {
        if !self.has_barriers() {
            return self.failure().map_or(Ok(()), Err);
        }
        let mut g = self.group.lock();
        let target = g.arrive();
        while g.safe < target {
            if let Some(reason) = self.failure() {
                return Err(reason);
            }
            if g.leader {
                self.ring(&g);
                g.blocked += 1;
                self.bells.committed.wait(&mut g);
                g.blocked -= 1;
            } else {
                self.lead(&mut g);
            }
        }
        Ok(())
    }

    /// As [`Journal::barrier`], but returns at once unless the caller is alone; `done` is called in any
    /// thread.
    pub fn barrier_then(&self, done: Done) {
        if !self.has_barriers() {
            return done(self.failure().map_or(Ok(()), Err));
        }
        let mut g = self.group.lock();
        let target = g.arrive();
        if g.safe >= target {
            drop(g);
            return done(Ok(()));
        }
        g.waiting.push((target, done));
        if g.leader {
            self.ring(&g);
        } else if g.crowd > 1 && self.has_thread() {
            self.bells.called.notify_one();
        } else {
            self.lead(&mut g);
        }
        while !self.has_thread() && !g.leader && !g.waiting.is_empty() {
            self.lead(&mut g);
        }
    }

    /// Leads while anybody waits by callback, until told to stop: the body of the commit thread.
    pub fn run_commits(&self) {
        let mut g = self.group.lock();
        loop {
            if !g.leader && !g.waiting.is_empty() {
                self.lead(&mut g);
            } else if g.stop {
                return;
            } else {
                self.bells.called.wait(&mut g);
            }
        }
    }

    /// Everything published is safe, and nobody makes a group safe while the guard lives. Nobody publishes
    /// meanwhile.
    ///
    /// # Errors
    /// Why no more changes are taken.
    pub(super) fn quiet(&self) -> Result<MutexGuard<'_, Group>, String> {
        self.barrier()?;
        let mut g = self.group.lock();
        while g.leader {
            g.blocked += 1;
            self.bells.committed.wait(&mut g);
            g.blocked -= 1;
        }
        self.failure().map_or(Ok(g), Err)
    }

    /// Tells the commit thread to end once nobody waits.
    pub(super) fn stop_commits(&self) {
        self.group.lock().stop = true;
        self.bells.called.notify_all();
    }

    /// Nothing will be safe any more: tells everybody who waits.
    pub(super) fn wake_all(&self) {
        self.bells.committed.notify_all();
    }

    /// Makes the open group safe and tells those who waited for it. Nobody else leads.
    fn lead(&self, g: &mut MutexGuard<'_, Group>) {
        g.leader = true;
        self.gather(g);
        let number = g.number;
        g.number += 1;
        let (group, riders) = (std::mem::take(&mut g.records), std::mem::take(&mut g.riders));
        let wrote_flash = std::mem::take(&mut g.wrote_flash);
        let arrived = std::mem::take(&mut g.arrived);
        self.open_riders.store(0, SeqCst);
        let ((done, group), took) = MutexGuard::unlocked(g, || {
            let from = now();
            let done = match self.failure() {
                Some(reason) => (Err(reason), group),
                None => self.commit(number, group, &riders, wrote_flash),
            };
            (done, from.elapsed())
        });
        g.leader = false;
        g.crowd = arrived + g.arrived;
        g.usual = (g.usual * 7 + took) / 8;
        if g.records.is_empty() {
            // Its allocation serves the next group.
            g.records = group;
        }
        if done.is_ok() {
            g.safe = number;
        }
        if g.blocked > 0 {
            self.bells.committed.notify_all();
        }
        let safe = g.safe;
        let told: Vec<(u64, Done)> =
            g.waiting.extract_if(.., |(target, _)| done.is_err() || *target <= safe).collect();
        if !g.waiting.is_empty() {
            self.bells.called.notify_one();
        }
        MutexGuard::unlocked(g, || told.into_iter().for_each(|(_, tell)| tell(done.clone())));
    }

    /// Tells the leader, if it is time.
    fn ring(&self, g: &Group) {
        if !g.expects_more() {
            self.bells.gathered.notify_one();
        }
    }

    /// Waits for the crowd.
    fn gather(&self, g: &mut MutexGuard<'_, Group>) {
        if !g.expects_more() {
            g.skip = g.skip.saturating_sub(1);
            return;
        }
        let (before, until) = (g.arrived, now() + LONGEST_WAIT);
        let mut seen = before;
        while g.expects_more() {
            let patience = (now() + g.usual).min(until);
            let is_late = self.bells.gathered.wait_until(g, patience).timed_out();
            if is_late && (g.arrived == seen || patience == until) {
                break;
            }
            seen = g.arrived;
        }
        if g.arrived > before {
            g.in_vain = 1;
        } else {
            g.skip = g.in_vain;
            g.in_vain = (g.in_vain * 2).min(MOST_SKIPPED);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "how long to wait for others to share a sync changes no result")]
fn now() -> Instant {
    Instant::now()
}
