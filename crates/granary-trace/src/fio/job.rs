//! [`Job`]: one kind of access, by one or more clients that keep a number of them in flight.
//!
//! The words are fio's where fio has them (`rw`, `bs`, `iodepth`, `numjobs`, `rwmixread`, `norandommap`);
//! `load`, `store` and `persist` are those of a byte interface.

use super::mistakes::Mistake;
use granary_units::{Bytes, LINE_SIZE, Nanos};

/// How storage is accessed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read of blocks.
    Read,
    /// Write of blocks.
    Write,
    /// Blocks are no longer needed.
    Trim,
    /// Read through a byte interface.
    Load,
    /// Store and write-back of its lines (clwb): done when the CPU goes on.
    Store,
    /// The same and a write-verify read: done when the data is safe.
    Persist,
}

impl Access {
    /// Through a byte interface.
    pub fn is_byte(self) -> bool {
        matches!(self, Access::Load | Access::Store | Access::Persist)
    }

    /// Reads content.
    pub fn reads(self) -> bool {
        matches!(self, Access::Read | Access::Load)
    }

    /// Writes content.
    pub fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Store | Access::Persist)
    }

    /// fio's direction: 0 reads, 1 writes, 2 trims.
    pub fn direction(self) -> usize {
        match self {
            a if a.reads() => 0,
            Access::Trim => 2,
            _ => 1,
        }
    }
}

/// Pattern of a job's accesses: fio's `rw`, and the same over a byte interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Access in `read_percent` of the cases.
    pub first: Access,
    /// Access otherwise.
    pub second: Access,
    /// In random order.
    pub random: bool,
}

impl Pattern {
    /// All names.
    pub const NAMES: &[&str] = &[
        "read",
        "write",
        "rw",
        "trim",
        "randread",
        "randwrite",
        "randrw",
        "randtrim",
        "load",
        "store",
        "persist",
        "randload",
        "randstore",
        "randpersist",
    ];

    /// The pattern of this name.
    pub fn named(name: &str) -> Option<Pattern> {
        let name = if name == "readwrite" { "rw" } else { name };
        if !Pattern::NAMES.contains(&name) {
            return None;
        }
        let (random, kind) = match name.strip_prefix("rand") {
            Some(kind) => (true, kind),
            None => (false, name),
        };
        let both = |a| (a, a);
        let (first, second) = match kind {
            "read" => both(Access::Read),
            "write" => both(Access::Write),
            "trim" => both(Access::Trim),
            "rw" => (Access::Read, Access::Write),
            "load" => both(Access::Load),
            "store" => both(Access::Store),
            _ => both(Access::Persist),
        };
        Some(Pattern { first, second, random })
    }

    /// Reads and writes.
    pub fn is_mixed(&self) -> bool {
        self.first != self.second
    }

    /// Its kinds of accesses, each once.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        [Some(self.first), self.is_mixed().then_some(self.second)].into_iter().flatten()
    }

    /// Its name.
    pub fn name(&self) -> String {
        let kind = match (self.first, self.second) {
            (Access::Read, Access::Write) => "rw",
            (Access::Read, _) => "read",
            (Access::Write, _) => "write",
            (Access::Trim, _) => "trim",
            (Access::Load, _) => "load",
            (Access::Store, _) => "store",
            (Access::Persist, _) => "persist",
        };
        format!("{}{kind}", if self.random { "rand" } else { "" })
    }
}

/// How many bytes one access takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Always so many.
    Fixed(Bytes),
    /// A multiple of the first up to the second, all equally often (`bsrange`).
    Range(Bytes, Bytes),
    /// Any number of bytes between these, all equally often (`bsrange` with `bs_unaligned`).
    Between(Bytes, Bytes),
    /// Each of these in so many of a hundred cases (`bssplit`); the shares add up to 100, sizes ascend.
    Split(Vec<(Bytes, u32)>),
}

impl Blocks {
    /// The smallest.
    pub fn least(&self) -> u64 {
        match self {
            Blocks::Fixed(b) | Blocks::Range(b, _) | Blocks::Between(b, _) => b.0,
            Blocks::Split(all) => all.iter().map(|(b, _)| b.0).min().unwrap_or(0),
        }
    }

    /// The largest.
    pub fn most(&self) -> u64 {
        match self {
            Blocks::Fixed(b) | Blocks::Range(_, b) | Blocks::Between(_, b) => b.0,
            Blocks::Split(all) => all.iter().map(|(b, _)| b.0).max().unwrap_or(0),
        }
    }

