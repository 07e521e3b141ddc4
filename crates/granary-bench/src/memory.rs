//! [`Need`]: the memory that emulated devices take for certain, and whether this process can have it.
//!
//! ```text
//!   configuration + what is done ──> Need { touched, reserved }
//!                                        │          │
//!        MemAvailable, control group ────┘          └──── ulimit -v      GRANARY_MEMORY replaces all of them
//! ```
//!
//! A need is a lower bound: tables, the pages of preconditioning, the files that a workload makes. A command
//! whose need is met may still run out of memory by its later writes. A command whose need is not met would
//! certainly end before its result. So nothing is refused that could run. All commands make their devices
//! here ([`ssd`], [`nvm`]).
//!
//! Where the figures come from: `granary_flash::RamMedium`, `NoData`, `Ftl`; `granary_mssd`'s write log and
//! BAM.

mod limits;

use crate::drives;
use crate::error::BenchError;
use crate::precondition::Precondition;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_pmem::{Dimm, DimmConfig};
use granary_units::{Bytes, PAGE_SIZE};
pub use limits::{Limits, peak};

/// The program itself, its libraries and its threads' stacks (measured: 24 MiB).
const PROGRAM: u64 = 24 << 20;
/// Address space that the allocator takes beyond what is asked for.
const ALLOCATOR: u64 = 32 << 20;
/// Tables of each erase block: the medium's header and chunk, the array's header, free list, live count and
/// age.
const BLOCK: u64 = 64;
/// A page of the flash whose content is kept: handle and OOB area.
const SLOT: u64 = 32;
/// An entry of a map, which numbers pages.
const ENTRY: u64 = 4;
/// A chunk of pages of an NVM DIMM: its handles, and which of them are open.
const NVM_CHUNK: (u64, u64) = (2048, 48);

/// The state of a drive before it is measured, and whether it keeps content.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Its content before the run.
    pub precondition: Precondition,
    /// Whether its flash keeps content; where not, the figures are those of `--no-data`.
    pub content: bool,
}

impl Use {
    /// A new drive with content.
    pub const NEW: Use = Use { precondition: Precondition::None, content: true };
    /// A new drive without.
    pub const EMPTY: Use = Use { content: false, ..Use::NEW };
}

/// Memory that is needed for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes that are written to, so that there must be memory behind them.
    pub touched: u64,
    /// Bytes of address space: `touched`, and tables of which nobody knows how much will be written to.
    pub reserved: u64,
}

impl Need {
    /// An SSD in memory.
    pub fn of_ssd(config: &DriveConfig, how: Use) -> Need {
        let geometry = &config.flash.geometry;
        let (pages, flash, blocks) = (config.pages(), geometry.pages(), u64::from(geometry.blocks()));
        let (maps, live) = (pages * ENTRY, flash / 8);
        let kept = if how.content { 0 } else { flash * ENTRY + live };
        let firmware = &config.firmware;
        let bam = firmware.bam.as_ref().map_or(0, |bam| (pages + flash) * ENTRY + bam.file_slots() * 16);
        let log = if firmware.mode == Mode::Log { firmware.log_region.0 } else { 0 };
        let slots = match how.precondition {
            Precondition::Random(_) if how.content => flash * SLOT,
            _ => 0,
        };
        let filled = match (how.precondition, how.content) {
            (Precondition::None, _) => 0,
            (_, true) => maps + live + slots,
            (_, false) => maps + live + kept * pages / flash.max(1),
        };
        Need {
            touched: blocks * BLOCK + filled,
            reserved: blocks * BLOCK + maps + live + kept + bam + log + slots,
        }
    }

    /// NVM DIMMs: their content is as sparse as what is written.
    pub fn of_nvm(config: &DimmConfig) -> Need {
        let tables = config.pages() / NVM_CHUNK.0 * NVM_CHUNK.1;
        Need { touched: tables, reserved: tables }
    }

    /// Of two devices.
    #[must_use]
    pub fn and(self, other: Need) -> Need {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        Need { touched: sum(self.touched, other.touched), reserved: sum(self.reserved, other.reserved) }
    }

    /// Of so many of these devices.
    #[must_use]
    pub fn times(self, n: u64) -> Need {
        Need { touched: self.touched.saturating_mul(n), reserved: self.reserved.saturating_mul(n) }
    }

    /// Whether there is so much.
    pub fn fits(self, limits: &Limits) -> bool {
        self.must_fit("", limits, |_| String::new()).is_ok()
    }

    /// The peak of a process that has such devices, bytes, if it writes little.
    pub fn peak(self) -> Bytes {
        Bytes(self.touched + PROGRAM)
    }

