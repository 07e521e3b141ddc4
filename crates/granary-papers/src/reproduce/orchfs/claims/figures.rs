//! Figures 10 to 18: OrchFS beside other file systems.

use super::{ALL_SIZES, HYBRID, ON_SSD, OTHERS, Rows, SIZES, latency, less, read_latency};
use crate::reproduce::claim::row;
use crate::reproduce::orchfs::plan::{PCIE5, READS, THREADS};
use crate::reproduce::study::MAIN;
use crate::reproduce::verdict::{Paper, Stat};
use Paper::{Number, Range, Silent};
use granary_lab::record::Record;

const APPLICATIONS: &str = "LevelDB and GridGraph";
const ALL_READS: &str = "1 MB, 1 B-2 MB, 4 KB, 1 B-128 KB, all those file systems";
const BASELINES: &str =
    "ext4, F2FS, NOVA, PHFS, SPFS over both; the paper's of 1 thread, ours of the built-in file's";
/// File systems with which OrchFS is compared.
const KINDS: [(&str, &[&str]); 3] = [("ssd", &ON_SSD), ("nvm", &["nova"]), ("hybrid", &HYBRID)];
const LESS: [&str; 3] = [
    "latency less than SSD file systems', up to, %",
    "latency less than NVM file systems', up to, %",
    "latency less than hybrid ones', up to, %",
];

impl Rows<'_> {
    /// By how many percent OrchFS's latency is less, of each size and file system.
    fn all_less(&self, setting: &str, sizes: &[&str], others: &[&str]) -> Option<Vec<f64>> {
        let all = self.over(setting, "over", sizes, others, latency)?;
        Some(all.into_iter().map(less).collect())
    }

    pub(super) fn writes(&mut self) {
        for (((name, others), what), paper) in KINDS.into_iter().zip(LESS).zip([96.6, 71.3, 86.0]) {
            let up_to = row("10", name, "random writes", what, Number(paper)).saved();
            self.all.push(up_to.over(Stat::Most, ALL_SIZES, self.all_less(MAIN, &SIZES, others)));
        }
    }

    pub(super) fn reads(&mut self) {
        for ((name, others), (what, paper)) in KINDS.into_iter().zip([
            ("read throughput OrchFS/SSD file systems, up to", 3.08),
            ("read throughput OrchFS/NVM file systems, up to", 6.79),
            ("read throughput OrchFS/hybrid, up to", 6.34),
        ]) {
            let ours = self.over(MAIN, "read", &READS, others, read_latency);
            let up_to = row("13", name, "random reads", what, Number(paper)).factor();
            self.all.push(up_to.over(Stat::Most, ALL_READS, ours));
        }
        let per_s = |n: &u32| self.r.main(&format!("threads-{n}"), "orchfs").map(|r| r.ops.per_s);
        let all: Option<Vec<f64>> = THREADS.iter().map(per_s).collect();
        // The fewest threads with 90 % of the best rate.
        let first = all.and_then(|all| {
            let best = all.iter().copied().reduce(f64::max)?;
            let first = all.iter().position(|rate| *rate >= 0.9 * best)?;
            Some(f64::from(THREADS[first]))
        });
        let what = "threads that saturate the SSD";
        self.all.push(row("14", "threads", "1 MB random writes", what, Number(2.0)).ours(first));
    }

    /// Figure 15, which the slides show without numbers.
    pub(super) fn other_drive(&mut self) {
        for ((name, others), what) in KINDS.into_iter().zip(LESS) {
            let up_to = row("15", name, "random writes, PCIe 5.0", what, Silent).saved();
            let ours = self.all_less(PCIE5, &["1m", "mixed"], others);
            self.all.push(up_to.over(Stat::Most, "1 MB, 1 B-2 MB", ours));
        }
    }

    pub(super) fn applications(&mut self) {
        for (name, on, what, paper) in [
            ("ycsb-load", "YCSB Load", "inserts, %", 100.0),
            ("ycsb-a", "YCSB A", "reads, %", 50.0),
            ("ycsb-b", "YCSB B", "reads, %", 95.0),
            ("ycsb-c", "YCSB C", "reads, %", 100.0),
            ("ycsb-d", "YCSB D", "reads of the latest, %", 95.0),
            ("ycsb-e", "YCSB E", "short ranges, %", 95.0),
            ("ycsb-f", "YCSB F", "reads before writes, %", 50.0),
        ] {
            self.all.push(row("16", name, on, what, Number(paper)).input());
        }
        let what = "throughput OrchFS/baselines, up to";
        let leveldb = row("16", "leveldb", "LevelDB", what, Number(10.31)).factor();
        self.all.push(leveldb.needs(APPLICATIONS));
        for (on, numbers) in [
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
            for ((i, what), paper) in what.into_iter().enumerate().zip(numbers) {
                let name = format!("{}-{i}", on.to_lowercase());
                self.all.push(row("16", name, on, what, Number(paper)).input());
            }
        }
        let what = "time less, up to, %";
        let graphs = row("16", "gridgraph", "GridGraph", what, Number(68.8)).saved();
        self.all.push(graphs.needs(APPLICATIONS));
    }

    pub(super) fn conclusion(&mut self) {
        let ours = self.over(MAIN, "over", &SIZES, &OTHERS, latency);
        let what = "write performance OrchFS/baselines, up to";
        let writes = row("10", "all", "all", what, Number(29.76)).factor();
        self.all.push(writes.over(Stat::Most, ALL_SIZES, ours));
        let ours = self.over(MAIN, "read", &READS, &OTHERS, read_latency);
        let what = "read performance OrchFS/baselines, up to";
        let reads = row("13", "all", "all", what, Number(6.79)).factor();
        self.all.push(reads.over(Stat::Most, ALL_READS, ours));
    }

    /// Notes of the paper: what the slides leave out.
    pub(super) fn notes(&mut self) {
        let on = self.r.main("over-1m", "orchfs").and_then(latency);
        let off = self.r.find("engine off", "over-1m", "orchfs").and_then(latency);
        let gain = on.zip(off).map(|(on, off)| 100.0 * (1.0 - on / off));
        let what = "latency less with the I/O engine, up to, %";
        self.all.push(row("11", "engine", "1 MB", what, Number(48.6)).saved().ours(gain));
        let ours = self.over(MAIN, "over", &["32k", "64k"], &ON_SSD, latency);
        let what = "latency SSD file systems/OrchFS";
        let middle = row("10", "middle", "32 and 64 KB", what, Range(4.94, 8.89)).factor();
        self.all.push(middle.over(Stat::Ends, "32, 64 KB, ext4 and F2FS", ours));
        for (fs, what, paper) in
            [("ext4", "latency less than ext4's, %", 68.4), ("f2fs", "latency less than F2FS's, %", 72.4)]
        {
            let ours = self.all_less(MAIN, &["1m"], &[fs]);
            let large = row("10", format!("1m-{fs}"), "1 MB", what, Number(paper)).saved();
            self.all.push(large.over(Stat::One, "", ours));
        }
        for (w, paper) in [
            ("fileserver", Range(2.33, 10.25)),
            ("webproxy", Range(1.81, 7.44)),
            ("varmail", Range(1.04, 13.35)),
        ] {
            let per_s = |fs: &str| self.r.main(w, fs).map(|r: &Record| r.ops.per_s).filter(|n| *n > 0.0);
            let ours = OTHERS.iter().map(|fs| Some(per_s("orchfs")? / per_s(fs)?)).collect();
            let rate = row("16", w, w, "throughput OrchFS/baselines", paper).factor();
            self.all.push(rate.over(Stat::Ends, BASELINES, ours));
        }
    }
}
