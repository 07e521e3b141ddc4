//! Every statement of the DevFS paper, and how our number for it follows from the runs.
//!
//! Rows are in the order of the paper; after each figure come statements on its order that no number says.

mod figures;
mod sizes;
mod steps;

use super::plan::SIZES;
use crate::reproduce::claim::{Judged, row};
use crate::reproduce::study::{MAIN, Results};
use crate::reproduce::verdict::{Paper, Stat};
use crate::reproduce::why::{Experiment, Must};
use Paper::{Above, Number};
use granary_devfs::memory::Kind;
use granary_lab::record::Record;

/// A file system in a setting.
type In = (&'static str, &'static str);
const NOVA: In = (MAIN, "nova");
const NAIVE: In = (MAIN, "devfs-naive");
const CAP: In = (MAIN, "devfs-cap");
const DIRECT: In = ("+cap+direct", "devfs");
const DEMAND: In = ("+demand", "devfs");
const DENTRY: In = ("+dentry", "devfs");
const INODE: In = ("+inode", "devfs");
const ALL: In = (MAIN, "devfs");

/// Sets that statements are over.
const THREE: &str = "1, 4, 16 KB";

/// A system call of a file system is charged a bare `getppid`, without what the kernel's file layer does.
const TRAPPED: Experiment = Experiment {
    says: "what a system call costs decides: 500 ns instead of 90, with the kernel's file layer in it",
    figures: &["6"],
    workloads: &["read-1k", "read-4k", "read-16k"],
    file_systems: &[],
    set: &["host.costs.syscall=500"],
    must: Must::Close(0.3),
};
static TRAP: Experiment = TRAPPED;
/// The same of the one row that is on the other side without it.
static TRAP_TURNS: Experiment = Experiment { must: Must::Turn, ..TRAPPED };
/// The same of writes of 4 KB.
static TRAP_WRITES: Experiment = Experiment { workloads: &["write-4k"], ..TRAPPED };
/// The same of appends of one process.
static TRAP_APPENDS: Experiment =
    Experiment { figures: &["7"], workloads: &["append-1"], must: Must::Turn, ..TRAPPED };
/// The same of Snappy, to which 500 ns give more than the paper has.
static TRAP_SNAPPY: Experiment =
    Experiment { figures: &["10"], workloads: &["snappy-4k"], must: Must::Pass, ..TRAPPED };

/// All statements beside what the runs say.
pub(super) fn claims(results: &Results) -> Vec<Judged> {
    let mut rows = Rows { r: results, all: Vec::new() };
    rows.headlines();
    rows.sizes();
    rows.one_file();
    rows.many_processes();
    rows.memory();
    rows.reverse_caching();
    rows.snappy();
    rows.all
}

struct Rows<'a> {
    r: &'a Results,
    all: Vec<Judged>,
}

fn bytes(kind: Kind) -> f64 {
    kind.bytes() as f64
}

fn per_s(r: &Record) -> f64 {
    r.ops.per_s
}

/// By how many percent a factor is more than one.
fn gain(factor: f64) -> f64 {
    100.0 * (factor - 1.0)
}

fn memory(r: &Record) -> f64 {
    r.memory
        .iter()
        .filter(|(k, _)| k.starts_with("device.") && !k.ends_with("most"))
        .map(|(_, v)| *v as f64)
        .sum()
}

