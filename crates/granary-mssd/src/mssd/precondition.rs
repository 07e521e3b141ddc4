//! Preconditioning: bringing a new drive into the state that long use leaves behind, before a measurement.
//!
//! Pages are written by the FTL itself, past link, firmware and write buffer, and no simulated time passes.
//! The flash counts them like host writes: take the counters afterwards and subtract.
//!
//! A drive that has served commands may hold newer content of a page outside the flash, so it is refused.

use super::Mssd;
use crate::config::{ConfigError, DriveConfig};
use crate::entry::{BUILT_IN, DriveEntry};
use crate::firmware::Backend;
use granary_device::CommandCounters;
use granary_device::DriveError;
use granary_units::{Lpa, Page};

impl Mssd {
    /// A new drive whose flash keeps no content: every page that its DRAM does not hold reads as zeros. For
    /// raw benches of large drives only; records of such runs must say so.
    ///
    /// # Errors
    /// As [`Mssd::new`].
    pub fn without_data(config: &DriveConfig) -> Result<Mssd, ConfigError> {
        DriveEntry::of(BUILT_IN, config)?.make_without_data(config)
    }

    /// Writes the `pages` pages from `first` on in order, in no simulated time and a few nanoseconds of wall
    /// time each. The flash is in the same state as after really writing them.
    ///
    /// # Errors
    /// Outside the drive; a drive that has served commands.
    pub fn fill(&self, first: Lpa, pages: u64, content: impl FnMut(Lpa) -> Page) -> Result<(), DriveError> {
        self.range(first, pages)?;
        self.prepare(|be| be.fill(first, pages, content))
    }

    /// Writes these pages in this order, in no simulated time, gc included.
    ///
    /// # Errors
    /// As [`Mssd::fill`].
    pub fn scatter(&self, writes: impl IntoIterator<Item = (Lpa, Page)>) -> Result<(), DriveError> {
        self.prepare(|be| be.scatter(writes))
    }

    fn prepare(&self, work: impl FnOnce(&mut Backend) -> Result<(), DriveError>) -> Result<(), DriveError> {
        let mut s = self.state.lock();
        if s.inner.commands != CommandCounters::default() || s.inner.backend.used() > 0 {
            return Err(DriveError::Failed(
                "only a drive that has served no command is preconditioned".into(),
            ));
        }
        let done = work(&mut s.inner.backend);
        s.publish()?;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use granary_device::Drive;

    #[test]
    fn a_preconditioned_drive_holds_the_data_and_no_time_has_passed() {
        for mode in [Mode::Log, Mode::Cache] {
            let config = DriveConfig::tiny(mode);
            let drive = Mssd::new(&config).expect("drive");
            let pages = config.pages();
            drive.fill(Lpa(0), pages, |l| Page::word(l.0 + 1)).expect("fill");
            drive.scatter((0..pages).map(|i| (Lpa(i * 7 % pages), Page::word(i + 9)))).expect("scatter");
            drive.check().expect("consistent");
            let last = (0..pages).filter(|i| i * 7 % pages == 7).max().expect("page 7 was written");
            assert_eq!(drive.peek(Lpa(7)).expect("peek"), Page::word(last + 9));
            assert!(drive.fill(Lpa(1), pages, |_| Page::ZERO).is_err(), "beyond the end");
        }
        let drive = Mssd::without_data(&DriveConfig::tiny(Mode::Log)).expect("drive");
        drive.fill(Lpa(0), 100, |l| Page::word(l.0 + 1)).expect("fill");
        assert_eq!(drive.peek(Lpa(7)).expect("peek"), Page::ZERO);
    }
}
