//! [`Leavers`]: space that programs have freed and the kernel has yet to give back.
//!
//! ```text
//!   program:   unlink(2) ─────────────> returns ── write(2) ────────────────────────────────> returns
//!   kernel:       UNLINK ── reply ──┘ └─ FORGET, queued      WRITE
//!   serving threads:                       └─ frees the blocks  └─ no space, and somebody is leaving:
//!   thread "space":                                                waits until they have left, does it
//!                                                                  again, replies
//! ```
//!
//! A file's space is free when the kernel forgets the file. The kernel tells this after the call that removed
//! the last name has returned, to any thread. A program that removes a file and writes another one would find
//! no space, or see none in statfs. The waiting is left to a thread (errands.rs), so that no serving thread
//! is taken from the FORGETs that are waited for.
//!
//! A file that a program holds open stays: each removed file is waited for [`PATIENCE`] at most, over all
//! requests. When nobody has waited for it during [`REST`], there is as much once more: by then the program
//! may have closed it, and the kernel be about to tell.

use super::Adapter;
use super::errands::Errands;
use granary_fs::{FsError, Ino};
use granary_vfs::{Farewell, Node};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How long a removed file that somebody may hold open is waited for. The kernel takes microseconds, for 60
/// MB of cached pages up to 11 ms; a busy machine more (40 ms seen).
const PATIENCE: Duration = Duration::from_millis(100);
/// After which time it comes back: a file that stays open costs who finds no space a fortieth of his time.
const REST: Duration = Duration::from_secs(4);
/// How long one request waits for files that are being freed, which end by themselves; a slow drive may take
/// its time.
const MOST: Duration = Duration::from_secs(2);
/// Between two looks.
const STEP: Duration = Duration::from_micros(200);
/// Removed files that are remembered before those that have left are sorted out, and at most of those that
/// nobody has patience with.
const FEW: usize = 64;

/// A file that has lost its last name.
struct Leaver {
    ino: Ino,
    generation: u64,
    patience: Duration,
    /// How long nobody has waited for it, since its patience was at an end.
    rested: Duration,
}

/// Space that removed files will free, or have freed.
#[derive(Default)]
struct Space {
    /// Some that is worth waiting for.
    is_coming: bool,
    /// Some since the last look.
    has_come: bool,
}

struct Removed {
    files: Vec<Leaver>,
    /// Until when their rest is counted.
    counted: Instant,
    /// With so many they are sorted out.
    most: usize,
}

/// See the module.
pub(crate) struct Leavers {
    removed: Mutex<Removed>,
    pub(crate) errands: Errands,
}

impl Default for Leavers {
    fn default() -> Leavers {
        let removed = Removed { files: Vec::new(), counted: now(), most: FEW };
        Leavers { removed: Mutex::new(removed), errands: Errands::default() }
    }
}

#[allow(clippy::disallowed_methods, reason = "the kernel lives on the wall clock")]
fn now() -> Instant {
    Instant::now()
}

impl Removed {
    /// Gives patience back where it has rested.
    fn rest(&mut self) {
        let now = now();
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.counted, now));
        for f in self.files.iter_mut().filter(|f| f.patience.is_zero()) {
            f.rested += passed;
            if f.rested >= REST {
                (f.patience, f.rested) = (PATIENCE, Duration::ZERO);
            }
        }
    }

    /// Somebody has waited for all of them.
    fn waited(&mut self, time: Duration) {
        self.counted = now();
        self.files.iter_mut().for_each(|f| f.patience = f.patience.saturating_sub(time));
    }
}

impl Adapter {
    /// A name of this node is gone, perhaps the last.
    pub(crate) fn removed(&self, node: &Node) {
        if !node.is_orphan() {
            return;
        }
        let mut removed = self.leavers.removed.lock();
        let (ino, generation) = (node.ino(), node.generation());
        removed.files.push(Leaver { ino, generation, patience: PATIENCE, rested: Duration::ZERO });
        if removed.files.len() >= removed.most {
            self.sort_out(&mut removed.files);
            removed.most = FEW.max(2 * removed.files.len());
        }
    }

    /// It has a name again.
    pub(crate) fn stays(&self, node: &Node) {
        let (ino, generation) = (node.ino(), node.generation());
        self.leavers.removed.lock().files.retain(|f| (f.ino, f.generation) != (ino, generation));
    }

    /// Drops those that have left, and of those for whom nobody has patience all but a few.
    fn sort_out(&self, files: &mut Vec<Leaver>) -> Space {
        let (mut space, mut held) = (Space::default(), 0);
        files.retain(|f| match self.vfs.farewell(f.ino, f.generation) {
            Farewell::Held if f.patience.is_zero() => {
                held += 1;
                held <= FEW
            }
            Farewell::Held | Farewell::Leaving => {
                space.is_coming = true;
                true
            }
            Farewell::Gone => {
                space.has_come = true;
                false
            }
        });
        space
    }

    fn space(&self) -> Space {
        let mut removed = self.leavers.removed.lock();
        removed.rest();
        self.sort_out(&mut removed.files)
    }

    #[allow(clippy::disallowed_methods, reason = "the kernel lives on the wall clock")]
    pub(crate) fn wait_for_leavers(&self) {
        let (begin, mut last) = (now(), now());
        while self.space().is_coming && begin.elapsed() < MOST {
            std::thread::sleep(STEP);
            let waited = last.elapsed();
            last += waited;
            self.leavers.removed.lock().waited(waited);
        }
    }

    /// Calls `request` when the space that is coming has come, or at once where none is.
    pub(super) fn when_there_is_space(&self, request: impl FnOnce(&Adapter) + Send + 'static) {
        if self.space().is_coming { self.again(0, request) } else { request(self) }
    }

    /// Whether a request that was refused for want of space is worth trying again.
    pub(crate) fn is_worth_waiting(&self, error: &FsError) -> bool {
        if !matches!(error, FsError::NoSpace) {
            return false;
        }
        // Space that came since the last look may have come after the request was refused.
        let Space { is_coming, has_come } = self.space();
        is_coming || has_come
    }

    /// Hands a request to the thread.
    pub(super) fn again(&self, whom: usize, request: impl FnOnce(&Adapter) + Send + 'static) {
        let errand = move |adapter: &Adapter| {
            let _whose = granary_sim::on_behalf(whom);
            adapter.wait_for_leavers();
            request(adapter);
        };
        self.leavers.errands.ask(self, Box::new(errand));
    }
}
