//! Every statement of the PebbleSSD paper, and how our number for it follows from the runs and from the drive
//! alone.
//!
//! Rows are in the order of the paper. Where its text and a caption disagree, both are rows. `why` says what
//! makes ours another.

use super::{CLEANED, SYNC};
use crate::reproduce::study::{MAIN, Results};
use crate::reproduce::verdict::{Judged, Paper};
use Paper::{About, Above, Below, Number, Range, Silent};
use granary_lab::record::{Cleaning, Record};

const NOT_RUN: &str = "not run: TPC-C and LinkBench on MySQL come with a later version";
const STATED: &str = "a value of the testbed, with its source in testbeds/pebblessd.toml";
const CALIBRATED: &str =
    "the drive's command cost is calibrated so that a move takes 87 % less: this is no result of ours";
const METADATA: &str = "F2FS writes nodes as before, and an inode is a block: of files of 16 KB (three of the four workloads) every fifth block that moves is one, so 80 % is the most; 96 % needs files of 100 KB";
const OPERATIONS: &str =
    "both of a pair do the same operations here; in the paper both run for the same time";
const SCATTERED: &str = "the paper does not report it: what remap leaves where it lay is scattered in flash; on a drive of 1.9 GB, half of each segment moved";
const BLOCKS: &str = "the paper does not say how much a write has: ours is the mean over 4, 8, 12 and 16 KiB";
const WINDOWS: &str = "an fsync here waits for round trips: data, nodes and a FLUSH before, one command after; the paper's factor is nearer to that of the bytes (1/0.72)";

/// All statements beside what the runs say.
pub(super) fn claims(results: &Results) -> Vec<Judged> {
    let mut rows = Rows { results, all: Vec::new() };
    rows.headlines();
    rows.platform();
    rows.commands();
    rows.cleaning();
    rows.synchronous();
    rows.databases();
    rows.memory();
    rows.all
}

/// Savings of the second file system of a pair over the first, percent.
type Saved<'a> = fn(&Rows<'a>, &str, &str, &str) -> Option<f64>;

struct Rows<'a> {
    results: &'a Results,
    all: Vec<Judged>,
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn most(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::max)
}

/// By how many percent `new` is less than `old`.
fn less(new: f64, old: f64) -> Option<f64> {
    (old > 0.0).then(|| 100.0 * (1.0 - new / old))
}

/// Data and index blocks over data blocks, in the measured run and its drain: what a short run leaves behind
/// is the run's, too.
fn amplification(r: &Record) -> Option<f64> {
    let of = |name: &str| {
        let written =
            |host: &granary_bench::traffic::Host| host.block.write_bytes.get(name).copied().unwrap_or(0);
        (written(&r.host) + written(&r.drain.host)) as f64
    };
    let index = match r.fs.starts_with("f2fs") {
        // Nodes: those of inodes and those of addresses.
        true => of("inode") + of("data_pointer"),
        // Summaries, and the nodes of B-trees.
        false => of("log") + of("data_pointer"),
    };
    (of("data") > 0.0).then(|| (of("data") + index) / of("data"))
}

impl<'a> Rows<'a> {
    fn add(
        &mut self,
        figure: &'static str,
        on: &'static str,
        what: &'static str,
        paper: Paper,
        ours: Option<f64>,
        why: &'static str,
    ) {
        let factor = what.contains("throughput");
        self.all.push(Judged { figure, on, what, paper, factor, ours, why });
    }

    fn alone(&self, name: &str) -> Option<f64> {
        self.results.alone.get(name).copied()
    }

    fn cleaned(&self, workload: &str, fs: &str) -> Option<&Cleaning> {
        self.results.find("cleaned", workload, fs)?.cleaning.as_ref()
    }

    /// By how many percent cleaning writes less.
    fn written_less(&self, workload: &str, fs: &str, opt: &str) -> Option<f64> {
        let of = |fs| Some(self.cleaned(workload, fs)?.host.written() as f64);
        less(of(opt)?, of(fs)?)
    }

    /// By how many percent it takes less time.
    fn time_less(&self, workload: &str, fs: &str, opt: &str) -> Option<f64> {
        let of = |fs| Some(self.cleaned(workload, fs)?.virtual_s);
        less(of(opt)?, of(fs)?)
    }

