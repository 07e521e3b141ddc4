//! What limits how far a result can be trusted (design promise 6). A warning never changes a number.

use crate::record::Record;
use crate::testbed::Testbed;
use granary_workload::Workload;

/// The warnings of a run.
pub fn of(record: &Record, workload: &Workload, testbed: &Testbed, from_run: &[String]) -> Vec<String> {
    let mut out: Vec<String> =
        workload.warnings.iter().map(|w| format!("line {}: {}", w.line, w.message)).collect();
    out.extend(from_run.iter().cloned());
    if !record.flash.program_pages.contains_key("gc") {
        out.push(
            "garbage collection never ran: the drive was not filled, so flash writes are those of a fresh drive".to_owned(),
        );
    }
    let set = workload.expected_bytes();
    let cache = testbed.host.vfs.page_cache;
    if set < cache.0 as f64 {
        out.push(format!(
            "the page cache ({cache}) is larger than the files ({:.2} GiB): reads hardly reach the drive",
            set / (1u64 << 30) as f64
        ));
    }
    if record.virtual_s < 5.0 {
        out.push(format!(
            "the measured run lasted {:.2} virtual seconds: periodic work (5 s commits, 30 s write-back) shows in the drain or not at all",
            record.virtual_s
        ));
    }
    if let Some(stalls) = record.firmware.get("log.stalls") {
        out.push(format!("the write log was full {stalls} times and stores waited for cleaning"));
    }
    out
}
