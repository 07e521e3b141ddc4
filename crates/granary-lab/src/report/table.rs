//! The terminal table: file systems side by side, ratios to the first.

use crate::record::{OpType, Record};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use granary_units::{Bytes, Nanos};
use std::collections::BTreeMap;

const PAGE: u64 = granary_units::PAGE_SIZE as u64;

/// Renders runs of one workload: throughput, latency per operation, traffic, flash, amplification, warnings.
pub fn table(records: &[Record]) -> String {
    let Some(first) = records.first() else { return String::new() };
    let vars: String = first.vars.iter().map(|var| format!(", {var}")).collect();
    let mut out = format!(
        "{} at scale {} on {}: {} threads, seed {}{vars}\n\n",
        first.workload, first.scale, first.testbed, first.threads, first.seed
    );
    out.push_str(&format!("{}\n\n", summary(records)));
    out.push_str(&format!(
        "Latency per operation: mean / p95 / p99 (in brackets: not counted as an operation)\n{}\n\n",
        latencies(records)
    ));
    out.push_str(&format!("Host-link bytes by data structure\n{}\n", structures(records)));
    let warnings = warnings(records);
    if !warnings.is_empty() {
        out.push_str(&format!("\n{warnings}"));
    }
    out
}

pub(crate) fn grid(header: Vec<String>) -> Table {
    let mut t = Table::new();
    t.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    t.set_header(header);
    t
}

pub(crate) fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// One row per figure, one column per file system, then the ratio of each further file system to the first.
fn summary(records: &[Record]) -> Table {
    let mut header = vec![String::new()];
    header.extend(records.iter().map(|r| r.fs.clone()));
    header.extend(records[1..].iter().map(|r| format!("{}/{}", r.fs, records[0].fs)));
    let mut t = grid(header);
    let mut row = |name: &str, show: &dyn Fn(f64) -> String, value: &dyn Fn(&Record) -> f64| {
        let values: Vec<f64> = records.iter().map(value).collect();
        let mut cells = vec![Cell::new(name)];
        cells.extend(values.iter().map(|&v| right(show(v))));
        cells.extend(values[1..].iter().map(|&v| right(ratio(v, values[0]))));
        t.add_row(cells);
    };
    let count = |v: f64| group(v.round() as u64);
    let size = |v: f64| Bytes(v as u64).to_string();
    // Not a number: the application moved nothing.
    let factor = |v: f64| if v.is_nan() { "-".to_owned() } else { format!("{v:.2}x") };
    let secs = |v: f64| format!("{v:.3} s");
    row("operations per second", &count, &|r| r.ops.per_s);
    row("virtual time", &secs, &|r| r.virtual_s);
    row("application writes", &size, &|r| r.app.write_bytes as f64);
    row("host writes: metadata", &size, &|r| r.host.metadata_written() as f64);
    row("host writes: data", &size, &|r| r.host.data_written() as f64);
    row("host writes: by byte interface", &size, &|r| r.host.byte.write_bytes.values().sum::<u64>() as f64);
    row("host writes: by block interface", &size, &|r| r.host.block.write_bytes.values().sum::<u64>() as f64);
    row("host reads: metadata", &size, &|r| r.host.metadata_read() as f64);
    row("host reads: data", &size, &|r| r.host.data_read() as f64);
    row("write amplification (host/app)", &factor, &|r| r.amplification.write.unwrap_or(f64::NAN));
    row("read amplification (host/app)", &factor, &|r| r.amplification.read.unwrap_or(f64::NAN));
    row("host writes, drain included", &size, &|r| (r.host.written() + r.drain.host.written()) as f64);
    for cause in causes(records, |r| [&r.flash.program_pages, &r.drain.flash.program_pages]) {
        row(&format!("flash programs, drain included: {cause}"), &size, &|r| {
            (pages(&r.flash.program_pages, &cause) + pages(&r.drain.flash.program_pages, &cause)) as f64
        });
    }
    for cause in causes(records, |r| [&r.flash.read_pages, &r.drain.flash.read_pages]) {
        row(&format!("flash reads, drain included: {cause}"), &size, &|r| {
            (pages(&r.flash.read_pages, &cause) + pages(&r.drain.flash.read_pages, &cause)) as f64
        });
    }
    t
}