    /// Checks it against what there is. `smaller(part)` says how the caller gets devices of at most this part
    /// of the size.
    ///
    /// # Errors
    /// [`BenchError::Usage`]: how much is needed, how much there is and who says so, and what to do.
    pub fn must_fit(
        self,
        what: &str,
        limits: &Limits,
        smaller: impl FnOnce(f64) -> String,
    ) -> Result<(), BenchError> {
        let over = |need: u64, has: &Option<(u64, String)>| {
            has.clone().filter(|(has, _)| need > *has).map(|(has, who)| (need, has, who))
        };
        let touched = over(self.touched.saturating_add(PROGRAM), &limits.memory);
        let Some((need, has, who)) =
            touched.or_else(|| over(self.reserved.saturating_add(ALLOCATOR), &limits.address_space))
        else {
            return Ok(());
        };
        let part = has.saturating_sub(PROGRAM) as f64 / need as f64;
        let (need, has) = (Bytes(need), Bytes(has));
        let advice = smaller(part * 0.9);
        Err(BenchError::Usage(format!("{what} needs {need} of memory, and there is {has} ({who}): {advice}")))
    }
}

/// An SSD in memory, if there is memory for it.
///
/// # Errors
/// [`BenchError::Usage`] where there is not, with what to do; figures that no drive can have.
pub fn ssd(testbed: &str, config: &DriveConfig, how: Use) -> Result<Mssd, BenchError> {
    ssd_fits(testbed, config, how, &Limits::here()?)?;
    drives::make(config, how.content)
        .map_err(|e| BenchError::BadDevice { testbed: testbed.to_owned(), message: e.to_string() })
}

/// NVM DIMMs in memory, if there is memory for them.
///
/// # Errors
/// As [`ssd`].
pub fn nvm(testbed: &str, config: &DimmConfig) -> Result<Dimm, BenchError> {
    let what = format!("an NVM DIMM of testbed {testbed} ({})", Bytes(config.pages() * PAGE_SIZE as u64));
    Need::of_nvm(config).must_fit(&what, &Limits::here()?, |part| {
        let capacity = (config.capacity.0 as f64 * part) as u64 >> 20;
        format!("take a smaller one (--set nvm.capacity={}MiB)", capacity.max(16))
    })?;
    Dimm::new(config)
        .map_err(|e| BenchError::BadDevice { testbed: testbed.to_owned(), message: e.to_string() })
}

/// Whether there is memory for the tables of devices whose content is in an image.
///
/// # Errors
/// [`BenchError::Usage`] where there is not, with what to do.
pub fn image_fits(image: &str, ssd: Option<&DriveConfig>) -> Result<(), BenchError> {
    let need = ssd.map(|config| Need::of_ssd(config, Use::NEW)).unwrap_or_default();
    let had = ssd.map_or(0, |config| config.pages() * PAGE_SIZE as u64);
    need.must_fit(&format!("the drive of image {image}"), &Limits::here()?, |part| {
        let size = (had as f64 * part) as u64 >> 20;
        format!("give more memory, or make a smaller image (`granary mkfs IMAGE --size {}MiB`)", size.max(64))
    })
}

/// Whether there is memory for a drive.
///
/// # Errors
/// As [`ssd`].
pub fn ssd_fits(testbed: &str, config: &DriveConfig, how: Use, limits: &Limits) -> Result<(), BenchError> {
    let need = Need::of_ssd(config, how);
    let capacity = Bytes(config.pages() * PAGE_SIZE as u64);
    let what = match how.precondition {
        Precondition::None => format!("an SSD of testbed {testbed} ({capacity})"),
        other => format!("an SSD of testbed {testbed} ({capacity}), preconditioned with {other},"),
    };
    let log = config.firmware.log_region;
    // The system refuses at once what is more than the machine has.
    if config.firmware.mode == Mode::Log && !limits.gives_at_once(log.0) {
        return Err(BenchError::Usage(format!(
            "drive.firmware.log_region of {log} is more than this machine's memory has room for: take a smaller one (--set \
             log_region=256MiB)"
        )));
    }
    need.must_fit(&what, limits, |part| {
        let blocks = (f64::from(config.flash.geometry.blocks_per_plane) * part) as u32;
        let least = config.flash.with_capacity(Bytes(1)).geometry.blocks_per_plane;
        let mut ways = vec![format!("take a smaller drive (--set blocks_per_plane={})", blocks.max(least))];
        let fewer = |to: Precondition, content| Need::of_ssd(config, Use { precondition: to, content });
        if let (Precondition::Random(_), true) = (how.precondition, how.content) {
            ways.push(format!("--precondition fill ({})", fewer(Precondition::Fill, true).peak()));
            let no_data = fewer(how.precondition, false);
            if no_data.touched < need.touched {
                ways.push(format!("--no-data ({})", no_data.peak()));
            }
        }
        if how.precondition == Precondition::Fill {
            ways.push(format!("--precondition none ({})", fewer(Precondition::None, how.content).peak()));
        }
        ways.join(", or ") + "; GRANARY_MEMORY=SIZE says that there is more"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_log_beyond_memory_is_refused() {
        let mut config = DriveConfig::bytefs_emulator();
        let fits = |c: &DriveConfig| ssd_fits("t", c, Use::NEW, &Limits::default());
        fits(&config).expect("256 MiB");
        config.firmware.log_region = Bytes(1 << 60);
        let told = fits(&config).expect_err("refused").to_string();
        assert!(told.contains("drive.firmware.log_region"), "{told}");
        fits(&config.with_mode(Mode::Cache)).expect("has no log");
    }
}
