//! [`Link`]: the way between host and drive, one timeline per direction.
//!
//! ```text
//!   host                                              drive
//!    | posted lines, write data    ── to_drive ──>     |      2.5 GB/s
//!    |    <── to_host ──   read data, loaded lines     |      3.5 GB/s     (Table 4; both at once)
//! ```
//!
//! A page occupies its direction for 4096 B at the link's bandwidth (which was measured with 4 KiB transfers,
//! so packet overhead is in it); a line occupies it for 64 B and the overhead of its own packet. Transfers go
//! in the order in which they are ready: the data of a slow read holds up nobody.
//!
//! ```text
//!   to the drive:   | data of a block write, packet by packet ...   | P | P | P | L | P | P | ...
//!                                                          a posted line ───────┘ passes the data behind it
//! ```
//!
//! A command's data is one reservation here, up to 256 KiB, but on the link it is packets. Posted writes pass
//! the completions that carry it (PCI Express, transaction ordering rules: a posted request must be able to
//! pass completions). So a line waits for one packet of it at most; the link's time is the same, the data
//! ends later.
//!
//! Posted lines need room in the drive's buffer ([`Credits`]): until its firmware takes what came before, the
//! CPU waits.
//!
//! Half duplex (SATA): both directions share one timeline.
//!
//! It does *not* model retries or the ordering of single packets otherwise; the latencies are in
//! `LinkConfig`.

mod credits;
pub mod wc;

use crate::config::LinkConfig;
use credits::Credits;
use granary_flash::Timeline;
use granary_units::{Bytes, LINE_SIZE, Nanos, PAGE_SIZE};

/// Data of the largest packet: 256 B, what devices and root complexes agree on as a rule (Neugebauer et al.,
/// SIGCOMM'18, section 3).
const PACKET: u64 = 256;

/// Both directions of the link.
#[derive(Clone)]
pub struct Link {
    /// When the last posted line had gone.
    lines_sent: Nanos,
    /// Places for posted lines in the drive's buffer.
    credits: Credits,
    posted_lines: usize,
    packet_in: Nanos,
    to_drive: Timeline,
    to_host: Timeline,
    /// Transfers to the host take the other direction's time.
    half_duplex: bool,
    page_in: Nanos,
    page_out: Nanos,
    line_in: Nanos,
    line_out: Nanos,
}

/// Time that `bytes` take, rounded up to 1 ns.
fn span(bytes: u64, bandwidth: Bytes) -> Nanos {
    Nanos((bytes * 1_000_000_000).div_ceil(bandwidth.0))
}

impl Link {
    /// An idle link.
    pub fn new(config: &LinkConfig) -> Link {
        let line = LINE_SIZE as u64 + config.tlp_overhead.0;
        let link = Link {
            lines_sent: Nanos::ZERO,
            credits: Credits::default(),
            posted_lines: config.posted_lines,
            packet_in: span(PACKET + config.tlp_overhead.0, config.write_bandwidth),
            to_drive: Timeline::new(Nanos(1)),
            to_host: Timeline::new(Nanos(1)),
            half_duplex: config.half_duplex,
            page_in: span(PAGE_SIZE as u64, config.write_bandwidth),
            page_out: span(PAGE_SIZE as u64, config.read_bandwidth),
            line_in: span(line, config.write_bandwidth),
            line_out: span(line, config.read_bandwidth),
        };
        Link {
            to_drive: Timeline::new(link.line_in.min(link.page_in)),
            to_host: Timeline::new(link.line_out.min(link.page_out)),
            ..link
        }
    }

    /// Time reserved so far: (to the drive, to the host).
    pub fn busy(&self) -> (Nanos, Nanos) {
        (self.to_drive.busy(), self.to_host.busy())
    }

    /// The part of it that lies after `now`.
    pub fn ahead(&self, now: Nanos) -> (Nanos, Nanos) {
        (self.to_drive.ahead(now), self.to_host.ahead(now))
    }

