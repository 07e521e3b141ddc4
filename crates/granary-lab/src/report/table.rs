//! The terminal table: file systems side by side, ratios to the first; as wide as the terminal and no wider.

use crate::record::{Cleaning, OpType, Record};
use granary_bench::columns::{Column, Unit, View, group, tables};
use granary_units::Bytes;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const PAGE: u64 = granary_units::PAGE_SIZE as u64;

/// Renders runs of one workload: throughput, latency per operation, traffic, flash, amplification, warnings.
pub fn table(records: &[Record], view: View) -> String {
    let Some(first) = records.first() else { return String::new() };
    let vars: String = first.vars.iter().map(|var| format!(", {var}")).collect();
    let mut out = format!(
        "{} at scale {} on {}: {} threads, seed {}{vars}\n\n",
        first.workload, first.scale, first.testbed, first.threads, first.seed
    );
    let _ = writeln!(out, "{}", summary(records, view));
    let _ = writeln!(
        out,
        "Latency per operation: mean / p99 (in brackets: not counted as one)\n{}",
        latencies(records, view)
    );
    if view.latencies {
        let _ = writeln!(out, "{}", all_latencies(records, view));
    }
    let _ = write!(out, "Host-link bytes by data structure\n{}", structures(records, view));
    let warnings = warnings(records);
    if !warnings.is_empty() {
        out.push_str(&format!("\n{warnings}"));
    }
    out
}

/// One row per figure, one column per file system, then the ratio of each further file system to the first.
fn summary(records: &[Record], view: View) -> String {
    let mut names = Vec::new();
    let mut values: Vec<Vec<String>> = vec![Vec::new(); records.len()];
    let mut ratios: Vec<Vec<String>> = vec![Vec::new(); records.len() - 1];
    let mut row = |name: &str, show: &dyn Fn(f64) -> String, value: &dyn Fn(&Record) -> f64| {
        let of: Vec<f64> = records.iter().map(value).collect();
        names.push(name.to_owned());
        values.iter_mut().zip(&of).for_each(|(column, v)| column.push(show(*v)));
        ratios.iter_mut().zip(&of[1..]).for_each(|(column, v)| column.push(ratio(*v, of[0])));
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
    row("host writes: byte interface", &size, &|r| r.host.byte.write_bytes.values().sum::<u64>() as f64);
    row("host writes: block interface", &size, &|r| r.host.block.write_bytes.values().sum::<u64>() as f64);
    row("host reads: metadata", &size, &|r| r.host.metadata_read() as f64);
    row("host reads: data", &size, &|r| r.host.data_read() as f64);
    row("write amplification", &factor, &|r| r.amplification.write.unwrap_or(f64::NAN));
    row("read amplification", &factor, &|r| r.amplification.read.unwrap_or(f64::NAN));
    row("host writes + drain", &size, &|r| (r.host.written() + r.drain.host.written()) as f64);
    for cause in causes(records, |r| [&r.flash.program_pages, &r.drain.flash.program_pages]) {
        row(&format!("flash programs + drain: {cause}"), &size, &|r| {
            (pages(&r.flash.program_pages, &cause) + pages(&r.drain.flash.program_pages, &cause)) as f64
        });
    }
    for cause in causes(records, |r| [&r.flash.read_pages, &r.drain.flash.read_pages]) {
        row(&format!("flash reads + drain: {cause}"), &size, &|r| {
            (pages(&r.flash.read_pages, &cause) + pages(&r.drain.flash.read_pages, &cause)) as f64
        });
    }
    if records.iter().any(|r| r.cleaning.is_some()) {
        let of = |get: fn(&Cleaning) -> f64| move |r: &Record| r.cleaning.as_ref().map_or(0.0, get);
        row("cleaning: virtual time", &secs, &of(|c| c.virtual_s));
        row("cleaning: host writes", &size, &of(|c| c.host.written() as f64));
        row("cleaning: host reads", &size, &of(|c| c.host.read() as f64));
        row("cleaning: segments", &count, &of(|c| c.segments as f64));
        row("cleaning: blocks copied", &count, &of(|c| c.blocks_copied as f64));
        row("cleaning: blocks remapped", &count, &of(|c| c.blocks_remapped as f64));
    }
    let values = records.iter().zip(values).map(|(r, cells)| Column::new(&r.fs, cells)).collect();
    let against = records[1..].iter().map(|r| format!("{}/{}", r.fs, records[0].fs));
    let ratios = against.zip(ratios).map(|(head, cells)| Column::new(head, cells)).collect();
    tables(view, &[Column::words("", names)], &[values, ratios])
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

/// The operations of all records, and how each is shown: in brackets what is none of the operations per
/// second.
fn operations(records: &[Record]) -> Vec<(&String, String)> {
    let mut names: Vec<&String> = records.iter().flat_map(|r| r.ops.by_type.keys()).collect();
    names.sort();
    names.dedup();
    let shown = |name: &String| {
        let counted = records.iter().filter_map(|r| r.ops.by_type.get(name)).any(|op| op.counted);
        if counted { name.clone() } else { format!("({name})") }
    };
    names.into_iter().map(|name| (name, shown(name))).collect()
}

fn of<'r>(record: &'r Record, name: &str) -> Option<&'r OpType> {
    record.ops.by_type.get(name).filter(|op| op.count > 0)
}

/// The unit of a row: that of its smallest mean.
fn unit_of(records: &[Record], name: &str) -> Unit {
    Unit::of(records.iter().filter_map(|r| of(r, name)).map(|op| op.mean_ns).min().unwrap_or(0))
}

