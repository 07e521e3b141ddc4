//! [`DimmConfig`]: everything about NVM DIMMs that can be chosen.
//!
//! A configuration that [`DimmConfig::validate`] accepts makes working DIMMs. The values of each kind, with
//! their sources, are in `config/kinds.rs`.

mod kinds;

use granary_units::{Bytes, LINE_SIZE, Nanos, PAGE_SIZE};
use serde::{Deserialize, Serialize};

/// Sorts of DIMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Intel Optane DC persistent memory module, first generation.
    OptaneDcpmm,
    /// DRAM with a flash copy of it that a power failure makes.
    NvdimmN,
    /// Storage of DRAM speed, which DevFS's paper has.
    DramSpeed,
}

/// The point from which on the platform keeps stored data through a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// From the write-pending queue on (asynchronous DRAM refresh): the content of the processors' caches is
    /// lost.
    Adr,
    /// From the processors' caches on (extended ADR): nothing that was stored is lost.
    Eadr,
}

/// Lines that the media fail to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorConfig {
    /// Lines read that turn out to be uncorrectable, in 10^9. Such a line stays so until it is stored whole.
    pub unreadable_ppb: u32,
    /// Seed of the failures.
    pub seed: u64,
}

/// One DIMM, or several of one kind that are interleaved. Bandwidths, queue and buffer are those of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DimmConfig {
    /// DIMMs, 1 to 64.
    pub dimms: usize,
    /// Bytes of each; a multiple of the stripe.
    pub capacity: Bytes,
    /// Bytes in a row that lie on one DIMM, before the next one's; a multiple of 4 KiB.
    pub stripe: Bytes,
    /// The persistence domain, whose content a power failure leaves.
    pub domain: Domain,
    /// Load of one line that the media have to be asked for.
    pub read_random: Nanos,
    /// Load of one line, averaged over all lines in the order of their addresses.
    pub read_sequential: Nanos,
    /// Non-temporal store of one line and the fence behind it.
    pub nt_store: Nanos,
    /// Store of one line, clwb and the fence behind them.
    pub store_clwb: Nanos,
    /// Read bandwidth of a DIMM, in bytes per second.
    pub read_bandwidth: Bytes,
    /// Write bandwidth of a DIMM, in bytes per second.
    pub write_bandwidth: Bytes,
    /// Most that one core reads, in bytes per second.
    pub core_read: Bytes,
    /// Most that one core stores past its caches, in bytes per second.
    pub core_nt: Bytes,
    /// Most that one core stores and writes back, in bytes per second.
    pub core_clwb: Bytes,
    /// Thousandths of the read bandwidth that are left with 1, 2, 3, ... cores that read; with more than the
    /// list is long, its last.
    pub readers: Vec<u16>,
    /// Thousandths of the write bandwidth that are left with 1, 2, 3, ... cores that write, for non-temporal
    /// stores.
    pub nt_writers: Vec<u16>,
    /// The same for lines that the caches write back.
    pub clwb_writers: Vec<u16>,
    /// How long after the end of its last access to a DIMM a core counts as one that reads or writes there.
    pub window: Nanos,
    /// Lines that wait for a DIMM in the persistence domain: the processor's write-pending queue and the
    /// DIMM's own.
    pub queue: usize,
    /// Bytes that the media read or write at once: 64 B to 4 KiB, a power of two.
    pub granule: Bytes,
    /// Bytes of the buffer that combines writes into granules; 0: none, and the granule is a line.
    pub buffer: Bytes,
    /// Bytes stored and not written back that the processors' caches hold; beyond it the oldest lines are
    /// evicted.
    pub caches: Bytes,
    /// Lines that cannot be read.
    #[serde(default)]
    pub errors: ErrorConfig,
}

/// Why a configuration makes no DIMM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NVM DIMM: {field} {why}")]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// The fault, and the values that would be right.
    pub why: String,
}

fn refuse(field: &'static str, why: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError { field, why: why.into() })
}

impl DimmConfig {
    /// All pages of 4 KiB.
    pub fn pages(&self) -> u64 {
        self.dimms as u64 * self.capacity.0 / PAGE_SIZE as u64
    }

    /// Lines of a granule.
    pub(crate) fn granule_lines(&self) -> u64 {
        self.granule.0 / LINE_SIZE as u64
    }

