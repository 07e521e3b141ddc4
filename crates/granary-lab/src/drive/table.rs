//! The terminal table of a drive bench.

use super::record::DriveRecord;
use crate::report::{grid, group, right};
use comfy_table::Cell;
use granary_units::{Bytes, Nanos};
use std::fmt::Write as _;

/// Jobs with their rates and latencies, then how busy the drive's parts were, then flash traffic.
pub fn table(r: &DriveRecord) -> String {
    let o = &r.origin;
    let mut out = format!(
        "{}, firmware in {} mode, precondition {}, seed {}: {:.6} virtual seconds\n\n",
        o.testbed, r.firmware, o.precondition, o.seed, r.virtual_s
    );
    let head = [
        "job",
        "rw",
        "bs",
        "depth x jobs",
        "accesses/s",
        "MB/s",
        "mean",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
    ];
    let mut t = grid(head.iter().map(|s| (*s).to_owned()).collect());
    for j in &r.jobs {
        let l = &j.latency;
        let mut row = vec![Cell::new(&j.name), Cell::new(&j.rw), right(Bytes(j.bs).to_string())];
        row.push(right(format!("{} x {}", j.iodepth, j.numjobs)));
        row.push(right(group(j.per_s.round() as u64)));
        row.push(right(format!("{:.1}", j.bytes_per_s / 1e6)));
        for ns in [l.mean_ns, l.p50_ns, l.p95_ns, l.p99_ns, l.p999_ns, l.max_ns] {
            row.push(right(Nanos(ns).to_string()));
        }
        t.add_row(row);
    }
    let _ = writeln!(out, "{t}\n");
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
    for w in &r.warnings {
        let _ = writeln!(out, "warning: {w}");
    }
    out
}
