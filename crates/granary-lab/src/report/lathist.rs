//! Latency histograms (`enable lathist`): executions of each flowop by powers of two of their time.

use super::table::{grid, group, right};
use crate::record::Record;
use comfy_table::Cell;
use granary_units::Nanos;
use std::collections::BTreeSet;

/// A table per flowop, file systems side by side. Empty where the workload does not ask for it.
pub fn histograms(records: &[Record]) -> String {
    let names: BTreeSet<&String> = records
        .iter()
        .flat_map(|r| r.ops.by_type.iter().filter(|(_, op)| !op.histogram.is_empty()).map(|(name, _)| name))
        .collect();
    names.into_iter().map(|name| format!("{}\n", histogram(records, name))).collect()
}

fn histogram(records: &[Record], name: &str) -> String {
    let of = |r: &Record| r.ops.by_type.get(name).map_or(Vec::new(), |op| op.histogram.clone());
    let steps: BTreeSet<u64> = records.iter().flat_map(of).map(|[from, _]| from).collect();
    let mut header = vec!["from".to_owned(), "to below".to_owned()];
    header.extend(records.iter().map(|r| r.fs.clone()));
    let mut t = grid(header);
    for &from in &steps {
        let to = from.checked_mul(2).map_or_else(String::new, |to| Nanos(to.max(1)).to_string());
        let mut cells = vec![right(Nanos(from).to_string()), right(to)];
        cells.extend(records.iter().map(|r| {
            let count = of(r).iter().find(|[at, _]| *at == from).map_or(0, |[_, count]| *count);
            match count {
                0 => Cell::new(""),
                count => right(group(count)),
            }
        }));
        t.add_row(cells);
    }
    format!("Latencies of {name} (lathist)\n{t}")
}
