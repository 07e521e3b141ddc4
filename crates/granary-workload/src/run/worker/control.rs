//! Flowops that limit, finish, wait or compute.
//!
//! ```text
//!   limit (one per thread):  seen ──► total now        credit -= total - seen
//!                            credit < 0: take events until it is 0 again
//! ```
//!
//! The total of `opslimit`, `iopslimit` and `bwlimit` is that of the whole process (or of the target). Each
//! thread takes events for all of it. So with n threads that have such a limit the process runs at a rate of
//! 1/n, as in Filebench. The first time, a limit only looks.

use super::{Exit, Node, Step, Worker};
use crate::run::events::sleep_until;
use crate::run::halt::Finish;
use crate::run::ledger::Tally;
use crate::run::standstill::Waiter;
use crate::spec::Op;
use granary_sim::now;
use granary_units::Nanos;
use granary_vfs::Posix;

const MIB: u64 = 1 << 20;

impl<P: Posix + Send + 'static> Worker<P> {
    pub(super) fn control(&mut self, node: &Node) -> Step {
        let start = now();
        let shared = std::sync::Arc::clone(&self.shared);
        let halt = &shared.halt;
        let waiter = Waiter { halt, still: &shared.still, thread: self.number, local: node.local };
        // Whether it came to its end before the run did.
        let ended = match &node.op {
            Op::Hog(value) => {
                let stores = self.draws.int(*value);
                granary_sim::cpu(Nanos(stores.saturating_mul(shared.hog_store_ps) / 1_000));
                true
            }
            Op::Delay(value) => {
                let span = Nanos(self.draws.int(*value).saturating_mul(1_000_000_000));
                sleep_until(&shared.sleepers, halt, start.saturating_add(span))
            }
            Op::EventLimit | Op::OpsLimit { .. } | Op::IopsLimit { .. } | Op::BwLimit { .. } => {
                if !shared.events.enabled() {
                    return Ok(());
                }
                match node.op {
                    Op::OpsLimit { target } => self.limit(node, self.tally(target).ops, 1),
                    // A target is a flowop that does I/O, so all its operations count.
                    Op::IopsLimit { target: Some(target) } => {
                        self.limit(node, self.tally(Some(target)).ops, 1)
                    }
                    Op::IopsLimit { target: None } => self.limit(node, self.tally(None).ios, 1),
                    Op::BwLimit { target } => self.limit(node, self.tally(target).bytes, MIB),
                    _ => shared.events.take(halt, 1),
                }
            }
            Op::FinishOnCount { value, target } => {
                let reached = self.tally(*target).ops >= *value;
                return self.finish(node, reached.then(|| Finish::Count(node.name.clone())));
            }
            Op::FinishOnBytes { value, target } => {
                let reached = self.tally(*target).bytes > *value;
                return self.finish(node, reached.then(|| Finish::Bytes(node.name.clone())));
            }
            Op::SemBlock { value, .. } => {
                let value = self.draws.int(*value);
                self.semaphores[node.link].take(waiter, value)
            }
            Op::SemPost { value, blocking, .. } => shared.groups[node.link].iter().all(|semaphore| {
                let value = self.draws.int(*value);
                semaphore.post(waiter, value, *blocking)
            }),
            Op::Block => shared.gates[node.link].pass(waiter),
            Op::Wakeup { .. } => {
                shared.gates[node.link].open(&shared.still);
                true
            }
            Op::TestRandom(value) => {
                self.draws.real(*value);
                true
            }
            Op::Print(message) => {
                shared.say(message);
                true
            }
            other => unreachable!("{} is not a control flowop", other.type_name()),
        };
        if !ended {
            return Err(Exit::Over);
        }
        self.done(node, start, 0);
        Ok(())
    }

    fn finish(&mut self, node: &Node, finish: Option<Finish>) -> Step {
        self.done(node, now(), 0);
        finish.map_or(Ok(()), |finish| Err(Exit::Finished(finish)))
    }

    /// The totals of the process, or of a flowop of this thread.
    fn tally(&self, target: Option<usize>) -> Tally {
        let Some(target) = target else { return self.shared.ledger.tally(self.process) };
        let mut tally = Tally::default();
        for local in &self.locals[self.kind.top[target].clone()] {
            tally.ops += local.count;
            tally.bytes += local.bytes;
        }
        tally
    }

    /// Takes events, one per `unit`, for what was done up to this total since the last time; false where the
    /// run ended first.
    fn limit(&mut self, node: &Node, total: u64, unit: u64) -> bool {
        let local = &mut self.locals[node.local];
        if local.seen == 0 {
            local.seen = total;
            return true;
        }
        local.credit -= (total - local.seen) as i64;
        local.seen = total;
        if local.credit >= 0 {
            return true;
        }
        // Filebench takes one event more than whole MiB, and one per operation.
        let owed = local.credit.unsigned_abs();
        let events = if unit == 1 { owed } else { owed / unit + 1 };
        local.credit += (events * unit) as i64;
        self.shared.events.take(&self.shared.halt, events)
    }
}
