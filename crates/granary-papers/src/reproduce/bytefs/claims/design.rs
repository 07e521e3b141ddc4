//! Claims on what each part of the design brings.

use super::{add, between, each, mean, min, per_s, ratio};
use crate::reproduce::bytefs::MACRO;
use crate::reproduce::study::{MAIN, Results};
use crate::reproduce::verdict::{Judged, Paper};
use Paper::{About, Above, Number};

pub(super) fn design(r: &Results, all: &mut Vec<Judged>) {
    const LOG: &str = "";
    let mut row = |figure, on, what, paper, ours, why| add(all, figure, on, what, paper, ours, why);
    let of = |w: &str, a: &str, b: &str| between(r, w, a, b, &per_s);
    let worst_other = |w: &str| of(w, "bytefs-dual", "ext4");
    for w in ["varmail", "fileserver"] {
        let on = if w == "varmail" { "varmail" } else { "fileserver" };
        row(
            "12",
            on,
            "throughput ByteFS-Dual/ext4 (the dual interface gains)",
            Above(1.0),
            worst_other(w),
            LOG,
        );
        row(
            "12",
            on,
            "throughput ByteFS-Log/ByteFS-Dual (the log gains)",
            Above(1.0),
            of(w, "bytefs-log", "bytefs-dual"),
            LOG,
        );
    }
    row(
        "12",
        "webproxy",
        "throughput ByteFS-Dual/ext4 (mostly the dual interface)",
        Above(1.0),
        worst_other("webproxy"),
        LOG,
    );
    row(
        "12",
        "oltp",
        "throughput ByteFS-Log/ByteFS-Dual (the log gains)",
        Above(1.0),
        of("oltp", "bytefs-log", "bytefs-dual"),
        LOG,
    );
    row(
        "12",
        "oltp",
        "throughput ByteFS/ByteFS-Log (interface selection gains)",
        Above(1.0),
        of("oltp", "bytefs", "bytefs-log"),
        LOG,
    );
    let gain = |setting: &str, w: &str, fs: &str| {
        ratio(per_s(r.find(setting, w, "bytefs")?), per_s(r.find(setting, w, fs)?))
    };
    let settings = ["flash 3/80", MAIN, "flash 25/200", "flash 3/80, CXL"];
    let least = |fs: &str| {
        min(each(&settings, |s| {
            min(each(&["varmail", "fileserver", "webproxy", "oltp"], |w| gain(s, w, fs)))
        }))
    };
    row(
        "13",
        "macro",
        "throughput ByteFS/F2FS at any flash, least",
        Above(1.0),
        least("f2fs"),
        "fileserver on the fastest flash: both are bound by the link",
    );
    row("13", "macro", "throughput ByteFS/NOVA at any flash, least", Above(1.0), least("nova"), "");
    let grows = |w: &str| ratio(gain("flash 25/200", w, "f2fs")?, gain(MAIN, w, "f2fs")?);
    row(
        "13",
        "macro",
        "gain over F2FS at 200 us/at 60 us of program time, mean",
        Above(1.0),
        mean(each(&["varmail", "fileserver", "webproxy", "oltp"], grows)),
        "",
    );
    let log = |setting: &str, w: &str| Some(per_s(r.find(setting, w, "bytefs")?));
    let larger = |w: &str| ratio(log("log 512 MiB", w)?, log("log 64 MiB", w)?);
    row(
        "14",
        "varmail, fileserver",
        "throughput with 512/with 64 MiB of log, mean",
        Above(1.0),
        mean(each(&["varmail", "fileserver"], larger)),
        "",
    );
    row("14", "oltp", "throughput with 512/with 64 MiB of log", About(1.0), larger("oltp"), "");
    let alone = |name: &str| r.alone.get(name).copied();
    const SCAN: &str = "the pages that the log's lines lie on decide (12 lines to a page here, in no setting of the paper stated)";
    row("recovery", "full log", "recovery, s", Number(4.2), alone("recovery, s"), SCAN);
    row("recovery", "full log", "of it loading, s", Number(0.9), alone("recovery: loading, s"), "");
    row(
        "recovery",
        "full log",
        "of it scan and flush, s",
        Number(2.7),
        alone("recovery: scan, s").zip(alone("recovery: flush, s")).map(|(scan, flush)| scan + flush),
        SCAN,
    );
    row(
        "4.3",
        "full log",
        "lookup, ns",
        Number(89.0),
        None,
        "not measured: the drive is charged the paper's figure; our index on this machine: docs/BENCHMARKS.md",
    );
    row("4.3", "full log", "index, MB", Number(21.0), alone("index, bytes").map(|bytes| bytes / 1e6), "");
    row(
        "4.6",
        "a page",
        "XOR, cycles",
        Number(936.0),
        None,
        "not measured: the host is charged the paper's figure; ours on this machine: docs/BENCHMARKS.md",
    );
    let duplicates = |w: &str| {
        let cache = &r.main(w, "bytefs")?.page_cache;
        ratio(cache.most_duplicates as f64 * 100.0, (cache.pages + cache.most_duplicates) as f64)
    };
    row(
        "4.6",
        "macro",
        "duplicates at most, share of the page cache, %",
        Number(16.0),
        mean(each(&MACRO, duplicates)),
        "duplicates live from a store to its write-back, which fsync and O_SYNC make short; the paper does not name its runs",
    );
}

pub(super) fn amplification(r: &Results, all: &mut Vec<Judged>) {
    const WRITES: &str = "nothing forces write-back in a run shorter than its 5 s and 30 s; oltp writes 2 KiB with O_DSYNC, of which a block file system moves at least twice as much";
    const READS: &str = "what is in the page cache when the run begins decides; oltp reads 2 KiB out of pages, twice as much at least";
    let paper = [
        ("ext4", [3.85, 6.21, 1.43, 1.66, 2.17], [1.21, 1.15, 1.25, 1.71, 1.52]),
        ("f2fs", [2.14, 1.92, 1.67, 1.06, 1.10], [1.67, 1.42, 1.35, 1.18, 1.13]),
    ];
    for (fs, writes, reads) in paper {
        let (w, rd) = if fs == "ext4" {
            ("write amplification ext4", "read amplification ext4")
        } else {
            ("write amplification F2FS", "read amplification F2FS")
        };
        for (i, on) in MACRO.into_iter().enumerate() {
            let of = r.main(on, fs).map(|r| &r.amplification);
            add(all, "table2", on, w, Number(writes[i]), of.and_then(|a| a.write), WRITES);
        }
        for (i, on) in MACRO.into_iter().enumerate() {
            let of = r.main(on, fs).map(|r| &r.amplification);
            add(all, "table2", on, rd, Number(reads[i]), of.and_then(|a| a.read), READS);
        }
    }
}
