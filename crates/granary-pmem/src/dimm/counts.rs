//! Counters, and the check that their sums balance.

use super::state::DimmState;
use crate::counters::DimmCounters;
use crate::medium::Medium;
use crate::module::{Module, Picos, nanos};
use granary_device::{BusyTime, DriveCounters, LinkTraffic};
use granary_units::{LINE_SIZE, Nanos};

impl<M: Medium> DimmState<M> {
    pub fn traffic(&self) -> LinkTraffic {
        self.traffic
    }

    pub fn counters(&self) -> DimmCounters {
        self.modules.iter().fold(self.counters, |sum, module| {
            let buffer = module.buffer();
            DimmCounters {
                buffer_hits: sum.buffer_hits + buffer.hits,
                combined: sum.combined + buffer.combined,
                left: sum.left + buffer.left,
                media_reads: sum.media_reads + buffer.reads,
                media_writes: sum.media_writes + buffer.writes + module.early,
                early: sum.early + module.early,
                ..sum
            }
        })
    }

    pub fn drive_counters(&self) -> DriveCounters {
        self.counters_but(|_| (0, 0))
    }

    pub fn drive_counters_at(&self, now: Nanos) -> DriveCounters {
        self.counters_but(|module| module.ahead(now))
    }

    fn counters_but(&self, ahead: impl Fn(&Module) -> (Picos, Picos)) -> DriveCounters {
        let (mut reads, mut writes) = (0, 0);
        for module in &self.modules {
            let ((r, w), (r_ahead, w_ahead)) = (module.busy(), ahead(module));
            (reads, writes) = (reads + r - r_ahead, writes + w - w_ahead);
        }
        DriveCounters {
            link: self.traffic,
            commands: self.commands,
            busy: BusyTime {
                link_to_host: nanos(reads),
                link_to_drive: nanos(writes),
                ..BusyTime::default()
            },
            ..DriveCounters::default()
        }
    }

    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        let mut equal = |what: &str, a: u64, b: u64| {
            if a != b {
                wrong.push(format!("{what}: {a} and {b}"));
            }
        };
        let line = LINE_SIZE as u64;
        let put: u64 = self.modules.iter().map(|m| m.buffer().put).sum();
        let c = &self.counters;
        equal("lines that left the cores, by way and as posted", c.lines(), self.commands.posted_lines);
        equal("lines that left the cores and came to the DIMMs", c.lines(), put);
        equal("bytes written over the bus, and lines", self.traffic.written(), c.lines() * line);
        equal("bytes read over the bus, and lines", self.traffic.read(), self.commands.load_lines * line);
        equal("fences counted twice", c.fences, self.commands.verifies);
        equal("writes numbered and lines that left the cores", self.posts, c.lines());
        self.modules.iter().for_each(|m| m.buffer().check(&mut wrong));
        if !self.tracking && !self.risk.is_empty() {
            wrong.push("lines are at risk that nobody tracks".to_owned());
        }
        if let Some(fault) = &self.fault {
            wrong.push(format!("a power failure could not be carried out: {fault}"));
        }
        match self.medium.damaged() {
            Ok(pages) => wrong.extend(pages.into_iter().map(|page| {
                format!("NVM: page {page} is unreadable: its content does not fit its checksum")
            })),
            Err(e) => wrong.push(format!("NVM: its content cannot be looked at: {e}")),
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}
