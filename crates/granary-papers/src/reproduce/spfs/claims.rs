//! Every statement of the SPFS slides, and how our number for it follows.

use super::plan::{NVLOG, PAIRS, SMALL, STACKING, SYNC, TRACES};
use crate::reproduce::study::{Alone, Results};
use crate::reproduce::verdict::{Judged, Paper};
use Paper::{Above, Below, Number, Silent};
use granary_lab::record::Record;
use granary_spfs::exthash::{pointers, probes};
use granary_spfs::factor;

const WORKLOAD: &str = "the slides do not say of which workload: ours is the best of five";
const TEXT: &str = "a statement in words";
const STATED: &str = "a value of the testbed, with its source beside it";
const PARTS: &str = "the testbed states the page cache, not the memory";
const PICTURE: &str = "the bars are a picture; here a directory that changed below is made durable there before a file in persistent \
                       memory alone gets a name in it: over F2FS that is a checkpoint, for which buffered threads wait";
const SHARE: &str = "share of the written bytes that went to persistent memory: above one half is PMEM";
const COUNTED: &str = "counted by the code that enters and searches extents";
const ENTRIES: &str = "a slot for each cluster instead of one for each extent";
const NO_SEARCH: &str =
    "\"no log-scale search\" (slides, BlockHash); ours fills its segments with a slot for each cluster";
const PROPOSED: &str = "the bars are a picture: the talk proposes extent hashing in place of the tree";
const MEASURED: &str =
    "NVLog's raw results: two DIMMs and another processor, the release's copies of whole extents";
const TRANSACTIONAL: &str = "the bars are a picture: the talk calls the traces transactional, and says that SPFS is faster than x for \
                              synchronous writes; ours are generators, and a third of usr2's bytes are synchronous";
const ZIGGURAT: &str = "not run: Ziggurat is not here";

/// The longest extent: 256 MB.
const LONGEST: u32 = 65_536;

/// All statements beside what the runs say.
pub(super) fn claims(results: &Results) -> Vec<Judged> {
    let mut rows = Rows { r: results, all: Vec::new() };
    rows.sync();
    rows.profiler();
    rows.hashing();
    rows.machines();
    rows.mapping();
    rows.nvlog();
    rows.traces();
    rows.stacking();
    rows.all
}

/// Counts of extent hashing.
pub(super) fn hashing() -> Alone {
    let most = |start: u32| pointers(start, LONGEST / 2).count();
    let worst = (0..LONGEST / 2).step_by(37).map(most).max().unwrap_or(0);
    let longest = (0..LONGEST).map(|key| probes(key).count()).max().unwrap_or(0);
    let second = |start: u32| pointers(start, 16).nth(1).map_or(0, |next| next - start);
    [
        ("entries", worst as f64),
        ("entries of an aligned extent", pointers(0, LONGEST).count() as f64),
        ("stride", f64::from(second(0b1010))),
        ("example", pointers(3, 7).count() as f64),
        (
            "example's probes",
            probes(7).position(|key| pointers(3, 7).any(|p| p == key)).map_or(0.0, |n| n as f64 + 1.0),
        ),
        ("probes", longest as f64),
        ("stride of block hashing", 1.0),
        ("operations to bin 0", factor::reads_to_zero(5) as f64),
    ]
    .into()
}

struct Rows<'a> {
    r: &'a Results,
    all: Vec<Judged>,
}

/// The share of the bytes written that persistent memory took.
fn share(r: &Record) -> Option<f64> {
    let data = r.devices.get("nvm")?.host.byte.write_bytes.get("data").copied().unwrap_or(0);
    (r.app.write_bytes > 0).then(|| data as f64 / r.app.write_bytes as f64)
}

