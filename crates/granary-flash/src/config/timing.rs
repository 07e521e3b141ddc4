//! [`NandTiming`]: times of the array's operations; [`PlaneMode`]: operations that the planes of a die can do
//! at once.
//!
//! Source: ByteFS Table 4 gives 40 us read and 60 us program; plane modes are those of ONFI 4.0 section 5
//! (multi-plane operations need the same page address in each plane) and of independent plane reads in newer
//! parts.

use super::config;
use crate::error::FlashError;
use granary_units::{Bytes, Nanos, PAGE_SIZE};
use serde::{Deserialize, Serialize};

/// How long the NAND operations take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandTiming {
    /// Page read, cells to page register, ns.
    #[serde(rename = "read_ns")]
    pub read: Nanos,
    /// Page program, page register to cells, ns.
    #[serde(rename = "program_ns")]
    pub program: Nanos,
    /// Block erase, ns.
    #[serde(rename = "erase_ns")]
    pub erase: Nanos,
    /// Bandwidth of one channel bus, bytes per second.
    pub channel_bandwidth: Bytes,
}

impl NandTiming {
    /// Time that `bytes` occupy a channel bus, rounded up to 1 ns.
    pub fn transfer(&self, bytes: u64) -> Nanos {
        let ns = (bytes as u128 * 1_000_000_000).div_ceil(self.channel_bandwidth.0.max(1) as u128);
        Nanos(ns as u64)
    }

    pub(super) fn validate(&self) -> Result<(), FlashError> {
        if self.channel_bandwidth.0 < PAGE_SIZE as u64 {
            return config(format!(
                "channel_bandwidth of {} bytes per second: at least one page per second is needed",
                self.channel_bandwidth.0
            ));
        }
        if let Some((name, _)) = [("read", self.read), ("program", self.program), ("erase", self.erase)]
            .iter()
            .find(|(_, t)| t.0 > Nanos::from_secs(1).0)
        {
            return config(format!("{name} takes longer than a second; times are in nanoseconds"));
        }
        Ok(())
    }
}

/// Operations that the planes of one die can do at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneMode {
    /// Planes work independently of each other, on whatever operation: the bound that multi-plane commands
    /// approach.
    #[default]
    Independent,
    /// Operations of one kind at the same page of their blocks share one array time, if the later ones come,
    /// and their data is loaded, before the first begins. Erases at any blocks. Needs `cache_program` and
    /// `cache_read`, since data is loaded into one plane's register while the die works.
    MultiPlane,
    /// A die does one operation at a time, whatever planes it has.
    OneAtATime,
}