fn latencies(records: &[Record], view: View) -> String {
    let operations = operations(records);
    let counts = columns_of_counts(records);
    let one = counts.len() == 1;
    let column = |show: &dyn Fn(&String) -> String| operations.iter().map(|(name, _)| show(name)).collect();
    let labels = [
        Column::words("operation", operations.iter().map(|(_, shown)| shown.clone()).collect()),
        Column::words("unit", column(&|name| unit_of(records, name).name().to_owned())),
    ];
    let counted = counts.iter().map(|r| {
        let head = if one { "count".to_owned() } else { format!("count {}", r.fs) };
        Column::new(head, column(&|name| group(of(r, name).map_or(0, |op| op.count))))
    });
    let times = records.iter().map(|r| {
        let shown = |name: &String| {
            of(r, name).map_or("-".to_owned(), |op| {
                let unit = unit_of(records, name);
                format!("{} / {}", unit.show(op.mean_ns), unit.show(op.p99_ns))
            })
        };
        Column::new(&r.fs, column(&shown))
    });
    if one {
        return tables(view, &labels, &[counted.chain(times).collect()]);
    }
    tables(view, &labels, &[times.collect(), counted.collect()])
}

/// A table per operation, with all that is known of its latencies.
fn all_latencies(records: &[Record], view: View) -> String {
    let mut out = String::new();
    for (name, shown) in operations(records) {
        let unit = unit_of(records, name);
        let some: Vec<(&Record, &OpType)> = records.iter().filter_map(|r| Some((r, of(r, name)?))).collect();
        let column = |head: &str, ns: fn(&OpType) -> u64| {
            Column::new(head, some.iter().map(|(_, op)| unit.show(ns(op))).collect())
        };
        let labels = [Column::words(
            format!("{shown}, {}", unit.name()),
            some.iter().map(|(r, _)| r.fs.clone()).collect(),
        )];
        let counts = Column::new("count", some.iter().map(|(_, op)| group(op.count)).collect());
        let times = [
            column("mean", |op| op.mean_ns),
            column("p50", |op| op.p50_ns),
            column("p95", |op| op.p95_ns),
            column("p99", |op| op.p99_ns),
            column("max", |op| op.max_ns),
        ];
        out += &tables(view, &labels, &[[counts].into_iter().chain(times).collect()]);
    }
    out
}

/// The records whose counts are shown: the first, where all have the same.
fn columns_of_counts(records: &[Record]) -> &[Record] {
    let counts = |r: &Record| -> Vec<(String, u64)> {
        r.ops.by_type.iter().map(|(name, op)| (name.clone(), op.count)).collect()
    };
    let first = counts(&records[0]);
    if records.iter().all(|r| counts(r) == first) { &records[..1] } else { records }
}

fn structures(records: &[Record], view: View) -> String {
    let of = |r: &Record, s: granary_device::Structure| {
        let pick = |m: &BTreeMap<String, u64>| m.get(s.name()).copied().unwrap_or(0);
        (pick(&r.host.byte.write_bytes), pick(&r.host.block.write_bytes))
    };
    let used: Vec<_> = granary_device::Structure::ALL
        .into_iter()
        .filter(|s| records.iter().any(|r| of(r, *s) != (0, 0)))
        .collect();
    let labels = [Column::words("byte + block", used.iter().map(|s| s.name().to_owned()).collect())];
    let columns = records.iter().map(|r| {
        let shown = |s: &granary_device::Structure| {
            let (byte, block) = of(r, *s);
            format!("{} + {}", Bytes(byte), Bytes(block))
        };
        Column::new(&r.fs, used.iter().map(shown).collect())
    });
    tables(view, &labels, &[columns.collect()])
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Five file systems, latencies from nanoseconds to seconds, long names: on a terminal of 80 columns.
    #[test]
    fn five_file_systems_fit_on_a_terminal() {
        let record = |n: u64, fs: &str| {
            let mut r = Record { fs: fs.to_owned(), workload: "w".to_owned(), ..Record::default() };
            r.ops.per_s = 1e6 / n as f64;
            for (name, ns) in [("createfile2", 900 * n), ("an-operation-with-a-long-name", 70_000_000 * n)] {
                let op = OpType {
                    counted: true,
                    count: 38_467 + n,
                    mean_ns: ns,
                    p99_ns: 9_000 * ns,
                    ..OpType::default()
                };
                r.ops.by_type.insert(name.to_owned(), op);
            }
            r.host.block.write_bytes.insert("inode".to_owned(), 317_280_000 * n);
            r.host.byte.write_bytes.insert("data".to_owned(), 809_010_000 * n);
            r.flash.program_pages.insert("log_cleaning".to_owned(), 1 << 30);
            r
        };
        let all: Vec<Record> = ["bytefs", "ext4", "f2fs", "nova", "bytefs-dual"]
            .iter()
            .zip(1..)
            .map(|(fs, n)| record(n, fs))
            .collect();
        for (width, latencies) in [(80, false), (80, true), (120, false), (120, true), (60, true)] {
            let text = table(&all, View { width, latencies });
            let lines = text.lines().filter(|l| l.starts_with(['│', '┌', '╞', '└']));
            let widest = lines.map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(widest <= width, "{widest} of {width}:\n{text}");
            assert_eq!(text.contains("p95"), latencies);
            for fs in ["bytefs", "ext4", "f2fs", "nova", "bytefs-dual"] {
                assert!(text.contains(&format!(" {fs} ")), "{fs}: {text}");
            }
        }
    }

    #[test]
    fn a_ratio_to_nothing_is_a_dash() {
        assert_eq!((ratio(5.0, 0.0), ratio(5.0, 2.0)), ("-".to_owned(), "2.50x".to_owned()));
    }
}