    /// Savings of the second of a pair, by workload. A workload that leaves nothing to clean says nothing of
    /// cleaning.
    fn saved(&self, fs: &str, opt: &str, of: Saved<'a>) -> Vec<Option<f64>> {
        let idle = |w: &str| self.cleaned(w, fs).is_some_and(|c| c.host.written() == 0);
        CLEANED.iter().filter(|w| !idle(w)).map(|w| of(self, w, fs, opt)).collect()
    }

    fn faster(&self, setting: &str, workload: &str, fs: &str, opt: &str) -> Option<f64> {
        let of = |fs| Some(self.results.find(setting, workload, fs)?.ops.per_s);
        let before = of(fs).filter(|per_s| *per_s > 0.0)?;
        Some(of(opt)? / before)
    }

    fn amplified_less(&self, setting: &str, workload: &str, fs: &str, opt: &str) -> Option<f64> {
        let of = |fs| amplification(self.results.find(setting, workload, fs)?);
        less(of(opt)?, of(fs)?)
    }

    fn headlines(&mut self) {
        let pairs = [("f2fs", "f2fs-remap"), ("nilfs2", "nilfs2-remap")];
        let all = CLEANED.iter().flat_map(|w| pairs.map(|(a, b)| self.written_less(w, a, b)));
        // A workload that leaves nothing to clean says nothing of cleaning.
        let best = all.flatten().reduce(f64::max);
        self.add(
            "7",
            "cleaning",
            "data written less, both file systems, up to, %",
            Number(99.0),
            best,
            METADATA,
        );
        let best = most(SYNC.iter().map(|w| self.amplified_less("sync", w, "f2fs", "f2fs-fswrite")));
        let why =
            "of a file's data and index blocks, and most with writes of one block, which have a node each";
        self.add(
            "8",
            "synchronous writes",
            "flash writes less by fs_write, up to, %",
            Number(33.0),
            best,
            why,
        );
    }

    fn platform(&mut self) {
        let f = "platform";
        let row = |me: &mut Self, what, paper, name: &str| {
            let ours = me.alone(name);
            me.add(f, "the drive", what, paper, ours, STATED);
        };
        self.add(f, "flash", "page, KB", Range(4.0, 8.0), self.alone("capacity, GB").map(|_| 4.096), STATED);
        row(self, "read, us", Below(100.0), "read, us");
        self.add(f, "flash", "program, several hundred us", Above(100.0), self.alone("program, us"), STATED);
        row(self, "pages of a block", Range(64.0, 512.0), "pages a block");
        self.add(f, "flash", "erase, several ms", Above(1.0), self.alone("erase, ms"), STATED);
        self.add(
            f,
            "the drive",
            "lanes of PCIe 3.0",
            Number(4.0),
            None,
            "the testbed states their bandwidth less packet overhead, 3.2 GB/s each way",
        );
        row(self, "capacity, GB", Number(375.0), "capacity, GB");
        row(self, "channels", Number(16.0), "channels");
        row(self, "firmware clock, MHz", Number(500.0), "clock, MHz");
        let caches = "not modelled: the firmware is charged by command and entry, not by instruction";
        self.add(f, "the drive", "private memory of a core, KB", Number(128.0), None, caches);
        row(self, "DRAM, GB", Number(2.0), "memory, GiB");
        let four = "the paper says 64 bits here and 4 bytes in section 6.5; the emulator has 4";
        self.add(
            f,
            "BAM",
            "P2L entry, bits",
            Number(64.0),
            self.alone("P2L entry, B").map(|b| 8.0 * b),
            four,
        );
        let offset = self.alone("file offset entry, B").map(|b| 8.0 * b);
        self.add(f, "BAM", "file offset entry, bits", Number(64.0), offset, STATED);
        row(self, "host processors", Number(4.0), "host cores");
        let not = "not modelled as such: the testbed states the page cache and the metadata cache";
        self.add(f, "the host", "memory, GB", Number(32.0), None, not);
        let linux = "F2FS behaves as Linux 3.16 by its options, NILFS2 as Linux 6.1, whose traffic is known";
        self.add(f, "the host", "Linux", Number(3.16), None, linux);
        self.add(f, "microbenchmarks", "threads for throughput", Number(4.0), Some(4.0), "");
        self.add(f, "microbenchmarks", "threads for latency", Number(1.0), Some(1.0), "");
    }

