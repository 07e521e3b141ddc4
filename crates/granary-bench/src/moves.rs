//! MOVE: data that changes its place on the drive, by read and write or by PebbleSSD's remap (section 6.2,
//! Figure 6). Also write beside fs_write (Figure 5), which are the second half of a move each.
//!
//! ```text
//!   read + write   ioctl | read 4 KiB ........... | ioctl | write 4 KiB .. |     data crosses the link twice
//!   remap          ioctl | remap .. |                                            nothing does
//! ```
//!
//! Each thread moves its own pages to and fro between two parts of the drive, one command at a time, as the
//! paper's programs did over `ioctl`. The host's part of a command costs as much as on the testbed's host:
//! system call, DMA mapping where there is data, submission, completion, context switch.

use crate::error::BenchError;
use crate::memory;
use granary_device::vendor::pebble::{FsWrite, Remap};
use granary_device::{Command, Drive, DriveError, FileEnd, Structure};
use granary_mssd::{BamSpace, DriveConfig, Mssd};
use granary_sim::rng::Stream;
use granary_sim::{Histogram, HostCosts};
use granary_units::{Lpa, Nanos, Page};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

const WHAT: Structure = Structure::Data;

/// How a page is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Read it, write it elsewhere.
    ReadWrite,
    /// Remap it.
    Remap,
    /// Write it elsewhere, without reading it: what [`Way::FsWrite`] is compared with (Figure 5).
    Write,
    /// The same by PebbleSSD's fs_write, as a block of a file.
    FsWrite,
}

/// Moves by some threads in one way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moves {
    /// How.
    pub way: Way,
    /// Threads.
    pub threads: u32,
    /// Moves per virtual second, all threads together.
    pub per_s: f64,
    /// Mean time of a move in ns.
    pub mean_ns: u64,
    /// Longest of 99 % of the moves, in ns.
    pub p99_ns: u64,
    /// Flash programs of the run and its drain for each page moved.
    pub programs_per_page: f64,
    /// Bytes over the host link for each page moved.
    pub link_bytes_per_page: f64,
}

/// The whole comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MoveRecord {
    /// Testbed.
    pub testbed: String,
    /// Pages of one move.
    pub pages: u64,
    /// Read + write and remap, with one thread and with four.
    pub runs: Vec<Moves>,
    /// Throughput of remap over that of read + write with four threads; the paper has 3.7.
    pub throughput_gain: f64,
    /// Part of the latency of read + write with one thread that remap saves; the paper has 0.87.
    pub latency_saved: f64,
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct MoveBench<'a> {
    /// Name of the testbed.
    pub testbed: &'a str,
    /// The drive; it must have BAM.
    pub ssd: &'a DriveConfig,
    /// The host's costs.
    pub costs: &'a HostCosts,
    /// Moves of each thread.
    pub moves: u64,
    /// Pages of one move.
    pub pages: u64,
    /// Root seed.
    pub seed: u64,
}

fn failed(doing: &str, e: DriveError) -> BenchError {
    BenchError::BadJob { job: "move".to_owned(), message: format!("{doing}: {e}") }
}

/// Where a thread is in its move.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Begin,
    Write { begun: Nanos },
}

