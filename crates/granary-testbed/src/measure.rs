//! A testbed measured by the drive bench, row by row, beside the statements of its paper.
//!
//! ```text
//!   Row: what | paper | ours | ours / paper | the command that measures it
//! ```
//!
//! Each row is a short run of [`Bench`] on a new drive. The drive keeps no host data (the times are the
//! same), and only the part that the run touches is filled. docs/TESTBEDS.md is the output of
//! `granary testbed measure`; tests hold it and the model to the stated values.

mod nvm;
pub mod unaligned;

use crate::error::TestbedError;
use crate::testbed::Testbed;
use granary_bench::BenchError;
use granary_bench::job::{Job, Pattern};
use granary_bench::{Bench, bench::Measured, memory};
use granary_device::Drive;
use granary_sim::rng::Stream;
use granary_units::{Bytes, Lpa, Nanos, PAGE_SIZE, Page};
use nvm::Nvm;
use std::fmt::Write as _;

/// Quantities that a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Capacity,
    LoadDram,
    LoadFlash,
    Store,
    Persist,
    FlashRead,
    FlashProgram,
    Read,
    Write,
    SequentialRead,
    SequentialWrite,
    LargeRead,
    LargeWrite,
    RandomRead,
    RandomWrite,
    PowerOn,
    Unaligned16k,
    Unaligned1m,
    Nvm(Nvm),
}

/// Rows in the order of the table, with their titles.
const ROWS: [(What, &str); 18] = [
    (What::Capacity, "capacity"),
    (What::LoadDram, "64 B load, line in the drive's DRAM"),
    (What::LoadFlash, "64 B load, line in flash"),
    (What::Store, "64 B store (and clwb)"),
    (What::Persist, "64 B store made safe (write-verify read)"),
    (What::FlashRead, "flash page read"),
    (What::FlashProgram, "flash page program"),
    (What::Read, "4 KiB read, alone"),
    (What::Write, "4 KiB write, alone"),
    (What::SequentialRead, "4 KiB sequential reads, depth 64"),
    (What::SequentialWrite, "4 KiB sequential writes, depth 64"),
    (What::LargeRead, "1 MiB sequential reads, depth 8"),
    (What::LargeWrite, "1 MiB sequential writes, depth 8"),
    (What::RandomRead, "4 KiB random reads, depth 256"),
    (What::RandomWrite, "4 KiB random writes, depth 256, no gc"),
    (What::Unaligned16k, "direct write of 16 KiB, unaligned / aligned"),
    (What::Unaligned1m, "direct write of 1 MiB, unaligned / aligned"),
    (What::PowerOn, "power-up: DRAM content loaded"),
];

