//! Every statement of the SPFS slides, and how our number for it follows.

use super::plan::{NVLOG, PAIRS, SMALL, STACKING, SYNC, TRACES};
use crate::reproduce::claim::{Judged, row};
use crate::reproduce::study::{Alone, Results};
use crate::reproduce::verdict::{Paper, Stat};
use Paper::{Above, Below, Number, Silent};
use granary_lab::record::Record;
use granary_spfs::exthash::{pointers, probes};
use granary_spfs::factor;

const FIVE: &str = "rewrites of 4 KB, appends of 100 B to 16 KB, over ext4 and F2FS";

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

/// The share of the bytes written that persistent memory took. Copies of what was there count on both sides.
fn share(r: &Record) -> Option<f64> {
    let data = |role: &str| {
        let host = &r.devices.get(role)?.host;
        let of = |bytes: &std::collections::BTreeMap<String, u64>| bytes.get("data").copied().unwrap_or(0);
        Some((of(&host.byte.write_bytes) + of(&host.block.write_bytes)) as f64)
    };
    let (nvm, ssd) = (data("nvm")?, data("ssd").unwrap_or(0.0));
    (r.app.write_bytes > 0).then(|| nvm / (nvm + ssd).max(r.app.write_bytes as f64))
}

/// Whole files that direct threads wrote.
fn direct_writes(r: &Record) -> Option<f64> {
    Some(r.ops.by_type.get("direct-w")?.count as f64)
}

