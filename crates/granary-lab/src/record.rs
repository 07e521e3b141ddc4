//! [`Record`]: the result of one run, the one thing every exporter is fed with (design section 6).
//!
//! Field by field documented in docs/RESULTS.md. Two runs of one seed give equal records: no real time is in
//! them. Maps are ordered, numbers are integers wherever the quantity is one.

use granary_bench::traffic::{Flash, Host};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the record's format; raised when a field changes its meaning.
pub const RECORD_VERSION: u32 = 4;

/// One workload on one file system on one testbed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Format version.
    pub v: u32,
    /// Granary's version.
    pub granary: String,
    /// The commit it was built from, or "unknown".
    pub commit: String,
    /// Built-in name or path of the workload.
    pub workload: String,
    /// Of a file, [`granary_testbed::hash`] of its text; `None` for a built-in one, which the commit says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_hash: Option<String>,
    /// Variables of the workload file that were set (`--var`), `NAME=VALUE` in order.
    #[serde(default)]
    pub vars: Vec<String>,
    /// Factor on files and operations.
    pub scale: f64,
    /// File system.
    pub fs: String,
    /// Testbed, the name written in it.
    pub testbed: String,
    /// Its path, where it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testbed_file: Option<String>,
    /// [`granary_testbed::Testbed::hash`]: of all its values, changes included.
    #[serde(default)]
    pub testbed_hash: String,
    /// Changes to the testbed (`--set`), in order.
    pub set: Vec<String>,
    /// Root seed.
    pub seed: u64,
    /// Workload threads.
    pub threads: u64,
    /// Length of the measured run in virtual seconds.
    pub virtual_s: f64,
    /// The cause of its end: `time`, or the flowop that ended it.
    #[serde(default)]
    pub ended_by: String,
    /// An interrupt ended it: it did less than it was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
    /// Operations of the measured run.
    pub ops: Ops,
    /// Bytes that the application read and wrote in the measured run.
    pub app: Bytes2,
    /// Host-link traffic of the measured run.
    pub host: Host,
    /// Flash traffic of the measured run.
    pub flash: Flash,
    /// Host-link bytes over application bytes, measured run (paper section 3.1).
    pub amplification: Amplification,
    /// Counters of the drive's firmware, measured run.
    pub firmware: BTreeMap<String, u64>,
    /// The same three by device, under the name of its role. Since version 4.
    #[serde(default)]
    pub devices: BTreeMap<String, DeviceRun>,
    /// Processors by where they are: `host`, and `device` where a file system runs inside the drive. Since
    /// version 4.
    #[serde(default)]
    pub processors: BTreeMap<String, Processors>,
    /// Memory in use when the run ended, bytes, by whose and what it is for: `host.page_cache`. Since
    /// version 4.
    #[serde(default)]
    pub memory: BTreeMap<String, u64>,
    /// Filling the filesets before the measured run.
    pub setup: Phase,
    /// Final sync, log cleaning and cache write-back after it.
    pub drain: Phase,
    /// Cleaning of a log-structured file system after the drain, where it was asked for (`--then-clean`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaning: Option<Cleaning>,
    /// Share of the lines that a random write changed.
    #[serde(default)]
    pub changed_lines: f64,
    /// The host's page cache when the run ended.
    #[serde(default)]
    pub page_cache: PageCache,
    /// The parts that the workload's `psrun` reports; they add up to the measured run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub periods: Vec<Period>,
    /// The first lines that `print` flowops said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
    /// Warnings that limit the trust in the numbers.
    pub warnings: Vec<String>,
}

