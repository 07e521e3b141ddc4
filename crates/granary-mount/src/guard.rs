//! [`Guard`]: the state of a mount after a request has ended in a panic.
//!
//! ```text
//!   request ── panic ── the hook: the image takes no more changes, the mount refuses them ── unwinds ── EIO
//!                                                  |
//!   requests under way, later ones:   reads go on, changes are refused (EROFS, fsync: EIO)
//!                                     one that waits for what the panic left undone: the process ends
//! ```
//!
//! After a panic the state in memory is doubtful: nothing of it may reach the image, so the hook acts where
//! the panic happens, before a lock is let go, and the end of the mount writes nothing back. The image keeps
//! what was promised, as if the process had died there, and the next mount recovers.
//!
//! Locks here do not poison, so reads go on where nothing waits for the task that is gone. A request that
//! does wait for it (a commit that it led, a page that it was reading) would wait for ever. A program that
//! waits for a request cannot even be killed. So the process ends then, which answers everybody.
//!
//! Invariant: of two panics the first counts.

use granary_device::DriveError;
use granary_fs::{FsError, Result};
use parking_lot::Mutex;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a request that is under way after a panic may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(crate) struct Guard {
    why: OnceLock<String>,
    /// Of each thread that serves: requests begun and ended, together. Odd: one is under way.
    threads: Mutex<Vec<Arc<AtomicU64>>>,
    /// Replies that wait for the image's barrier: begun, and ended.
    waiting: [AtomicU64; 2],
}

thread_local! {
    static COUNT: RefCell<Option<(*const Guard, Arc<AtomicU64>)>> = const { RefCell::new(None) };
}

/// The text of a panic.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}

impl Guard {
    /// Serves a request.
    ///
    /// # Errors
    /// An error of the drive where it ended in a panic; those of `request`.
    pub(crate) fn run<T>(&self, request: impl FnOnce() -> Result<T>) -> Result<T> {
        let count = self.count();
        count.fetch_add(1, SeqCst);
        let result = catch_unwind(AssertUnwindSafe(request));
        count.fetch_add(1, SeqCst);
        result.unwrap_or_else(|panic| {
            let why = format!("panic: {}", text(&*panic));
            self.trip(&why);
            Err(DriveError::Failed(why).into())
        })
    }

    /// The same for a request that answers itself: a reply that a panic drops says EIO.
    pub(crate) fn answer(&self, request: impl FnOnce()) {
        // It has been told.
        let _ = self.run(|| {
            request();
            Ok(())
        });
    }

    fn count(&self) -> Arc<AtomicU64> {
        COUNT.with_borrow_mut(|mine| match mine {
            Some((guard, count)) if std::ptr::eq(*guard, self) => Arc::clone(count),
            _ => {
                let count = Arc::<AtomicU64>::default();
                self.threads.lock().push(Arc::clone(&count));
                *mine = Some((self, Arc::clone(&count)));
                count
            }
        })
    }

    /// A reply waits for the barrier.
    pub(crate) fn waits(&self) {
        self.waiting[0].fetch_add(1, SeqCst);
    }

    /// It does no longer.
    pub(crate) fn told(&self) {
        self.waiting[1].fetch_add(1, SeqCst);
    }

    /// From now on changes are refused. Says whether this panic is the first.
    fn trip(&self, why: &str) -> bool {
        self.why.set(why.to_owned()).is_ok()
    }

    /// Whether there was a panic.
    pub(crate) fn has_tripped(&self) -> bool {
        self.why.get().is_some()
    }

    /// Checks that there was no panic.
    ///
    /// # Errors
    /// The text of the first panic.
    pub(crate) fn sound(&self) -> Result<()> {
        match self.why.get() {
            Some(why) => Err(DriveError::Failed(why.clone()).into()),
            None => Ok(()),
        }
    }

    /// Before a change.
    ///
    /// # Errors
    /// `ReadOnly` after a panic.
    pub(crate) fn changes(&self) -> Result<()> {
        if self.has_tripped() { Err(FsError::ReadOnly) } else { Ok(()) }
    }

    /// Requests that are under way, each with a number that changes when it ends.
    fn under_way(&self) -> Vec<(usize, u64)> {
        let counts: Vec<u64> = self.threads.lock().iter().map(|c| c.load(SeqCst)).collect();
        let busy = counts.into_iter().enumerate().filter(|(_, n)| n % 2 == 1);
        let [begun, ended] = self.waiting.each_ref().map(|n| n.load(SeqCst));
        busy.chain((begun > ended).then_some((usize::MAX, ended))).collect()
    }

    /// Looks for ever whether a request does not end.
    #[allow(clippy::disallowed_methods, reason = "programs wait on the wall clock")]
    fn watch(&self, patience: Duration, stuck: impl Fn()) {
        let mut before = self.under_way();
        loop {
            std::thread::sleep(patience);
            let now = self.under_way();
            if now.iter().any(|one| before.contains(one)) {
                stuck();
                return;
            }
            before = now;
        }
    }
}

/// Tells a mount of a panic.
#[derive(Clone)]
pub struct Breaker(pub(crate) Arc<Guard>);

impl Breaker {
    /// There was a panic, in whatever thread of this process: changes are refused from now on. Returns
    /// whether it is the first. `stuck` is called when a request that was under way does not end, for the
    /// caller to end the process.
    pub fn trip(&self, why: &str, stuck: impl Fn() + Send + 'static) -> bool {
        let first = self.0.trip(why);
        if first {
            let guard = Arc::clone(&self.0);
            granary_sim::spawn("watch", move || guard.watch(PATIENCE, stuck));
        }
        first
    }

    /// Makes every panic of this process a failure of this mount: first `report` (the hook that there was),
    /// then `freeze`, after which nothing may reach what the mount lies on; then changes are refused, and
    /// `told` once. The process goes on; `stuck` as for [`Breaker::trip`].
    pub fn on_panic(
        &self,
        freeze: impl Fn(&str) + Send + Sync + 'static,
        told: impl Fn() + Send + Sync + 'static,
        stuck: impl Fn() + Send + Sync + Clone + 'static,
    ) {
        let (breaker, report) = (self.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |info| {
            let why = format!("panic: {}", text(info.payload()));
            freeze(&why);
            let first = breaker.trip(&why, stuck.clone());
            report(info);
            if first {
                told();
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_does_not_end_is_found_and_others_are_not() {
        let guard = Arc::new(Guard::default());
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let its = guard.clone();
        let stuck = granary_sim::spawn("stuck", move || {
            its.answer(|| {
                begun.send(()).expect("heard");
                let _ = goes_on.recv();
            });
        });
        has_begun.recv().expect("begins");
        guard.answer(|| ());
        assert_eq!(guard.under_way().len(), 1);
        let (tell, told) = std::sync::mpsc::channel();
        guard.watch(Duration::from_millis(1), || tell.send(()).expect("heard"));
        told.recv().expect("the one that waits");
        drop(go_on);
        stuck.join();
        assert_eq!(guard.under_way(), []);
    }
}