/// A statement of a paper: row, value in the row's unit, where.
type Stated = (What, f64, &'static str);

const US: f64 = 1e3;
const GB: f64 = 1e9;
/// Table 4's "32 GB" is 2^35 B in the artifact (memmap=32G).
const GIB: f64 = (1u64 << 30) as f64;

/// ByteFS, Tables 1 and 4, section 5.5.
const EMULATOR: &[Stated] = &[
    (What::Capacity, 32.0 * GIB, "Table 4"),
    (What::LoadDram, 4.8 * US, "Table 4"),
    (What::Store, 0.6 * US, "Table 4"),
    (What::FlashRead, 40.0 * US, "Table 4"),
    (What::FlashProgram, 60.0 * US, "Table 4"),
    (What::SequentialRead, 3.5 * GB, "Table 4"),
    (What::SequentialWrite, 2.5 * GB, "Table 4"),
    (What::LargeRead, 3.5 * GB, "Table 4"),
    (What::LargeWrite, 2.5 * GB, "Table 4"),
];

/// ByteFS, Table 4, but for its bandwidths: 8 channels of one way cannot reach them.
const REPRODUCTION: &[Stated] = &[
    (What::Capacity, 32.0 * GIB, "Table 4"),
    (What::LoadDram, 4.8 * US, "Table 4"),
    (What::Store, 0.6 * US, "Table 4"),
    (What::FlashRead, 40.0 * US, "Table 4"),
    (What::FlashProgram, 60.0 * US, "Table 4"),
    (What::PowerOn, 0.9 * 1e9, "section 5.5"),
];

/// ByteFS, Table 1 (measured on the prototype), sections 4.9 and 5.5.
const FPGA: &[Stated] = &[
    (What::Capacity, 1024.0 * GIB, "section 4.9"),
    (What::LoadDram, 4.8 * US, "Table 1"),
    (What::Store, 0.6 * US, "Table 1"),
    (What::SequentialRead, 3.5 * GB, "Table 1"),
    (What::SequentialWrite, 2.5 * GB, "Table 1"),
    (What::PowerOn, 0.9 * 1e9, "section 5.5"),
];

/// ByteFS, section 5.6 and Figure 13 "3/80*"; the rest is the emulator's.
const CXL: &[Stated] = &[
    (What::Capacity, 32.0 * GIB, "Table 4"),
    (What::LoadDram, 175.0, "section 5.6"),
    (What::Store, 175.0, "section 5.6"),
    (What::FlashRead, 3.0 * US, "Figure 13"),
    (What::FlashProgram, 80.0 * US, "Figure 13"),
    (What::SequentialRead, 3.5 * GB, "Table 4"),
    (What::SequentialWrite, 2.5 * GB, "Table 4"),
    (What::LargeRead, 3.5 * GB, "Table 4"),
    (What::LargeWrite, 2.5 * GB, "Table 4"),
];

/// PebbleSSD, section 4.1.
const PEBBLESSD: &[Stated] = &[(What::Capacity, 375.0 * GB, "section 4.1")];

/// OrchFS's talk, "Experimental Setup", Figure 3; NVM: Izraelevitz et al. 2019, Yang et al. FAST'20 Figure 2.
const ORCHFS: &[Stated] = &[
    (What::Capacity, 3840.0 * GB, "talk"),
    (What::LargeRead, 6.8 * GB, "talk"),
    (What::LargeWrite, 4.2 * GB, "talk"),
    (What::Unaligned16k, 10.71, "talk, Figure 3"),
    (What::Unaligned1m, 1.85, "talk, Figure 3"),
    (What::Nvm(Nvm::Capacity), 128.0 * GB, "talk"),
    (What::Nvm(Nvm::LoadRandom), 305.0, "Yang"),
    (What::Nvm(Nvm::LoadSequential), 169.0, "Yang"),
    (What::Nvm(Nvm::Streamed), 90.0, "Yang"),
    (What::Nvm(Nvm::Stored), 62.0, "Yang"),
    (What::Nvm(Nvm::Read), 6.6 * GB, "talk"),
    (What::Nvm(Nvm::Write), 2.3 * GB, "talk"),
];

/// The same DIMM beside a PM1743; its rates are those of notes of the paper.
const ORCHFS_PCIE5: &[Stated] = &[
    (What::Capacity, 3840.0 * GB, "talk"),
    (What::LargeRead, 14.0 * GB, "paper"),
    (What::LargeWrite, 6.0 * GB, "paper"),
    (What::Nvm(Nvm::Read), 6.6 * GB, "talk"),
    (What::Nvm(Nvm::Write), 2.3 * GB, "talk"),
];

/// SPFS's talk; data sheet of the 860 EVO; two of the DIMMs above.
const SPFS: &[Stated] = &[
    (What::Capacity, 2000.0 * GB, "talk"),
    (What::LargeRead, 0.55 * GB, "data sheet"),
    (What::LargeWrite, 0.52 * GB, "data sheet"),
    (What::RandomRead, 98_000.0 * 4096.0, "data sheet"),
    (What::Nvm(Nvm::LoadRandom), 305.0, "Yang"),
    (What::Nvm(Nvm::LoadSequential), 169.0, "Yang"),
];

/// SPFS's talk; data sheet of the 970 PRO; DRAM of Yang et al. Figure 2.
const SPFS_NVDIMM: &[Stated] = &[
    (What::Capacity, 512.0 * GB, "talk"),
    (What::LargeRead, 3.5 * GB, "data sheet"),
    (What::LargeWrite, 2.3 * GB, "data sheet"),
    (What::Nvm(Nvm::Capacity), 16.0 * GIB, "talk"),
    (What::Nvm(Nvm::LoadRandom), 101.0, "Yang"),
    (What::Nvm(Nvm::LoadSequential), 81.0, "Yang"),
    (What::Nvm(Nvm::Streamed), 87.0, "Yang"),
    (What::Nvm(Nvm::Stored), 57.0, "Yang"),
];

/// DevFS section 5.1; ByteFS Table 1 for DRAM, of which the paper states no figure.
const DEVFS: &[Stated] = &[
    (What::Nvm(Nvm::Capacity), 60.0 * GIB, "section 5.1"),
    (What::Nvm(Nvm::LoadRandom), 100.0, "ByteFS Table 1"),
];

fn stated(testbed: &str) -> &'static [Stated] {
    match testbed {
        "bytefs-emulator" => EMULATOR,
        "bytefs-reproduction" => REPRODUCTION,
        "bytefs-fpga" => FPGA,
        "cxl" => CXL,
        "pebblessd" => PEBBLESSD,
        "orchfs" => ORCHFS,
        "orchfs-pcie5" => ORCHFS_PCIE5,
        "spfs" => SPFS,
        "spfs-nvdimm" => SPFS_NVDIMM,
        "devfs" => DEVFS,
        _ => &[],
    }
}