/// Cleaning until nothing is left that is worth it (PebbleSSD section 6.3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cleaning {
    /// Younger segments stayed where the file system protects them; as long the file system was idle before,
    /// virtual seconds.
    pub protection_s: f64,
    /// Its length in virtual seconds.
    pub virtual_s: f64,
    /// Segments that are free because of it.
    pub segments: u64,
    /// Blocks that were read and written to a new place.
    pub blocks_copied: u64,
    /// Blocks that the drive renamed.
    pub blocks_remapped: u64,
    /// Host-link traffic.
    pub host: Host,
    /// Flash traffic.
    pub flash: Flash,
    /// The same of the SSD's host writing it once from its first page to its last, after the file system was
    /// unmounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<Phase>,
}

/// Work of one device in the measured run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRun {
    /// Traffic between it and the host.
    pub host: Host,
    /// Flash traffic.
    pub flash: Flash,
    /// Counters of its firmware.
    pub firmware: BTreeMap<String, u64>,
}

/// Processors of one place in the measured run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Processors {
    /// How many.
    pub count: u64,
    /// Processor time of all of them, virtual seconds.
    pub busy_s: f64,
}

/// The host's page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCache {
    /// Pages in it when the run ended.
    pub pages: u64,
    /// The most duplicates of pages until then, since the mount: what XOR tracking and mappings keep.
    pub most_duplicates: u64,
}

/// A part of the measured run that `psrun` reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// Its end, in virtual seconds since the start of the run; it begins where the one before it ends.
    pub end_s: f64,
    /// Operations in it.
    pub ops: u64,
    /// Bytes that the application read in it.
    pub read_bytes: u64,
    /// Bytes that it wrote.
    pub write_bytes: u64,
}

/// Operations and their latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ops {
    /// All operations.
    pub total: u64,
    /// Operations per virtual second.
    pub per_s: f64,
    /// By the workload's name of the operation.
    pub by_type: BTreeMap<String, OpType>,
}

/// One kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpType {
    /// Type of the flowop, such as `readwholefile`.
    pub kind: String,
    /// Whether it is an operation, part of `ops.total`; limits, waits and computing are none.
    pub counted: bool,
    /// How many.
    pub count: u64,
    /// Mean latency in ns.
    pub mean_ns: u64,
    /// Median in ns.
    pub p50_ns: u64,
    /// 95th percentile in ns.
    pub p95_ns: u64,
    /// 99th percentile in ns.
    pub p99_ns: u64,
    /// Longest in ns.
    pub max_ns: u64,
    /// With `enable lathist`: executions by latency, `[from_ns, count]`; a bucket ends below twice its
    /// beginning, and empty ones are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<[u64; 2]>,
}

/// Bytes in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes2 {
    /// Read.
    pub read_bytes: u64,
    /// Written.
    pub write_bytes: u64,
}

/// Host-link bytes over application bytes; none where the application moved none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amplification {
    /// Read.
    pub read: Option<f64>,
    /// Write.
    pub write: Option<f64>,
}

impl Amplification {
    /// Of what `host` moved for `app`.
    pub fn of(host: &Host, app: &Bytes2) -> Amplification {
        let share = |host: u64, app: u64| (app > 0).then(|| host as f64 / app as f64);
        Amplification {
            read: share(host.read(), app.read_bytes),
            write: share(host.written(), app.write_bytes),
        }
    }
}

/// A phase before or after the measured run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its length in virtual seconds.
    pub virtual_s: f64,
    /// Host-link traffic.
    pub host: Host,
    /// Flash traffic.
    pub flash: Flash,
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_bench::traffic::Interface;

    #[test]
    fn what_was_not_asked_for_has_no_amplification() {
        let bytes = |n| BTreeMap::from([("data".to_owned(), n)]);
        let block = Interface { read_bytes: bytes(4096), write_bytes: bytes(8192) };
        let host = Host { byte: Interface::default(), block };
        let of = |read_bytes, write_bytes| Amplification::of(&host, &Bytes2 { read_bytes, write_bytes });
        assert_eq!(of(0, 4096), Amplification { read: None, write: Some(2.0) });
        assert_eq!(serde_json::to_string(&of(2048, 0)).expect("plain"), r#"{"read":2.0,"write":null}"#);
    }
}