impl MoveBench<'_> {
    /// Runs all four.
    ///
    /// # Errors
    /// A drive without BAM or too small; drive errors.
    pub fn run(&self, mut progress: impl FnMut(f64)) -> Result<MoveRecord, BenchError> {
        let mut runs = Vec::new();
        for threads in [1, 4] {
            for way in [Way::ReadWrite, Way::Remap] {
                runs.push(self.one(way, threads)?);
                progress(runs.len() as f64 / 4.0);
            }
        }
        let throughput_gain = runs[3].per_s / runs[2].per_s;
        let latency_saved = 1.0 - runs[1].mean_ns as f64 / runs[0].mean_ns as f64;
        let testbed = self.testbed.to_owned();
        Ok(MoveRecord { testbed, pages: self.pages, runs, throughput_gain, latency_saved })
    }

    /// Runs one.
    ///
    /// # Errors
    /// As [`MoveBench::run`].
    pub fn one(&self, way: Way, threads: u32) -> Result<Moves, BenchError> {
        let drive = memory::ssd(self.testbed, self.ssd, memory::Use::NEW)?;
        if !drive.info().answers("REMAP") {
            let why = format!("testbed {} has no [drive.firmware.bam]: there is pebblessd", self.testbed);
            return Err(BenchError::Usage(why));
        }
        // Each thread's pages: as many as it moves, but a bounded number.
        let each = self.moves.min(1 << 16);
        let half = drive.info().pages / 2 / self.pages;
        if each * threads as u64 > half || self.pages as usize > drive.info().max_transfer {
            return Err(BenchError::Usage(format!(
                "{} moves of {} pages: the drive is too small",
                self.moves, self.pages
            )));
        }
        let total = each * threads as u64 * self.pages;
        drive.fill(Lpa(0), total, |lpa| Page::word(lpa.0 + 1)).map_err(|e| failed("filling", e))?;
        let before = drive.counters();
        let mut run = Run {
            bench: self,
            drive: &drive,
            costs: self.costs,
            way,
            half: half * self.pages,
            each,
            there: vec![false; (each * threads as u64) as usize],
            random: (0..threads).map(|i| Stream::new(self.seed, &format!("move.{i}"))).collect(),
            latency: Histogram::new(),
            page: vec![Page::ZERO; self.pages as usize],
        };
        let end = run.threads(threads).map_err(|e| failed("moving", e))?;
        let latency = run.latency;
        drive.settle(end).map_err(|e| failed("settling", e))?;
        let done = drive.counters().since(&before);
        let moved = (self.moves * threads as u64 * self.pages) as f64;
        Ok(Moves {
            way,
            threads,
            per_s: self.moves as f64 * threads as f64 * 1e9 / end.0.max(1) as f64,
            mean_ns: latency.mean().0,
            p99_ns: latency.quantile(0.99).0,
            programs_per_page: done.flash.total_programs() as f64 / moved,
            link_bytes_per_page: (done.link.read() + done.link.written()) as f64 / moved,
        })
    }
}

struct Run<'a> {
    bench: &'a MoveBench<'a>,
    drive: &'a Mssd,
    costs: &'a HostCosts,
    way: Way,
    /// Where the second part of the drive begins.
    half: u64,
    each: u64,
    /// Which pieces lie in the second part.
    there: Vec<bool>,
    random: Vec<Stream>,
    latency: Histogram,
    page: Vec<Page>,
}

impl Run<'_> {
    /// Host processor time before a command is on its way, with data or without, and after it is done.
    fn around(&self, data: bool) -> (Nanos, Nanos) {
        let c = self.costs;
        let dma = if data { c.dma_map } else { Nanos::ZERO };
        (c.syscall + c.bio_submit + dma + c.nvme_submit, c.request_complete + c.context_switch)
    }

    /// Runs the threads; returns when the last move is done.
    fn threads(&mut self, threads: u32) -> Result<Nanos, DriveError> {
        let mut events: BinaryHeap<_> =
            (0..threads).map(|i| Reverse((Nanos::ZERO, i, Step::Begin))).collect();
        let mut left = vec![self.bench.moves; threads as usize];
        let mut piece = vec![0; threads as usize];
        let mut end = Nanos::ZERO;
        while let Some(Reverse((now, thread, step))) = events.pop() {
            let i = thread as usize;
            if step == Step::Begin {
                if left[i] == 0 {
                    end = end.max(now);
                    continue;
                }
                left[i] -= 1;
                piece[i] = i as u64 * self.each + self.random[i].below(self.each);
            }
            let (at, next) = self.step(now, step, piece[i])?;
            events.push(Reverse((at, thread, next)));
        }
        Ok(end)
    }

    fn step(&mut self, now: Nanos, step: Step, piece: u64) -> Result<(Nanos, Step), DriveError> {
        let n = self.bench.pages;
        let there = &mut self.there[piece as usize];
        let (here, other) = (Lpa(piece * n), Lpa(piece * n + self.half));
        let (src, dst) = if *there { (other, here) } else { (here, other) };
        let begun = if let Step::Write { begun } = step { begun } else { now };
        let last = self.way != Way::ReadWrite || step != Step::Begin;
        if last {
            *there = !*there;
        }
        let (before, after) = self.around(self.way != Way::Remap);
        // A file for each thread; what its offset is costs nothing.
        let (ino, offset) = (1 + piece / self.each, (piece % self.each) as u32);
        let drive = &self.drive;
        let done = match (self.way, step) {
            (Way::Remap, _) => {
                drive.submit(now + before, Command::Vendor(&mut Remap { src, dst, count: n }))?
            }
            (Way::ReadWrite, Step::Begin) => {
                drive.submit(now + before, Command::Read { lpa: src, out: &mut self.page, what: WHAT })?
            }
            (Way::Write, _) | (Way::ReadWrite, Step::Write { .. }) => {
                drive.submit(now + before, Command::Write { lpa: dst, pages: &self.page, what: WHAT })?
            }
            (Way::FsWrite, _) => {
                let (pages, end) = (self.page.to_vec(), FileEnd::WHOLE);
                let command = &mut FsWrite { lpa: dst, pages, ino, offset, end, what: WHAT };
                drive.submit(now + before, Command::Vendor(command))?
            }
        };
        let done = done + after;
        if !last {
            return Ok((done, Step::Write { begun }));
        }
        self.latency.record(done - begun);
        Ok((done, Step::Begin))
    }
}

