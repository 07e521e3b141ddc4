//! [`Job`]: one kind of access to the drive, by one or more clients that keep a number of them in flight.
//!
//! The words are fio's where fio has them (`rw`, `bs`, `iodepth`, `numjobs`, `rwmixread`, `norandommap`); `load`, `store` and
//! `persist` are the byte interface's.

use crate::error::LabError;
use granary_units::{Bytes, LINE_SIZE, Nanos, PAGE_SIZE};
use serde::Serialize;

/// How the drive is accessed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// NVMe read.
    Read,
    /// NVMe write.
    Write,
    /// Non-posted read through the byte window.
    Load,
    /// Store and write-back of its lines (clwb): done when the CPU goes on.
    Store,
    /// The same and a write-verify read: done when the data is safe.
    Persist,
}

impl Access {
    /// Through the byte window.
    pub fn is_byte(self) -> bool {
        matches!(self, Access::Load | Access::Store | Access::Persist)
    }

    /// Changes the drive's content.
    pub fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Store | Access::Persist)
    }
}

/// What a job does: fio's `rw`, and the same over the byte window.
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
        "randread",
        "randwrite",
        "randrw",
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

    /// Its name.
    pub fn name(&self) -> String {
        let kind = match (self.first, self.second) {
            (Access::Read, Access::Write) => "rw",
            (Access::Read, _) => "read",
            (Access::Write, _) => "write",
            (Access::Load, _) => "load",
            (Access::Store, _) => "store",
            (Access::Persist, _) => "persist",
        };
        format!("{}{kind}", if self.random { "rand" } else { "" })
    }
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

    /// The line to look at for what is wrong with `keys`: of the one of them that was given last, else the section's.
    fn of(&self, keys: &[&str]) -> usize {
        let given = self.keys.iter().filter(|(k, _)| keys.contains(k)).map(|(_, line)| *line);
        given.max().unwrap_or(self.section)
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name in reports.
    pub name: String,
    /// What it does.
    pub pattern: Pattern,
    /// Bytes of one access: whole pages for block commands, 1 B to 1 MiB for the byte window.
    pub block_size: Bytes,
    /// Accesses that each client keeps in flight.
    pub depth: u32,
    /// Clients that do the same, each with a random stream of its own.
    pub clients: u32,
    /// Where the part of the drive begins that the job touches.
    pub offset: Bytes,
    /// Its size; each client accesses so many bytes unless stopped earlier. `None`: to the drive's end.
    pub size: Option<Bytes>,
    /// Share of reads in a mixed pattern, percent.
    pub read_percent: u32,
    /// Random accesses touch every block once; otherwise each is drawn anew.
    pub random_map: bool,
    /// Stop issuing after this much virtual time.
    pub runtime: Option<Nanos>,
    /// Only `runtime` ends the job: the blocks come round again.
    pub time_based: bool,
    /// Stop after so many accesses of each client; drawn round the job's part of the drive again where that is smaller.
    pub accesses: Option<u64>,
    /// Where it stands, of a job file.
    pub lines: Option<Lines>,
}

impl Default for Job {
    fn default() -> Job {
        Job {
            name: "job".to_owned(),
            pattern: Pattern { first: Access::Read, second: Access::Read, random: false },
            block_size: Bytes(PAGE_SIZE as u64),
            depth: 1,
            clients: 1,
            offset: Bytes::ZERO,
            size: None,
            read_percent: 50,
            random_map: true,
            runtime: None,
            time_based: false,
            accesses: None,
            lines: None,
        }
    }
}

