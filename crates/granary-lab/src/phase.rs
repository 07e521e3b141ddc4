//! Counters at an instant, and what moved between two of them.

use crate::record::{DeviceRun, Phase};
use granary_bench::traffic::{flash, host};
use granary_device::{Devices, DriveCounters, Role};
use granary_units::Nanos;
use std::collections::BTreeMap;

/// The devices' counters at an instant.
pub struct Snapshot {
    /// When.
    pub at: Nanos,
    /// All devices together.
    pub counters: DriveCounters,
    /// Each.
    devices: Vec<(Role, DriveCounters)>,
    /// Processor time of the host until then.
    cpu: Nanos,
}

impl Snapshot {
    /// Of these devices, now.
    pub fn take(devices: &Devices) -> Snapshot {
        let devices = devices.counters();
        let counters = devices.iter().fold(DriveCounters::default(), |all, (_, own)| all.plus(own));
        Snapshot { at: granary_sim::now(), counters, devices, cpu: granary_sim::cpu_busy() }
    }

    /// Processor time of the host between `earlier` and this.
    pub fn cpu_since(&self, earlier: &Snapshot) -> Nanos {
        self.cpu - earlier.cpu
    }

    /// Work of each device between `earlier` and this, by role.
    pub fn devices_since(&self, earlier: &Snapshot) -> BTreeMap<String, DeviceRun> {
        let pairs = self.devices.iter().zip(&earlier.devices);
        pairs
            .map(|((role, now), (_, before))| {
                let moved = now.since(before);
                let run =
                    DeviceRun { host: host(&moved.link), flash: flash(&moved), firmware: firmware(&moved) };
                (role.name().to_owned(), run)
            })
            .collect()
    }
}

/// Traffic between two instants.
pub fn phase(from: &Snapshot, to: &Snapshot) -> Phase {
    let moved = to.counters.since(&from.counters);
    Phase { virtual_s: (to.at - from.at).as_secs_f64(), host: host(&moved.link), flash: flash(&moved) }
}

impl Snapshot {
    /// The firmware's own counters between `earlier` and this, as `part.counter`; zeros are left out.
    pub fn firmware_since(&self, earlier: &Snapshot) -> BTreeMap<String, u64> {
        firmware(&self.counters.since(&earlier.counters))
    }
}

fn firmware(moved: &DriveCounters) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    let mut add = |part: &str, counters: serde_json::Result<serde_json::Value>| {
        let counters = counters.expect("counters are plain numbers");
        for (name, value) in counters.as_object().into_iter().flatten() {
            if let Some(n) = value.as_u64().filter(|&n| n > 0) {
                out.insert(format!("{part}.{name}"), n);
            }
        }
    };
    add("commands", serde_json::to_value(moved.commands));
    add("log", serde_json::to_value(moved.log));
    add("cache", serde_json::to_value(moved.cache));
    add("buffer", serde_json::to_value(moved.buffer));
    add("bam", serde_json::to_value(moved.bam));
    out
}
