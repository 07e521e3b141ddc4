//! The parts that `psrun` reports, file systems side by side.

use crate::record::Record;
use granary_bench::columns::{Column, View, group, tables};
use granary_units::Bytes;

/// One row per period: what each file system did in it. Empty where the workload has no `psrun`.
pub fn periods(records: &[Record], view: View) -> String {
    let most = records.iter().map(|r| r.periods.len()).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let end = |i: usize| records.iter().filter_map(|r| r.periods.get(i)).map(|p| p.end_s).fold(0.0, f64::max);
    let labels = [Column::words("until", (0..most).map(|i| format!("{:.3} s", end(i))).collect())];
    let columns = records.iter().map(|r| Column::new(&r.fs, (0..most).map(|i| period(r, i)).collect()));
    let tables = tables(view, &labels, &[columns.collect()]);
    format!("Periods (psrun): operations per second / read / written\n{tables}")
}

fn period(record: &Record, i: usize) -> String {
    let Some(p) = record.periods.get(i) else { return "-".to_owned() };
    let begin = i.checked_sub(1).map_or(0.0, |before| record.periods[before].end_s);
    let per_s = if p.end_s > begin { p.ops as f64 / (p.end_s - begin) } else { 0.0 };
    format!("{} / {} / {}", group(per_s.round() as u64), Bytes(p.read_bytes), Bytes(p.write_bytes))
}