/// Whole files that direct threads wrote.
fn direct_writes(r: &Record) -> Option<f64> {
    Some(r.ops.by_type.get("direct-w")?.count as f64)
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

    fn alone(&self, name: &str) -> Option<f64> {
        self.r.alone.get(name).copied()
    }

    fn sync(&mut self) {
        let gain = |(with, without): (&str, &str), w: &str| {
            let per_s = |fs: &str| Some(self.r.main(w, fs)?.ops.per_s);
            per_s(without).filter(|b| *b > 0.0).and_then(|b| Some(per_s(with)? / b))
        };
        let all: Vec<f64> = PAIRS.iter().flat_map(|pair| SYNC.map(|w| gain(*pair, w))).flatten().collect();
        let most = all.into_iter().reduce(f64::max);
        self.add("sync", "synchronous writes", "throughput SPFS+x/x, up to", Number(9.9), most, WORKLOAD);
        self.add("machines", "background", "end of Optane DCPMM", Number(2022.0), None, TEXT);
    }

    fn profiler(&mut self) {
        let f = "profiler";
        for (on, w, paper) in [
            ("large synchronous writes", "large-sync", Above(0.5)),
            ("large asynchronous writes", "large-async", Below(0.5)),
            ("small synchronous writes", "rewrite-4k", Above(0.5)),
            ("small asynchronous writes", "small-async", Below(0.5)),
        ] {
            let ours = self.r.main(w, PAIRS[0].0).and_then(share);
            self.add(f, on, "share in persistent memory", paper, ours, SHARE);
        }
        self.add(
            f,
            "small asynchronous writes",
            "share in persistent memory, Ziggurat",
            Above(0.5),
            None,
            ZIGGURAT,
        );
        let ours = self.alone("operations to bin 0");
        self.add(
            "hashing",
            "sync factor",
            "operations of weight 0 to the lowest bin",
            Number(136.0),
            ours,
            COUNTED,
        );
    }

    fn hashing(&mut self) {
        let f = "hashing";
        for (on, what, paper, name) in [
            ("extent of B blocks", "entries, B = 32768, below log2 B + 2", Below(17.0), "entries"),
            ("best case", "entries", Number(1.0), "entries of an aligned extent"),
            ("insert", "stride at key 1010", Number(2.0), "stride"),
            ("start 3, length 7", "pointers (3, 4, 8)", Number(3.0), "example"),
            ("search for 7", "probes (7, 6, 4)", Number(3.0), "example's probes"),
            ("search", "probes, B = 65536, below log2 B + 2", Below(18.0), "probes"),
            ("BlockHash", "stride", Number(1.0), "stride of block hashing"),
        ] {
            let ours = self.alone(name);
            self.add(f, on, what, paper, ours, COUNTED);
        }
    }

    fn machines(&mut self) {
        let f = "machines";
        for (on, what, paper, name) in [
            ("DCPMM", "processors", 20.0, "DCPMM: processors"),
            ("DCPMM", "PM, GB", 256.0, "DCPMM: PM, GB"),
            ("DCPMM", "SSD, TB", 2.0, "DCPMM: SSD, TB"),
            ("NVDIMM-N", "processors", 32.0, "NVDIMM-N: processors"),
            ("NVDIMM-N", "PM, GB", 16.0, "NVDIMM-N: PM, GB"),
            ("NVDIMM-N", "SSD, GB", 512.0, "NVDIMM-N: SSD, GB"),
        ] {
            let ours = self.alone(name);
            self.add(f, on, what, Number(paper), ours, STATED);
        }
        self.add(f, "DCPMM", "DRAM, GB", Number(128.0), None, PARTS);
        self.add(f, "NVDIMM-N", "DRAM, GB", Number(32.0), None, PARTS);
    }

    /// The figure's bars are pictures: what is held against ours are the talk's statements of entries and of
    /// searches.
    fn mapping(&mut self) {
        let f = "mapping";
        // A few files fit into the tables that were there before.
        let over = |me: &Self, a: &str, b: &str| Some(me.alone(a)? / me.alone(b).filter(|b| *b > 0.0)?);
        for (on, what, a, b, why) in [
            ("BlockHash", "memory/ExtentHash's", "blocks: memory", "extents: memory", ENTRIES),
            ("BlockHash", "time of an insert/ExtentHash's", "blocks: insert", "extents: insert", ENTRIES),
            ("ExtentHash", "time of a lookup/BlockHash's", "extents: lookup", "blocks: lookup", NO_SEARCH),
            ("ExtentTree", "time of a lookup/ExtentHash's", "tree: lookup", "extents: lookup", PROPOSED),
        ] {
            let ours = over(self, a, b);
            self.add(f, on, what, Above(1.0), ours, why);
        }
    }

    /// SPFS over ext4 and ext4 alone, MB/s.
    fn nvlog(&mut self) {
        let mb_per_s = |me: &Self, w: &str, fs: &str| {
            let r =
                me.r.runs.iter().find(|(setting, r)| setting == NVLOG && r.workload == w && r.fs == fs)?;
            let bytes = r.1.app.read_bytes + r.1.app.write_bytes;
            Some(bytes as f64 / r.1.virtual_s / 1e6)
        };
        for (w, on, spfs, ext4) in [
            ("nvlog-mixed-0", "random 4 KB, no fsync", 2440.0, 3061.0),
            ("nvlog-mixed-2", "random 4 KB, fsync after 2 of 10", 339.0, 872.0),
            ("nvlog-mixed-10", "random 4 KB, fsync after each", 312.0, 231.0),
            ("nvlog-append-100", "appends of 100 B", 20.1, 4.8),
            ("nvlog-append-1k", "appends of 1 KB", 208.0, 29.8),
            ("nvlog-append-4k", "appends of 4 KB", 457.0, 52.7),
            ("nvlog-append-16k", "appends of 16 KB", 639.0, 178.7),
            ("nvlog-threads-1", "synchronous random 4 KB, 1 thread", 485.0, 383.0),
            ("nvlog-threads-4", "the same, 4 threads", 752.0, 1440.0),
            ("nvlog-threads-16", "the same, 16 threads", 790.0, 3449.0),
        ] {
            for (fs, what, paper) in [("spfs+ext4", "SPFS, MB per s", spfs), ("ext4", "ext4, MB per s", ext4)]
            {
                let ours = mb_per_s(self, w, fs);
                self.add("nvlog", on, what, Number(paper), ours, MEASURED);
            }
        }
    }

    /// Operations per second on the machine with little memory, with SPFS over without.
    fn traces(&mut self) {
        let per_s = |me: &Self, w: &str, fs: &str| {
            let run = me.r.runs.iter().find(|(setting, r)| setting == SMALL && r.workload == w && r.fs == fs);
            run.map(|(_, r)| r.ops.per_s).filter(|n| *n > 0.0)
        };
        for (w, on) in TRACES.into_iter().zip(["FIU: Moodle", "FIU: Usr1", "FIU: Usr2"]) {
            for ((with, without), what) in
                PAIRS.into_iter().zip(["throughput SPFS+ext4/ext4", "throughput SPFS+F2FS/F2FS"])
            {
                let ours = per_s(self, w, with).zip(per_s(self, w, without)).map(|(a, b)| a / b);
                self.add("trace", on, what, Above(1.0), ours, TRANSACTIONAL);
            }
        }
    }

    /// A file server of which some threads have direct I/O: operations per second with SPFS over without, and
    /// who takes the bytes.
    fn stacking(&mut self) {
        let f = "stacking";
        for (on, w, paper) in
            [("buffered I/O", STACKING[0], Below(0.5)), ("direct I/O, synchronous", STACKING[4], Above(0.5))]
        {
            let ours = self.r.main(w, PAIRS[0].0).and_then(share);
            self.add(f, on, "share in persistent memory", paper, ours, SHARE);
        }
        for (w, on) in STACKING.into_iter().zip([
            "0 of 12 threads direct",
            "3 of 12 threads direct",
            "6 of 12 threads direct",
            "9 of 12 threads direct",
            "12 of 12 threads direct",
        ]) {
            let over = |(with, without): (&str, &str), of: fn(&Record) -> Option<f64>| {
                let n = |fs: &str| self.r.main(w, fs).and_then(of).filter(|n| *n > 0.0);
                n(with).zip(n(without)).map(|(a, b)| a / b)
            };
            for (pair, [all, direct]) in PAIRS.into_iter().zip([
                ["throughput SPFS+ext4/ext4", "of the direct threads, SPFS+ext4/ext4"],
                ["throughput SPFS+F2FS/F2FS", "of the direct threads, SPFS+F2FS/F2FS"],
            ]) {
                // The talk speaks of a mix; of buffered I/O alone it says nothing.
                let mix = w != STACKING[0];
                let paper = if mix { Above(1.0) } else { Silent };
                self.add(f, on, all, paper, over(pair, |r| Some(r.ops.per_s)), PICTURE);
                if mix {
                    self.add(f, on, direct, Silent, over(pair, direct_writes), PICTURE);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_runs_no_number_is_made_up_and_what_is_counted_holds() {
        let mut results = Results::default();
        assert!(claims(&results).iter().all(|j| j.ours.is_none()));
        results.alone = hashing();
        let counted: Vec<_> = claims(&results).into_iter().filter(|j| j.ours.is_some()).collect();
        assert_eq!(counted.len(), 8);
        assert!(counted.iter().all(|j| j.holds() == Some(true)), "{counted:?}");
    }
}
