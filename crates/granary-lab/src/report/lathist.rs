//! Latency histograms (`enable lathist`): executions of each flowop by powers of two of their time.

use crate::record::Record;
use granary_bench::columns::{Column, View, group, tables};
use granary_units::Nanos;
use std::collections::BTreeSet;

/// A table per flowop, file systems side by side. Empty where the workload does not ask for it.
pub fn histograms(records: &[Record], view: View) -> String {
    let names: BTreeSet<&String> = records
        .iter()
        .flat_map(|r| r.ops.by_type.iter().filter(|(_, op)| !op.histogram.is_empty()).map(|(name, _)| name))
        .collect();
    names.into_iter().map(|name| histogram(records, name, view)).collect()
}

fn histogram(records: &[Record], name: &str, view: View) -> String {
    let of = |r: &Record| r.ops.by_type.get(name).map_or(Vec::new(), |op| op.histogram.clone());
    let steps: BTreeSet<u64> = records.iter().flat_map(of).map(|[from, _]| from).collect();
    let to = |from: &u64| from.checked_mul(2).map_or_else(String::new, |to| Nanos(to.max(1)).to_string());
    let labels = [
        Column::new("from", steps.iter().map(|from| Nanos(*from).to_string()).collect()),
        Column::new("to below", steps.iter().map(to).collect()),
    ];
    let columns = records.iter().map(|r| {
        let has = of(r);
        let count =
            |from: &u64| has.iter().find(|[at, _]| at == from).map_or_else(String::new, |[_, n]| group(*n));
        Column::new(&r.fs, steps.iter().map(count).collect())
    });
    format!("Latencies of {name} (lathist)\n{}", tables(view, &labels, &[columns.collect()]))
}
