//! The sync-point profiler: which files are worth persistent memory.
//!
//! A file is promoted after a row of fsyncs that come soon after each other and have few bytes between them.
//! The profiler uses the cumulative mean of the bytes between two fsyncs of the file, not the size of single
//! writes: small writes that nobody fsyncs stay with the lower file system's page cache.
//!
//! Source: SPFS slides, "Sync Point Profiler"; constants and the integer arithmetic of the mean are the
//! released code's (`migr_fsync_interval` 1000 ms, `migr_wrt_bytes_btw_fsync` 4 MiB,
//! `migr_continual_cnt` 30).

use crate::options::{Average, MountOptions};
use granary_units::Nanos;

/// Record of one file since it was last promoted, demoted or loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Bytes written since the last fsync.
    written: u64,
    /// When that was.
    last: Option<Nanos>,
    /// Fsyncs with bytes before them.
    count: u64,
    /// Mean of the bytes between them.
    mean: u64,
    /// Fsyncs in a row that met both criteria.
    row: u32,
}

/// Judgement of an fsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It met both criteria.
    pub qualifies: bool,
    /// It was the last one needed.
    pub promote: bool,
}

impl Profile {
    /// Bytes were written.
    pub fn wrote(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// The file was fsynced at `now`.
    pub fn synced(&mut self, now: Nanos, options: &MountOptions) -> Verdict {
        let soon = self.last.is_none_or(|last| now.0.saturating_sub(last.0) < options.fsync_interval.0);
        self.last = Some(now);
        let new = std::mem::take(&mut self.written);
        if new > 0 {
            self.count += 1;
            let n = self.count;
            self.mean = match options.average {
                Average::Cumulative => {
                    let kept = u128::from(self.mean) * u128::from(n - 1) / u128::from(n);
                    kept as u64 + new / n
                }
                // Half of the weight is on the newest eight intervals or so.
                Average::Ewma => self.mean - self.mean / 8 + new / 8,
            };
        }
        let qualifies = soon && self.mean < options.bytes_between_fsyncs.0;
        self.row = if qualifies { self.row + 1 } else { 0 };
        // A file that nothing was written to has nothing to gain, and some lower file systems do not make it
        // durable.
        Verdict { qualifies, promote: qualifies && self.row >= options.promote_after && self.count > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn row(profile: &mut Profile, from: u64, n: u32, bytes: u64) -> u32 {
        let options = MountOptions::default();
        (0..n)
            .map(|i| {
                profile.wrote(bytes);
                u32::from(profile.synced(Nanos(from + u64::from(i) * MS), &options).promote)
            })
            .sum()
    }

    /// P4: the 30th qualifying fsync promotes, 29 do not.
    #[test]
    fn the_thirtieth_fsync_in_a_row_promotes() {
        let mut profile = Profile::default();
        assert_eq!(row(&mut profile, 0, 29, 4096), 0);
        assert_eq!(row(&mut profile, 30 * MS, 1, 4096), 1);
    }

    /// P4: a pause of a second, or a mean of 4 MiB, begins the row anew.
    #[test]
    fn a_pause_or_much_data_begins_anew() {
        let mut profile = Profile::default();
        assert_eq!(row(&mut profile, 0, 29, 4096), 0);
        assert_eq!(row(&mut profile, 28 * MS + 1000 * MS, 1, 4096), 0, "a gap of exactly 1000 ms");
        assert_eq!(row(&mut profile, 1100 * MS, 28, 4096), 0, "the gap itself did not count");
        let mut profile = Profile::default();
        assert_eq!(row(&mut profile, 0, 29, 4096), 0);
        assert_eq!(row(&mut profile, 30 * MS, 1, 1 << 30), 0);
        assert_eq!(profile.row, 0);
        let mut profile = Profile::default();
        assert_eq!(row(&mut profile, 0, 100, 5 << 20), 0, "the mean is 5 MiB, less what divisions cut off");
        let mut profile = Profile::default();
        assert_eq!(row(&mut profile, 0, 30, (4 << 20) - 4096), 1, "the mean is below 4 MiB");
    }

    /// The mean is the released code's: integer division of each part.
    #[test]
    fn the_mean_is_computed_as_published() {
        let mut profile = Profile::default();
        let options = MountOptions::default();
        let mut mean = 0u64;
        for n in 1..50u64 {
            let bytes = n * 1237;
            profile.wrote(bytes);
            profile.synced(Nanos(n), &options);
            mean = mean * (n - 1) / n + bytes / n;
            assert_eq!(profile.mean, mean);
        }
        let before = profile;
        profile.synced(Nanos(60), &options);
        assert_eq!(profile.mean, before.mean, "an fsync without bytes does not change the mean");
    }
}
