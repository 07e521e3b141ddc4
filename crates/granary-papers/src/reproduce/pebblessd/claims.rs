//! Every statement of the PebbleSSD paper, and how our number for it follows from the runs and from the drive
//! alone.
//!
//! Rows are in the order of the paper. Where its text and a caption disagree, both are rows.

mod commands;
mod drive;

use super::{CLEANED, SYNC};
use crate::reproduce::claim::{Judged, row};
use crate::reproduce::study::{MAIN, Results};
use crate::reproduce::verdict::{Paper, Stat};
use crate::reproduce::why::{Experiment, Must};
use Paper::{Above, Below, Number, Silent};
use granary_lab::record::{Cleaning, Record};

/// F2FS of Linux 3.16 wrote no checkpoint because many nodes are dirty.
static DIRTY_NODES: Experiment = Experiment {
    says: "checkpoints by dirty nodes decide, which F2FS has since Linux 4.x and the paper's 3.16 had not",
    figures: &["10"],
    workloads: &["oltp"],
    file_systems: &["f2fs-fswrite"],
    set: &["f2fs.dirty_nodes=1000000000"],
    must: Must::Close(0.3),
};

const MYSQL: &str = "TPC-C and LinkBench on MySQL";
const WRITES: &str = "4, 8, 12, 16 KiB a write";
const LOADS: &str = "workloads that leave something to clean";

/// All statements beside what the runs say.
pub(super) fn claims(results: &Results) -> Vec<Judged> {
    let mut rows = Rows { results, all: Vec::new() };
    rows.headlines();
    rows.platform();
    rows.commands();
    rows.pause();
    rows.cleaning();
    rows.synchronous();
    rows.databases();
    rows.memory();
    rows.all
}

/// Percent of the first that the second file system of a pair saves.
type Saved<'a> = fn(&Rows<'a>, &str, &str, &str) -> Option<f64>;

