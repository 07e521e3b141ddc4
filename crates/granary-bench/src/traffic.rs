//! [`Host`], [`Flash`]: what moved over a link and in the flash, as records have it.

use granary_device::{DriveCounters, LinkTraffic, Structure};
use granary_flash::Cause;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes over the host link by interface, direction and data structure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Byte interface.
    pub byte: Interface,
    /// Block interface.
    pub block: Interface,
}

/// Bytes of one interface by data structure; structures without traffic are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Drive to host.
    pub read_bytes: BTreeMap<String, u64>,
    /// Host to drive.
    pub write_bytes: BTreeMap<String, u64>,
}

/// Flash pages by cause; causes without traffic are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flash {
    /// Pages read.
    pub read_pages: BTreeMap<String, u64>,
    /// Pages programmed.
    pub program_pages: BTreeMap<String, u64>,
    /// Blocks erased.
    pub erases: u64,
}

impl Interface {
    fn sum(map: &BTreeMap<String, u64>, data: bool) -> u64 {
        map.iter().filter(|(k, _)| (k.as_str() == "data") == data).map(|(_, v)| v).sum()
    }
}

impl Host {
    /// Metadata bytes written over both interfaces.
    pub fn metadata_written(&self) -> u64 {
        Interface::sum(&self.byte.write_bytes, false) + Interface::sum(&self.block.write_bytes, false)
    }

    /// Data bytes written over both interfaces.
    pub fn data_written(&self) -> u64 {
        Interface::sum(&self.byte.write_bytes, true) + Interface::sum(&self.block.write_bytes, true)
    }

    /// Metadata bytes read over both interfaces.
    pub fn metadata_read(&self) -> u64 {
        Interface::sum(&self.byte.read_bytes, false) + Interface::sum(&self.block.read_bytes, false)
    }

    /// Data bytes read over both interfaces.
    pub fn data_read(&self) -> u64 {
        Interface::sum(&self.byte.read_bytes, true) + Interface::sum(&self.block.read_bytes, true)
    }

    /// All bytes written.
    pub fn written(&self) -> u64 {
        self.metadata_written() + self.data_written()
    }

    /// All bytes read.
    pub fn read(&self) -> u64 {
        self.metadata_read() + self.data_read()
    }
}

impl Flash {
    /// Pages read for all causes.
    pub fn reads(&self) -> u64 {
        self.read_pages.values().sum()
    }

    /// Pages programmed for all causes.
    pub fn programs(&self) -> u64 {
        self.program_pages.values().sum()
    }
}

/// Flash traffic by cause.
pub fn flash(moved: &DriveCounters) -> Flash {
    Flash {
        read_pages: by_cause(&moved.flash.read_pages),
        program_pages: by_cause(&moved.flash.program_pages),
        erases: moved.flash.erases,
    }
}

/// Link traffic by structure.
pub fn host(t: &LinkTraffic) -> Host {
    Host {
        byte: Interface { read_bytes: by_structure(&t.byte_read), write_bytes: by_structure(&t.byte_write) },
        block: Interface {
            read_bytes: by_structure(&t.block_read),
            write_bytes: by_structure(&t.block_write),
        },
    }
}

fn by_structure(bytes: &[u64; Structure::COUNT]) -> BTreeMap<String, u64> {
    let named = Structure::ALL.iter().zip(bytes).filter(|(_, n)| **n > 0);
    named.map(|(s, &n)| (s.name().to_owned(), n)).collect()
}

/// Pages by cause.
pub fn by_cause(pages: &[u64; Cause::COUNT]) -> BTreeMap<String, u64> {
    let named = Cause::ALL.iter().zip(pages).filter(|(_, n)| **n > 0);
    named.map(|(c, &n)| (c.name().to_owned(), n)).collect()
}
