//! A whole drive of a random configuration, driven to its steady state against a plain model, with `check()`
//! on.
//!
//! Flash array and FTL are those of `granary-flash`'s tests; firmware mode, log, transaction log, cache,
//! write buffer and cores are drawn here. The drive is filled, then written four times over by block writes
//! (hot, cold, sequential), stores of single lines with and without transactions, and trims; what it reads
//! back is compared all the time.

use granary_device::vendor::transactions::Commit;
use granary_device::{Command, Drive, DriveError, Structure};
use granary_mssd::{DriveConfig, Mode, Mssd, WriteAck};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::fmt;

#[allow(dead_code)]
#[path = "../../../../granary-flash/tests/it/configs/random.rs"]
mod random;

const WHAT: Structure = Structure::Data;

/// The drive of a seed.
pub fn config(seed: u64) -> DriveConfig {
    let mut rng = Stream::new(seed, "drive firmware");
    let mut among = |low: u64, high: u64| low + rng.below(high - low + 1);
    let mode = [Mode::Log, Mode::Cache][among(0, 1) as usize];
    let mut c = DriveConfig::tiny(mode);
    c.flash = random::flash(seed);
    c.firmware.log_region = Bytes::kib(16 * among(1, 16));
    c.firmware.txlog = Bytes(64 * among(1, 16));
    c.firmware.clean_threshold_permille = [300, 850, 1000][among(0, 2) as usize];
    c.firmware.cache = Bytes::kib(16 * among(1, 32));
    c.firmware.write_buffer = Bytes::kib(8 * among(1, 16));
    c.firmware.cores = among(1, 4) as usize;
    c.firmware.write_ack = [WriteAck::Buffer, WriteAck::Program][among(0, 1) as usize];
    c.validate().expect("a valid drive");
    c
}

/// Counts of events.
#[derive(Default)]
pub struct Seen {
    /// Drives.
    pub drives: u64,
    /// Of them, drives that reached their end of life.
    pub worn_out: u64,
    /// Flash programs.
    pub programs: u64,
    /// Of them, gc's.
    pub copies: u64,
    /// Block erases.
    pub erases: u64,
    /// Pages that log cleaning programmed.
    pub cleanings: u64,
}

impl Seen {
    /// Both together.
    pub fn add(&mut self, more: &Seen) {
        self.drives += more.drives;
        self.worn_out += more.worn_out;
        self.programs += more.programs;
        self.copies += more.copies;
        self.erases += more.erases;
        self.cleanings += more.cleanings;
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} drives ({} to their end of life), {} programs ({} of gc, {} of log cleaning), {} erases",
            self.drives, self.worn_out, self.programs, self.copies, self.cleanings, self.erases
        )
    }
}

struct Rig {
    drive: Mssd,
    config: DriveConfig,
    rng: Stream,
    now: Nanos,
    /// When the last command submitted is complete.
    done: Nanos,
    /// A word for each line of each page.
    model: Vec<[u64; LINES_PER_PAGE]>,
    hot: u64,
    word: u64,
    tx: u32,
}

/// Drives the drive of a seed to its steady state.
///
/// # Panics
/// Where it fails, reads wrong content or contradicts itself.
pub fn steady(seed: u64) -> Seen {
    let config = config(seed);
    let drive = Mssd::new(&config).expect("a valid drive");
    let mut rng = Stream::new(seed, "drive steady");
    let pages = config.pages();
    let hot = 1 + rng.below(pages);
    let model = vec![[0; LINES_PER_PAGE]; pages as usize];
    let (now, done) = (Nanos::ZERO, Nanos::ZERO);
    let mut rig = Rig { drive, config, rng, now, done, model, hot, word: 0, tx: 0 };
    let worn_out = match rig.live() {
        Ok(()) => false,
        // Only drives whose blocks fail may come to this.
        Err(DriveError::ReadOnly(_)) if rig.config.flash.errors.plan().is_some() => true,
        Err(e) => panic!("{e}"),
    };
    rig.check();
    let flash = rig.drive.counters().flash;
    Seen {
        drives: 1,
        worn_out: worn_out as u64,
        programs: flash.total_programs(),
        copies: flash.programs(granary_flash::Cause::Gc),
        erases: flash.erases,
        cleanings: flash.programs(granary_flash::Cause::LogCleaning),
    }
}

