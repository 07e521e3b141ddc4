//! `counters.toml`: counters of each device at the last clean close.
//!
//! ```text
//!   [link] [flash] ...            the SSD, as `DriveCounters`
//!   [device.nvm.drive] ...        the DIMMs, likewise
//!   [device.nvm.dimm]             and what happened behind their bus
//! ```

use granary_device::DriveCounters;
use granary_pmem::DimmCounters;
use granary_redo::ImageError;
use granary_redo::files::COUNTERS;
use granary_redo::host::Host;
use serde::{Deserialize, Serialize};
use std::io;

/// Everything that the devices of an image count; zeros for what it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageCounters {
    /// The SSD.
    pub ssd: DriveCounters,
    /// The NVM DIMMs.
    pub nvm: NvmCounters,
}

/// Counters of NVM DIMMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmCounters {
    /// The counters that every device has.
    pub drive: DriveCounters,
    /// Behind the memory bus.
    pub dimm: DimmCounters,
}

#[derive(Serialize, Deserialize)]
struct Devices {
    device: Nvm,
}

#[derive(Serialize, Deserialize)]
struct Nvm {
    nvm: NvmCounters,
}

impl ImageCounters {
    /// Both together.
    pub fn plus(&self, more: &ImageCounters) -> ImageCounters {
        let nvm = NvmCounters {
            drive: self.nvm.drive.plus(&more.nvm.drive),
            dimm: self.nvm.dimm.plus(&more.nvm.dimm),
        };
        ImageCounters { ssd: self.ssd.plus(&more.ssd), nvm }
    }

    /// Writes the file; the DIMMs' part where there are some.
    pub(crate) fn write(&self, host: &dyn Host, has_nvm: bool) -> Result<(), ImageError> {
        let failed = |e: io::Error| ImageError::host(format!("writing {COUNTERS}"), e);
        let text = |text: Result<String, toml::ser::Error>| {
            text.map_err(|e| failed(io::Error::other(e.to_string())))
        };
        let mut whole = text(toml::to_string(&self.ssd))?;
        if has_nvm {
            whole.push('\n');
            whole.push_str(&text(toml::to_string(&Devices { device: Nvm { nvm: self.nvm } }))?);
        }
        host.replace(COUNTERS, whole.as_bytes()).map_err(failed)
    }

    /// Reads the file. Counters are for people: without a readable one they begin at zero.
    pub(crate) fn read(host: &dyn Host) -> ImageCounters {
        let read = || {
            let file = host.exists(COUNTERS).then(|| host.open(COUNTERS, true).ok()).flatten()?;
            let mut bytes = vec![0; usize::try_from(file.len().ok()?.min(1 << 20)).ok()?];
            file.read_at(0, &mut bytes).ok()?;
            let text = std::str::from_utf8(&bytes).ok()?;
            let nvm = toml::from_str(text).map(|d: Devices| d.device.nvm).unwrap_or_default();
            Some(ImageCounters { ssd: toml::from_str(text).ok()?, nvm })
        };
        read().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_redo::host::memory::MemoryHost;

    #[test]
    fn counters_come_back_with_and_without_dimms() {
        let host = MemoryHost::new();
        assert_eq!(ImageCounters::read(&host), ImageCounters::default());
        let mut counters = ImageCounters::default();
        counters.ssd.commands.stores = 3;
        counters.nvm.dimm.fences = 9;
        counters.nvm.drive.commands.loads = 5;
        counters.write(&host, true).expect("written");
        assert_eq!(ImageCounters::read(&host), counters);
        assert_eq!(counters.plus(&counters).nvm.dimm.fences, 18);
        counters.write(&host, false).expect("written");
        assert_eq!(
            ImageCounters::read(&host),
            ImageCounters { ssd: counters.ssd, ..ImageCounters::default() }
        );
    }
}
