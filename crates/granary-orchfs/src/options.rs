//! Options of mkfs and mount. Testbed files contain these tables.

use granary_fs::entry::too_short;
use granary_fs::{Options, Time};
use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Choices of `mkfs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MkfsOptions {
    /// Journals: so many processes have one of their own; more share them.
    pub journals: u64,
    /// Bytes of each, at least 64 KiB; `None` = a 256th part of the NVM, between 64 KiB and 64 MiB (the
    /// released code has an area of 900 MB for all, of 1 MiB segments).
    pub journal: Option<Bytes>,
    /// Inodes; `None` = one for each 16 KiB of both devices (ext4's ratio), on an eighth of the NVM at most.
    pub inodes: Option<u64>,
    /// Time stamp of the root directory, nanoseconds since 1970.
    pub time: i64,
    /// Permission bits of the root directory; `None` = 0755.
    pub root_mode: Option<u16>,
}

impl Default for MkfsOptions {
    fn default() -> MkfsOptions {
        MkfsOptions { journals: 4, journal: None, inodes: None, time: 0, root_mode: None }
    }
}

impl MkfsOptions {
    pub(crate) fn made(&self) -> Time {
        Time(self.time)
    }
}

/// Fate of NVM pages above an SSD block that is written as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reclaim {
    /// They are freed (the paper's text, section 3.4).
    #[default]
    Paper,
    /// Their headers are cleared and they stay for the next write (the released code; Table 2 was made so).
    Artifact,
}

/// How writes are partitioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partition {
    /// OrchFS's (section 3.4).
    #[default]
    Orchfs,
    /// PHFS's, the paper's own baseline: a request of less than 32 KB goes to the NVM, a larger one through
    /// the page cache to the SSD, synchronously; all metadata are on the NVM (slides, "Experimental Setup").
    Phfs,
}

/// Effect of a power failure on a write that has not returned. Metadata are whole either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataAtomicity {
    /// Each byte is old or new (the paper's default, section 4).
    #[default]
    None,
    /// Old or new as a whole, up to 30 blocks of 32 KiB: bytes that are overwritten in place are copied
    /// before.
    Undo,
    /// Old or new as a whole, up to 40 blocks: nothing is overwritten in place; a new page or block takes the
    /// old one's place.
    Redo,
}

/// Fate of an Upage whose header has no entry left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FullUpage {
    /// The gaps come from the SSD, and it becomes a plain page: no write to the SSD.
    #[default]
    Convert,
    /// The page is written back to the SSD, 4 KiB, and freed (the paper's text, section 3.3; the released
    /// code at 12 entries). With `data_atomicity = "redo"`, which writes nothing in place, it is converted.
    Writeback,
}

/// How a file's readers and writers are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RangeKind {
    /// Readers and writers of ranges (the paper, section 3.5).
    #[default]
    Rw,
    /// A readers-writer lock of the file, and a lock for each block that readers take alone, too (the
    /// released code).
    Bits,
}

/// Choices of `mount`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MountOptions {
    /// How writes are partitioned.
    pub partition: Partition,
    /// A request to the kernel's part and its answer: a lease that moves, numbers that are granted. 10 us is
    /// a choice: the released code asks by TCP on one host, round trips of which take 5 to 20 us.
    pub ipc: Nanos,
    /// Effect of a power failure on a write that has not returned.
    pub data_atomicity: DataAtomicity,
    /// An Upage whose header has no entry left.
    pub full_upage: FullUpage,
    /// How a file's readers and writers are kept apart.
    pub range_lock: RangeKind,
    /// NVM pages above a block that is written as a whole.
    pub reclaim: Reclaim,
    /// The parallel engine (section 3.6): all I/Os of a request are submitted, then waited for. Without it
    /// the NVM's stores come first, then the SSD's commands one after the other (the slides' Figure 11b).
    pub engine: bool,
    /// Threads of the SSD: one I/O of each is under way at a time, and a block is that of thread (number
    /// modulo this). 32 is the paper's default and best; 8 nearly saturate its SSD.
    pub ssd_threads: u64,
    /// Threads of the NVM: so many requests store there at a time. 4 is the paper's default, as many writers
    /// as one DIMM takes; 0: as many as come.
    pub nvm_threads: u64,
    /// Memory for pages of the SSD that were read; `None` = what the host has for metadata.
    pub read_cache: Option<Bytes>,
    /// Blocks migrate to the SSD (section 3.7). The released code has it compiled out.
    pub migrate: bool,
    /// Percent of the NVM's pages that may be taken before blocks migrate ("usage high": 80 is a choice, no
    /// source has a number).
    pub migrate_high: u64,
    /// Percent down to which they do.
    pub migrate_low: u64,
    /// Nobody has called for so long: blocks migrate, too; 0 = never ("idle": 100 ms is a choice).
    pub migrate_idle: Nanos,
    /// How often the daemon looks whether blocks are to migrate. It digests a journal without being asked: as
    /// soon as 1 MiB waits.
    pub migrate_pause: Nanos,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            partition: Partition::Orchfs,
            ipc: Nanos::from_micros(10),
            data_atomicity: DataAtomicity::None,
            full_upage: FullUpage::Convert,
            range_lock: RangeKind::Rw,
            reclaim: Reclaim::Paper,
            engine: true,
            ssd_threads: 32,
            nvm_threads: 4,
            read_cache: None,
            migrate: true,
            migrate_high: 80,
            migrate_low: 70,
            migrate_idle: Nanos::from_millis(100),
            migrate_pause: Nanos::from_millis(100),
        }
    }
}

/// Most threads: the slides' Figure 12 ends at 64.
const MOST_THREADS: u64 = 1024;

/// The first option of a complete table of [`MountOptions`] that is out of its range, and why.
pub fn refusal(given: &dyn Options) -> Option<(&'static str, String)> {
    let options: MountOptions = given.read().ok()?;
    if !(1..=MOST_THREADS).contains(&options.ssd_threads) {
        return Some(("ssd_threads", format!("must be between 1 and {MOST_THREADS}")));
    }
    if options.nvm_threads > MOST_THREADS {
        return Some(("nvm_threads", format!("must be {MOST_THREADS} at most; 0: no limit")));
    }
    if options.migrate_high > 100 {
        return Some(("migrate_high", format!("is {} percent: at most 100", options.migrate_high)));
    }
    if options.migrate_low > options.migrate_high {
        return Some(("migrate_low", format!("must not be above migrate_high, {}", options.migrate_high)));
    }
    too_short(&[("migrate_pause", options.migrate_pause)])
}
