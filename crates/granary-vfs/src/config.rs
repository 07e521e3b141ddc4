//! [`VfsConfig`]: the knobs of the vfs, with Linux's defaults.

use granary_fs::Time;
use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// When reading a file moves its access time (mount options of the same names).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Atime {
    /// When it is not later than the last change, or older than a day (Linux's default).
    #[default]
    Relatime,
    /// Never.
    Noatime,
    /// At every read, as POSIX has it.
    Strictatime,
}

/// How the page cache learns which lines of a page a write() changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tracking {
    /// The write marks the lines that it touches: 8 bytes per page, no copy, no comparison.
    #[default]
    Mask,
    /// As the paper (section 4.6): the first write to a clean page leaves a duplicate of it behind,
    /// write-back compares the two. Lines that were written over with what they held are clean.
    Xor,
}

/// Which pages leave a full page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// Second chance, roughly what Linux's lists of active and inactive pages do.
    #[default]
    Clock,
    /// 2Q (Johnson and Shasha, VLDB 1994): pages that were used once leave before those that came back.
    #[serde(rename = "2q")]
    TwoQueues,
}

/// Configuration of a [`crate::Vfs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VfsConfig {
    /// Page cache, in bytes of pages. 8 GiB.
    pub page_cache: Bytes,
    /// Which pages leave when it is full.
    pub replacement: Replacement,
    /// Dirty share of the page cache above which write-back starts at once, in percent. Linux's
    /// `vm.dirty_background_ratio`, 10.
    pub dirty_background_percent: u32,
    /// Dirty share above which writers wait, in percent. Linux's `vm.dirty_ratio`, 20.
    pub dirty_limit_percent: u32,
    /// Age at which a dirty file is written back. Linux's `vm.dirty_expire_centisecs`, 30 s.
    pub dirty_expire: Nanos,
    /// How often the write-back daemon looks. Linux's `vm.dirty_writeback_centisecs`, 5 s.
    pub writeback_interval: Nanos,
    /// Files that are written back side by side. Linux has one flusher that does not wait for the drive
    /// before it goes on to the next file; here each of several flushers waits for its own. 8.
    pub flushers: usize,
    /// Bytes read at once when a file is read in sequence. Linux's `read_ahead_kb`, 128 KiB.
    pub read_ahead: Bytes,
    /// How lines changed by write() are found; those changed through mappings always by duplicate.
    pub tracking: Tracking,
    /// Comparing a page with its duplicate: 936 cycles (ByteFS section 4.6) of the paper's Xeon E5-2683 v3
    /// at 2.0 GHz.
    pub compare_page: Nanos,
    /// Access times.
    pub atime: Atime,
    /// Step of time stamps: one kernel tick, 4 ms (CONFIG_HZ=250).
    pub tick: Nanos,
    /// The date at the start of the world.
    pub epoch: Time,
    /// Directory entries kept in memory.
    pub dentries: usize,
    /// Inodes kept in memory (more where more are in use).
    pub inodes: usize,
    /// Nobody changes anything: there are no write-back daemons. Not of a testbed.
    #[serde(skip)]
    pub read_only: bool,
}

impl VfsConfig {
    /// The date now, in kernel ticks.
    pub(crate) fn time(&self) -> Time {
        let tick = self.tick.0.max(1);
        let now = granary_sim::now().0;
        Time::after(self.epoch, Nanos(now - now % tick))
    }
}

impl Default for VfsConfig {
    fn default() -> VfsConfig {
        VfsConfig {
            page_cache: Bytes::gib(8),
            replacement: Replacement::Clock,
            dirty_background_percent: 10,
            dirty_limit_percent: 20,
            dirty_expire: Nanos::from_secs(30),
            writeback_interval: Nanos::from_secs(5),
            flushers: 8,
            read_ahead: Bytes::kib(128),
            tracking: Tracking::Mask,
            compare_page: Nanos(468),
            atime: Atime::Relatime,
            tick: Nanos::from_millis(4),
            // 2025-01-01 00:00:00 UTC: any date does, as long as every run has the same.
            epoch: Time(1_735_689_600_000_000_000),
            dentries: 1 << 20,
            inodes: 1 << 20,
            read_only: false,
        }
    }
}