struct Rows<'a> {
    results: &'a Results,
    all: Vec<Judged>,
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

    /// Savings of the second of a pair, by workload. One that leaves nothing to clean says nothing of
    /// cleaning.
    fn saved(&self, fs: &str, opt: &str, of: Saved<'a>) -> Option<Vec<f64>> {
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
        let all = self.saved("f2fs", "f2fs-remap", Self::written_less);
        let all = all.zip(self.saved("nilfs2", "nilfs2-remap", Self::written_less));
        let all = all.map(|(f2fs, nilfs2)| [f2fs, nilfs2].concat());
        let what = "data written less, both file systems, up to, %";
        let cleaning = row("7", "up-to", "cleaning", what, Number(99.0)).saved();
        let cleaning = cleaning.over(Stat::Most, LOADS, all);
        let what = "flash writes less by fs_write, up to, %";
        let writes = row("8", "up-to", "synchronous writes", what, Number(33.0)).saved();
        let ours = SYNC.iter().map(|w| self.amplified_less("sync", w, "f2fs", "f2fs-fswrite")).collect();
        self.all.extend([cleaning, writes.over(Stat::Most, WRITES, ours)]);
    }

    fn cleaning(&mut self) {
        let protected = self.cleaned(CLEANED[0], "nilfs2").map(|c| c.protection_s);
        let protection = row("7", "protection", "NILFS2", "protection period, s", Number(600.0)).input();
        self.all.push(protection.ours(protected));
        let time = || self.saved("f2fs", "f2fs-remap", Self::time_less);
        let written = || self.saved("f2fs", "f2fs-remap", Self::written_less);
        let log = || self.saved("nilfs2", "nilfs2-remap", Self::written_less);
        let rows = [
            ("f2fs-time-text", "F2FS", "cleaning takes less time (text), %", 33.0, Stat::Mean, time()),
            ("f2fs-time", "F2FS", "cleaning takes less time (caption), %", 29.0, Stat::Mean, time()),
            ("f2fs-text", "F2FS", "cleaning writes less (text), up to, %", 99.0, Stat::Most, written()),
            ("f2fs-mean", "F2FS", "cleaning writes less (caption), mean, %", 96.0, Stat::Mean, written()),
            ("f2fs-best", "F2FS", "cleaning writes less (caption), best, %", 99.0, Stat::Most, written()),
            ("nilfs2-text", "NILFS2", "cleaning writes less (text), up to, %", 97.0, Stat::Most, log()),
            ("nilfs2-mean", "NILFS2", "cleaning writes less (caption), mean, %", 97.0, Stat::Mean, log()),
            ("nilfs2-best", "NILFS2", "cleaning writes less (caption), best, %", 99.0, Stat::Most, log()),
        ];
        let mean = |all: Option<Vec<f64>>| all.and_then(|all| Stat::Mean.of(&all)).map(|n| n.ends().0);
        let gained = mean(time())
            .zip(mean(self.saved("nilfs2", "nilfs2-remap", Self::time_less)))
            .map(|(f2fs, nilfs2)| nilfs2 - f2fs);
        let rows = rows.map(|(name, on, what, paper, stat, ours)| {
            row("7", name, on, what, Number(paper)).saved().over(stat, LOADS, ours)
        });
        self.all.extend(rows);
        let what = "time saved less that of F2FS, points";
        self.all.push(row("7", "nilfs2-time", "NILFS2", what, Below(0.0)).gain().ours(gained));
        self.overwritten();
    }

    /// Copies of the drive's own gc for each 100 pages of one more drive write. The drive has 1.9 GB, and
    /// half of each segment moved. The paper does not report it.
    fn overwritten(&mut self) {
        for (fs, on) in [
            ("f2fs", "F2FS"),
            ("f2fs-remap", "F2FS, remap"),
            ("nilfs2", "NILFS2"),
            ("nilfs2-remap", "NILFS2, remap"),
        ] {
            let copied = || {
                let record = self.results.find("overwritten", "scattered", fs)?;
                let written = record.cleaning.as_ref()?.overwrite.as_ref()?;
                let of = |cause: &str| written.flash.program_pages.get(cause).copied().unwrap_or(0) as f64;
                (of("host") > 0.0).then(|| 100.0 * of("gc") / of("host"))
            };
            let what = "gc of the drive over one more drive write, % of it";
            let gc = row("7", format!("gc-{fs}"), on, what, Silent).whole().ours(copied());
            self.all.push(gc);
        }
    }

    fn synchronous(&mut self) {
        for (fs, opt, on, throughput, amplification) in
            [("f2fs", "f2fs-fswrite", "F2FS", 1.28, 28.0), ("nilfs2", "nilfs2-fswrite", "NILFS2", 1.13, 24.0)]
        {
            let ours = SYNC.iter().map(|w| self.faster("sync", w, fs, opt)).collect();
            let rate = row("8", format!("{fs}-rate"), on, "throughput opt/baseline", Number(throughput));
            self.all.push(rate.factor().over(Stat::Mean, WRITES, ours).whole());
            let ours = SYNC.iter().map(|w| self.amplified_less("sync", w, fs, opt)).collect();
            let what = "file write amplification less, %";
            let bytes = row("8", format!("{fs}-bytes"), on, what, Number(amplification));
            self.all.push(bytes.saved().over(Stat::Mean, WRITES, ours).whole());
        }
    }

    fn databases(&mut self) {
        let f2fs = self.faster(MAIN, "oltp", "f2fs", "f2fs-fswrite");
        let nilfs2 = self.faster(MAIN, "oltp", "nilfs2", "nilfs2-fswrite");
        for (name, on, what, paper, ours) in [
            ("f2fs-text", "OLTP, F2FS", "throughput opt/baseline (text)", 1.03, f2fs),
            ("f2fs", "OLTP, F2FS", "throughput opt/baseline (caption)", 1.02, f2fs),
            ("nilfs2", "OLTP, NILFS2", "throughput opt/baseline", 1.09, nilfs2),
        ] {
            self.all.push(row("9", name, on, what, Number(paper)).factor().ours(ours));
        }
        for (name, on, what, paper) in [
            ("tpcc-10", "TPCC-10", "data set, MB", 800.0),
            ("tpcc-100", "TPCC-100", "data set, GB", 8.0),
            ("mysql", "MySQL", "buffer pool, GB", 16.0),
        ] {
            self.all.push(row("9", name, on, what, Number(paper)).input());
        }
        for (name, on) in [
            ("tpcc-f2fs", "TPCC, F2FS"),
            ("linkbench-f2fs", "LinkBench, F2FS"),
            ("tpcc-nilfs2", "TPCC, NILFS2"),
            ("linkbench-nilfs2", "LinkBench, NILFS2"),
        ] {
            let rate = row("9", name, on, "throughput opt/baseline", Above(1.0)).factor();
            self.all.push(rate.needs(MYSQL));
        }
        for (fs, on, paper) in [
            ("f2fs", "F2FS", 1.5),
            ("f2fs-fswrite", "F2FS-opt", 1.0),
            ("nilfs2", "NILFS2", 2.7),
            ("nilfs2-fswrite", "NILFS2-opt", 2.0),
        ] {
            let ours = self.results.main("oltp", fs).and_then(amplification);
            let bytes = row("10", fs, on, "file write amplification", Number(paper)).ours(ours);
            self.all.push(if fs == "f2fs-fswrite" { bytes.because(&DIRTY_NODES) } else { bytes });
        }
        let what = "reduction, less than with 10 GB";
        let larger = row("10", "linkbench-100", "LinkBench-100GB", what, Below(1.0)).factor();
        self.all.push(larger.needs(MYSQL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::verdict::{Class, Ours};
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
        assert!(rows.iter().all(|j| j.ours.is_none()));
        // 18 of the platform, the period and the protection of cleaning, data sets, 12 of section 6.5.
        let no_results: Vec<&str> = rows
            .iter()
            .filter(|j| matches!(j.class(), Class::NotAResult(_)))
            .map(|j| j.name.as_str())
            .collect();
        assert_eq!(no_results.len(), 18 + 1 + 2 + 3 + 12, "{no_results:?}");
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
        assert_eq!(less.and_then(|j| j.ours), Some(Ours::One(50.0)));
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
        let of = |what: &str| {
            rows.iter().find(|j| j.on == "F2FS" && j.what == what).and_then(|j| j.ours).map(|n| n.ends().0)
        };
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
        assert_eq!(of("F2FS, remap").and_then(|j| j.ours), Some(Ours::One(25.0)));
        assert_eq!(of("F2FS, remap").map(Judged::class), Some(Class::OursAlone));
        assert_eq!(of("F2FS").and_then(|j| j.ours), None);
    }
}
