//! Every statement of the paper's evaluation, and how our number for it follows from the runs.
//!
//! Rows are in the order of the paper's figures. A row that needs what is not there yet says so instead of a
//! number. Words of the paper ("similar", "higher") are rows, too.

mod design;
mod traffic;

use super::{FILE_SYSTEMS, MACRO, MICRO, WORKLOADS};
use crate::reproduce::claim::{Judged, row};
use crate::reproduce::study::Results;
use crate::reproduce::verdict::{Paper, Stat};
use crate::reproduce::why::{Experiment, Must};
use Paper::{About, Above, Below, Number, Range};
use design::{amplification, design};
use granary_bench::traffic::Host;
use granary_lab::record::Record;
use traffic::{flash_traffic, link_traffic};

const YCSB: &str = "YCSB on a key-value store";
const NINE: &str = "the nine workloads";
const FOUR: &str = "create, delete, mkdir, rmdir";
type Value<'a> = &'a dyn Fn(&Record) -> f64;

/// All statements beside what the runs say.
pub(super) fn claims(results: &Results) -> Vec<Judged> {
    let mut all = Vec::new();
    headlines(results, &mut all);
    shares(results, &mut all);
    throughput(results, &mut all);
    link_traffic(results, &mut all);
    flash_traffic(results, &mut all);
    design(results, &mut all);
    amplification(results, &mut all);
    all
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then_some(a / b)
}

/// Of one workload: `of` the first file system over `of` the second.
fn between(r: &Results, workload: &str, a: &str, b: &str, of: Value<'_>) -> Option<f64> {
    ratio(of(r.main(workload, a)?), of(r.main(workload, b)?))
}

fn each(workloads: &[&str], of: impl Fn(&str) -> Option<f64>) -> Option<Vec<f64>> {
    workloads.iter().map(|w| of(w)).collect()
}

fn max(values: Option<Vec<f64>>) -> Option<f64> {
    values?.into_iter().reduce(f64::max)
}

fn min(values: Option<Vec<f64>>) -> Option<f64> {
    values?.into_iter().reduce(f64::min)
}

fn per_s(r: &Record) -> f64 {
    r.ops.per_s
}

fn headlines(r: &Results, all: &mut Vec<Judged>) {
    let best = |w: &str| {
        let ours = per_s(r.main(w, "bytefs")?);
        let others: Option<Vec<f64>> =
            FILE_SYSTEMS[1..].iter().map(|fs| Some(per_s(r.main(w, fs)?))).collect();
        ratio(ours, max(others)?)
    };
    let what = "throughput ByteFS/best other, up to";
    let up_to = row("6", "best-up-to", "all", what, Number(2.7)).factor();
    all.push(up_to.over(Stat::Most, NINE, each(&WORKLOADS, best)));
    let bytes = |w: &str, fs: &str| r.main(w, fs).map(|r| (r.host.written() + r.drain.host.written()) as f64);
    let written = |w: &str| {
        let most: Option<Vec<f64>> = ["ext4", "f2fs"].iter().map(|fs| bytes(w, fs)).collect();
        ratio(max(most)?, bytes(w, "bytefs")?)
    };
    let what = "host writes, most of ext4 and F2FS/ByteFS, up to";
    let up_to = row("9", "writes-up-to", "macro", what, Number(5.1)).factor();
    all.push(up_to.over(Stat::Most, "the five macro workloads", each(&MACRO, written)));
}

/// Share of one structure in what went over the link in one direction, or both, percent.
fn share(r: &Record, structure: &str, write: bool, read: bool) -> Option<f64> {
    let of = |h: &Host| {
        let maps = [
            (write, &h.byte.write_bytes),
            (write, &h.block.write_bytes),
            (read, &h.byte.read_bytes),
            (read, &h.block.read_bytes),
        ];
        let maps = || maps.iter().filter(|(on, _)| *on).map(|(_, m)| *m);
        let part: u64 = maps().filter_map(|m| m.get(structure)).sum();
        (part as f64, maps().flat_map(|m| m.values()).sum::<u64>() as f64)
    };
    let ((part, whole), (later, rest)) = (of(&r.host), of(&r.drain.host));
    ratio((part + later) * 100.0, whole + rest)
}