fn pages(map: &BTreeMap<String, u64>, cause: &str) -> u64 {
    map.get(cause).copied().unwrap_or(0) * PAGE
}

fn causes<'a>(
    records: &'a [Record],
    maps: impl Fn(&'a Record) -> [&'a BTreeMap<String, u64>; 2],
) -> Vec<String> {
    let mut all: Vec<String> = records.iter().flat_map(maps).flat_map(|m| m.keys().cloned()).collect();
    all.sort();
    all.dedup();
    all
}

fn latencies(records: &[Record]) -> Table {
    let counts = columns_of_counts(records);
    let mut header = vec!["operation".to_owned()];
    let one = counts.len() == 1;
    header.extend(counts.iter().map(|r| if one { "count".to_owned() } else { format!("count {}", r.fs) }));
    header.extend(records.iter().map(|r| r.fs.clone()));
    let mut t = grid(header);
    let mut names: Vec<&String> = records.iter().flat_map(|r| r.ops.by_type.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let of = |r: &Record| r.ops.by_type.get(name).cloned().unwrap_or_default();
        // What is none of the operations per second stands in brackets.
        let counted = records.iter().filter_map(|r| r.ops.by_type.get(name)).any(|op| op.counted);
        let shown = if counted { name.clone() } else { format!("({name})") };
        let mut cells = vec![Cell::new(shown)];
        cells.extend(counts.iter().map(|r| right(group(of(r).count))));
        cells.extend(records.iter().map(|r| right(latency(&of(r)))));
        t.add_row(cells);
    }
    t
}

/// The records whose counts are shown: the first, where all have the same.
fn columns_of_counts(records: &[Record]) -> &[Record] {
    let counts = |r: &Record| -> Vec<(String, u64)> {
        r.ops.by_type.iter().map(|(name, op)| (name.clone(), op.count)).collect()
    };
    let first = counts(&records[0]);
    if records.iter().all(|r| counts(r) == first) { &records[..1] } else { records }
}

fn latency(op: &OpType) -> String {
    if op.count == 0 {
        return "-".to_owned();
    }
    let us = |ns: u64| format!("{:.1}", Nanos(ns).as_secs_f64() * 1e6);
    format!("{} / {} / {} us", us(op.mean_ns), us(op.p95_ns), us(op.p99_ns))
}

fn structures(records: &[Record]) -> Table {
    let mut header = vec!["written (byte + block)".to_owned()];
    header.extend(records.iter().map(|r| r.fs.clone()));
    let mut t = grid(header);
    for s in granary_mssd::Structure::ALL {
        let of = |r: &Record| {
            let pick = |m: &BTreeMap<String, u64>| m.get(s.name()).copied().unwrap_or(0);
            (pick(&r.host.byte.write_bytes), pick(&r.host.block.write_bytes))
        };
        if records.iter().any(|r| of(r) != (0, 0)) {
            let mut cells = vec![Cell::new(s.name())];
            cells.extend(records.iter().map(|r| {
                let (byte, block) = of(r);
                right(format!("{} + {}", Bytes(byte), Bytes(block)))
            }));
            t.add_row(cells);
        }
    }
    t
}

/// Warnings, each once, with the file systems that it concerns.
fn warnings(records: &[Record]) -> String {
    let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for r in records {
        for w in &r.warnings {
            by_text.entry(w).or_default().push(&r.fs);
        }
    }
    by_text.iter().map(|(text, fs)| format!("warning ({}): {text}\n", fs.join(", "))).collect()
}

fn ratio(v: f64, first: f64) -> String {
    if first == 0.0 || first.is_nan() || v.is_nan() { "-".to_owned() } else { format!("{:.2}x", v / first) }
}

/// 1234567 as 1,234,567.
pub(crate) fn group(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(group), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_ratio_to_nothing_is_a_dash() {
        assert_eq!((ratio(5.0, 0.0), ratio(5.0, 2.0)), ("-".to_owned(), "2.50x".to_owned()));
    }
}
