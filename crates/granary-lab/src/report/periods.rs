//! The parts that `psrun` reports, file systems side by side.

use super::table::{grid, group, right};
use crate::record::Record;
use comfy_table::Cell;
use granary_units::Bytes;

/// One row per period: what each file system did in it. Empty where the workload has no `psrun`.
pub fn periods(records: &[Record]) -> String {
    let most = records.iter().map(|r| r.periods.len()).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let mut header = vec!["until".to_owned()];
    header.extend(records.iter().map(|r| r.fs.clone()));
    let mut t = grid(header);
    for i in 0..most {
        let end = records.iter().filter_map(|r| r.periods.get(i)).map(|p| p.end_s).fold(0.0, f64::max);
        let mut cells = vec![Cell::new(format!("{end:.3} s"))];
        cells.extend(records.iter().map(|r| right(period(r, i))));
        t.add_row(cells);
    }
    format!("Periods (psrun): operations per second / read / written\n{t}\n")
}

fn period(record: &Record, i: usize) -> String {
    let Some(p) = record.periods.get(i) else { return "-".to_owned() };
    let begin = i.checked_sub(1).map_or(0.0, |before| record.periods[before].end_s);
    let per_s = if p.end_s > begin { p.ops as f64 / (p.end_s - begin) } else { 0.0 };
    format!("{} / {} / {}", group(per_s.round() as u64), Bytes(p.read_bytes), Bytes(p.write_bytes))
}
