//! [`Dentries`]: directories in the memory of the drive, for a file system that works there (DevFS section 4.2: a radix tree of
//! dentries).
//!
//! ```text
//!   search   page of a directory ── known ──> from memory: no load, the time of a look-up
//!                                └─ not ────> loaded, known from now on
//!   commit   entries that changed ──> the same bytes of the known page
//!   free     the block of a directory ──> forgotten before anybody can have it
//! ```
//!
//! Where a name is or fits is found as on media ([`crate::hints`]), only that nothing is loaded for it: what comes out is the same.

use crate::Pmfs;
use crate::journal::Edit;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::{BLOCK, Pm};
use granary_units::{Lpa, PAGE_SIZE, Page, Payload};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Pages that are known; then all are forgotten, and loaded again when they are needed.
const MOST: usize = 1 << 18;

/// See the module. By block.
#[derive(Default)]
pub(crate) struct Dentries(Mutex<FxHashMap<u64, Page>>);

impl Dentries {
    /// The content of a run of blocks of a directory.
    fn get(&self, pm: &Pm, first: u64, out: &mut [Page]) -> Result<()> {
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

impl Pmfs {
    /// [`Pm::load_pages`] of whole blocks of a directory.
    pub(crate) fn load_dir(&self, first: u64, out: &mut [Page]) -> Result<()> {
        match &self.dentries {
            Some(dentries) => dentries.get(&self.pm, first, out),
            None => self.pm.load_pages(first * BLOCK, out.len() * PAGE_SIZE, out, Structure::Dentry),
        }
    }

    /// [`Pm::load_known`] of blocks of a directory.
    pub(crate) fn load_dir_known(
        &self,
        runs: &[(Lpa, usize)],
        known: &[Page],
        fresh: &mut [Page],
    ) -> Result<(usize, u64)> {
        let Some(dentries) = &self.dentries else {
            return self.pm.load_known(runs, known, fresh, Structure::Dentry);
        };
        let mut at = 0;
        for (n, (first, count)) in runs.iter().enumerate() {
            dentries.get(&self.pm, first.0, &mut fresh[..*count])?;
            let pairs = fresh[..*count].iter().zip(&known[at..]).enumerate();
            let changed = pairs.fold(0, |bits, (i, (a, b))| bits | u64::from(!a.is_same(b)) << i);
            if changed != 0 || n + 1 == runs.len() {
                return Ok((n + 1, changed));
            }
            at += count;
        }
        Ok((0, 0))
    }
}
