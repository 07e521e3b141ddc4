//! Pages of a directory, from media or from the drive's memory.

use crate::fs::Pmfs;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::BLOCK;
use granary_units::{Lpa, PAGE_SIZE, Page};

impl Pmfs {
    /// [`granary_pm::Pm::load_pages`] of whole blocks of a directory.
    pub(crate) fn load_dir(&self, first: u64, out: &mut [Page]) -> Result<()> {
        match &self.dentries {
            Some(dentries) => dentries.get(&self.pm, first, out),
            None => self.pm.load_pages(first * BLOCK, out.len() * PAGE_SIZE, out, Structure::Dentry),
        }
    }

    /// [`granary_pm::Pm::load_known`] of blocks of a directory.
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