    fn commands(&mut self) {
        let cost = "an entry takes 100 cycles of the firmware, which the calibrated command cost hides";
        let ours = self.alone("fs_write throughput");
        self.add("5", "4 threads", "throughput fs_write/write", About(1.0), ours, cost);
        self.add("5", "1 thread", "latency fs_write/write", About(1.0), self.alone("fs_write latency"), cost);
        let ours = self.alone("remap throughput");
        self.add("6", "4 threads", "throughput remap/read and write", Number(3.7), ours, CALIBRATED);
        let ours = self.alone("remap latency saved, %");
        self.add("6", "1 thread", "latency less, %", Number(87.0), ours, CALIBRATED);
    }

    fn cleaning(&mut self) {
        let pause = granary_f2fs::MountOptions::default().gc_sleep.0.as_secs_f64();
        let thread = "an option of the file system: 30 s as in Linux; the runs here end before it wakes";
        self.add("7", "F2FS", "its cleaning thread wakes every, s", Range(30.0, 60.0), Some(pause), thread);
        let protected = most(CLEANED.iter().map(|w| Some(self.cleaned(w, "nilfs2")?.protection_s)));
        self.add("7", "NILFS2", "protection period, s", Number(600.0), protected, "");
        let time = mean(self.saved("f2fs", "f2fs-remap", Self::time_less).into_iter());
        self.add("7", "F2FS", "cleaning takes less time (text), %", Number(33.0), time, OPERATIONS);
        self.add("7", "F2FS", "cleaning takes less time (caption), %", Number(29.0), time, OPERATIONS);
        let written = self.saved("f2fs", "f2fs-remap", Self::written_less);
        let (mid, best) = (mean(written.iter().copied()), most(written.into_iter()));
        self.add("7", "F2FS", "cleaning writes less (text), up to, %", Number(99.0), best, METADATA);
        self.add("7", "F2FS", "cleaning writes less (caption), mean, %", Number(96.0), mid, METADATA);
        self.add("7", "F2FS", "cleaning writes less (caption), best, %", Number(99.0), best, METADATA);
        let written = self.saved("nilfs2", "nilfs2-remap", Self::written_less);
        let (mid, best) = (mean(written.iter().copied()), most(written.into_iter()));
        let dat = "what stays is summaries and DAT blocks, one entry of 32 B for each block that moves";
        self.add("7", "NILFS2", "cleaning writes less (text), up to, %", Number(97.0), best, dat);
        self.add("7", "NILFS2", "cleaning writes less (caption), mean, %", Number(97.0), mid, dat);
        self.add("7", "NILFS2", "cleaning writes less (caption), best, %", Number(99.0), best, dat);
        let gained = time
            .zip(mean(self.saved("nilfs2", "nilfs2-remap", Self::time_less).into_iter()))
            .map(|(f2fs, nilfs2)| nilfs2 - f2fs);
        self.add("7", "NILFS2", "time saved less that of F2FS, points", Below(0.0), gained, OPERATIONS);
        self.overwritten();
    }

    /// Pages that the drive's own gc copies for each 100 pages of one more drive write.
    fn overwritten(&mut self) {
        let copied = |fs: &str| {
            let record = self.results.find("overwritten", "scattered", fs)?;
            let written = record.cleaning.as_ref()?.overwrite.as_ref()?;
            let of = |cause: &str| written.flash.program_pages.get(cause).copied().unwrap_or(0) as f64;
            (of("host") > 0.0).then(|| 100.0 * of("gc") / of("host"))
        };
        let all = ["f2fs", "f2fs-remap", "nilfs2", "nilfs2-remap"].map(copied);
        for (on, ours) in ["F2FS", "F2FS, remap", "NILFS2", "NILFS2, remap"].into_iter().zip(all) {
            self.add("7", on, "gc of the drive over one more drive write, % of it", Silent, ours, SCATTERED);
        }
    }