/// The comparison with the paper's figures beside it.
pub fn table(r: &MoveRecord) -> String {
    let mut out = format!("{}, moves of {} pages\n\n", r.testbed, r.pages);
    let _ = writeln!(
        out,
        "{:<12} {:>7} {:>12} {:>11} {:>11} {:>14} {:>15}",
        "way", "threads", "moves/s", "mean", "p99", "programs/page", "link B/page"
    );
    for m in &r.runs {
        let way = match m.way {
            Way::ReadWrite => "read + write",
            Way::Remap => "remap",
            Way::Write => "write",
            Way::FsWrite => "fs_write",
        };
        let _ = writeln!(
            out,
            "{way:<12} {:>7} {:>12.0} {:>11} {:>11} {:>14.2} {:>15.0}",
            m.threads,
            m.per_s,
            Nanos(m.mean_ns).to_string(),
            Nanos(m.p99_ns).to_string(),
            m.programs_per_page,
            m.link_bytes_per_page
        );
    }
    let _ = writeln!(out, "\n{:<42} {:>8} {:>8}", "PebbleSSD section 6.2, Figure 6", "paper", "ours");
    let _ =
        writeln!(out, "{:<42} {:>8} {:>8.1}", "throughput with four threads, times", 3.7, r.throughput_gain);
    let saved = -100.0 * r.latency_saved;
    let _ = writeln!(out, "{:<42} {:>8} {saved:>8.0}", "latency with one thread, percent", -87);
    out
}

/// Uses of the drive's persistent memory, after the paper's section 6.5.
///
/// # Errors
/// A drive without BAM.
pub fn space(testbed: &str, d: &DriveConfig) -> Result<String, BenchError> {
    let Some(bam) = &d.firmware.bam else {
        return Err(BenchError::Usage(format!(
            "testbed {testbed} has no [drive.firmware.bam]: there is pebblessd"
        )));
    };
    let mut out = String::new();
    let claims = ["35 %", "60 %", "80 %"];
    for ((name, space), claim) in BamSpace::of_the_paper().iter().zip(claims) {
        let _ = writeln!(out, "The paper's {name} firmware, 512 GB (section 6.5 says {claim})\n{space}");
    }
    let pages = 1 << 27;
    let _ = writeln!(out, "Here, remap and fs_write together, 512 GB\n{}", BamSpace::of(bam, pages, pages));
    let here = BamSpace::of(bam, d.pages(), d.flash.geometry.pages());
    let _ = write!(out, "Testbed {testbed}\n{here}");
    Ok(out)
}
