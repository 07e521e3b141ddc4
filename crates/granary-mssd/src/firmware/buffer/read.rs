//! Pages that are read, and what is read ahead of them.

use super::{Backend, drive_error};
use granary_device::DriveError;
use granary_flash::Cause;
use granary_units::{Lpa, Nanos, Page};

impl Backend {
    /// Reads a page from the buffer or from flash.
    ///
    /// # Errors
    /// Unreadable flash.
    #[inline]
    pub fn read(&mut self, t: Nanos, lpa: Lpa, cause: Cause) -> Result<(Page, Nanos), DriveError> {
        if !self.newest.is_empty()
            && let Some(&slot) = self.newest.get(&lpa)
        {
            self.counters.hits += 1;
            return Ok((self.slots[slot as usize].page.clone(), t));
        }
        self.ftl.read(t, lpa, cause).map_err(|e| drive_error(lpa, e))
    }

    /// The page's content, taking no time.
    ///
    /// # Errors
    /// As [`Backend::read`].
    pub fn peek(&self, lpa: Lpa) -> Result<Page, DriveError> {
        match self.newest.get(&lpa) {
            Some(&slot) => Ok(self.slots[slot as usize].page.clone()),
            None => self.ftl.peek(lpa).map_err(|e| drive_error(lpa, e)),
        }
    }

    /// Whether the buffer or the flash holds a page.
    #[inline]
    pub fn holds(&self, lpa: Lpa) -> bool {
        self.ftl.is_mapped(lpa) || self.newest.contains_key(&lpa)
    }

    /// Touches what accesses to these pages will look up ([`granary_flash::Ftl::look_ahead`]).
    pub fn look_ahead(&self, lpas: &[Lpa]) {
        self.ftl.look_ahead(lpas);
    }

    /// Reads of `n` pages from `lpa` on come now ([`granary_flash::Ftl::prefetch_reads`]).
    #[inline]
    pub fn prefetch_reads(&self, lpa: Lpa, n: usize) {
        self.ftl.prefetch_reads(lpa, n);
    }

    /// A page will be read soon: its map entry is fetched into the processor's cache.
    #[inline]
    pub fn prefetch_entry(&self, lpa: Lpa) {
        self.ftl.prefetch_entry(lpa);
    }

    /// The part of it that lies after `now`.
    pub fn ahead(&self, now: Nanos) -> (Nanos, Nanos) {
        self.ftl.nand().ahead(now)
    }
}
