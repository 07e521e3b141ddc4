//! PebbleSSD (MEMSYS'17): its figures as runs, its statements beside ours.
//!
//! ```text
//!   5, 6      the drive alone: fs_write beside write, remap beside read and write
//!   7         four Filebench workloads on each log-structured file system, then cleaning until nothing is
//!             left (setting `cleaned`)
//!             and the drive's own gc over one more drive write, on a small drive (setting `overwritten`),
//!             which the paper leaves out
//!   8         four threads, each writes a file of its own synchronously, 4 to 16 KiB at a time (setting
//!             `sync`)
//!   9, 10     OLTP (setting `main`); TPC-C and LinkBench are not run
//!   6.5       what the persistent memory is used for
//!   platform  sections 2.1, 4 and 6.1: what the testbed states
//! ```
//!
//! The paper's F2FS is that of Linux 3.16: always out of place, no periodic checkpoint. Cleaning of F2FS
//! begins at once, as its ioctl does; that of NILFS2 after the 600 s of its protection period. Both file
//! systems of a pair do the same operations, where the paper runs both for the same time: more operations
//! leave more to clean.
//!
//! *File write amplification* is the paper's: data and index blocks over data blocks (section 6.4). Index
//! blocks are nodes for F2FS, summaries and nodes of B-trees for NILFS2.
//!
//! Source: PebbleSSD (MEMSYS'17), sections 2.1, 4.1, 4.2, 6.1 to 6.5.

mod claims;
mod plan;

use super::plan::Plan;
use super::study::{Alone, Study};
use granary_bench::moves::{MoveBench, Way};
use granary_lab::LabError;
use granary_mssd::BamSpace;
use granary_units::Bytes;
use std::collections::BTreeMap;

/// Workloads of figure 7, which names them in its picture only.
const CLEANED: [&str; 4] = ["fileserver", "varmail", "webproxy", "webserver"];
/// Those of figure 8, by the KiB that each write has.
const SYNC: [&str; 4] = ["sync-4k", "sync-8k", "sync-12k", "sync-16k"];

/// The study.
pub const STUDY: Study = Study {
    name: "pebblessd",
    title: "PebbleSSD (MEMSYS'17)",
    figures: &["platform", "5", "6", "7", "8", "9", "10", "6.5"],
    workloads: &[
        "fileserver",
        "varmail",
        "webproxy",
        "webserver",
        "scattered",
        "sync-4k",
        "sync-8k",
        "sync-12k",
        "sync-16k",
        "oltp",
    ],
    testbed: "pebblessd",
    scale: 0.005,
    plan: plan::runs,
    alone,
    claims: claims::claims,
    belongs: |figure, asked| asked.iter().any(|a| a == figure),
    choices: &plan::CHOICES,
};

/// Moves of each thread: enough for means that the next thousand do not change.
const MOVES: u64 = 5_000;

/// Figures from the drive and the testbed without a file system.
fn alone(plan: &Plan<'_>, figures: &[String]) -> Result<Alone, LabError> {
    let asked = |figure: &str| figures.iter().any(|f| f == figure);
    let testbed = plan.whole()?;
    let mut out = BTreeMap::new();
    if asked("5") || asked("6") {
        let (ssd, costs) = (testbed.ssd()?, &testbed.host.costs);
        let bench = MoveBench { testbed: &testbed.name, ssd, costs, moves: MOVES, pages: 1, seed: plan.seed };
        if asked("5") {
            let [write, fs_write] = [Way::Write, Way::FsWrite].map(|way| [1, 4].map(|n| bench.one(way, n)));
            let [[write, write4], [fs_write, fs_write4]] = [write, fs_write];
            out.insert("fs_write latency", fs_write?.mean_ns as f64 / write?.mean_ns as f64);
            out.insert("fs_write throughput", fs_write4?.per_s / write4?.per_s);
        }
        if asked("6") {
            let record = bench.run(|_| {})?;
            out.insert("remap throughput", record.throughput_gain);
            out.insert("remap latency saved, %", 100.0 * record.latency_saved);
        }
    }
    if asked("6.5") {
        let [conventional, remap, fs_write] = BamSpace::of_the_paper().map(|(_, space)| space);
        let percent = |space: &BamSpace| 100.0 * space.utilization();
        let table = |space: &BamSpace, name: &str| space.tables.iter().find(|t| t.name == name).cloned();
        out.insert("conventional, %", percent(&conventional));
        out.insert("remap, %", percent(&remap));
        out.insert("fs_write, %", percent(&fs_write));
        let mib = |bytes: Bytes| bytes.0 as f64 / (1 << 20) as f64;
        let tables = [&conventional, &remap, &fs_write];
        for (space, name, entry, entries, size) in [
            (tables[0], "L2P", "L2P entry, B", "L2P entries", "L2P, MiB"),
            (tables[1], "P2L", "P2L entry, B", "P2L entries", "P2L, MiB"),
            (
                tables[2],
                "file-offset table",
                "file offset entry, B",
                "file offset entries",
                "file offsets, MiB",
            ),
            (tables[2], "inode table", "inode entry, B", "inode slots", "inodes, MiB"),
        ] {
            if let Some(t) = table(space, name) {
                out.extend([(entry, t.entry as f64), (entries, t.entries as f64), (size, mib(t.bytes()))]);
            }
        }
    }
    if asked("platform") || asked("6.5") {
        let d = testbed.ssd()?;
        let (g, t) = (&d.flash.geometry, &d.flash.timing);
        out.insert("capacity, GB", d.pages() as f64 * 4096.0 / 1e9);
        out.insert("channels", g.channels as f64);
        out.insert("pages a block", g.pages_per_block as f64);
        out.insert("clock, MHz", d.firmware.clock_mhz as f64);
        out.insert("read, us", t.read.0 as f64 / 1e3);
        out.insert("program, us", t.program.0 as f64 / 1e3);
        out.insert("erase, ms", t.erase.0 as f64 / 1e6);
        out.insert("host cores", testbed.host.cores as f64);
        if let Some(bam) = &d.firmware.bam {
            out.insert("memory, GiB", bam.memory.0 as f64 / (1u64 << 30) as f64);
            out.insert("files", bam.files as f64);
        }
    }
    Ok(out)
}