impl What {
    fn show(self, v: f64) -> String {
        match self {
            What::Capacity | What::Nvm(Nvm::Capacity) => format!("{:.1} GB", v / GB),
            What::Unaligned16k | What::Unaligned1m => format!("{v:.2} x"),
            What::Nvm(_) if !self.is_rate() => format!("{v:.0}ns"),
            _ if self.is_rate() => format!("{:.2} GB/s", v / GB),
            _ => Nanos(v.round() as u64).to_string(),
        }
    }

    fn is_rate(self) -> bool {
        use What::*;
        if let Nvm(nvm) = self {
            return nvm.is_rate();
        }
        matches!(self, SequentialRead | SequentialWrite | LargeRead | LargeWrite | RandomRead | RandomWrite)
    }

    /// How far from what is stated ours may be: bandwidths include the first and last command of a short run,
    /// all else is exact; but for figures that several unpublished times together decide.
    #[cfg(test)]
    fn tolerance(self) -> f64 {
        match self {
            What::Unaligned1m => 0.2,
            What::Unaligned16k | What::Nvm(_) => 0.05,
            _ if self.is_rate() => 0.03,
            _ => 0.005,
        }
    }

    /// Whether a testbed has what the row is of.
    fn applies(self, t: &Testbed) -> bool {
        use What::*;
        match (self, &t.drive) {
            (Nvm(_), _) => t.device.nvm.is_some(),
            (_, None) => false,
            (LoadDram | LoadFlash | Store | Persist, Some(ssd)) => ssd.window,
            (Unaligned16k | Unaligned1m, Some(ssd)) => ssd.flash.unit_pages() > 1,
            _ => true,
        }
    }

    /// The options of the run that measures it: rw, bs, depth, accesses, KiB touched, warm.
    fn run(self) -> Option<(&'static str, u64, u32, u64, u64, bool)> {
        use What::*;
        const K: u64 = 1 << 10;
        const GIB: u64 = 1 << 20;
        Some(match self {
            Capacity | PowerOn | Unaligned16k | Unaligned1m | Nvm(_) => return None,
            LoadDram => ("randload", 64, 1, 10_000, 16, true),
            LoadFlash => ("randload", 64, 1, 10_000, GIB, false),
            Store => ("randstore", 64, 1, 10_000, 16, false),
            Persist => ("randpersist", 64, 1, 10_000, 16, false),
            FlashRead | Read => ("randread", 4 * K, 1, 10_000, GIB, false),
            FlashProgram | Write => ("randwrite", 4 * K, 1, 10_000, GIB, false),
            SequentialRead => ("read", 4 * K, 64, 100_000, GIB, false),
            SequentialWrite => ("write", 4 * K, 64, 100_000, GIB, false),
            LargeRead => ("read", K * K, 8, 1000, GIB, false),
            LargeWrite => ("write", K * K, 8, 1000, GIB, false),
            RandomRead => ("randread", 4 * K, 256, 200_000, GIB, false),
            RandomWrite => ("randwrite", 4 * K, 256, 200_000, GIB, false),
        })
    }
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The measured quantity.
    pub title: &'static str,
    what: What,
    /// The paper's value, and its place there.
    pub paper: Option<(f64, &'static str)>,
    /// Our value: ns, bytes per second or bytes.
    pub ours: f64,
    /// The command that measures it.
    pub command: String,
}

impl Row {
    /// Ours over the paper's.
    pub fn ratio(&self) -> Option<f64> {
        self.paper.map(|(v, _)| self.ours / v)
    }