    /// All have one size.
    pub fn is_fixed(&self) -> bool {
        self.least() == self.most()
    }

    /// The sizes that are stated.
    pub fn sizes(&self) -> Vec<u64> {
        match self {
            Blocks::Fixed(b) => vec![b.0],
            Blocks::Range(a, b) | Blocks::Between(a, b) => vec![a.0, b.0],
            Blocks::Split(all) => all.iter().map(|(b, _)| b.0).collect(),
        }
    }

    /// One of them; `below(n)` draws a number below `n`.
    pub fn draw(&self, mut below: impl FnMut(u64) -> u64) -> u64 {
        match self {
            Blocks::Fixed(b) => b.0,
            Blocks::Range(a, b) => a.0 * (1 + below((b.0 / a.0).max(1))),
            Blocks::Between(a, b) => a.0 + below(b.0.saturating_sub(a.0) + 1),
            Blocks::Split(all) => {
                let mut at = below(100) as u32;
                for (size, share) in all {
                    if at < *share {
                        return size.0;
                    }
                    at -= share;
                }
                self.most()
            }
        }
    }
}

/// The part of a drive or file that a job touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins, bytes.
    pub offset: u64,
    /// Where that of the next client begins, from there.
    pub increment: u64,
    /// Its size, bytes.
    pub size: u64,
}

/// Accesses of a job of one block size start at multiples of this, from `offset` on: a small store never
/// straddles lines.
pub fn stride(job: &Job) -> u64 {
    let (line, bs) = (LINE_SIZE as u64, job.most());
    if job.pattern.first.is_byte() { bs.next_multiple_of(line.min(bs.next_power_of_two())) } else { bs }
}

/// A value for reads, one for writes, one for trims.
pub type PerDirection<T> = [T; 3];

/// A size, or a part of what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes.
    Bytes(Bytes),
    /// So many hundredths of the whole.
    Percent(u32),
}

impl Amount {
    /// In bytes, where the whole has `whole`.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Bytes(b) => b.0,
            Amount::Percent(p) => (u128::from(whole) * u128::from(p) / 100) as u64,
        }
    }
}

impl From<Bytes> for Amount {
    fn from(bytes: Bytes) -> Amount {
        Amount::Bytes(bytes)
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Amount::Bytes(b) => b.fmt(f),
            Amount::Percent(p) => write!(f, "{p}%"),
        }
    }
}

/// An option as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Its line, from 1.
    pub line: usize,
}

/// Where a job's settings stand in a job file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The file.
    pub file: String,
    /// The line of its section.
    pub section: usize,
    /// Each key that was given, also in `[global]`, and the line of its last value.
    pub keys: Vec<(&'static str, usize)>,
}

impl Lines {
    /// Notes that `key` stands in this line.
    pub fn note(&mut self, key: &'static str, line: usize) {
        self.keys.retain(|(k, _)| *k != key);
        self.keys.push((key, line));
    }