impl Rig {
    fn live(&mut self) -> Result<(), DriveError> {
        let pages = self.config.pages();
        let mut filled = 0;
        while filled < pages {
            filled += self.write(filled, 16)?;
        }
        for _ in 0..4 {
            let mut written = 0;
            while written < pages {
                written += self.step()?;
            }
            self.now = self.drive.settle(self.now.max(self.done))?;
            self.check();
        }
        for lpa in 0..pages {
            self.read(lpa)?;
        }
        Ok(())
    }

    fn check(&self) {
        if let Err(lines) = self.drive.check() {
            panic!("{}", lines.join("\n"));
        }
    }

    /// One operation; returns the pages that it wrote.
    fn step(&mut self) -> Result<u64, DriveError> {
        self.now += Nanos(self.rng.below(10_000));
        if self.rng.chance(0.05) {
            self.now = self.now.max(self.done);
        }
        if self.rng.chance(0.001) {
            self.now += Nanos::from_millis(50);
        }
        let within = if self.rng.chance(0.8) { self.hot } else { self.config.pages() };
        let lpa = self.rng.below(within);
        match self.rng.below(20) {
            0..=9 => {
                let most = if self.rng.chance(0.1) { 16 } else { 1 };
                self.write(lpa, most)
            }
            10..=16 => self.store(lpa).map(|()| 1),
            17 => self.trim(lpa).map(|()| 1),
            _ => self.read(lpa).map(|()| 0),
        }
    }

    fn submitted(&mut self, done: Nanos) {
        assert!(done >= self.now, "a command completes after its submission");
        self.done = self.done.max(done);
    }

    fn write(&mut self, lpa: u64, most: u64) -> Result<u64, DriveError> {
        let n = (1 + self.rng.below(most)).min(self.config.pages() - lpa);
        self.word += 1;
        let pages: Vec<Page> = (0..n).map(|i| Page::word(self.word << 8 | i)).collect();
        let done =
            self.drive.submit(self.now, Command::Write { lpa: Lpa(lpa), pages: &pages, what: WHAT })?;
        self.submitted(done);
        for i in 0..n {
            self.model[(lpa + i) as usize] = [self.word << 8 | i; LINES_PER_PAGE];
        }
        Ok(n)
    }

    /// Some lines of a page, in a transaction where there are such.
    fn store(&mut self, lpa: u64) -> Result<(), DriveError> {
        self.now = self.now.max(self.done);
        let in_tx = self.config.firmware.mode == Mode::Log && self.rng.chance(0.5);
        if in_tx {
            self.tx += 1;
        }
        let tx = if in_tx { TxId(self.tx) } else { TxId::NONE };
        let first = self.rng.below(LINES_PER_PAGE as u64) as usize;
        let n = (1 + self.rng.below(4) as usize).min(LINES_PER_PAGE - first);
        self.word += 1;
        let bytes: Vec<u8> = self.word.to_le_bytes().repeat(n * LINE_SIZE / 8);
        let at = ByteAddr(lpa * PAGE_SIZE as u64 + (first * LINE_SIZE) as u64);
        let t = self.drive.store(self.now, at, &bytes, tx, WHAT)?;
        let t = self.drive.flush_lines(t, at, bytes.len())?;
        self.now = self.drive.verify(t)?;
        if in_tx {
            self.now = self.drive.submit(self.now, Command::Vendor(&mut Commit { tx }))?;
        }
        self.model[lpa as usize][first..first + n].fill(self.word);
        Ok(())
    }

    fn trim(&mut self, lpa: u64) -> Result<(), DriveError> {
        let count = (1 + self.rng.below(8)).min(self.config.pages() - lpa);
        let done = self.drive.submit(self.now, Command::Trim { lpa: Lpa(lpa), count })?;
        self.submitted(done);
        self.model[lpa as usize..(lpa + count) as usize].fill([0; LINES_PER_PAGE]);
        Ok(())
    }

    fn read(&mut self, lpa: u64) -> Result<(), DriveError> {
        self.now = self.now.max(self.done);
        let mut out = [Page::ZERO];
        let done = self.drive.submit(self.now, Command::Read { lpa: Lpa(lpa), out: &mut out, what: WHAT })?;
        self.submitted(done);
        let mut bytes = [0; PAGE_SIZE];
        out[0].copy_out(0, &mut bytes);
        for (line, &word) in bytes.chunks_exact(LINE_SIZE).zip(&self.model[lpa as usize]) {
            let same = line.chunks_exact(8).all(|w| w == word.to_le_bytes());
            assert!(same, "page {lpa} reads {line:?} where {word:#x} was written");
        }
        Ok(())
    }
}