impl Rows<'_> {
    fn alone(&self, name: &str) -> Option<f64> {
        self.r.alone.get(name).copied()
    }

    fn sync(&mut self) {
        let gain = |(with, without): (&str, &str), w: &str| {
            let per_s = |fs: &str| Some(self.r.main(w, fs)?.ops.per_s);
            per_s(without).filter(|b| *b > 0.0).and_then(|b| Some(per_s(with)? / b))
        };
        let all = PAIRS.iter().flat_map(|pair| SYNC.map(|w| gain(*pair, w))).collect();
        // The slides do not say of which workload.
        let what = "throughput SPFS+x/x, up to";
        let up_to = row("sync", "up-to", "synchronous writes", what, Number(9.9)).factor();
        self.all.push(up_to.over(Stat::Most, FIVE, all));
        let end = row("machines", "end", "background", "end of Optane DCPMM", Number(2022.0)).input();
        self.all.push(end);
    }

    fn profiler(&mut self) {
        let f = "profiler";
        for (name, on, w, paper) in [
            ("large-sync", "large synchronous writes", "large-sync", Above(0.5)),
            ("large-async", "large asynchronous writes", "large-async", Below(0.5)),
            ("small-sync", "small synchronous writes", "rewrite-4k", Above(0.5)),
            ("small-async", "small asynchronous writes", "small-async", Below(0.5)),
        ] {
            let ours = self.r.main(w, PAIRS[0].0).and_then(share);
            self.all.push(row(f, name, on, "share in persistent memory", paper).ours(ours));
        }
        let what = "share in persistent memory, Ziggurat";
        let ziggurat = row(f, "ziggurat", "small asynchronous writes", what, Above(0.5));
        self.all.push(ziggurat.needs("Ziggurat"));
    }

    /// Numbers that the code for extents gives in any run.
    fn hashing(&mut self) {
        let f = "hashing";
        for (name, on, what, paper, value) in [
            (
                "factor",
                "sync factor",
                "operations of weight 0 to the lowest bin",
                Number(136.0),
                "operations to bin 0",
            ),
            ("entries", "extent of B blocks", "entries, B = 32768, below log2 B + 2", Below(17.0), "entries"),
            ("aligned", "best case", "entries", Number(1.0), "entries of an aligned extent"),
            ("stride", "insert", "stride at key 1010", Number(2.0), "stride"),
            ("pointers", "start 3, length 7", "pointers (3, 4, 8)", Number(3.0), "example"),
            ("search", "search for 7", "probes (7, 6, 4)", Number(3.0), "example's probes"),
            ("probes", "search", "probes, B = 65536, below log2 B + 2", Below(18.0), "probes"),
        ] {
            self.all.push(row(f, name, on, what, paper).arithmetic().ours(self.alone(value)));
        }
        let stride = row(f, "block-stride", "BlockHash", "stride", Number(1.0)).constant();
        self.all.push(stride.ours(self.alone("stride of block hashing")));
    }

    fn machines(&mut self) {
        for (name, on, what, paper, value) in [
            ("optane-cores", "DCPMM", "processors", 20.0, "DCPMM: processors"),
            ("optane-pm", "DCPMM", "PM, GB", 256.0, "DCPMM: PM, GB"),
            ("optane-ssd", "DCPMM", "SSD, TB", 2.0, "DCPMM: SSD, TB"),
            ("nvdimm-cores", "NVDIMM-N", "processors", 32.0, "NVDIMM-N: processors"),
            ("nvdimm-pm", "NVDIMM-N", "PM, GB", 16.0, "NVDIMM-N: PM, GB"),
            ("nvdimm-ssd", "NVDIMM-N", "SSD, GB", 512.0, "NVDIMM-N: SSD, GB"),
            // The testbeds state the page cache, not the memory.
            ("optane-dram", "DCPMM", "DRAM, GB", 128.0, ""),
            ("nvdimm-dram", "NVDIMM-N", "DRAM, GB", 32.0, ""),
        ] {
            let ours = self.alone(value);
            self.all.push(row("machines", name, on, what, Number(paper)).input().ours(ours));
        }
    }

    /// The figure's bars are pictures: what is held against ours are the talk's statements of entries and of
    /// searches.
    fn mapping(&mut self) {
        // A few files fit into the tables that were there before.
        let over = |a: &str, b: &str| Some(self.alone(a)? / self.alone(b).filter(|b| *b > 0.0)?);
        let rows = [
            ("memory", "BlockHash", "memory/ExtentHash's", "blocks: memory", "extents: memory"),
            ("insert", "BlockHash", "time of an insert/ExtentHash's", "blocks: insert", "extents: insert"),
            ("lookup", "ExtentHash", "time of a lookup/BlockHash's", "extents: lookup", "blocks: lookup"),
            ("tree", "ExtentTree", "time of a lookup/ExtentHash's", "tree: lookup", "extents: lookup"),
        ]
        .map(|(name, on, what, a, b)| row("mapping", name, on, what, Above(1.0)).factor().ours(over(a, b)));
        self.all.extend(rows);
    }

    /// SPFS over ext4 and ext4 alone, MB/s: NVLog's raw results, of another machine.
    fn nvlog(&mut self) {
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
            for (fs, what, paper) in [
                ("spfs+ext4", "SPFS, MB per s, other machine", spfs),
                ("ext4", "ext4, MB per s, other machine", ext4),
            ] {
                let ours = self.r.find(NVLOG, w, fs).map(|r| {
                    let bytes = r.app.read_bytes + r.app.write_bytes;
                    bytes as f64 / r.virtual_s / 1e6
                });
                let name = format!("{}-{}", w.trim_start_matches("nvlog-"), fs.trim_end_matches("+ext4"));
                self.all.push(row("nvlog", name, on, what, Number(paper)).ours(ours));
            }
        }
    }

    /// Operations per second on the machine with little memory, with SPFS over without.
    fn traces(&mut self) {
        let per_s = |w: &str, fs: &str| self.r.find(SMALL, w, fs).map(|r| r.ops.per_s).filter(|n| *n > 0.0);
        let over = |w: &str, a: &str, b: &str| per_s(w, a).zip(per_s(w, b)).map(|(a, b)| a / b);
        let mut rows = Vec::new();
        for (w, on) in TRACES.into_iter().zip(["FIU: Moodle", "FIU: Usr1", "FIU: Usr2"]) {
            for ((with, without), what) in
                PAIRS.into_iter().zip(["throughput SPFS+ext4/ext4", "throughput SPFS+F2FS/F2FS"])
            {
                let rate = row("trace", format!("{w}-{without}"), on, what, Above(1.0)).factor();
                rows.push(rate.ours(over(w, with, without)));
            }
            // The slide has its bar, without a number.
            let nova = row("trace", format!("{w}-nova"), on, "throughput NOVA/SPFS+ext4", Silent).factor();
            rows.push(nova.ours(over(w, "nova", PAIRS[0].0)));
        }
        self.all.extend(rows);
    }

    /// A file server of which some threads have direct I/O: operations per second with SPFS over without, and
    /// who takes the bytes.
    fn stacking(&mut self) {
        let f = "stacking";
        for (name, on, w, paper) in [
            ("share-buffered", "buffered I/O", STACKING[0], Below(0.5)),
            ("share-direct", "direct I/O, synchronous", STACKING[4], Above(0.5)),
        ] {
            let ours = self.r.main(w, PAIRS[0].0).and_then(share);
            self.all.push(row(f, name, on, "share in persistent memory", paper).ours(ours));
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
            let mut rows = Vec::new();
            for (pair, [all, direct]) in PAIRS.into_iter().zip([
                ["throughput SPFS+ext4/ext4", "of the direct threads, SPFS+ext4/ext4"],
                ["throughput SPFS+F2FS/F2FS", "of the direct threads, SPFS+F2FS/F2FS"],
            ]) {
                // The talk speaks of a mix; of buffered I/O alone it says nothing.
                let mix = w != STACKING[0];
                let paper = if mix { Above(1.0) } else { Silent };
                let n = w.trim_start_matches("stacking-");
                let rate = row(f, format!("{n}-{}", pair.1), on, all, paper).factor();
                rows.push(rate.ours(over(pair, |r| Some(r.ops.per_s))));
                if mix {
                    let rate = row(f, format!("{n}-{}-direct", pair.1), on, direct, Silent).factor();
                    rows.push(rate.ours(over(pair, direct_writes)));
                }
            }
            self.all.extend(rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::verdict::Class;
    use granary_bench::traffic::Host;
    use granary_lab::record::DeviceRun;

    #[test]
    fn without_runs_no_number_is_made_up_and_what_is_counted_is_no_result() {
        let mut results = Results::default();
        assert!(claims(&results).iter().all(|j| j.ours.is_none()));
        results.alone = hashing();
        let counted: Vec<_> = claims(&results).into_iter().filter(|j| j.ours.is_some()).collect();
        assert_eq!(counted.len(), 8);
        for j in counted {
            assert!(matches!(j.class(), Class::NotAResult(_)), "{j:?}");
            // It is told all the same whether it equals the slides'.
            let (ours, _) = j.ours.expect("counted").ends();
            assert!(j.paper == Number(ours) || matches!(j.paper, Below(most) if ours < most), "{j:?}");
        }
    }

    /// Promotions copy what was there: 38 times the bytes written is no share.
    #[test]
    fn a_share_is_at_most_one() {
        let mut r = Record::default();
        r.app.write_bytes = 100;
        let device = |bytes: u64| {
            let mut host = Host::default();
            host.byte.write_bytes.insert("data".to_owned(), bytes);
            DeviceRun { host, ..DeviceRun::default() }
        };
        r.devices.insert("nvm".to_owned(), device(3_800));
        assert_eq!(share(&r), Some(1.0));
        r.devices.insert("nvm".to_owned(), device(2));
        assert_eq!(share(&r), Some(0.02), "the rest is in the page cache");
        r.devices.insert("ssd".to_owned(), device(198));
        assert_eq!(share(&r), Some(0.01));
    }
}