impl Rows<'_> {
    /// `of` one run over `of` another: settings with file systems.
    fn ratio(&self, w: &str, a: (&str, &str), b: (&str, &str), of: fn(&Record) -> f64) -> Option<f64> {
        let get = |(setting, fs)| Some(of(self.r.find(setting, w, fs)?));
        get(b).filter(|b| *b > 0.0).and_then(|b| Some(get(a)? / b))
    }

    fn faster(&self, w: &str, a: (&str, &str), b: (&str, &str)) -> Option<f64> {
        self.ratio(w, a, b, per_s)
    }

    /// By how many percent `a` is less than `b`.
    fn less(&self, w: &str, a: (&str, &str), b: (&str, &str), of: fn(&Record) -> f64) -> Option<f64> {
        self.ratio(w, a, b, of).map(|ratio| 100.0 * (1.0 - ratio))
    }

    /// Of each size of figure 6.
    fn each_size(&self, what: &str, a: In, b: In) -> Option<Vec<f64>> {
        SIZES.iter().map(|size| self.faster(&format!("{what}-{size}"), a, b)).collect()
    }

    /// How much faster `a` is than each of the others.
    fn over_each(&self, w: &str, a: In, others: &[In]) -> Option<Vec<f64>> {
        others.iter().map(|other| self.faster(w, a, *other)).collect()
    }

    fn alone(&self, name: &str) -> Option<f64> {
        self.r.alone.get(name).copied()
    }

    fn headlines(&mut self) {
        let writes = || self.each_size("write", DIRECT, NOVA);
        let reads = self.each_size("read", DIRECT, NOVA);
        let what = "throughput direct/kernel, up to";
        let up_to = row("6", "up-to", "abstract", what, Above(2.0)).factor();
        let abstract_ = up_to.over(Stat::Most, THREE, writes());
        let what = "write throughput direct/kernel, up to";
        let up_to = row("6", "write-up-to", "introduction", what, Above(2.0)).factor();
        let introduction = up_to.over(Stat::Most, THREE, writes());
        let memory = self.less("file-create", ALL, CAP, memory).map(|less| 100.0 / (100.0 - less));
        let what = "device memory less, times, up to";
        let memory = row("8", "memory-up-to", "abstract", what, Number(5.0)).factor().ours(memory);
        let what = "read throughput direct/kernel, up to";
        let up_to = row("6", "read-up-to", "introduction", what, Number(1.6)).factor();
        let reads = up_to.over(Stat::Most, THREE, reads).because(&TRAP);
        let snappy = self.faster("snappy-4k", DIRECT, CAP).map(gain);
        let what = "Snappy: throughput gain, up to, %";
        let snappy = row("10", "snappy-up-to", "introduction", what, Number(22.0)).gain().ours(snappy);
        let snappy = snappy.because(&TRAP_SNAPPY);
        self.all.extend([abstract_, memory, introduction, reads, snappy]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::verdict::{Class, Kind, NoResult};

    /// The paper makes 67 statements; those that say a workload's two numbers in one are one row here. Five
    /// more are on the order of its figures' bars.
    #[test]
    fn every_statement_has_a_row_and_without_runs_no_number_is_made_up() {
        let rows = claims(&Results::default());
        assert_eq!(rows.len(), 67 + 5);
        assert!(rows.iter().all(|j| j.ours.is_none()));
    }

    /// The ledger's sizes and the testbed's values would equal the paper's whatever the runs give.
    #[test]
    fn what_the_code_and_the_testbed_state_is_no_result() {
        let alone = |name: &'static str| (name, 40.0);
        let results = Results { alone: [alone("host processors")].into(), ..Results::default() };
        for j in claims(&results).iter().filter(|j| j.figure == "sizes") {
            assert!(matches!(j.kind, Kind::NoResult(_)), "{}", j.name);
        }
        let inode = claims(&results).into_iter().find(|j| j.name == "sizes-inode").expect("a row");
        assert_eq!(inode.class(), Class::NotAResult(NoResult::Constant));
    }

    /// 39 % is said over both; NOVA is the faster of them here.
    #[test]
    fn a_gain_over_two_others_is_that_over_the_better() {
        let run = |setting: &str, fs: &str, per_s: f64| {
            let mut r = Record { workload: "append-1".to_owned(), fs: fs.to_owned(), ..Record::default() };
            r.ops.per_s = per_s;
            (setting.to_owned(), r)
        };
        let runs = [run(MAIN, "nova", 110.0), run(MAIN, "devfs-cap", 50.0), run(DIRECT.0, "devfs", 100.0)];
        let rows = claims(&Results { runs: runs.into(), ..Results::default() });
        let j = rows.iter().find(|j| j.name == "7-one-process").expect("a row");
        assert_eq!(j.class().word(), "differs", "{j:?}");
    }
}
