//! OrchFS (FAST'25): its figures as runs, its statements beside ours.
//!
//! ```text
//!   setup     the platform, as the testbed states it
//!   1, 2      writes of one thread, without and with an fsync after each, beside the drive alone
//!   3, 5      the drive alone: unaligned beside aligned, one access beside pieces of 32 KiB under way
//!             together
//!   4         what the page cache, and what fsync without the devices, take of a write: by runs in which
//!             they take no time
//!   10        a file filled by appends, then overwritten at random: sizes of S +- 10 %, any byte, O_SYNC
//!   table2    the space of both phases, with `reclaim = artifact` as it was published, and with `reclaim =
//!             paper`
//!   11, 12    the same with the I/O engine off, and with 1 to 64 threads for the SSD
//!   13        random reads of such a file
//!   14        1 to 16 threads overwrite one file
//!   15        appends and random writes with a PCIe 5.0 drive (testbed `orchfs-pcie5`)
//!   16        Filebench's fileserver, webproxy, varmail
//!   19        the share of Upages as the volume of random writes grows, migration off
//! ```
//!
//! Figures 17 and 18 are not run: LevelDB and GridGraph. Nor are figure 15's RAIDs. OdinFS, ArckFS and Strata
//! are absent: statements over "NVM file systems" are over NOVA here, those over "hybrid" ones over PHFS and
//! SPFS.
//!
//! Source: slides of OrchFS (FAST'25) and notes of the paper that agree with them.

mod claims;
#[cfg(test)]
mod files;
mod plan;

use super::plan::Plan;
use super::study::{Alone, Study};
use granary_bench::Precondition;
use granary_bench::bench::Bench;
use granary_bench::job::{Job, Pattern};
use granary_bench::memory;
use granary_device::Drive;
use granary_lab::LabError;
use granary_orchfs::geometry::{BLOCK, PAGE};
use granary_orchfs::layout::nodes::SLOT;
use granary_testbed::measure::unaligned;
use granary_units::{Bytes, Lpa, PAGE_SIZE, Page};
use std::collections::BTreeMap;

/// The study.
pub const STUDY: Study = Study {
    name: "orchfs",
    title: "OrchFS (FAST'25)",
    figures: &["setup", "1", "2", "3", "4", "5", "10", "table2", "11", "12", "13", "14", "15", "16", "19"],
    workloads: &plan::WORKLOADS,
    testbed: "orchfs",
    scale: 0.005,
    plan: plan::runs,
    alone,
    claims: claims::claims,
    belongs: |figure, asked| asked.iter().any(|a| a == figure),
    choices: &plan::CHOICES,
};

/// Bytes of a piece of figure 5.
const PIECE: u64 = 32 << 10;

/// Accesses of figure 5: as one command, and as pieces under way together.
struct Split {
    bytes: u64,
    /// Of writes, of reads.
    names: [&'static str; 2],
}

/// The slides do not name the sizes.
const SPLITS: [Split; 4] = [
    Split { bytes: 128 << 10, names: ["split 128 KiB writes", "split 128 KiB reads"] },
    Split { bytes: 256 << 10, names: ["split 256 KiB writes", "split 256 KiB reads"] },
    Split { bytes: 512 << 10, names: ["split 512 KiB writes", "split 512 KiB reads"] },
    Split { bytes: 1 << 20, names: ["split 1 MiB writes", "split 1 MiB reads"] },
];

/// Values of the testbed, and measures of its SSD alone.
fn alone(plan: &Plan<'_>, figures: &[String]) -> Result<Alone, LabError> {
    let (mut out, asked) = (BTreeMap::new(), |figure: &str| figures.iter().any(|f| f == figure));
    let testbed = plan.whole()?;
    let unit = testbed.ssd()?.flash.unit_pages();
    let kib = |pages: u64| (pages * PAGE_SIZE as u64 / 1024) as f64;
    if asked("setup") {
        out.insert("KB of an SSD page", kib(unit));
        out.insert("KB of an SSD block", (BLOCK / 1024) as f64);
        out.insert("KB of an NVM page", (PAGE / 1024) as f64);
        out.insert("B of an Upage's entry", SLOT as f64);
        out.insert("processors", testbed.host.cores as f64);
        out.insert("SSD, TB", testbed.ssd()?.pages() as f64 * PAGE_SIZE as f64 / 1e12);
        out.insert("NVM, GB", testbed.nvm()?.pages() as f64 * PAGE_SIZE as f64 / 1e9);
        for (name, rw) in [("SSD reads, GB/s", "read"), ("SSD writes, GB/s", "write")] {
            out.insert(name, bench(plan, rw, 128 << 10, 32)? / 1e9);
        }
        out.insert("NVM reads, GB/s", testbed.nvm()?.read_bandwidth.0 as f64 / 1e9);
        out.insert("NVM writes, GB/s", testbed.nvm()?.write_bandwidth.0 as f64 / 1e9);
    }
    if asked("1") || asked("2") {
        out.insert("raw 1 MiB, B/s", bench(plan, "randwrite", 1 << 20, 1)?);
    }
    if asked("1") {
        let fast = Plan { testbed: plan::PCIE5_TESTBED, ..*plan };
        out.insert("raw 1 MiB of PCIe 5.0, B/s", bench(&fast, "randwrite", 1 << 20, 1)?);
    }
    if asked("3") {
        // 16 KiB that do not begin with a page touch one page more, and the SSD programs whole units.
        let pages = (16 << 10) / PAGE_SIZE as u64 + 1;
        out.insert("host, KB", kib(pages));
        out.insert("SSD, KB", kib(pages.next_multiple_of(unit)));
        out.insert("unaligned 16 KiB", unaligned::ratio(&testbed, 16 << 10)?);
        out.insert("unaligned 1 MiB", unaligned::ratio(&testbed, 1 << 20)?);
    }
    if asked("5") {
        for split in &SPLITS {
            for (name, rw) in split.names.into_iter().zip(["write", "read"]) {
                let pieces = bench(plan, rw, PIECE, (split.bytes / PIECE) as u32)?;
                out.insert(name, pieces / bench(plan, rw, split.bytes, 1)?);
            }
        }
    }
    Ok(out)
}

/// Bytes a second that the SSD alone moves.
fn bench(plan: &Plan<'_>, rw: &str, block: u64, depth: u32) -> Result<f64, LabError> {
    let (testbed, size) = (plan.whole()?, Bytes::mib(512));
    let failed = |e: &dyn std::fmt::Display| LabError::run("drive", "measure", e);
    let raw = memory::Use { precondition: Precondition::None, content: false };
    let drive = memory::ssd(&testbed.name, testbed.ssd()?, raw)?;
    drive.fill(Lpa(0), size.0 / PAGE_SIZE as u64, |_| Page::ZERO).map_err(|e| failed(&e))?;
    let jobs = [Job {
        name: rw.to_owned(),
        pattern: Pattern::named(rw).expect("one of the names"),
        depth,
        size: Some(size.into()),
        ..Job::default().with_block_size(Bytes(block))
    }];
    let measured = Bench { seed: plan.seed, ..Bench::of(&drive as &dyn Drive, &jobs) }.run(|_, _| {})?;
    let job = &measured.jobs[0];
    Ok((job.read_bytes + job.write_bytes) as f64 / job.time.as_secs_f64())
}
