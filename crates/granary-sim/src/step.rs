//! [`step`]: names of rare steps, for a watcher that wants to know when one is under way.
//!
//! ```text
//!   file system, drive:   let _step = step("ext4: the log's tail moves");   ... commands ...   end of scope
//!   crash explorer:       watch(watcher, || world.run(..))   enters(name)                      leaves(name)
//! ```
//!
//! A journal that wraps, a table that splits, garbage collection: a power failure in them is worth more than
//! one anywhere else, and they hardly ever run. The crash explorer is told of them here. Otherwise a step
//! costs one look at a flag.
//!
//! Invariant: a watcher sees the steps of its own OS thread only, which is one virtual world. It must not
//! wait.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Is told of steps.
pub trait Watcher {
    /// A step begins.
    fn enters(&self, step: &'static str);

    /// A step ends.
    fn leaves(&self, step: &'static str);
}

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static WATCHER: RefCell<Option<Arc<dyn Watcher>>> = const { RefCell::new(None) };
}

/// A step under way; it ends where this is dropped.
#[must_use = "the step ends where this is dropped"]
pub struct Step(Option<&'static str>);

/// A rare step of this name begins. Names are sentences: the step's owner, and the event ("f2fs: a segment is
/// cleaned").
#[inline]
pub fn step(name: &'static str) -> Step {
    if !WATCHED.get() {
        return Step(None);
    }
    tell(|w| w.enters(name));
    Step(Some(name))
}

impl Drop for Step {
    #[inline]
    fn drop(&mut self) {
        if let Some(name) = self.0 {
            tell(|w| w.leaves(name));
        }
    }
}

fn tell(what: impl FnOnce(&dyn Watcher)) {
    let watcher = WATCHER.with_borrow(Option::clone);
    if let Some(watcher) = watcher {
        what(&*watcher);
    }
}

/// Runs `work`, and tells `watcher` of every step of this thread meanwhile.
pub fn watch<T>(watcher: Arc<dyn Watcher>, work: impl FnOnce() -> T) -> T {
    /// Puts back what was there, also where `work` panics.
    struct Before(Option<Arc<dyn Watcher>>);
    impl Drop for Before {
        fn drop(&mut self) {
            let before = self.0.take();
            WATCHED.set(before.is_some());
            WATCHER.set(before);
        }
    }
    let before = WATCHER.replace(Some(watcher));
    WATCHED.set(true);
    let _before = Before(before);
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Watcher for Heard {
        fn enters(&self, step: &'static str) {
            self.0.lock().push(format!("{step} begins"));
        }

        fn leaves(&self, step: &'static str) {
            self.0.lock().push(format!("{step} ends"));
        }
    }

    #[test]
    fn a_watcher_hears_of_steps_in_its_time_only() {
        let heard = Arc::new(Heard::default());
        drop(step("before"));
        watch(heard.clone(), || {
            let _outer = step("outer");
            drop(step("inner"));
        });
        drop(step("after"));
        assert_eq!(*heard.0.lock(), ["outer begins", "inner begins", "inner ends", "outer ends"]);
    }
}