    /// Time has come to `now`.
    #[inline]
    pub fn pass(&mut self, now: Nanos) {
        self.to_drive.pass(now);
        self.to_host.pass(now);
    }

    /// The time that goes with what moves to the host.
    #[inline]
    fn out(&mut self) -> &mut Timeline {
        if self.half_duplex { &mut self.to_drive } else { &mut self.to_host }
    }

    /// Moves `pages` pages to the drive; returns when the last one is there.
    pub fn pages_in(&mut self, ready: Nanos, pages: usize) -> Nanos {
        self.to_drive.fill(ready, self.page_in * pages as u64).end
    }

    /// Moves a page to the host.
    pub fn page_out(&mut self, ready: Nanos) -> Nanos {
        let len = self.page_out;
        self.out().fill(ready, len).end
    }

    /// Moves `lines` posted lines to the drive, between the packets of what block writes move, once its
    /// buffer has room for them. The caller says with [`Link::lines_taken`] when the firmware has taken them.
    pub fn lines_in(&mut self, ready: Nanos, lines: usize) -> Nanos {
        let ready = self.credits.wait(ready, lines, self.posted_lines);
        let len = self.line_in * lines as u64;
        let in_turn = self.to_drive.fill(ready, len).end;
        let passing = ready.max(self.lines_sent) + self.packet_in + len;
        let sent = in_turn.min(passing);
        self.lines_sent = self.lines_sent.max(sent);
        sent
    }

    /// The firmware takes `lines` posted lines at `taken`.
    pub fn lines_taken(&mut self, taken: Nanos, lines: usize) {
        self.credits.hold(taken, lines);
    }

    /// Moves `lines` lines to the host.
    pub fn lines_out(&mut self, ready: Nanos, lines: usize) -> Nanos {
        let len = self.line_out * lines as u64;
        self.out().fill(ready, len).end
    }

    /// From when on nothing is on its way to the host.
    pub fn out_idle_from(&self) -> Nanos {
        self.to_host.horizon()
    }

    /// Moves `lines` lines to the host `count` times, from `ready` on at this distance, while nothing else is
    /// on its way.
    pub fn lines_out_each(&mut self, ready: Nanos, lines: usize, distance: Nanos, count: usize) {
        self.to_host.append_each(ready, self.line_out * lines as u64, distance, count as u64);
    }

    /// Time that one page occupies the link on its way to the drive.
    pub fn page_in(&self) -> Nanos {
        self.page_in
    }

    /// Time that one line occupies the link on its way to the drive.
    pub fn line_in(&self) -> Nanos {
        self.line_in
    }

    /// Time that one line occupies the link on its way to the host.
    pub fn line_out(&self) -> Nanos {
        self.line_out
    }

    /// Forgets all transfers: idle from `at` on.
    pub fn reset(&mut self, at: Nanos) {
        self.lines_sent = at;
        self.credits.reset();
        self.to_drive.reset(at);
        self.to_host.reset(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DriveConfig;

    #[test]
    fn lines_pass_the_data_of_block_writes_and_take_their_time_from_it() {
        let config = DriveConfig::bytefs_emulator();
        let mut link = Link::new(&config.link);
        let data = link.pages_in(Nanos(0), 64);
        let one = link.lines_in(Nanos(1_000), 1);
        assert!(one > Nanos(1_000) + link.line_in() && one < Nanos(1_000) + link.page_in(), "{one}");
        assert!(link.lines_in(Nanos(1_000), 1) > one, "lines do not pass lines");
        let next = link.pages_in(Nanos(1_000), 1);
        assert_eq!(next, data + link.line_in() * 2 + link.page_in());
        let mut idle = Link::new(&config.link);
        assert_eq!(idle.lines_in(Nanos(5), 3), Nanos(5) + idle.line_in() * 3);
    }
}
