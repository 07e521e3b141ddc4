//! [`Module`]: the time that one DIMM takes for lines, one timeline per direction.
//!
//! ```text
//!   written lines ──latency──> | queue: a few lines | ──> buffer of granules ──> media
//!                              ^ accepted: in the persistence domain once it has a place here
//!                                a place is free when there is less to do than the queue has lines
//!   read lines    <──latency── buffer, or a granule of the media
//! ```
//!
//! A line occupies its direction for 64 B at the DIMM's bandwidth. A granule costs as a whole. Its lines
//! beyond the one that was asked for are paid for at once; lines that it lacks when it is written are paid
//! for then. So random lines reach a fraction of the bandwidth, and lines in order all of it.
//!
//! The bandwidth depends on how many cores read or write here: those whose last access has ended no longer
//! ago than the window. The bandwidth that many writers lose goes into granules that the buffer gave up
//! early; they are counted.
//!
//! Instants are picoseconds here, since a line at 6.6 GB/s takes 9.7 ns. Calls come in time order.
//! It does *not* let reads and writes take from each other, and does not know content.
//!
//! Source: Yang et al., FAST'20, sections 2.1, 4.3, 5.1, 5.3; `config/kinds.rs`.

pub mod buffer;

use crate::config::DimmConfig;
use buffer::{Buffer, Found};
use granary_units::{Bytes, LINE_SIZE, Nanos};

/// An instant, or a span of time, in picoseconds.
pub type Picos = u128;

/// In picoseconds.
pub fn picos(t: Nanos) -> Picos {
    Picos::from(t.0) * 1000
}

/// The first whole nanosecond at which it is there.
pub fn nanos(t: Picos) -> Nanos {
    Nanos(u64::try_from(t.div_ceil(1000)).expect("584 years"))
}

/// Time that a line takes at this bandwidth.
pub fn line_time(bandwidth: Bytes) -> Picos {
    LINE_SIZE as Picos * 1_000_000_000_000 / Picos::from(bandwidth.0)
}

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Past the caches.
    Nt,
    /// Written back by the caches.
    Clwb,
}

/// The configuration in the units of this module.
#[derive(Clone, Debug)]
pub struct Times {
    /// A line that the media have to be asked for.
    pub miss: Picos,
    /// A line that the buffer holds, or that follows the last one.
    pub hit: Picos,
    nt: Picos,
    clwb: Picos,
    /// A line of a core's loads.
    pub core_read: Picos,
    core_nt: Picos,
    core_clwb: Picos,
    read_line: Picos,
    write_line: Picos,
    readers: Vec<u16>,
    nt_writers: Vec<u16>,
    clwb_writers: Vec<u16>,
    window: Picos,
    /// Time of a full queue.
    queue: Picos,
    granule_lines: u64,
}

impl Times {
    /// Of a configuration that is valid.
    pub fn new(c: &DimmConfig) -> Times {
        let granule = Picos::from(c.granule_lines());
        let miss = picos(c.read_random);
        Times {
            miss,
            // In the order of their addresses one line of a granule waits for the media and the others find
            // it in the buffer.
            hit: match granule {
                1 => picos(c.read_sequential),
                n => (n * picos(c.read_sequential) - miss) / (n - 1),
            },
            nt: picos(c.nt_store),
            clwb: picos(c.store_clwb),
            core_read: line_time(c.core_read),
            core_nt: line_time(c.core_nt),
            core_clwb: line_time(c.core_clwb),
            read_line: line_time(c.read_bandwidth),
            write_line: line_time(c.write_bandwidth),
            readers: c.readers.clone(),
            nt_writers: c.nt_writers.clone(),
            clwb_writers: c.clwb_writers.clone(),
            window: picos(c.window),
            queue: line_time(c.write_bandwidth) * c.queue as Picos,
            granule_lines: c.granule_lines(),
        }
    }

    /// From the core to the queue.
    pub fn latency(&self, way: Way) -> Picos {
        match way {
            Way::Nt => self.nt,
            Way::Clwb => self.clwb,
        }
    }

    /// How long a core is busy with a line.
    pub fn core(&self, way: Way) -> Picos {
        match way {
            Way::Nt => self.core_nt,
            Way::Clwb => self.core_clwb,
        }
    }
}

/// Thousandths of the bandwidth that are left with so many users.
fn left(table: &[u16], users: usize) -> u16 {
    table[users.clamp(1, table.len()) - 1]
}

/// One direction: when it is free, and who uses it.
#[derive(Clone, Default)]
struct Direction {
    free: Picos,
    busy: Picos,
    /// Cores, and when the last that they asked for ends.
    users: Vec<(u16, Picos)>,
}

impl Direction {
    /// A core has an access at `now`; returns how many have had one under way within the window.
    fn used(&mut self, core: u16, now: Nanos, window: Picos) -> usize {
        let since = picos(now).saturating_sub(window);
        self.users.retain(|(other, last)| *other != core && *last >= since);
        self.users.push((core, picos(now)));
        self.users.len()
    }

