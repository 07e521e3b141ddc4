//! The matrix and the claims as tables.

use super::claims::Judged;
use super::sum;
use crate::record::Record;
use crate::report::{grid, group, right};
use comfy_table::Cell;
use granary_units::Bytes;

fn factor(v: Option<f64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"))
}

/// Workloads by file systems: throughput, host link and flash in both directions.
pub fn matrix_table(records: &[Record]) -> String {
    let header = [
        "workload",
        "fs",
        "ops/s",
        "meta written",
        "meta read",
        "data written",
        "data read",
        "flash programs",
        "flash reads",
        "W ampl.",
        "R ampl.",
    ];
    let mut t = grid(header.map(str::to_owned).to_vec());
    let mut last = "";
    for r in records {
        let ((mw, mr), (dw, dr), (programs, reads)) = (sum::metadata(r), sum::data(r), sum::flash(r));
        let (wa, ra) = sum::amplification(r);
        let mut cells = vec![Cell::new(if r.workload == last { "" } else { &r.workload }), Cell::new(&r.fs)];
        cells.push(right(group(r.ops.per_s.round() as u64)));
        cells.extend([mw, mr, dw, dr].map(|n| right(Bytes(n).to_string())));
        cells.extend([programs, reads].map(|n| right(group(n))));
        cells.extend([wa, ra].map(|v| right(factor(v))));
        t.add_row(cells);
        last = &r.workload;
    }
    t.to_string()
}

/// Paper, ours, ours over the paper's.
pub fn claims_table(judged: &[Judged]) -> String {
    let header = ["paper", "workloads", "what", "paper", "ours", "ours/paper"];
    let mut t = grid(header.map(str::to_owned).to_vec());
    for j in judged {
        let c = &j.claim;
        t.add_row([
            Cell::new(c.place),
            Cell::new(c.on()),
            Cell::new(c.metric()),
            right(format!("{:.2}", c.paper)),
            right(factor(j.ours)),
            right(factor(j.ours.map(|o| o / c.paper))),
        ]);
    }
    t.to_string()
}
