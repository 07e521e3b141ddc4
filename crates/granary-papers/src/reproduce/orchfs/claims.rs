//! Every statement of OrchFS's slides, and how our number for it follows from the runs.
//!
//! Rows are in the order of the slides. `why` says what makes ours another.

use super::plan::{
    ARTIFACT, HOST_FREE, HYBRID, ON_SSD, OTHERS, PAGES_FREE, PAPER, PARTS, PCIE5, READS, SIZES, THREADS,
};
use crate::reproduce::study::{MAIN, Results};
use crate::reproduce::verdict::{Judged, Paper};
use Paper::{Above, Below, Number, Range, Silent};
use granary_lab::record::Record;

const BACKGROUND: &str = "background of the talk: nothing of it is measured";
const STATED: &str = "a value of the testbed, with its source in testbeds/orchfs.toml";
const DESIGN: &str = "a constant of the layout (SPEC.md)";
const UNSAID: &str = "the testbed has no word for it";
const APPLICATIONS: &str = "not run: LevelDB and GridGraph are no workloads yet";
const PARTS_OF: &str =
    "the largest of 4 KiB to 1 MiB, ext4 and F2FS: what a write and its fsync take less with that part free";
const FIFTEEN: &str = "the slides show figure 15 without numbers";
const RAW: &str = "the drive alone has no host costs here";
const PER_PAGE: &str = "256 pages of the cache at 0.8 us (testbeds/bytefs-emulator.toml) and two small reads of the SSD; a third of raw would take 3 us a page";
const BASELINES: &str =
    "the talk names no baseline for its best case; OdinFS, ArckFS and Strata are absent here";
const FOUR: &str = "one cell for four sizes: their mean";
const MEAN: &str = "the cell needs a mean request of 61.7 KB, uniform sizes have 64";
const UPAGES: &str =
    "a page counts that was first touched in part, and none is reclaimed (the released code)";

/// Table 2: the size, then GB in pages, Upages and blocks, after the fill and after the overwrites.
const TABLE2: [(&str, [f64; 3], [f64; 3]); 8] = [
    ("1 to 16 KB", [10.0, 0.0, 0.0], [10.0, 0.0, 0.0]),
    ("32 KB", [9.76, 0.0, 0.24], [9.89, 0.03, 0.24]),
    ("64 KB", [5.19, 0.0, 4.81], [7.06, 0.47, 4.81]),
    ("128 KB", [2.50, 0.0, 7.50], [4.19, 0.42, 7.50]),
    ("256 KB", [1.25, 0.0, 8.75], [2.34, 0.27, 8.75]),
    ("512 KB", [0.63, 0.0, 9.37], [1.25, 0.15, 9.37]),
    ("1 MB", [0.31, 0.0, 9.69], [0.63, 0.08, 9.69]),
    ("1 B to 2 MB", [0.32, 0.0, 9.68], [0.64, 0.08, 9.68]),
];
/// The unit, its name in `memory` of records, and what its two rows are called.
const UNITS: [(&str, &str, &str); 3] = [
    ("space.nvm_page", "NVM pages after the fill, GB", "NVM pages after overwrites, GB"),
    ("space.nvm_upage_made", "Upages after the fill, GB", "Upages after overwrites, GB"),
    ("space.ssd_block", "SSD blocks after the fill, GB", "SSD blocks after overwrites, GB"),
];

/// All statements beside what the runs say.
pub(super) fn claims(results: &Results) -> Vec<Judged> {
    let mut rows = Rows { r: results, all: Vec::new() };
    rows.background();
    rows.setup();
    rows.writes();
    rows.table2();
    rows.reads();
    rows.other_drive();
    rows.applications();
    rows.conclusion();
    rows.all
}

struct Rows<'a> {
    r: &'a Results,
    all: Vec<Judged>,
}

fn latency(r: &Record) -> Option<f64> {
    Some(r.ops.by_type.get("over.write")?.mean_ns as f64)
}

/// Of the fsync after each write.
fn fsync(r: &Record) -> Option<f64> {
    Some(r.ops.by_type.get("over.fsync")?.mean_ns as f64)
}