/// That share of each run that moved anything in that direction.
fn each_share(
    r: &Results,
    workloads: &[&str],
    file_systems: &[&str],
    structure: &str,
    (write, read): (bool, bool),
) -> Option<Vec<f64>> {
    let mut shares = Vec::new();
    for w in workloads {
        for fs in file_systems {
            shares.extend(share(r.main(w, fs)?, structure, write, read));
        }
    }
    Some(shares)
}

fn shares(r: &Results, all: &mut Vec<Judged>) {
    const MOVED: &str = "runs that moved anything in that direction";
    let both = ["ext4", "f2fs"];
    let (w, rd, any) = ((true, false), (false, true), (true, true));
    let of = |workloads: &[&str], fss: &[&str], what, way| each_share(r, workloads, fss, what, way);
    let mut add = |name: &str, on, what, paper, stat, ours| {
        all.push(row("1", name, on, what, Number(paper)).over(stat, MOVED, ours));
    };
    use Stat::{Mean, Most};
    let nine = &WORKLOADS;
    add("superblock-w", "all", "superblock share of writes, %", 0.23, Mean, of(nine, &both, "superblock", w));
    add("superblock-r", "all", "superblock share of reads, %", 0.02, Mean, of(nine, &both, "superblock", rd));
    add("bitmap-w", "all", "bitmap share of writes, ext4, %", 5.4, Mean, of(nine, &["ext4"], "bitmap", w));
    let ours = of(nine, &["ext4"], "bitmap", rd);
    add("bitmap-r", "all", "bitmap share of reads, ext4, up to %", 25.2, Most, ours);
    add("inode-w-ext4", "all", "inode share of writes, ext4, %", 35.0, Mean, of(nine, &["ext4"], "inode", w));
    add("inode-w-f2fs", "all", "inode share of writes, F2FS, %", 24.4, Mean, of(nine, &["f2fs"], "inode", w));
    add("inode-r-micro", "micro", "inode share of reads, %", 82.0, Mean, of(&MICRO, &both, "inode", rd));
    add("inode-r-macro", "macro", "inode share of reads, %", 12.4, Mean, of(&MACRO, &both, "inode", rd));
    add("dentry-w", "micro", "dentry share of writes, %", 23.0, Mean, of(&MICRO, &both, "dentry", w));
    add("dentry-r", "all", "dentry share of reads, %", 8.0, Mean, of(nine, &both, "dentry", rd));
    let ours = of(nine, &["f2fs"], "data_pointer", w);
    add("pointer-w", "all", "pointer share of writes, F2FS, up to %", 26.0, Most, ours);
    let ours = of(nine, &["f2fs"], "data_pointer", rd);
    add("pointer-r", "all", "pointer share of reads, F2FS, up to %", 16.0, Most, ours);
    let ours = of(nine, &["ext4"], "journal", any);
    add("journal", "all", "journal share of traffic, ext4, %", 30.7, Mean, ours);
}

/// The paper does not say when a drive acknowledges a block.
static ACKNOWLEDGED: Experiment = Experiment {
    says: "when the drive acknowledges a block decides: the flash has it (testbed), or the buffer",
    figures: &["6"],
    workloads: &["create", "varmail"],
    file_systems: &["bytefs", "f2fs"],
    set: &["firmware.cache_write_ack=buffer"],
    must: Must::Pass,
};