    /// This with so many DIMMs of the smallest capacity that all have at least `size` together.
    pub fn with_capacity(self, size: Bytes) -> DimmConfig {
        let each = size.0.div_ceil(self.dimms.max(1) as u64).next_multiple_of(self.stripe.0.max(1));
        DimmConfig { capacity: Bytes(each.max(self.stripe.0)), ..self }
    }

    /// This, `dimms` of them interleaved.
    pub fn interleaved(self, dimms: usize) -> DimmConfig {
        DimmConfig { dimms, ..self }
    }

    /// Whether DIMMs can be made of it.
    ///
    /// # Errors
    /// The first field that is wrong, and what would be right.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=64).contains(&self.dimms) {
            refuse("dimms", "must be 1 to 64")?;
        }
        if self.stripe.0 == 0 || !self.stripe.0.is_multiple_of(PAGE_SIZE as u64) {
            refuse("stripe", "must be a multiple of 4KiB")?;
        }
        if self.capacity.0 < self.stripe.0 || !self.capacity.0.is_multiple_of(self.stripe.0) {
            refuse("capacity", format!("must be a multiple of the stripe ({})", self.stripe))?;
        }
        // Byte addresses, and bytes times DIMMs, stay within 64 bits.
        if self.capacity.0 > 1 << 50 {
            refuse("capacity", "must be at most 1024TiB")?;
        }
        self.validate_speeds()?;
        for (field, table) in [
            ("readers", &self.readers),
            ("nt_writers", &self.nt_writers),
            ("clwb_writers", &self.clwb_writers),
        ] {
            if table.is_empty() || table.iter().any(|n| !(1..=1000).contains(n)) {
                refuse(field, "must list at least one number of thousandths, each 1 to 1000")?;
            }
        }
        if !(1..=4096).contains(&self.queue) {
            refuse("queue", "is in lines: 1 to 4096, for example 4")?;
        }
        if !(LINE_SIZE as u64..=PAGE_SIZE as u64).contains(&self.granule.0)
            || !self.granule.0.is_power_of_two()
        {
            refuse("granule", "must be a power of two from 64 B to 4KiB")?;
        }
        if !self.buffer.0.is_multiple_of(self.granule.0) || self.buffer.0 > 1 << 30 {
            refuse("buffer", format!("must be a multiple of the granule ({}), at most 1GiB", self.granule))?;
        }
        if (self.buffer.0 == 0) != (self.granule.0 == LINE_SIZE as u64) {
            refuse(
                "buffer",
                "is what combines lines into granules: 0 where a granule is a line, and only there",
            )?;
        }
        if self.caches.0 < LINE_SIZE as u64 || self.caches.0 > 1 << 40 {
            refuse("caches", "must hold at least one line (64 B), and at most 1TiB")?;
        }
        if self.errors.unreadable_ppb > 1_000_000_000 {
            refuse("errors.unreadable_ppb", "counts lines in 10^9")?;
        }
        Ok(())
    }

    fn validate_speeds(&self) -> Result<(), ConfigError> {
        for (field, rate) in [
            ("read_bandwidth", self.read_bandwidth),
            ("write_bandwidth", self.write_bandwidth),
            ("core_read", self.core_read),
            ("core_nt", self.core_nt),
            ("core_clwb", self.core_clwb),
        ] {
            if !(1_000_000..=1_000_000_000_000).contains(&rate.0) {
                refuse(field, "is in bytes per second: 1 MB/s to 1 TB/s")?;
            }
        }
        for (field, time) in [
            ("read_random", self.read_random),
            ("read_sequential", self.read_sequential),
            ("nt_store", self.nt_store),
            ("store_clwb", self.store_clwb),
            ("window", self.window),
        ] {
            if time > Nanos::from_secs(1) {
                refuse(field, "is in nanoseconds, at most one second")?;
            }
        }
        if self.read_sequential > self.read_random {
            refuse("read_sequential", "must not be more than read_random")?;
        }
        let granule = self.granule_lines();
        if granule > 1 && self.read_sequential * granule < self.read_random {
            refuse(
                "read_sequential",
                format!(
                    "cannot be so little: one line of the {granule} of a granule takes read_random ({})",
                    self.read_random
                ),
            )?;
        }
        Ok(())
    }
}

impl From<ConfigError> for granary_redo::ImageError {
    fn from(e: ConfigError) -> granary_redo::ImageError {
        granary_redo::ImageError::Config(e.to_string())
    }
}