    fn synchronous(&mut self) {
        for (fs, opt, on, throughput, amplification) in
            [("f2fs", "f2fs-fswrite", "F2FS", 1.28, 28.0), ("nilfs2", "nilfs2-fswrite", "NILFS2", 1.13, 24.0)]
        {
            let ours = mean(SYNC.iter().map(|w| self.faster("sync", w, fs, opt)));
            self.add("8", on, "throughput opt/baseline", Number(throughput), ours, WINDOWS);
            let ours = mean(SYNC.iter().map(|w| self.amplified_less("sync", w, fs, opt)));
            self.add("8", on, "file write amplification less, %", Number(amplification), ours, BLOCKS);
        }
    }

    fn databases(&mut self) {
        let f2fs = self.faster(MAIN, "oltp", "f2fs", "f2fs-fswrite");
        self.add("9", "OLTP, F2FS", "throughput opt/baseline (text)", Number(1.03), f2fs, OPERATIONS);
        self.add("9", "OLTP, F2FS", "throughput opt/baseline (caption)", Number(1.02), f2fs, OPERATIONS);
        let nilfs2 = self.faster(MAIN, "oltp", "nilfs2", "nilfs2-fswrite");
        let logs = "an fsync of NILFS2 writes whole logs with a super root; what fs_write saves of them weighs more on this drive";
        self.add("9", "OLTP, NILFS2", "throughput opt/baseline", Number(1.09), nilfs2, logs);
        self.add("9", "TPCC-10", "data set, MB", Number(800.0), None, NOT_RUN);
        self.add("9", "TPCC-100", "data set, GB", Number(8.0), None, NOT_RUN);
        self.add("9", "MySQL", "buffer pool, GB", Number(16.0), None, NOT_RUN);
        self.add("9", "TPCC, F2FS", "throughput opt/baseline", Above(1.0), None, NOT_RUN);
        self.add("9", "LinkBench, F2FS", "throughput opt/baseline", Above(1.0), None, NOT_RUN);
        self.add("9", "TPCC, NILFS2", "throughput opt/baseline", Above(1.0), None, NOT_RUN);
        self.add("9", "LinkBench, NILFS2", "throughput opt/baseline", Above(1.0), None, NOT_RUN);
        let grouped =
            "of OLTP alone; how many blocks an fsync has decides, and the paper does not say it of its own";
        for (fs, on, paper) in [
            ("f2fs", "F2FS", 1.5),
            ("f2fs-fswrite", "F2FS-opt", 1.0),
            ("nilfs2", "NILFS2", 2.7),
            ("nilfs2-fswrite", "NILFS2-opt", 2.0),
        ] {
            let ours = self.results.main("oltp", fs).and_then(amplification);
            self.add("10", on, "file write amplification", Number(paper), ours, grouped);
        }
        self.add("10", "LinkBench-100GB", "reduction, less than with 10 GB", Below(1.0), None, NOT_RUN);
    }

