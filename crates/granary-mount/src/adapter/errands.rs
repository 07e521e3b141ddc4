//! [`Errands`]: a thread for work that a serving thread must not wait for.
//!
//! ```text
//!   serving thread:  request that has to wait ── ask ──> goes on to the next request
//!   the thread:                                           waits, then answers
//! ```
//!
//! Such work waits for the kernel, which acts through requests to serving threads: FORGETs (space.rs), WRITEs
//! of pages that mappings have changed (seek.rs), READs that hold pages (pages.rs). A thread that waits must
//! not be needed to serve them.
//!
//! Invariant: the thread holds nothing of the file system between errands, and it ends before the file system
//! does ([`Errands::stop`]).

use super::Adapter;
use parking_lot::Mutex;
use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// Something to be done once. Dropped, a reply in it says EIO.
pub(crate) type Errand = Box<dyn FnOnce(&Adapter) + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct Errands(Mutex<Option<(Sender<Errand>, JoinHandle<()>)>>);

impl Errands {
    /// Starts the thread for a mount.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(&self, adapter: &Arc<Adapter>, name: &str) -> io::Result<()> {
        let (ask, asked) = mpsc::channel::<Errand>();
        let weak: Weak<Adapter> = Arc::downgrade(adapter);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for errand in asked {
                if let Some(adapter) = weak.upgrade() {
                    errand(&adapter);
                }
            }
        })?;
        *self.0.lock() = Some((ask, thread));
        Ok(())
    }

    /// Ends it. No requests come any more; errands that were asked for are done first.
    pub(crate) fn stop(&self) {
        let running = self.0.lock().take();
        if let Some((ask, thread)) = running {
            drop(ask);
            let _ = thread.join();
        }
    }

    /// Hands something over; where there is no thread it is done here and now.
    pub(super) fn ask(&self, adapter: &Adapter, errand: Errand) {
        let left = match &*self.0.lock() {
            Some((ask, _)) => ask.send(errand).err().map(|mpsc::SendError(errand)| errand),
            None => Some(errand),
        };
        if let Some(errand) = left {
            errand(adapter);
        }
    }
}
