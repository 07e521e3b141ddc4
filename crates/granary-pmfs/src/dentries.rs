//! [`Dentries`]: directories in the memory of the drive, for a file system that works there (DevFS
//! section 4.2: a radix tree of dentries).
//!
//! ```text
//!   search   page of a directory ── known ──> from memory: no load, the time of a look-up
//!                                └─ not ────> loaded, known from now on
//!   commit   entries that changed ──> the same bytes of the known page
//!   free     the block of a directory ──> forgotten before anybody can have it
//! ```
//!
//! Where a name is or fits is found as on media ([`crate::hints`]), only that nothing is loaded for it: what
//! comes out is the same.

use crate::journal::Edit;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::{BLOCK, Pm};
use granary_units::{PAGE_SIZE, Page, Payload};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Pages that are known; then all are forgotten, and loaded again when they are needed.
const MOST: usize = 1 << 18;

/// See the module. By block.
#[derive(Default)]
pub(crate) struct Dentries(Mutex<FxHashMap<u64, Page>>);

impl Dentries {
    /// The content of a run of blocks of a directory.
    pub(crate) fn get(&self, pm: &Pm, first: u64, out: &mut [Page]) -> Result<()> {
        let known = {
            let all = self.0.lock();
            let mut pages = (first..).zip(out.iter_mut());
            pages.all(|(block, page)| all.get(&block).map(|content| *page = content.clone()).is_some())
        };
        if known {
            return Ok(());
        }
        pm.load_pages(first * BLOCK, out.len() * PAGE_SIZE, out, Structure::Dentry)?;
        let mut all = self.0.lock();
        if all.len() + out.len() > MOST {
            all.clear();
        }
        all.extend((first..).zip(out.iter().cloned()));
        Ok(())
    }

    /// These changes have been committed.
    pub(crate) fn changed<'a>(&self, edits: impl Iterator<Item = &'a Edit>) {
        let mut all = self.0.lock();
        for e in edits.filter(|e| e.what == Structure::Dentry) {
            if let Some(page) = all.get_mut(&(e.addr / BLOCK)) {
                page.write((e.addr % BLOCK) as usize, Payload::Bytes(&e.new));
            }
        }
    }

    /// The block is no directory's any more.
    pub(crate) fn forget(&self, block: u64) {
        self.0.lock().remove(&block);
    }
}
