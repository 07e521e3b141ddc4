//! Every statement of the DevFS paper, and how our number for it follows from the runs.
//!
//! Rows are in the order of the paper. `why` says what makes ours another.

use super::plan::{PROCESSES, SIZES};
use crate::reproduce::study::{MAIN, Results};
use crate::reproduce::verdict::{Judged, Paper};
use Paper::{About, Above, Below, Number, Range};
use granary_devfs::memory::Kind;
use granary_lab::record::Record;

const BACKGROUND: &str = "background of the paper: nothing of it is measured";
const STATED: &str = "a value of the testbed, with its source in testbeds/devfs.toml";
const SIZE: &str = "the ledger counts the paper's sizes (section 4.4)";
const UNNAMED: &str = "the paper does not name what it compares with; ours is over NOVA";
const TRAP: &str = "a system call costs 90 ns here, the hand-over to a processor that polls 118 ns each way; the paper states neither";
const LOG: &str = "naive writes data to its log and home, with a fence each: on DRAM a fence is cheap, and the copy is what counts";
const KNEE: &str = "four processors serve all; each command holds one for as long as its stores take";
const CLOCK: &str =
    "work grows as the clock falls (46 %), memory does not slow down with it; no model by cycles gives 66 %";
const COST: &str =
    "a move costs its copy and two lists, by the host's table of costs; the paper gives no times";

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