    /// Sets the end of the last core's accesses to the end of all that is reserved.
    fn until_free(&mut self) {
        if let Some((_, last)) = self.users.last_mut() {
            *last = self.free.max(*last);
        }
    }

    /// Reserves `len` from `ready` on, behind everything else; returns when it begins.
    fn reserve(&mut self, ready: Picos, len: Picos) -> Picos {
        let start = ready.max(self.free);
        self.free = start + len;
        self.busy += len;
        start
    }
}

/// One DIMM.
#[derive(Clone)]
pub struct Module {
    read: Direction,
    write: Direction,
    buffer: Buffer,
    /// Thousandths of a byte that are still to be counted as granules written early.
    owed: u64,
    /// Granules written early.
    pub early: u64,
}

impl Module {
    /// Idle, its buffer empty.
    pub fn new(c: &DimmConfig) -> Module {
        Module {
            read: Direction::default(),
            write: Direction::default(),
            buffer: Buffer::new((c.buffer.0 / c.granule.0) as usize, c.granule_lines()),
            owed: 0,
            early: 0,
        }
    }

    /// The buffer and what it counts.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// `core` writes at `now`; returns the thousandths of the bandwidth that are left, and those of one
    /// writer.
    pub fn writes(&mut self, t: &Times, now: Nanos, core: u16, way: Way) -> (u64, u64) {
        let table = if way == Way::Nt { &t.nt_writers } else { &t.clwb_writers };
        let writers = self.write.used(core, now, t.window);
        (u64::from(left(table, writers)), u64::from(table[0]))
    }

    /// Ends the run of lines that the core of the last [`Module::writes`] sent.
    pub fn written(&mut self) {
        self.write.until_free();
    }

    /// A line that leaves its core at `sent`, the first of its run at `first`, `writers` being what
    /// [`Module::writes`] said; returns when the queue has accepted it.
    pub fn write(
        &mut self,
        t: &Times,
        (first, sent): (Picos, Picos),
        way: Way,
        writers: (u64, u64),
        line: u64,
    ) -> Picos {
        let (left, alone) = writers;
        // No more work may wait than lines have a place in the queue.
        let accepted = (sent + t.latency(way)).max(self.write.free.saturating_sub(t.queue));
        let lines = 1 + self.buffer.put(line);
        // A run is reserved in one piece from its first line on, since what its core leaves free between
        // lines is others'.
        self.write
            .reserve(first + t.latency(way), t.write_line * Picos::from(lines * 1000) / Picos::from(left));
        // The cost of many writers is granules that were written before they were full.
        self.owed += lines * LINE_SIZE as u64 * 1000 * alone.saturating_sub(left) / left;
        let granule = t.granule_lines * LINE_SIZE as u64 * 1000;
        self.early += self.owed / granule;
        self.owed %= granule;
        accepted
    }

    /// Lines `first..end` that `core` reads from `now` on, `follows`: right behind the last that it read.
    /// Returns the latency of the first of them and when the DIMM has sent the last.
    pub fn read(
        &mut self,
        t: &Times,
        now: Nanos,
        core: u16,
        first: u64,
        end: u64,
        follows: bool,
    ) -> (Picos, Picos) {
        let left = left(&t.readers, self.read.used(core, now, t.window));
        let line_time = t.read_line * 1000 / Picos::from(left);
        let (mut latency, mut head, mut all) = (0, 0, 0);
        for line in first..end {
            let found = self.buffer.get(line);
            let (wait, lines) = match found {
                Found::Fetched { lines, pushed } => {
                    if pushed > 0 {
                        self.write.reserve(picos(now), t.write_line * Picos::from(pushed));
                    }
                    (if t.granule_lines == 1 && follows { t.hit } else { t.miss }, lines)
                }
                Found::Held { paid } => (t.hit, u64::from(!paid)),
            };
            let time = line_time * Picos::from(lines);
            if line == first {
                (latency, head) = (wait, time);
            }
            all += time;
        }
        let start = self.read.reserve(picos(now), all);
        self.read.until_free();
        (latency, start + latency + all - head)
    }

    /// Writes out what the buffer holds; returns when nothing is under way any more.
    pub fn drain(&mut self, t: &Times, now: Nanos) -> Picos {
        let missing = self.buffer.drain();
        if missing > 0 {
            self.write.reserve(picos(now), t.write_line * Picos::from(missing));
        }
        self.read.free.max(self.write.free)
    }

    /// Forgets what was under way: idle from `at` on.
    pub fn reset(&mut self, at: Nanos) {
        for direction in [&mut self.read, &mut self.write] {
            direction.free = picos(at);
            direction.users.clear();
        }
    }

    /// Time reserved so far: (reads, writes).
    pub fn busy(&self) -> (Picos, Picos) {
        (self.read.busy, self.write.busy)
    }

    /// The part of it that lies after `now`: what is reserved ahead has no gaps but for the way of the first
    /// line.
    pub fn ahead(&self, now: Nanos) -> (Picos, Picos) {
        let ahead = |d: &Direction| d.free.saturating_sub(picos(now)).min(d.busy);
        (ahead(&self.read), ahead(&self.write))
    }
}