fn throughput(r: &Results, all: &mut Vec<Judged>) {
    let of = |w: &str, other: &str| between(r, w, "bytefs", other, &per_s);
    let (e, f) = ("throughput ByteFS/ext4", "throughput ByteFS/F2FS");
    let mut add = |name: &str, on, what, paper, ours| {
        all.push(row("6", name, on, what, paper).factor().ours(ours));
    };
    add("create-ext4", "create", e, Number(6.0), of("create", "ext4"));
    add("delete-ext4", "delete", e, About(1.0), of("delete", "ext4"));
    add("delete-f2fs", "delete", f, About(1.0), of("delete", "f2fs"));
    add("fileserver-ext4", "fileserver", e, Number(2.2), of("fileserver", "ext4"));
    add("fileserver-f2fs", "fileserver", f, Number(1.2), of("fileserver", "f2fs"));
    add("webserver-ext4", "webserver", e, About(1.0), of("webserver", "ext4"));
    add("webserver-f2fs", "webserver", f, About(1.0), of("webserver", "f2fs"));
    add("webproxy-ext4", "webproxy", e, Number(1.3), of("webproxy", "ext4"));
    add("oltp-ext4", "oltp", e, Number(4.1), of("oltp", "ext4"));
    let further = min(["nova", "pmfs"].iter().map(|fs| of("oltp", fs)).collect());
    add("oltp-byte", "oltp", "throughput ByteFS/better of NOVA and PMFS", Above(1.0), further);
    for (w, paper) in [("create", 2.4), ("varmail", 1.9)] {
        let gain = row("6", format!("{w}-f2fs"), w, f, Number(paper)).factor();
        all.push(gain.ours(of(w, "f2fs")).because(&ACKNOWLEDGED));
    }
    for (name, what, paper, fs) in [
        ("micro-ext4", "throughput ByteFS/ext4, mean", 2.5, "ext4"),
        ("micro-f2fs", "throughput ByteFS/F2FS, mean", 1.48, "f2fs"),
    ] {
        let ours = each(&MICRO, |w| of(w, fs));
        all.push(row("6", name, "micro", what, Number(paper)).factor().over(Stat::Mean, FOUR, ours));
    }
    let ours = each(&["mkdir", "rmdir"], |w| of(w, "f2fs"));
    let directories = row("6", "directories-f2fs", "mkdir, rmdir", f, Range(1.2, 1.5)).factor();
    all.push(directories.over(Stat::Ends, "mkdir, rmdir", ours));
    let worse = |w: &str| {
        let byte = min(["nova", "pmfs"].iter().map(|fs| Some(per_s(r.main(w, fs)?))).collect())?;
        ratio(byte, min(["ext4", "f2fs"].iter().map(|fs| Some(per_s(r.main(w, fs)?))).collect())?)
    };
    let what = "throughput, worse of NOVA and PMFS/worse of ext4 and F2FS, mean";
    let worse = each(&MICRO, worse);
    all.push(row("6", "micro-byte", "micro", what, Below(1.0)).factor().over(Stat::Mean, FOUR, worse));
    all.push(row("6", "ycsb-f2fs", "YCSB", f, Number(2.4)).factor().needs(YCSB));
    for (name, on, what, paper) in [
        ("af-read-mean", "YCSB-A, F", "mean read latency F2FS/ByteFS", Number(2.3)),
        ("af-read-p95", "YCSB-A, F", "p95 read latency F2FS/ByteFS", Number(2.0)),
        ("af-write-mean", "YCSB-A, F", "mean write latency F2FS/ByteFS", Number(1.3)),
        ("af-write-p95", "YCSB-A, F", "p95 write latency F2FS/ByteFS", Number(1.6)),
        ("bd", "YCSB-B, D", "latency ext4/ByteFS", Above(1.0)),
        ("c", "YCSB-C", "latency ext4, F2FS/ByteFS", About(1.0)),
        ("e", "YCSB-E", "latency others/ByteFS", About(1.0)),
    ] {
        all.push(row("7", name, on, what, paper).factor().needs(YCSB));
    }
}

#[cfg(test)]
mod tests;
