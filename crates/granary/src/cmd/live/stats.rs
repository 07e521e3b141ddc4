//! [`Stats`]: what a mount answers with when it is asked for its counters, and what `granary stat`
//! understands.
//!
//! The shape follows docs/RESULTS.md: `host`, `flash`, `firmware`, `app`, `amplification` are those of a
//! result record.

use super::directory::Directory;
use crate::cli::mount::Survives;
use granary_bench::traffic::{Flash, Host};
use granary_device::Devices;
use granary_fs::Call;
use granary_image::Image;
use granary_lab::phase::{Snapshot, phase};
use granary_lab::record::{Amplification, Bytes2, DeviceRun};
use granary_mount::{Operation, Operations};
use granary_sim::now;
use granary_units::Nanos;
use granary_vfs::Vfs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Version of the format.
const VERSION: u32 = 1;

/// The counters of a mount since it was mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Format version.
    pub v: u32,
    /// Granary's version.
    pub granary: String,
    /// The serving process.
    pub pid: u32,
    /// Source of the mount.
    pub source: String,
    /// The directory that the image is in; none in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Directory>,
    /// File system.
    pub fs: String,
    /// `process` or `machine`; empty in memory.
    pub durability: String,
    /// Seconds since the mount.
    pub mounted_s: f64,
    /// Requests by kind; those that never came are left out.
    pub ops: BTreeMap<String, u64>,
    /// Direct access, where the mount has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectAccess>,
    /// Bytes that programs read (past the kernel's page cache) and wrote.
    pub app: Bytes2,
    /// Host-link traffic.
    pub host: Host,
    /// Flash traffic.
    pub flash: Flash,
    /// Host-link bytes over the programs' bytes.
    pub amplification: Amplification,
    /// Traffic, flash and firmware by device, under the name of its role.
    #[serde(default)]
    pub devices: BTreeMap<String, DeviceRun>,
    /// Counters of the drive's firmware.
    pub firmware: BTreeMap<String, u64>,
    /// Page cache of the vfs.
    pub cache: BTreeMap<String, u64>,
    /// Memory of the file system by kind, where it tells: of the drive, for one that works there; bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<String, u64>,
    /// Why dead blocks are kept, where there are such: a full file system may be full of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Writes of the image itself to the host's disk; empty in memory.
    pub image: BTreeMap<String, serde_json::Value>,
    /// Calls of the drive that `--record` has written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<u64>,
}

/// Direct access.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectAccess {
    /// Where programs connect.
    pub socket: PathBuf,
    /// Commands by the kind of request that each was the like of; those that never came are left out.
    pub ops: BTreeMap<String, u64>,
}

/// Tells how many calls were recorded.
pub type Recorded = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Sources of the counters.
pub struct Sources {
    /// Source of the mount.
    pub source: String,
    /// File system; what else serves.
    pub fs: String,
    /// Failure that acknowledged changes survive.
    pub durability: Survives,
    /// The file system, unless a drive is exported without one.
    pub vfs: Option<Arc<Vfs>>,
    /// The devices.
    pub devices: Devices,
    /// The image, unless the drive is in memory.
    pub image: Option<Arc<Image>>,
    /// Where programs connect for direct access.
    pub direct: Option<PathBuf>,
    /// The record, if one is made.
    pub recorded: Option<Recorded>,
}

/// Makes [`Stats`].
pub struct Live {
    base: Stats,
    from: Sources,
    mounted: Nanos,
    before: Snapshot,
}

impl Live {
    /// Counts from now on.
    pub fn new(from: Sources) -> Live {
        let durability = match (&from.image, from.durability) {
            (None, _) => "",
            (_, Survives::Process) => "process",
            (_, Survives::Machine) => "machine",
        };
        let base = Stats {
            v: VERSION,
            granary: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            source: from.source.clone(),
            directory: from.image.as_deref().and_then(Directory::of),
            fs: from.fs.clone(),
            durability: durability.to_owned(),
            ..Stats::default()
        };
        let before = Snapshot::take(&from.devices);
        Live { base, from, mounted: now(), before }
    }

    /// The counters now, as one line of JSON.
    pub fn json(&self, operations: &Operations) -> String {
        let mut stats = self.base.clone();
        stats.mounted_s = (now() - self.mounted).as_secs_f64();
        let counted = Operation::ALL.iter().map(|&op| (op.name().to_owned(), operations.of(op)));
        stats.ops = counted.filter(|(_, n)| *n > 0).collect();
        stats.direct = self.from.direct.clone().map(|socket| {
            let counted = Operation::ALL.iter().map(|&op| (op.name().to_owned(), operations.of_direct(op)));
            DirectAccess { socket, ops: counted.filter(|(_, n)| *n > 0).collect() }
        });
        stats.app = Bytes2 { read_bytes: operations.read_bytes(), write_bytes: operations.write_bytes() };
        stats.traffic(&self.before, &Snapshot::take(&self.from.devices));
        if let Some(vfs) = &self.from.vfs {
            let c = vfs.cache_stats();
            let cache = [
                ("pages", c.pages),
                ("dirty", c.dirty),
                ("hits", c.hits),
                ("filled", c.filled),
                ("evicted", c.evicted),
                ("written", c.written),
            ];
            stats.memory = vfs.fs().memory().into_iter().map(|(k, n)| (k.to_owned(), n)).collect();
            stats.kept = vfs.fs().kept_back(&Call::offline()).ok().flatten();
            stats.cache = cache.into_iter().map(|(k, n)| (k.to_owned(), n)).collect();
        }
        stats.recorded = self.from.recorded.as_ref().map(|count| count());
        if let Some(image) = &self.from.image {
            stats.image = journal(image);
        }
        let mut line = serde_json::to_string(&stats).expect("plain numbers and names");
        line.push('\n');
        line
    }
}

fn journal(image: &Image) -> BTreeMap<String, serde_json::Value> {
    match serde_json::to_value(image.journal_counters()) {
        Ok(serde_json::Value::Object(all)) => all.into_iter().collect(),
        _ => BTreeMap::new(),
    }
}

/// [`Stats::fs`] of an exported drive.
pub const EXPORTED: &str = "drive";

impl Stats {
    /// A drive is exported, without a file system of ours.
    pub fn is_export(&self) -> bool {
        self.fs == EXPORTED
    }

    fn traffic(&mut self, from: &Snapshot, to: &Snapshot) {
        let moved = phase(from, to);
        self.firmware = to.firmware_since(from);
        self.devices = to.devices_since(from);
        self.amplification = Amplification::of(&moved.host, &self.app);
        self.host = moved.host;
        self.flash = moved.flash;
    }
}
