//! The terminal tables of a drive bench and of a replay.

use super::record::{DriveRecord, Moved, Origin, Rates, ReplayRecord};
use crate::report::{grid, group, right};
use comfy_table::Cell;
use granary_units::{Bytes, Nanos};
use std::fmt::Write as _;

/// Jobs with their rates and latencies, then how busy the drive's parts were, then flash traffic.
pub fn table(r: &DriveRecord) -> String {
    let mut out = head(&r.origin, &r.moved);
    let mut t = rate_grid(&["job", "rw", "bs", "depth x jobs"]);
    for j in &r.jobs {
        let mut row = vec![Cell::new(&j.name), Cell::new(&j.rw), right(Bytes(j.bs).to_string())];
        row.push(right(format!("{} x {}", j.iodepth, j.numjobs)));
        row.extend(rate_cells(&j.rates));
        t.add_row(row);
        for (what, rates) in [("reads", &j.read), ("writes", &j.write)] {
            if let Some(rates) = rates {
                let mut row =
                    vec![Cell::new(format!("  its {what}")), Cell::new(""), Cell::new(""), Cell::new("")];
                row.extend(rate_cells(rates));
                t.add_row(row);
            }
        }
    }
    let _ = writeln!(out, "{t}\n");
    moved(&mut out, &r.moved);
    warnings(&mut out, &r.warnings);
    out
}

/// The same for a trace, by kind of operation.
pub fn replay_table(r: &ReplayRecord) -> String {
    let mut out = format!("{} ({}), {}\n", r.trace.file, r.trace.format, r.trace.pace);
    out += &head(&r.origin, &r.moved);
    let mut t = rate_grid(&["operation", "count"]);
    for op in &r.ops {
        let mut row = vec![Cell::new(&op.name), right(group(op.rates.accesses))];
        row.extend(rate_cells(&op.rates));
        t.add_row(row);
    }
    let _ = writeln!(out, "{t}\n");
    moved(&mut out, &r.moved);
    warnings(&mut out, &r.warnings);
    out
}

fn head(o: &Origin, m: &Moved) -> String {
    let warm = if o.warm { ", warm" } else { "" };
    let no_data = if o.no_data { ", no data" } else { "" };
    format!(
        "{}, firmware in {} mode, precondition {}{warm}{no_data}, seed {}: {:.6} virtual seconds\n\n",
        o.testbed, m.firmware, o.precondition, o.seed, m.virtual_s
    )
}

fn rate_grid(first: &[&str]) -> comfy_table::Table {
    let rest = ["accesses/s", "MB/s", "mean", "p50", "p95", "p99", "p99.9", "max"];
    grid(first.iter().chain(&rest).map(|s| (*s).to_owned()).collect())
}

fn rate_cells(r: &Rates) -> Vec<Cell> {
    let l = &r.latency;
    let mut row = vec![right(group(r.per_s.round() as u64)), right(format!("{:.1}", r.bytes_per_s / 1e6))];
    for ns in [l.mean_ns, l.p50_ns, l.p95_ns, l.p99_ns, l.p999_ns, l.max_ns] {
        row.push(right(Nanos(ns).to_string()));
    }
    row
}

fn moved(out: &mut String, r: &Moved) {
    let u = &r.utilization;
    let percent = |v: f64| format!("{:.1} %", v * 100.0);
    let mut t = grid(
        ["link to host", "link to drive", "firmware cores", "channels", "planes"].map(str::to_owned).to_vec(),
    );
    t.add_row([u.link_to_host, u.link_to_drive, u.cores, u.channels, u.planes].map(|v| right(percent(v))));
    let _ = writeln!(out, "Busy\n{t}\n");
    let mut t = grid(
        ["flash pages", "run: read", "run: programmed", "drain: programmed"].map(str::to_owned).to_vec(),
    );
    let causes = [&r.flash.read_pages, &r.flash.program_pages, &r.drain.program_pages];
    let mut names: Vec<&String> = causes.iter().flat_map(|m| m.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let cell = |n: usize| right(group(causes[n].get(name).copied().unwrap_or(0)));
        t.add_row([Cell::new(name), cell(0), cell(1), cell(2)]);
    }
    let _ = writeln!(out, "{t}");
    let _ = writeln!(
        out,
        "write amplification (flash programs / host pages) {:.3}, of the FTL alone {:.3}",
        r.write_amplification, r.waf
    );
}

fn warnings(out: &mut String, warnings: &[String]) {
    for w in warnings {
        let _ = writeln!(out, "warning: {w}");
    }
}