    fn memory(&mut self) {
        let f = "6.5";
        let row = |me: &mut Self, on, what, paper, name: &str, why| {
            let ours = me.alone(name);
            me.add(f, on, what, paper, ours, why);
        };
        row(self, "conventional", "L2P entry, B", Number(4.0), "L2P entry, B", "");
        row(self, "conventional", "L2P entries, 2^27", Number((1u64 << 27) as f64), "L2P entries", "");
        row(self, "conventional", "L2P table, MB", Number(512.0), "L2P, MiB", "");
        row(self, "conventional", "memory used, %", Number(35.0), "conventional, %", "");
        let both = self.alone("L2P, MiB").zip(self.alone("P2L, MiB")).map(|(l, p)| (l + p) / 1024.0);
        self.add(f, "remap", "L2P and P2L tables, GB", Number(1.0), both, "");
        row(self, "remap", "memory used, %", Number(60.0), "remap, %", "");
        row(self, "fs_write", "file offset and inode entry, B", Number(8.0), "file offset entry, B", "");
        row(
            self,
            "fs_write",
            "file offset entries, 2^27",
            Number((1u64 << 27) as f64),
            "file offset entries",
            "",
        );
        row(self, "fs_write", "file offset table, GB x 1024", Number(1024.0), "file offsets, MiB", "");
        row(self, "fs_write", "files open for writing", Number(1e6), "files", STATED);
        row(self, "fs_write", "inode table, MB", Number(16.0), "inodes, MiB", "");
        let other = "the paper's 80 % leave 86 MB for other structures where its 35 % leave 205";
        row(self, "fs_write", "memory used, %", Number(80.0), "fs_write, %", other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_lab::record::Phase;
    use std::collections::BTreeMap;

    fn run(workload: &str, fs: &str, data: u64, index: u64) -> Record {
        let mut r = Record { workload: workload.to_owned(), fs: fs.to_owned(), ..Record::default() };
        r.host.block.write_bytes = BTreeMap::from([("data".to_owned(), data), ("inode".to_owned(), index)]);
        r.ops.per_s = 100.0;
        r
    }

    /// The paper makes 65 statements; one of them says two numbers of threads.
    #[test]
    fn every_statement_has_a_row_and_without_runs_no_number_is_made_up() {
        let rows = claims(&Results::default());
        assert_eq!(rows.iter().filter(|j| j.paper != Silent).count(), 66);
        let numbered: Vec<&str> = rows.iter().filter(|j| j.ours.is_some()).map(|j| j.what).collect();
        let constants =
            ["threads for throughput", "threads for latency", "its cleaning thread wakes every, s"];
        assert_eq!(numbered, constants, "only what the method fixes");
        for j in rows.iter().filter(|j| j.ours.is_none() && j.paper.number().is_some()) {
            assert!(j.figure != "platform" || !j.why.is_empty(), "{}", j.what);
        }
    }

    #[test]
    fn amplification_is_data_and_index_over_data() {
        let runs = SYNC.iter().flat_map(|w| {
            [
                ("sync".to_owned(), run(w, "f2fs", 4096, 4096)),
                ("sync".to_owned(), run(w, "f2fs-fswrite", 4096, 0)),
            ]
        });
        let rows = claims(&Results { runs: runs.collect(), ..Results::default() });
        let less = rows.iter().find(|j| j.on == "F2FS" && j.what == "file write amplification less, %");
        assert_eq!(less.and_then(|j| j.ours), Some(50.0));
    }

    #[test]
    fn what_cleaning_saves_is_a_mean_over_the_workloads() {
        let cleaned = |w: &str, fs: &str, bytes: u64| {
            let mut r = run(w, fs, 0, 0);
            let mut cleaning = Cleaning { virtual_s: 1.0, ..Cleaning::default() };
            cleaning.host.block.write_bytes = BTreeMap::from([("data".to_owned(), bytes)]);
            r.cleaning = Some(cleaning);
            ("cleaned".to_owned(), r)
        };
        let runs = CLEANED.iter().zip([1, 2, 3, 4]);
        let runs = runs.flat_map(|(w, n)| [cleaned(w, "f2fs", 100), cleaned(w, "f2fs-remap", n)]).collect();
        let rows = claims(&Results { runs, ..Results::default() });
        let of = |what: &str| rows.iter().find(|j| j.on == "F2FS" && j.what == what).and_then(|j| j.ours);
        assert_eq!(of("cleaning writes less (caption), mean, %"), Some(97.5));
        assert_eq!(of("cleaning writes less (caption), best, %"), Some(99.0));
        assert_eq!(of("cleaning takes less time (text), %"), Some(0.0));
    }

    #[test]
    fn what_gc_copies_is_of_what_the_host_wrote() {
        let mut r = run("scattered", "f2fs-remap", 0, 0);
        let mut written = Phase::default();
        written.flash.program_pages = BTreeMap::from([("host".to_owned(), 400), ("gc".to_owned(), 100)]);
        r.cleaning = Some(Cleaning { overwrite: Some(written), ..Cleaning::default() });
        let rows = claims(&Results { runs: vec![("overwritten".to_owned(), r)], ..Results::default() });
        let of = |on: &str| rows.iter().find(|j| j.on == on && j.paper == Silent);
        assert_eq!(of("F2FS, remap").and_then(|j| j.ours), Some(25.0));
        assert_eq!(of("F2FS, remap").and_then(|j| j.holds()), None);
        assert_eq!(of("F2FS").and_then(|j| j.ours), None);
    }
}
