//! The terminal tables of a drive bench and of a replay.

use crate::columns::{Column, Unit, View, grid, group, right, tables};
use crate::nvm::NvmRecord;
use crate::record::{DriveRecord, JobRecord, Latency, Moved, Origin, Rates, ReplayRecord};
use comfy_table::Cell;
use granary_units::Bytes;
use std::fmt::Write as _;

/// Jobs with their rates and latencies, then how busy the drive's parts were, then flash traffic.
pub fn table(r: &DriveRecord, view: View) -> String {
    let mut out = head(&r.origin, &r.moved);
    out += &jobs_table(&r.jobs, view);
    moved(&mut out, &r.moved);
    warnings(&mut out, &r.warnings);
    out
}

/// The same for jobs on a DIMM, of which no part is told apart.
pub fn nvm_table(r: &NvmRecord, view: View) -> String {
    let (o, warm) = (&r.origin, if r.origin.warm { ", warm" } else { "" });
    let mut out = format!(
        "{}, device {}{warm}, seed {}: {:.6} virtual seconds\n\n",
        o.testbed, r.device, o.seed, r.virtual_s
    );
    out += &jobs_table(&r.jobs, view);
    warnings(&mut out, &r.warnings);
    out
}

/// Jobs with their rates and latencies.
fn jobs_table(jobs: &[JobRecord], view: View) -> String {
    let mut rows = Vec::new();
    for j in jobs {
        let bs = match j.bs_max {
            None => Bytes(j.bs).to_string(),
            Some(most) => format!("{}-{}", Bytes(j.bs), Bytes(most)),
        };
        rows.push(([j.name.clone(), j.rw.clone(), bs, format!("{} x {}", j.iodepth, j.numjobs)], &j.rates));
        for (what, rates) in [("reads", &j.read), ("writes", &j.write), ("flushes", &j.flushes)] {
            if let Some(rates) = rates {
                rows.push(([format!("  its {what}"), String::new(), String::new(), String::new()], rates));
            }
        }
    }
    let words = |n: usize| rows.iter().map(|(words, _)| words[n].clone()).collect();
    let labels = [Column::words("job", words(0)), Column::words("rw", words(1))];
    let shape = [Column::new("bs", words(2)), Column::new("depth x jobs", words(3))];
    let rates: Vec<&Rates> = rows.iter().map(|(_, rates)| *rates).collect();
    format!("{}\n", rate_tables(view, &labels, shape.to_vec(), &rates))
}

/// The same for a trace, by kind of operation.
pub fn replay_table(r: &ReplayRecord, view: View) -> String {
    let mut out = format!("{} ({}), {}\n", r.trace.file, r.trace.format, r.trace.pace);
    out += &head(&r.origin, &r.moved);
    let labels = [Column::words("operation", r.ops.iter().map(|op| op.name.clone()).collect())];
    let counts = Column::new("count", r.ops.iter().map(|op| group(op.rates.accesses)).collect());
    let rates: Vec<&Rates> = r.ops.iter().map(|op| &op.rates).collect();
    let _ = writeln!(out, "{}", rate_tables(view, &labels, vec![counts], &rates));
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

/// Rates with mean and 99th percentile; where all of the latencies are asked for, those in a table of their
/// own.
fn rate_tables(view: View, labels: &[Column], mut counts: Vec<Column>, rates: &[&Rates]) -> String {
    let column = |head: &str, show: &dyn Fn(&Rates) -> String| {
        Column::new(head, rates.iter().map(|r| show(r)).collect())
    };
    let time = |head: &str, ns: fn(&Latency) -> u64| {
        column(head, &|r| Unit::of(r.latency.mean_ns).show(ns(&r.latency)))
    };
    let unit = || column("unit", &|r| Unit::of(r.latency.mean_ns).name().to_owned());
    counts.extend([
        column("accesses/s", &|r| group(r.per_s.round() as u64)),
        column("MB/s", &|r| format!("{:.1}", r.bytes_per_s / 1e6)),
    ]);
    let latencies = vec![time("mean", |l| l.mean_ns), time("p99", |l| l.p99_ns), unit()];
    let mut out = tables(view, labels, &[counts, latencies]);
    if view.latencies {
        let all = vec![
            unit(),
            time("p50", |l| l.p50_ns),
            time("p95", |l| l.p95_ns),
            time("p99", |l| l.p99_ns),
            time("p99.9", |l| l.p999_ns),
            time("max", |l| l.max_ns),
        ];
        out += &tables(view, labels, &[all]);
    }
    out
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