/// Of a write and its fsync.
fn durable(r: &Record) -> Option<f64> {
    Some(latency(r)? + fsync(r)?)
}

/// Bytes a second of the overwriting phase: bytes of its accesses over their time, which is one thread's.
fn written_per_s(r: &Record) -> Option<f64> {
    let over = r.ops.by_type.get("over.write")?;
    Some(mean_bytes(r) / (over.mean_ns as f64 / 1e9))
}

/// The fill and the overwrites have as many bytes and, about, as many accesses.
fn mean_bytes(r: &Record) -> f64 {
    let n: u64 = r.ops.by_type.iter().filter(|(_, op)| op.kind == "write").map(|(_, op)| op.count).sum();
    r.app.write_bytes as f64 / n.max(1) as f64
}

fn read_latency(r: &Record) -> Option<f64> {
    Some(r.ops.by_type.get("read.read")?.mean_ns as f64)
}

fn largest(all: impl IntoIterator<Item = f64>) -> Option<f64> {
    all.into_iter().reduce(f64::max)
}

impl Rows<'_> {
    fn add(
        &mut self,
        figure: &'static str,
        on: &'static str,
        what: &'static str,
        paper: Paper,
        ours: Option<f64>,
        why: &'static str,
    ) {
        self.all.push(Judged { figure, on, what, paper, factor: what.contains('/'), ours, why });
    }

    fn alone(&self, name: &str) -> Option<f64> {
        self.r.alone.get(name).copied()
    }

    /// `of` another file system over OrchFS's, for each workload and file system that ran in a setting.
    fn over<'s>(
        &'s self,
        setting: &'s str,
        what: &'s str,
        sizes: &'s [&'s str],
        others: &'s [&'s str],
        of: fn(&Record) -> Option<f64>,
    ) -> impl Iterator<Item = f64> + 's {
        sizes.iter().flat_map(move |size| {
            let name = format!("{what}-{size}");
            let ours = self.r.find(setting, &name, "orchfs").and_then(of);
            others.iter().filter_map(move |fs| Some(self.r.find(setting, &name, fs).and_then(of)? / ours?))
        })
    }

    /// By how many percent OrchFS's latency is less, at most.
    fn less(&self, setting: &str, others: &[&str]) -> Option<f64> {
        largest(self.over(setting, "over", &SIZES, others, latency)).map(|times| 100.0 * (1.0 - 1.0 / times))
    }

    fn background(&mut self) {
        self.add("1", "SATA SSD", "bandwidth, MB/s", Number(500.0), None, BACKGROUND);
        self.add("1", "PCIe 5.0 SSD", "bandwidth, GB/s", Number(10.0), None, BACKGROUND);
        let raw = self.alone("raw 1 MiB, B/s");
        let of = |setting: &str, raw: Option<f64>| {
            let all =
                ON_SSD.iter().filter_map(|fs| self.r.find(setting, "nosync-1m", fs).and_then(written_per_s));
            largest(all).zip(raw).map(|(fs, raw)| fs / raw)
        };
        let ours = of(MAIN, raw);
        let fast = of(PCIE5, self.alone("raw 1 MiB of PCIe 5.0, B/s"));
        self.add(
            "1",
            "1 MB, no sync",
            "throughput file systems/raw, PCIe 4.0",
            Number(1.0 / 3.0),
            ours,
            PER_PAGE,
        );
        self.add("1", "1 MB, no sync", "throughput file systems/raw, PCIe 5.0", Number(0.25), fast, PER_PAGE);
        self.add(
            "1",
            "1 MB, no sync",
            "bottleneck: small SSD reads",
            Above(0.0),
            None,
            "a sentence, no number",
        );
        let raw = self.alone("raw 1 MiB, B/s").map(|per_s| f64::from(1 << 20) / per_s * 1e9);
        let all = ON_SSD.iter().filter_map(|fs| self.r.main("fsync-1m", fs).and_then(durable));
        let ours = largest(all).zip(raw).map(|(fs, raw)| fs / raw);
        self.add("2", "1 MB, fsync after each", "latency file systems/raw", Range(2.64, 9.62), ours, RAW);
        let ours = self.r.main("fsync-1m", "orchfs").and_then(durable).zip(raw).map(|(fs, raw)| fs / raw);
        let what = "latency OrchFS/raw";
        self.add("2", "1 MB, fsync after each", what, Silent, ours, "the slides show it in no figure");
        let least = "the two ends: 1 MiB and 16 KiB";
        let ours =
            self.alone("unaligned 1 MiB").zip(self.alone("unaligned 16 KiB")).map(|(a, b)| (a + b) / 2.0);
        self.add("3", "direct writes", "latency unaligned/aligned", Range(1.85, 10.71), ours, least);
        let ours = self.part("fsync", PAGES_FREE, durable);
        let what = "page cache, share of a write, %";
        self.add("4", "unaligned, buffered", what, Range(4.0, 39.2), ours, PARTS_OF);
        let shares = ["fsync", "direct"].map(|how| self.part(how, HOST_FREE, fsync));
        let ours = largest(shares.into_iter().flatten());
        let what = "fsync without I/O, share of a write, %";
        self.add("4", "buffered and direct", what, Range(5.5, 27.9), ours, PARTS_OF);
        let split = "commands of 32 KiB, 32 under way, beside one of 1 MiB";
        let ours = self.alone("split writes");
        self.add("5", "writes", "throughput split/single", Range(1.02, 1.56), ours, split);
        let ours = self.alone("split reads");
        self.add("5", "reads", "throughput split/single", Range(1.06, 1.65), ours, split);
        let host = "the host writes the pages that the bytes touch";
        self.add("3", "16 KB unaligned", "KB at the host", Number(20.0), self.alone("host, KB"), host);
        self.add("3", "16 KB unaligned", "KB in the SSD", Number(32.0), self.alone("SSD, KB"), host);
        for (what, paper) in [
            ("KB of an SSD page", 16.0),
            ("KB of an SSD block", 32.0),
            ("KB of an NVM page", 4.0),
            ("B of an Upage's entry", 64.0),
        ] {
            let ours = self.alone(what);
            self.add("setup", "layout", what, Number(paper), ours, DESIGN);
        }
        self.add("setup", "layout", "metadata on the SSD, bytes", Below(1.0), self.ssd_metadata(), DESIGN);
        self.add("setup", "HRtree", "traversals of a request", Number(1.0), None, "a sentence of the design");
    }

    /// By how many percent of a write with its fsync `of` takes less in this setting, at most.
    fn part(&self, how: &str, setting: &str, of: fn(&Record) -> Option<f64>) -> Option<f64> {
        largest(PARTS.iter().flat_map(|size| ON_SSD.map(|fs| (format!("{how}-{size}"), fs))).filter_map(
            |(name, fs)| {
                let (whole, free) = (self.r.main(&name, fs)?, self.r.find(setting, &name, fs)?);
                Some(100.0 * (of(whole)? - of(free)?) / durable(whole)?)
            },
        ))
    }

    /// Bytes of metadata that OrchFS wrote to the SSD in all runs.
    fn ssd_metadata(&self) -> Option<f64> {
        let ours: Vec<f64> = self
            .r
            .runs
            .iter()
            .filter(|(_, r)| r.fs == "orchfs")
            .filter_map(|(_, r)| {
                let ssd = r.devices.get("ssd")?;
                let all: u64 = ssd.host.block.write_bytes.values().sum();
                Some((all - ssd.host.block.write_bytes.get("data").copied().unwrap_or(0)) as f64)
            })
            .collect();
        (!ours.is_empty()).then(|| ours.iter().sum())
    }

    fn setup(&mut self) {
        self.add("setup", "platform", "kernel 5.18.18", Number(5.18), None, UNSAID);
        self.add("setup", "platform", "processors' packages", Number(2.0), None, UNSAID);
        let cores = self.alone("processors").map(|all| all / 2.0);
        self.add("setup", "platform", "cores of each", Number(28.0), cores, STATED);
        self.add("setup", "platform", "clock, GHz", Number(2.6), None, UNSAID);
        self.add("setup", "platform", "DRAM, GB", Number(256.0), None, "the testbed states its parts");
        for (what, paper) in [
            ("SSD, TB", 3.84),
            ("SSD reads, GB/s", 6.8),
            ("SSD writes, GB/s", 4.2),
            ("NVM, GB", 128.0),
            ("NVM reads, GB/s", 6.6),
            ("NVM writes, GB/s", 2.3),
        ] {
            let ours = self.alone(what);
            self.add("setup", "platform", what, Number(paper), ours, STATED);
        }
        let ours = self.alone("KB of an SSD block");
        self.add("setup", "PHFS", "KB of the boundary", Number(32.0), ours, DESIGN);
    }

    fn writes(&mut self) {
        let ours = self.less(MAIN, &ON_SSD);
        self.add(
            "10",
            "random writes",
            "latency less than SSD file systems', up to, %",
            Number(96.6),
            ours,
            BASELINES,
        );
        let ours = self.less(MAIN, &["nova"]);
        self.add(
            "10",
            "random writes",
            "latency less than NVM file systems', up to, %",
            Number(71.3),
            ours,
            BASELINES,
        );
        let ours = self.less(MAIN, &HYBRID);
        self.add(
            "10",
            "random writes",
            "latency less than hybrid ones', up to, %",
            Number(86.0),
            ours,
            BASELINES,
        );
    }

    /// GB of 10 that `unit` takes after this workload.
    fn space(&self, setting: &str, what: &str, size: &str, unit: &str) -> Option<f64> {
        let r = self.r.find(setting, &format!("{what}-{size}"), "orchfs")?;
        let of = |unit: &str| r.memory.get(unit).copied().unwrap_or(0) as f64;
        let filled = if what == "fill" { r.app.write_bytes as f64 } else { r.app.write_bytes as f64 / 2.0 };
        Some(10.0 * of(unit) / filled.max(1.0))
    }

    fn cell(&self, setting: &str, what: &str, row: usize, unit: &str) -> Option<f64> {
        // The first row stands for four sizes.
        let sizes = if row == 0 { &SIZES[..4] } else { &SIZES[row + 3..][..1] };
        let all: Option<Vec<f64>> = sizes.iter().map(|size| self.space(setting, what, size, unit)).collect();
        all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
    }

    fn table2(&mut self) {
        for (n, (unit, after_fill, _)) in UNITS.into_iter().enumerate() {
            for (row, (size, fill, _)) in TABLE2.into_iter().enumerate() {
                let why = if row == 0 { FOUR } else { MEAN };
                self.add(
                    "table2",
                    size,
                    after_fill,
                    Number(fill[n]),
                    self.cell(ARTIFACT, "fill", row, unit),
                    why,
                );
            }
        }
        for (n, (unit, _, after)) in UNITS.into_iter().enumerate() {
            for (row, (size, _, over)) in TABLE2.into_iter().enumerate() {
                let why = if row == 0 { FOUR } else { UPAGES };
                self.add("table2", size, after, Number(over[n]), self.cell(ARTIFACT, "over", row, unit), why);
            }
        }
        // Beside the published table: what the paper's text describes.
        for (row, (size, _, over)) in TABLE2.into_iter().enumerate().skip(1) {
            let ours = self.cell(PAPER, "over", row, "space.nvm_upage");
            let why = "reclaim = paper: the text's own rule, which the table does not follow";
            self.add("table2", size, "Upages with the text's reclaim, GB", Number(over[1]), ours, why);
        }
        let share = self.r.main("over-1m", "orchfs").and_then(|r| {
            let by = |role: &str| {
                let host = &r.devices.get(role)?.host;
                let all = host.block.write_bytes.values().chain(host.byte.write_bytes.values());
                Some(all.sum::<u64>() as f64)
            };
            Some(by("ssd")? / (by("ssd")? + by("nvm")?))
        });
        self.add("table2", "1 MB", "share of bytes that the SSD serves", Above(0.5), share, "\"most\"");
    }

    fn reads(&mut self) {
        let most = |me: &Self, others: &[&str]| largest(me.over(MAIN, "read", &READS, others, read_latency));
        for (what, paper, others) in [
            ("read throughput OrchFS/SSD file systems, up to", 3.08, &ON_SSD[..]),
            ("read throughput OrchFS/NVM file systems, up to", 6.79, &["nova"][..]),
            ("read throughput OrchFS/hybrid, up to", 6.34, &HYBRID[..]),
        ] {
            let ours = most(self, others);
            self.add("13", "random reads", what, Number(paper), ours, BASELINES);
        }
        let per_s = |n: u32| self.r.main(&format!("threads-{n}"), "orchfs").map(|r| r.ops.per_s);
        let all: Vec<Option<f64>> = THREADS.iter().map(|n| per_s(*n)).collect();
        let ours = all.iter().copied().collect::<Option<Vec<f64>>>().and_then(|all| {
            let best = largest(all.iter().copied())?;
            let first = all.iter().position(|rate| *rate >= 0.9 * best)?;
            Some(f64::from(THREADS[first]))
        });
        let why = "the fewest threads with 90 % of the best rate";
        self.add("14", "1 MB random writes", "threads that saturate the SSD", Number(2.0), ours, why);
    }

    fn other_drive(&mut self) {
        for (what, others) in [
            ("latency less than SSD file systems', up to, %", &ON_SSD[..]),
            ("latency less than NVM file systems', up to, %", &["nova"][..]),
            ("latency less than hybrid ones', up to, %", &HYBRID[..]),
        ] {
            let ours = self.less(PCIE5, others);
            self.add("15", "random writes, PCIe 5.0", what, Silent, ours, FIFTEEN);
        }
    }

    fn applications(&mut self) {
        for (on, what, paper) in [
            ("YCSB Load", "inserts, %", 100.0),
            ("YCSB A", "reads, %", 50.0),
            ("YCSB B", "reads, %", 95.0),
            ("YCSB C", "reads, %", 100.0),
            ("YCSB D", "reads of the latest, %", 95.0),
            ("YCSB E", "short ranges, %", 95.0),
            ("YCSB F", "reads before writes, %", 50.0),
            ("LevelDB", "throughput OrchFS/baselines, up to", 10.31),
        ] {
            self.add("16", on, what, Number(paper), None, APPLICATIONS);
        }
        for (on, row) in [
            ("LiveJournal", [4.85, 69.0, 539.0, 1.8, 12.8, 123.1, 16.5]),
            ("Twitter", [61.6, 1500.0, 11_500.0, 35.4, 25.5, 1020.0, 4.9]),
            ("Friendster", [68.3, 2600.0, 28_200.0, 86.8, 93.4, 129.4, 11.0]),
        ] {
            let what = [
                "vertices, millions",
                "edges, millions",
                "size, MB",
                "writes, GB",
                "reads, GB",
                "mean write, KB",
                "mean read, MB",
            ];
            for (what, paper) in what.into_iter().zip(row) {
                self.add("16", on, what, Number(paper), None, APPLICATIONS);
            }
        }
        self.add("16", "GridGraph", "time less, up to, %", Number(68.8), None, APPLICATIONS);
    }

    fn conclusion(&mut self) {
        let ours = largest(self.over(MAIN, "over", &SIZES, &OTHERS, latency));
        self.add("10", "all", "write performance OrchFS/baselines, up to", Number(29.76), ours, BASELINES);
        let ours = largest(self.over(MAIN, "read", &READS, &OTHERS, read_latency));
        self.add("13", "all", "read performance OrchFS/baselines, up to", Number(6.79), ours, BASELINES);
        let gain = self
            .r
            .main("over-1m", "orchfs")
            .and_then(latency)
            .zip(self.r.find("engine off", "over-1m", "orchfs").and_then(latency))
            .map(|(on, off)| 100.0 * (1.0 - on / off));
        let why = "notes of the paper: \"up to\"";
        self.add("11", "1 MB", "latency less with the I/O engine, up to, %", Number(48.6), gain, why);
    }
}

#[cfg(test)]
mod tests;
