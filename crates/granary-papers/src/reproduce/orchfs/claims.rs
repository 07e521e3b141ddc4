//! Every statement of OrchFS's slides, and how our number for it follows from the runs.
//!
//! Rows are in the order of the slides; notes of the paper follow them. "NVM file systems" is NOVA here,
//! "hybrid" ones are PHFS and SPFS: OdinFS, ArckFS and Strata are absent.

mod background;
mod figures;
mod space;

use super::plan::{HYBRID, ON_SSD, OTHERS, SIZES};
use crate::reproduce::claim::Judged;
use crate::reproduce::study::Results;
use granary_lab::record::Record;

const ALL_SIZES: &str = "1 KB to 1 MB and mixed, all those file systems";

/// All statements beside what the runs say.
pub(super) fn claims(results: &Results) -> Vec<Judged> {
    let mut rows = Rows { r: results, all: Vec::new() };
    rows.background();
    rows.shares();
    rows.setup();
    rows.writes();
    rows.table2();
    rows.reads();
    rows.other_drive();
    rows.applications();
    rows.conclusion();
    rows.notes();
    rows.all
}

struct Rows<'a> {
    r: &'a Results,
    all: Vec<Judged>,
}

fn latency(r: &Record) -> Option<f64> {
    Some(r.ops.by_type.get("over.write")?.mean_ns as f64)
}

/// Of the fsync after each write.
fn fsync(r: &Record) -> Option<f64> {
    Some(r.ops.by_type.get("over.fsync")?.mean_ns as f64)
}

/// Of a write and its fsync.
fn durable(r: &Record) -> Option<f64> {
    Some(latency(r)? + fsync(r)?)
}

/// Bytes a second of the overwriting phase: bytes of its accesses over their time, which is one thread's.
fn written_per_s(r: &Record) -> Option<f64> {
    let over = r.ops.by_type.get("over.write")?;
    Some(mean_bytes(r) / (over.mean_ns as f64 / 1e9))
}

/// The fill and the overwrites have as many bytes and, about, as many accesses.
fn mean_bytes(r: &Record) -> f64 {
    let n: u64 = r.ops.by_type.iter().filter(|(_, op)| op.kind == "write").map(|(_, op)| op.count).sum();
    r.app.write_bytes as f64 / n.max(1) as f64
}

fn read_latency(r: &Record) -> Option<f64> {
    Some(r.ops.by_type.get("read.read")?.mean_ns as f64)
}

/// By how many percent a latency is less that is `times` as short.
fn less(times: f64) -> f64 {
    100.0 * (1.0 - 1.0 / times)
}

impl Rows<'_> {
    fn alone(&self, name: &str) -> Option<f64> {
        self.r.alone.get(name).copied()
    }

    /// `of` each other file system over OrchFS's, for each of these workloads.
    fn over(
        &self,
        setting: &str,
        what: &str,
        sizes: &[&str],
        others: &[&str],
        of: fn(&Record) -> Option<f64>,
    ) -> Option<Vec<f64>> {
        let mut all = Vec::new();
        for size in sizes {
            let name = format!("{what}-{size}");
            let ours = self.r.find(setting, &name, "orchfs").and_then(of)?;
            for fs in others {
                all.push(self.r.find(setting, &name, fs).and_then(of)? / ours);
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests;