impl Job {
    /// Size of the part of a drive of `capacity` bytes that the job touches.
    ///
    /// # Errors
    /// What does not fit, and what would; of a job file with the line.
    pub fn check(&self, capacity: u64) -> Result<u64, LabError> {
        let bad = |keys: &[&str], message: String| {
            let job = self.name.clone();
            Err(match &self.lines {
                None => LabError::BadJob { job, message },
                Some(lines) => LabError::BadJobFile {
                    file: lines.file.clone(),
                    line: lines.of(keys),
                    message: format!("job {job}: {message}"),
                },
            })
        };
        let (page, byte) = (PAGE_SIZE as u64, self.pattern.first.is_byte());
        let bs = self.block_size.0;
        if !byte && (bs == 0 || !bs.is_multiple_of(page) || !self.offset.0.is_multiple_of(page)) {
            let at_fault = if bs == 0 || !bs.is_multiple_of(page) { "bs" } else { "offset" };
            return bad(
                &[at_fault],
                format!(
                    "block commands move whole 4 KiB pages, not {} at {}: take a multiple, or load, store or persist",
                    self.block_size, self.offset
                ),
            );
        }
        if byte && (bs == 0 || bs > 1 << 20) {
            let message = format!("the byte window takes 1 B to 1 MiB at a time, not {}", self.block_size);
            return bad(&["bs"], message);
        }
        if byte && self.depth > 1 && self.pattern.first != Access::Load {
            let message = "a CPU has one store under way: use numjobs instead of iodepth";
            return bad(&["iodepth"], message.to_owned());
        }
        if self.depth == 0 || self.clients == 0 || self.read_percent > 100 {
            let message = "iodepth and numjobs are at least 1, rwmixread at most 100";
            return bad(&["iodepth", "numjobs", "rwmixread"], message.to_owned());
        }
        if self.accesses == Some(0) || self.runtime == Some(Nanos::ZERO) {
            let message = "accesses and runtime are at least 1: with 0 nothing is measured; leave them out for one access of \
                           each block";
            return bad(&["runtime"], message.to_owned());
        }
        if self.time_based && self.runtime.is_none() {
            let message = "time_based needs a runtime: nothing else would end the job";
            return bad(&["time_based"], message.to_owned());
        }
        let end = self.size.map_or(capacity, |s| self.offset.0.saturating_add(s.0));
        let room = end.checked_sub(self.offset.0).filter(|room| end <= capacity && *room >= bs);
        match (room, self.size) {
            (Some(room), _) => Ok(room),
            (None, Some(size)) => bad(
                &["offset", "size", "bs"],
                format!(
                    "offset {} and size {size} do not fit: the drive has {}, one access takes {}",
                    self.offset,
                    Bytes(capacity),
                    self.block_size
                ),
            ),
            (None, None) => bad(
                &["offset", "bs"],
                format!(
                    "offset {} leaves no room for an access of {}: the drive has {}",
                    self.offset,
                    self.block_size,
                    Bytes(capacity)
                ),
            ),
        }
    }

    /// Accesses start at multiples of this, from `offset` on: a small store never straddles lines.
    pub fn stride(&self) -> u64 {
        let line = LINE_SIZE as u64;
        if self.pattern.first.is_byte() {
            self.block_size.0.next_multiple_of(line.min(self.block_size.0.next_power_of_two()))
        } else {
            self.block_size.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_has_its_name() {
        for name in Pattern::NAMES {
            assert_eq!(&Pattern::named(name).expect("known").name(), name);
        }
        assert_eq!(Pattern::named("readwrite"), Pattern::named("rw"));
        assert_eq!(Pattern::named("trim"), None);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let job = Job { size: Some(Bytes::mib(1)), ..Job::default() };
        assert_eq!(job.check(1 << 20).expect("fits"), 1 << 20);
        let why = |job: Job| job.check(1 << 20).expect_err("refused").to_string();
        assert!(why(Job { block_size: Bytes(512), ..job.clone() }).contains("whole 4 KiB pages"));
        assert!(why(Job { offset: Bytes::kib(4), ..job.clone() }).contains("do not fit"));
        assert!(why(Job { depth: 0, ..job.clone() }).contains("iodepth"));
        assert!(why(Job { accesses: Some(0), ..job.clone() }).contains("nothing is measured"));
        assert!(why(Job { runtime: Some(Nanos::ZERO), ..job.clone() }).contains("nothing is measured"));
        assert!(why(Job { time_based: true, ..job.clone() }).contains("needs a runtime"));
        let beyond = why(Job { offset: Bytes::mib(2), size: None, ..job.clone() });
        assert!(beyond.contains("offset 2MiB leaves no room") && !beyond.contains("size"), "{beyond}");
        let store = Pattern::named("store").expect("known");
        assert!(why(Job { pattern: store, depth: 2, ..job }).contains("numjobs"));
    }
}