    /// The line to look at for what is wrong with `keys`: of the one of them that was given last, else the
    /// section's.
    pub fn of(&self, keys: &[&str]) -> usize {
        let given = self.keys.iter().filter(|(k, _)| keys.contains(k)).map(|(_, line)| *line);
        given.max().unwrap_or(self.section)
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name in reports.
    pub name: String,
    /// Pattern of its accesses.
    pub pattern: Pattern,
    /// Bytes of one access.
    pub blocks: PerDirection<Blocks>,
    /// Accesses that each client keeps in flight; one where the engine is `synchronous`.
    pub depth: u32,
    /// The engine has one access under way, whatever the depth.
    pub synchronous: bool,
    /// The engine reads and writes a mapping (`mmap`).
    pub mapped: bool,
    /// Clients that do the same, each with a random stream of its own.
    pub clients: u32,
    /// Where the part begins that the job touches.
    pub offset: Amount,
    /// The n-th client, from 0, begins n times this further on.
    pub offset_increment: Amount,
    /// Size of that part; each client accesses so many bytes unless stopped earlier. `None`: to the end.
    pub size: Option<Amount>,
    /// Bytes that each client accesses, where that is not `size`.
    pub io_size: Option<Amount>,
    /// Share of reads in a mixed pattern, percent.
    pub read_percent: u32,
    /// Random accesses touch every block once; otherwise each is drawn anew.
    pub random_map: bool,
    /// Random accesses begin at multiples of this, and each place is drawn anew (`blockalign`). `None`: of
    /// the smallest block.
    pub align: Option<u64>,
    /// `bsrange` means any number of bytes between its sizes, not multiples of the smaller one
    /// (`bs_unaligned`).
    pub unaligned: bool,
    /// Stop issuing after this much time.
    pub runtime: Option<Nanos>,
    /// Only `runtime` ends the job: the blocks come round again.
    pub time_based: bool,
    /// Stop after so many accesses of each client; drawn round the job's part again where that is smaller.
    pub accesses: Option<u64>,
    /// At most so many accesses of each client (`number_ios`).
    pub number_ios: Option<u64>,
    /// The whole is done so many times.
    pub loops: u64,
    /// Begins when all jobs before it have ended.
    pub stonewall: bool,
    /// Begins so much later: drawn between these for each client.
    pub start_delay: (Nanos, Nanos),
    /// For so long nothing is counted.
    pub ramp: Nanos,
    /// Bytes a second of each client at most.
    pub rate: PerDirection<Option<u64>>,
    /// Accesses a second of each client at most; in bytes, of the smallest block.
    pub rate_iops: PerDirection<Option<u64>>,
    /// Each client waits so long when `think_blocks` accesses are done.
    pub think: Nanos,
    /// After so many.
    pub think_blocks: u64,
    /// Each client flushes after so many writes; 0: never.
    pub flush_every: u64,
    /// That flush is an `fdatasync`.
    pub flush_data_only: bool,
    /// Options that matter where the storage is files (`filename`, `nrfiles`, ...), as they were given.
    pub other: Vec<Setting>,
    /// Where it stands, of a job file.
    pub lines: Option<Lines>,
}

impl Default for Job {
    fn default() -> Job {
        let fixed = Blocks::Fixed(Bytes(4096));
        Job {
            name: "job".to_owned(),
            pattern: Pattern { first: Access::Read, second: Access::Read, random: false },
            blocks: [fixed.clone(), fixed.clone(), fixed],
            depth: 1,
            synchronous: false,
            mapped: false,
            clients: 1,
            offset: Amount::Bytes(Bytes::ZERO),
            offset_increment: Amount::Bytes(Bytes::ZERO),
            size: None,
            io_size: None,
            read_percent: 50,
            random_map: true,
            align: None,
            unaligned: false,
            runtime: None,
            time_based: false,
            accesses: None,
            number_ios: None,
            loops: 1,
            stonewall: false,
            start_delay: (Nanos::ZERO, Nanos::ZERO),
            ramp: Nanos::ZERO,
            rate: [None; 3],
            rate_iops: [None; 3],
            think: Nanos::ZERO,
            think_blocks: 1,
            flush_every: 0,
            flush_data_only: false,
            other: Vec::new(),
            lines: None,
        }
    }
}

impl Job {
    /// The same with accesses of this size in all directions.
    #[must_use]
    pub fn with_block_size(self, size: Bytes) -> Job {
        let fixed = Blocks::Fixed(size);
        Job { blocks: [fixed.clone(), fixed.clone(), fixed], ..self }
    }

    /// Accesses that each client really keeps in flight.
    pub fn in_flight(&self) -> u32 {
        if self.synchronous { 1 } else { self.depth }
    }

    /// Sizes of what `access` moves.
    pub fn blocks_of(&self, access: Access) -> &Blocks {
        &self.blocks[access.direction()]
    }

    /// The smallest access.
    pub fn least(&self) -> u64 {
        self.pattern.accesses().map(|a| self.blocks_of(a).least()).min().unwrap_or(0)
    }

    /// The largest access.
    pub fn most(&self) -> u64 {
        self.pattern.accesses().map(|a| self.blocks_of(a).most()).max().unwrap_or(0)
    }

    /// Bytes a second that `access` may move, where that is limited.
    pub fn bytes_per_s(&self, access: Access) -> Option<u64> {
        let d = access.direction();
        self.rate[d].or_else(|| self.rate_iops[d].map(|n| n.saturating_mul(self.blocks[d].least())))
    }

    /// A mistake in the options `keys` of this job.
    pub fn mistake(&self, keys: &[&str], message: impl std::fmt::Display) -> Mistake {
        let line = self.lines.as_ref().map_or(0, |lines| lines.of(keys));
        Mistake { line, message: format!("job {}: {message}", self.name) }
    }
}
