//! Claims on what goes over the link, and what reaches the flash.

use super::{FOUR, NINE, Value, between, each, max, min, ratio};
use crate::reproduce::bytefs::{MICRO, WORKLOADS};
use crate::reproduce::claim::{Judged, row};
use crate::reproduce::study::Results;
use crate::reproduce::verdict::{Paper, Stat};
use Paper::{Above, Number, Silent};
use granary_lab::record::Record;

/// Over the link, the drain's included: a short run leaves in caches what a long one writes.
fn metadata(r: &Record) -> f64 {
    [&r.host, &r.drain.host].iter().map(|h| h.metadata_written() + h.metadata_read()).sum::<u64>() as f64
}

fn data(r: &Record) -> f64 {
    [&r.host, &r.drain.host].iter().map(|h| h.data_written() + h.data_read()).sum::<u64>() as f64
}

/// Pages read and programmed, the drain's included: what stays in the drive's memory has to be programmed
/// some day.
fn flash(r: &Record) -> f64 {
    (r.flash.reads() + r.flash.programs() + r.drain.flash.reads() + r.drain.flash.programs()) as f64
}

pub(super) fn link_traffic(r: &Results, all: &mut Vec<Judged>) {
    let over = |w: &str, a: &str, of: Value<'_>| between(r, w, a, "bytefs", of);
    for (name, what, fs, stat, paper) in [
        ("metadata-ext4-up-to", "metadata ext4/ByteFS, up to", "ext4", Stat::Most, 25.3),
        ("metadata-ext4-mean", "metadata ext4/ByteFS, mean", "ext4", Stat::Mean, 11.4),
        ("metadata-f2fs-up-to", "metadata F2FS/ByteFS, up to", "f2fs", Stat::Most, 17.2),
        ("metadata-f2fs-mean", "metadata F2FS/ByteFS, mean", "f2fs", Stat::Mean, 6.1),
    ] {
        let ours = each(&MICRO, |w| over(w, fs, &metadata));
        all.push(row("8", name, "micro", what, Number(paper)).factor().over(stat, FOUR, ours));
    }
    // A workload that reads nothing has no share.
    let read = |w: &str| {
        let of = |fs: &str| Some(r.main(w, fs)?.host.metadata_read() as f64);
        let (ours, nova) = (of("bytefs")?, of("nova")?);
        Some(ratio(ours, nova).map(|left| 100.0 * (1.0 - left)))
    };
    let ours: Option<Vec<Option<f64>>> = MICRO.iter().map(|w| read(w)).collect();
    let ours = ours.map(|all| all.into_iter().flatten().collect());
    let what = "metadata read less than by NOVA, %";
    let less = row("8", "reads-nova", "micro", what, Number(43.0)).saved();
    all.push(less.over(Stat::Mean, "those in which NOVA reads", ours));
    for (name, what, fs, paper) in [
        ("data-nova-up-to", "data NOVA/ByteFS, up to", "nova", 4.7),
        ("data-pmfs-up-to", "data PMFS/ByteFS, up to", "pmfs", 2.7),
    ] {
        let ours = each(&["webserver", "webproxy"], |w| over(w, fs, &data));
        let up_to = row("9", name, "webserver, webproxy", what, Number(paper)).factor();
        all.push(up_to.over(Stat::Most, "webserver, webproxy", ours));
    }
    let written = |r: &Record| {
        (r.host.data_written() + r.drain.host.data_written()) as f64 / r.app.write_bytes.max(1) as f64
    };
    for (name, what, fs, paper) in [
        ("oltp-nova", "data written per byte of the application, NOVA/ByteFS", "nova", 1.6),
        ("oltp-pmfs", "data written per byte of the application, PMFS/ByteFS", "pmfs", 2.2),
    ] {
        all.push(row("9", name, "oltp", what, Number(paper)).factor().ours(over("oltp", fs, &written)));
    }
}

pub(super) fn flash_traffic(r: &Results, all: &mut Vec<Judged>) {
    for (what, fs, paper) in [
        ("flash pages ext4/ByteFS, mean", "ext4", 2.9),
        ("flash pages F2FS/ByteFS, mean", "f2fs", 2.1),
        ("flash pages NOVA/ByteFS, mean", "nova", 3.2),
        ("flash pages PMFS/ByteFS, mean", "pmfs", 2.2),
    ] {
        let ours = each(&WORKLOADS, |w| between(r, w, fs, "bytefs", &flash));
        let mean = row("11", format!("pages-{fs}"), "all", what, Number(paper)).factor();
        all.push(mean.over(Stat::Mean, NINE, ours));
    }
    let reads = |w: &str| {
        let of = |fs: &str| r.main(w, fs).map(|r| (r.flash.reads() + r.drain.flash.reads()) as f64);
        let others = max(Some(vec![of("ext4")?, of("f2fs")?]))?;
        Some(of("bytefs")? / others.max(1.0))
    };
    for on in ["create", "fileserver"] {
        let what = "flash reads ByteFS/more of ext4 and F2FS";
        all.push(row("11", format!("reads-{on}"), on, what, Above(1.0)).factor().ours(reads(on)));
    }
    let programs = |r: &Record| (r.flash.programs() + r.drain.flash.programs()) as f64;
    let more = each(&["mkdir", "rmdir"], |w| {
        min(["nova", "pmfs"].iter().map(|fs| between(r, w, "bytefs", fs, &programs)).collect())
    });
    // The paper says "may be above 1", which no number contradicts.
    let what = "flash programs ByteFS/more of NOVA and PMFS (the paper: may be above 1)";
    let programs = row("10", "programs", "mkdir, rmdir", what, Silent).factor();
    all.push(programs.over(Stat::Mean, "mkdir, rmdir", more));
}
