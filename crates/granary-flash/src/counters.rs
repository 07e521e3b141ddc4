//! [`FlashCounters`]: pages read and programmed at the flash, by [`Cause`].
//!
//! Every page access of the FTL is counted once, under one cause, so that the sum over the causes equals the
//! number of operations that the NAND array saw (design section 1, promise 3). Failed programs count: they
//! take time and wear.

use serde::{Deserialize, Serialize};

/// Why flash is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A host command, or the write-back of a host's page from the drive's cache.
    Host,
    /// The firmware merges its write log into flash pages.
    LogCleaning,
    /// Garbage collection: gc, wear leveling, and moving data out of failing blocks.
    Gc,
    /// Power-up scan of the OOB areas for the mapping.
    Mapping,
    /// The firmware's recovery after power loss.
    Recovery,
    /// The rest of a mapping unit of which the host wrote a part.
    MappingUnit,
}

impl Cause {
    /// Number of causes.
    pub const COUNT: usize = 6;
    /// All causes, in the order of the counters.
    pub const ALL: [Cause; Cause::COUNT] =
        [Cause::Host, Cause::LogCleaning, Cause::Gc, Cause::Mapping, Cause::Recovery, Cause::MappingUnit];

    /// The name that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::LogCleaning => "log_cleaning",
            Cause::Gc => "gc",
            Cause::Mapping => "mapping",
            Cause::Recovery => "recovery",
            Cause::MappingUnit => "mapping_unit",
        }
    }
}

/// Counters by cause, which an earlier version may have written: causes that it did not know have none.
fn by_cause<'de, D: serde::Deserializer<'de>>(from: D) -> Result<[u64; Cause::COUNT], D::Error> {
    let known = Vec::<u64>::deserialize(from)?;
    if known.len() > Cause::COUNT {
        return Err(serde::de::Error::custom(format!(
            "{} causes of flash traffic, of {}",
            known.len(),
            Cause::COUNT
        )));
    }
    Ok(std::array::from_fn(|cause| known.get(cause).copied().unwrap_or(0)))
}

/// Flash traffic since the drive was made, in pages of 4 KiB and in erased blocks. Indexed by `Cause as
/// usize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashCounters {
    /// Pages read.
    #[serde(deserialize_with = "by_cause")]
    pub read_pages: [u64; Cause::COUNT],
    /// Pages programmed, failed attempts included.
    #[serde(deserialize_with = "by_cause")]
    pub program_pages: [u64; Cause::COUNT],
    /// Blocks erased, failed attempts included.
    pub erases: u64,
}

impl FlashCounters {
    /// The counts since `earlier` was taken.
    pub fn since(&self, earlier: &FlashCounters) -> FlashCounters {
        let diff = |a: &[u64; Cause::COUNT], b: &[u64; Cause::COUNT]| std::array::from_fn(|i| a[i] - b[i]);
        FlashCounters {
            read_pages: diff(&self.read_pages, &earlier.read_pages),
            program_pages: diff(&self.program_pages, &earlier.program_pages),
            erases: self.erases - earlier.erases,
        }
    }

    /// Both together.
    pub fn plus(&self, more: &FlashCounters) -> FlashCounters {
        let sum = |a: &[u64; Cause::COUNT], b: &[u64; Cause::COUNT]| std::array::from_fn(|i| a[i] + b[i]);
        FlashCounters {
            read_pages: sum(&self.read_pages, &more.read_pages),
            program_pages: sum(&self.program_pages, &more.program_pages),
            erases: self.erases + more.erases,
        }
    }

    /// Pages read for `cause`.
    pub fn reads(&self, cause: Cause) -> u64 {
        self.read_pages[cause as usize]
    }

    /// Pages programmed for `cause`.
    pub fn programs(&self, cause: Cause) -> u64 {
        self.program_pages[cause as usize]
    }

    /// Pages read for any cause.
    pub fn total_reads(&self) -> u64 {
        self.read_pages.iter().sum()
    }

    /// Pages programmed for any cause.
    pub fn total_programs(&self) -> u64 {
        self.program_pages.iter().sum()
    }

    /// Write amplification of the FTL (WAF): pages programmed for each page that the firmware asked to write.
    /// 1 where nothing was written.
    pub fn waf(&self) -> f64 {
        let asked = self.total_programs() - self.programs(Cause::Gc);
        if asked == 0 { 1.0 } else { self.total_programs() as f64 / asked as f64 }
    }
}