fn memory(r: &Record) -> f64 {
    r.memory
        .iter()
        .filter(|(k, _)| k.starts_with("device.") && !k.ends_with("most"))
        .map(|(_, v)| *v as f64)
        .sum()
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
        let factor = what.contains('/');
        self.all.push(Judged { figure, on, what, paper, factor, ours, why });
    }

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

    fn most(&self, workloads: &[String], a: (&str, &str), b: (&str, &str)) -> Option<f64> {
        let all: Option<Vec<f64>> = workloads.iter().map(|w| self.faster(w, a, b)).collect();
        all?.into_iter().reduce(f64::max)
    }

    fn alone(&self, name: &str) -> Option<f64> {
        self.r.alone.get(name).copied()
    }

    fn headlines(&mut self) {
        let of = |what: &str| SIZES.map(|size| format!("{what}-{size}"));
        let writes = self.most(&of("write"), DIRECT, NOVA);
        let reads = self.most(&of("read"), DIRECT, NOVA);
        self.add("6", "abstract", "throughput direct/kernel, up to", Above(2.0), writes, TRAP);
        let memory = self.less("file-create", ALL, CAP, memory).map(|less| 100.0 / (100.0 - less));
        self.add(
            "8",
            "abstract",
            "device memory less, times, up to",
            Number(5.0),
            memory,
            "78 % less are 4.5 times",
        );
        self.add("6", "introduction", "write throughput direct/kernel, up to", Above(2.0), writes, TRAP);
        self.add("6", "introduction", "read throughput direct/kernel, up to", Number(1.6), reads, TRAP);
        let snappy = self.faster("snappy-4k", DIRECT, CAP).map(|f| 100.0 * (f - 1.0));
        self.add("10", "introduction", "Snappy: throughput gain, up to, %", Number(22.0), snappy, TRAP);
    }

    fn sizes(&mut self) {
        let f = "sizes";
        for (what, paper) in [
            ("throughput of PCIe SSDs, GB/s", Range(8.0, 16.0)),
            ("latency of PCIe SSDs, us", Range(20.0, 50.0)),
            ("read latency of SCM, ns", Range(100.0, 200.0)),
            ("write latency of SCM, ns", Range(400.0, 800.0)),
            ("bandwidth of SCM, GB/s", Range(8.0, 20.0)),
            ("capacity of SCM over DRAM", Range(2.0, 4.0)),
            ("memory of a 512 GB SSD, GB", Number(2.0)),
            ("processors of controllers, up to", Number(4.0)),
        ] {
            self.add(f, "background", what, paper, None, BACKGROUND);
        }
        for (what, paper, ours) in [
            ("inode, B", 840.0, bytes(Kind::InodeDevice) + bytes(Kind::InodeHost)),
            ("dentry, B", 192.0, bytes(Kind::Dentry)),
            ("file pointer, B", 256.0, bytes(Kind::FilePointer)),
            ("filemap, B", 156.0, bytes(Kind::Filemap)),
        ] {
            self.add(f, "objects", what, Number(paper), self.alone("host processors").map(|_| ours), SIZE);
        }
        let split = "the paper evaluates 578 and 262 (section 5.3); 593 and 247 are generic and own fields";
        self.add(f, "objects", "generic fields of an inode, B", Number(593.0), None, split);
        self.add(f, "objects", "own fields of an inode, B", Number(247.0), None, split);
        self.add(f, "objects", "part in the host, B", Number(593.0), None, split);
        let most =
            self.alone("host processors").map(|_| granary_devfs::command::MOST as f64 / (1 << 20) as f64);
        self.add(f, "commands", "buffer of a process, at most, MB", Number(4.0), most, SIZE);
        let lines = "lines of another language";
        self.add(f, "code", "user library, lines", Number(2000.0), None, lines);
        self.add(f, "code", "file system, lines", Number(9000.0), None, lines);
        let each = self.alone("host processors").map(|_| bytes(Kind::Queue) / 1024.0);
        self.add(f, "objects", "queue and journal of a file, KB each", Number(4.0), each, SIZE);
        for (what, paper, name) in [
            ("host's processors", 40.0, "host processors"),
            ("clock, GHz", 2.67, "drive's clock, GHz"),
            ("storage, GB", 60.0, "storage, GB"),
            ("drive's processors", 4.0, "drive's processors"),
            ("drive's memory, GB", 2.0, "drive's memory, GB"),
        ] {
            let ours = self.alone(name);
            self.add(f, "platform", what, Number(paper), ours, STATED);
        }
        self.add(f, "platform", "memory, GB", Number(128.0), None, "the testbed states its parts");
    }

    fn one_file(&mut self) {
        let gain = |f: Option<f64>| f.map(|f| 100.0 * (f - 1.0));
        let ours = gain(self.faster("write-1k", CAP, NAIVE));
        self.add("6", "1 KB writes", "+cap over naive, gain, up to, %", Number(27.0), ours, LOG);
        let ours = gain(self.faster("write-1k", CAP, NOVA));
        self.add("6", "1 KB writes", "+cap over NOVA, gain, %", Number(12.0), ours, TRAP);
        let ours = self.faster("write-1k", DIRECT, NOVA);
        self.add("6", "1 KB writes", "throughput +direct/unnamed", Above(2.0), ours, UNNAMED);
        let ours = self.faster("write-4k", DIRECT, NOVA);
        self.add("6", "4 KB writes", "throughput +direct/unnamed", Number(1.8), ours, UNNAMED);
        let shrinks = self
            .faster("write-16k", CAP, NAIVE)
            .zip(self.faster("write-1k", CAP, NAIVE))
            .map(|(large, small)| large - small);
        let copies = "naive copies all data twice, at any size; what a journal adds to that shrinks";
        self.add("6", "16 KB writes", "+cap over naive, less its gain at 1 KB", Below(0.0), shrinks, copies);
        let ours = self.faster("write-4k", NOVA, NAIVE);
        self.add("6", "writes", "throughput NOVA/naive", Above(1.0), ours, LOG);
        let ours = self.faster("read-4k", NOVA, CAP);
        self.add("6", "reads", "throughput NOVA/+cap", Above(1.0), ours, TRAP);
        let over = [NAIVE, NOVA, CAP].map(|other| self.faster("read-4k", DIRECT, other));
        let least =
            over.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().reduce(f64::min));
        self.add("6", "reads", "throughput +direct/best other", Above(1.0), least, TRAP);
    }

    fn many_processes(&mut self) {
        let spread = "10 files of 256 MB for each process, scaled";
        self.add(
            "7",
            "appends",
            "KB of a write",
            Number(4.0),
            self.r.main("append-1", "nova").map(|_| 4.0),
            spread,
        );
        let over = [NOVA, CAP].map(|other| self.faster("append-1", DIRECT, other));
        let most =
            over.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().reduce(f64::max));
        let gain = most.map(|f| 100.0 * (f - 1.0));
        self.add("7", "1 process", "+direct over NOVA and +cap, gain, up to, %", Number(39.0), gain, TRAP);
        let rate = |me: &Self, what: &str, n: u32, fs: (&str, &str)| {
            Some(per_s(me.r.find(fs.0, &format!("{what}-{n}"), fs.1)?))
        };
        let knee = |me: &Self, what: &str| {
            let rates: Option<Vec<f64>> = PROCESSES.iter().map(|n| rate(me, what, *n, DIRECT)).collect();
            let rates = rates?;
            // The first number of processes after which twice as many bring less than a fifth more.
            let flat = rates.windows(2).position(|pair| pair[1] < 1.2 * pair[0]);
            Some(f64::from(PROCESSES[flat.unwrap_or(PROCESSES.len() - 1)]))
        };
        let own = knee(self, "append");
        self.add("7", "own files", "processes up to which it scales", Number(4.0), own, KNEE);
        let nova = self.faster("append-16", NOVA, DIRECT);
        self.add("7", "16 processes", "throughput NOVA/+direct", Above(1.0), nova, KNEE);
        let shared = knee(self, "shared");
        let locks = "writers of one file wait for each other: ten files and four processors";
        self.add("7", "the same files", "processes up to which it scales", Number(4.0), shared, locks);
        let writes = SIZES.map(|size| format!("write-{size}"));
        let most = self.most(&writes, DIRECT, NOVA);
        self.add("7", "summary", "write throughput direct/kernel", Range(1.5, 2.3), most, TRAP);
        let reads = SIZES.map(|size| format!("read-{size}"));
        let most = self.most(&reads, DIRECT, NOVA);
        self.add("7", "summary", "read throughput direct/kernel", Range(1.2, 1.3), most, TRAP);
    }

    fn memory(&mut self) {
        let w = "file-create";
        let files = "a part of them: bytes per file are exact at any number";
        self.add("8", "files", "millions", Number(1.0), None, files);
        let each = |me: &Self, of: (&str, &str)| {
            let r = me.r.find(of.0, w, of.1)?;
            let created = r.ops.by_type.get("c").map(|op| op.count as f64)?;
            // For a million of them, in units of 2^20.
            Some(memory(r) / created * 1e6 / (1u64 << 20) as f64)
        };
        let cap = each(self, CAP);
        let saved =
            |me: &Self, a: (&str, &str), b: (&str, &str)| each(me, b).zip(each(me, a)).map(|(b, a)| b - a);
        let share = |saved: Option<f64>| saved.zip(cap).map(|(saved, cap)| 100.0 * saved / cap);
        let demand = saved(self, DEMAND, CAP);
        let binary = "156 B a file are 149 MB of 2^20; the paper's are of 10^6";
        self.add("8", "+demand", "less than +cap, MB", Number(156.0), demand, binary);
        self.add("8", "+demand", "less than +cap, %", Number(13.4), share(demand), "");
        let dentry = saved(self, DENTRY, DEMAND);
        self.add("8", "+dentry", "less than +demand, MB", Number(193.0), dentry, binary);
        self.add("8", "+dentry", "less than +demand, % of +cap", Number(16.6), share(dentry), "");
        self.add(
            "8",
            "inode",
            "part in the drive, B",
            Number(262.0),
            cap.map(|_| bytes(Kind::InodeDevice)),
            SIZE,
        );
        self.add(
            "8",
            "inode",
            "part in the host, B",
            Number(578.0),
            cap.map(|_| bytes(Kind::InodeHost)),
            SIZE,
        );
        let all = share(saved(self, INODE, CAP));
        self.add("8", "+inode", "less than +cap, up to, %", Number(78.0), all, "");
    }

    fn reverse_caching(&mut self) {
        let ours = self.faster("file-create", DEMAND, CAP);
        self.add("9", "file-create", "throughput +demand/+cap", About(1.0), ours, COST);
        let ours = self.less("file-create", DENTRY, CAP, per_s);
        self.add("9", "file-create", "+dentry slower than +cap, %", Number(5.0), ours, COST);
        let ours = self.less("file-create", INODE, CAP, per_s);
        self.add("9", "file-create", "+inode slower than +cap, %", Number(13.0), ours, COST);
        let ours = self.faster("file-create", ALL, CAP);
        self.add("9", "file-create", "throughput all+direct/+cap", Above(1.0), ours, TRAP);
        self.add(
            "9",
            "objects",
            "bytes moved of an inode",
            Number(578.0),
            ours.map(|_| bytes(Kind::InodeHost)),
            SIZE,
        );
        let ours = self.less("file-reopen", INODE, CAP, per_s);
        self.add("9", "file-reopen", "+inode slower than +cap, %", Number(26.0), ours, COST);
    }

    fn snappy(&mut self) {
        self.add("10", "Snappy", "data, GB", Number(16.0), None, "a part of it, by the scale");
        self.add("10", "Snappy", "KB of a file", Range(1.0, 256.0), None, "4, 16 and 64 KB here");
        let ours = self.faster("snappy-4k", NOVA, NAIVE);
        self.add("10", "Snappy, 4 KB", "throughput NOVA/naive", Above(1.0), ours, LOG);
        let ours = self.faster("snappy-4k", DIRECT, CAP).map(|f| 100.0 * (f - 1.0));
        self.add("10", "Snappy, 4 KB", "+direct over +cap, gain, up to, %", Number(22.0), ours, TRAP);
        self.add("10", "host", "clock, GHz", Number(2.6), None, STATED);
        let slow = ("+direct, 1400 MHz", "devfs");
        let ours = self.less("snappy-4k", slow, DIRECT, per_s);
        self.add("10", "Snappy, 4 KB", "slower at 1.4 GHz, %", Number(66.0), ours, CLOCK);
        let ours = self.faster("snappy-4k", ("+direct, 1800 MHz", "devfs"), NOVA);
        self.add("10", "Snappy, 4 KB", "throughput +direct at 1.8 GHz/NOVA", About(1.0), ours, CLOCK);
        let over = ["2200", "1800", "1400"].map(|mhz| {
            let (direct, cap) = (format!("+direct, {mhz} MHz"), format!("{mhz} MHz"));
            self.faster("snappy-4k", (&direct, "devfs"), (&cap, "devfs-cap"))
        });
        let least =
            over.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().reduce(f64::min));
        self.add("10", "Snappy, 4 KB", "throughput +direct/+cap at every clock", Above(1.0), least, TRAP);
    }
}

const NOVA: (&str, &str) = (MAIN, "nova");
const NAIVE: (&str, &str) = (MAIN, "devfs-naive");
const CAP: (&str, &str) = (MAIN, "devfs-cap");
const DIRECT: (&str, &str) = ("+cap+direct", "devfs");
const DEMAND: (&str, &str) = ("+demand", "devfs");
const DENTRY: (&str, &str) = ("+dentry", "devfs");
const INODE: (&str, &str) = ("+inode", "devfs");
const ALL: (&str, &str) = (MAIN, "devfs");

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper makes 67 statements; those that say a workload's two numbers in one are one row here.
    #[test]
    fn every_statement_has_a_row_and_without_runs_no_number_is_made_up() {
        let rows = claims(&Results::default());
        assert_eq!(rows.len(), 67);
        assert!(rows.iter().all(|j| j.ours.is_none()));
    }
}