    /// Ours, with its unit.
    pub fn shown(&self) -> String {
        self.what.show(self.ours)
    }
}

/// Measures a testbed.
///
/// # Errors
/// Those of loading it and of its drive.
pub fn measure(name: &str) -> Result<Vec<Row>, TestbedError> {
    let testbed = Testbed::load(name, &[])?;
    let stated = stated(&testbed.name);
    let mut last = None;
    let nvm = Nvm::ROWS.iter().map(|&(nvm, title)| (What::Nvm(nvm), title));
    let rows = ROWS.iter().copied().chain(nvm);
    rows.filter(|(what, _)| what.applies(&testbed))
        .map(|(what, title)| {
            let paper = stated.iter().find(|(w, ..)| *w == what).map(|&(_, v, source)| (v, source));
            let (ours, command) = value(what, &testbed, name, &mut last)?;
            Ok(Row { title, what, paper, ours, command })
        })
        .collect()
}

/// Runs of one table: two rows may look at the same one.
type Last = Option<(String, Measured)>;

fn value(what: What, testbed: &Testbed, name: &str, last: &mut Last) -> Result<(f64, String), TestbedError> {
    let drive = |e: &dyn std::fmt::Display| -> TestbedError { BenchError::run("drive", "measure", e).into() };
    let Some((rw, bs, depth, accesses, kib, warm)) = what.run() else {
        return Ok(match what {
            What::Nvm(nvm) => {
                let config = testbed.device.nvm.as_ref().ok_or_else(|| drive(&"there is no NVM"))?;
                (nvm.measure(&testbed.name, config)?, "one call after the other".to_owned())
            }
            What::Unaligned16k => (unaligned::ratio(testbed, 16 << 10)?, "reads, copy, write".to_owned()),
            What::Unaligned1m => (unaligned::ratio(testbed, 1 << 20)?, "reads, copy, write".to_owned()),
            What::Capacity => {
                let bytes = testbed.ssd()?.pages() as f64 * PAGE_SIZE as f64;
                (bytes, format!("granary testbed check {name}"))
            }
            _ => {
                let d = memory::ssd(&testbed.name, testbed.ssd()?, memory::Use::EMPTY)?;
                d.power_fail(Nanos::ZERO, &mut Stream::new(1, "measure"));
                let ready = d.power_on(Nanos::ZERO).map_err(|e| drive(&e))?;
                (ready.0 as f64, "a power failure".to_owned())
            }
        });
    };
    let size = Bytes::kib(kib);
    let mut command =
        format!("--rw {rw} --bs {} --iodepth {depth} --accesses {accesses} --size {size}", Bytes(bs));
    if warm {
        command += " --warm";
    }
    if last.as_ref().is_none_or(|(c, _)| *c != command) {
        let d = memory::ssd(&testbed.name, testbed.ssd()?, memory::Use::EMPTY)?;
        d.fill(Lpa(0), size.0 / PAGE_SIZE as u64, |_| Page::ZERO).map_err(|e| drive(&e))?;
        let jobs = [Job {
            name: rw.to_owned(),
            pattern: Pattern::named(rw).expect("one of the names"),
            depth,
            size: Some(size.into()),
            accesses: Some(accesses),
            ..Job::default().with_block_size(Bytes(bs))
        }];
        let measured = Bench { warm, ..Bench::of(&d, &jobs) }.run(|_, _| {})?;
        *last = Some((command.clone(), measured));
    }
    let m = &last.as_ref().expect("measured just now").1;
    let (job, both) = (&m.jobs[0], m.run.plus(&m.drain));
    let per = |n: u64| both.busy.planes.0 as f64 / n.max(1) as f64;
    let ours = match what {
        What::FlashRead => per(both.flash.total_reads()),
        What::FlashProgram => per(both.flash.total_programs()),
        _ if what.is_rate() => (job.read_bytes + job.write_bytes) as f64 / job.time.as_secs_f64(),
        _ => job.latency.mean().0 as f64,
    };
    Ok((ours, command))
}

/// The rows as a table in Markdown.
pub fn markdown(rows: &[Row]) -> String {
    let mut out =
        "| | paper | ours | ours / paper | `granary drive bench` |\n|---|---|---|---|---|\n".to_owned();
    for row in rows {
        let paper = match row.paper {
            Some((v, source)) => format!("{} ({source})", row.what.show(v)),
            None => "not stated".to_owned(),
        };
        let ratio = row.ratio().map_or("-".to_owned(), |r| format!("{r:.3}"));
        let _ = writeln!(out, "| {} | {paper} | {} | {ratio} | {} |", row.title, row.shown(), row.command);
    }
    out
}

#[cfg(test)]
mod tests;
