//! [`Pair`]: an NVM DIMM and an SSD as one range of pages, so that the properties of this module, which know
//! one drive, hold a file system on two devices to the same.
//!
//! ```text
//!   pages   0 .......... n | n .............. end        n: a third of all, in steps of 64 pages
//!           the DIMM's     | the SSD's
//! ```
//!
//! [`halves`] gives ports to both again. Bytes beyond the DIMM and blocks within it are refused where the
//! halves are used; the pair itself reads and writes pages of both, for tests that look at media or damage
//! them. Power fails on both at once, and each loses its own legal part.

use granary_device::{
    Command, Devices, Drive, DriveCounters, DriveError, DriveInfo, LinkTraffic, Port, Role, Streamed,
    Structure,
};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::sync::Arc;

/// Pages of the NVM in a pair of so many: the SSD's begin at a multiple of its largest blocks.
fn split(pages: u64) -> u64 {
    pages / 3 / 64 * 64
}

/// See the module.
pub struct Pair {
    devices: Devices,
    nvm: Arc<dyn Drive>,
    ssd: Arc<dyn Drive>,
    pages: u64,
}

impl Pair {
    /// A pair of so many pages in all; `make` makes the devices of their numbers of pages.
    pub fn new(pages: u64, make: impl Fn(Role, u64) -> Arc<dyn Drive>) -> Pair {
        let n = split(pages);
        let (nvm, ssd) = (make(Role::Nvm, n), make(Role::Ssd, pages - n));
        let devices = Devices::none().with(Role::Nvm, nvm.clone()).with(Role::Ssd, ssd.clone());
        Pair { devices, nvm, ssd, pages }
    }

    fn n(&self) -> u64 {
        split(self.pages)
    }

    /// A page of the DIMM, read or written as a command.
    fn page(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        match command {
            Command::Read { lpa, out, what } => {
                let bytes = out.len() * PAGE_SIZE;
                self.nvm.load_pages(now, lpa.byte(), bytes, out, what)
            }
            Command::Write { lpa, pages, what } => {
                let mut at = now;
                for (i, page) in pages.iter().enumerate() {
                    at = self.nvm.stream(at, lpa.offset(i as u64), 0, Streamed::Page(page), what)?;
                }
                self.nvm.verify(at)
            }
            _ => Err(DriveError::Unsupported("commands but reads and writes of a DIMM's pages")),
        }
    }
}

/// The command for pages that lie `by` further down.
fn moved(command: Command<'_>, by: u64) -> Result<Command<'_>, DriveError> {
    let down = |lpa: Lpa| Lpa(lpa.0 - by);
    Ok(match command {
        Command::Read { lpa, out, what } => Command::Read { lpa: down(lpa), out, what },
        Command::Write { lpa, pages, what } => Command::Write { lpa: down(lpa), pages, what },
        Command::Trim { lpa, count } => Command::Trim { lpa: down(lpa), count },
        Command::Flush => Command::Flush,
        _ => return Err(DriveError::Unsupported("vendor commands")),
    })
}

fn first_page(command: &Command<'_>) -> Option<u64> {
    match command {
        Command::Read { lpa, .. } | Command::Write { lpa, .. } | Command::Trim { lpa, .. } => Some(lpa.0),
        _ => None,
    }
}

impl Drive for Pair {
    granary_device::forward_drive!(nvm: load, store_from, flush_lines, stream, load_pages, verify);
    granary_device::forward_drive!(devices: check);
    granary_device::plain_chains!();

    fn info(&self) -> DriveInfo {
        let max_transfer = self.ssd.info().max_transfer;
        DriveInfo { pages: self.pages, blocks: true, bytes: true, max_transfer, ..DriveInfo::default() }
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        match first_page(&command) {
            Some(page) if page < self.n() => self.page(now, command),
            _ => self.ssd.submit(now, moved(command, self.n())?),
        }
    }

    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.devices.settle(now)
    }

    fn power_fail(&self, now: Nanos, random: &mut Stream) {
        self.devices.power_fail(now, random);
    }

    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.devices.power_on(now)
    }

    fn track_in_flight(&self, on: bool) {
        self.devices.track_in_flight(on);
    }

    fn traffic(&self) -> LinkTraffic {
        self.counters().link
    }

    fn counters(&self) -> DriveCounters {
        self.devices.sum()
    }

    fn counters_at(&self, now: Nanos) -> DriveCounters {
        self.nvm.counters_at(now).plus(&self.ssd.counters_at(now))
    }
}

/// One device of a pair, behind whatever is around the pair.
struct Half {
    pair: Arc<dyn Drive>,
    first: u64,
    pages: u64,
    role: Role,
}

impl Half {
    fn up(&self, at: ByteAddr, len: usize) -> Result<ByteAddr, DriveError> {
        let inside = at.0.checked_add(len as u64).is_some_and(|end| end <= self.pages * PAGE_SIZE as u64);
        match (self.role, inside) {
            (Role::Nvm, true) => Ok(at),
            (Role::Nvm, false) => {
                Err(DriveError::OutOfRange { what: format!("{len} bytes from {at} on"), pages: self.pages })
            }
            _ => Err(DriveError::Unsupported("byte window: it is a plain SSD")),
        }
    }
}

impl Drive for Half {
    granary_device::forward_drive!(pair: settle, power_fail, power_on, track_in_flight, traffic, counters, counters_at, check);
    granary_device::plain_chains!();

    fn info(&self) -> DriveInfo {
        let (blocks, bytes) = (self.role == Role::Ssd, self.role == Role::Nvm);
        DriveInfo { pages: self.pages, blocks, bytes, ..self.pair.info() }
    }

    fn load(&self, now: Nanos, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<Nanos, DriveError> {
        self.pair.load(now, self.up(at, out.len())?, out, what)
    }

    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.pair.store_from(core, now, self.up(at, data.len())?, data, tx, what)
    }

    fn flush_lines(&self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError> {
        self.pair.flush_lines(now, self.up(at, len)?, len)
    }

    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.up(lpa.byte(), PAGE_SIZE)?;
        self.pair.stream(now, lpa, from, data, what)
    }

    fn load_pages(
        &self,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.pair.load_pages(now, self.up(at, len)?, len, out, what)
    }

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.pair.verify(now)
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        if self.role == Role::Nvm {
            return Err(DriveError::Unsupported("commands: it is an NVM DIMM"));
        }
        let up = |lpa: Lpa, count: u64| match lpa.0 + count <= self.pages {
            true => Ok(lpa.offset(self.first)),
            false => Err(DriveError::OutOfRange {
                what: format!("{count} pages from {lpa} on"),
                pages: self.pages,
            }),
        };
        let command = match command {
            Command::Read { lpa, out, what } => Command::Read { lpa: up(lpa, out.len() as u64)?, out, what },
            Command::Write { lpa, pages, what } => {
                Command::Write { lpa: up(lpa, pages.len() as u64)?, pages, what }
            }
            Command::Trim { lpa, count } => Command::Trim { lpa: up(lpa, count)?, count },
            other => other,
        };
        self.pair.submit(now, command)
    }
}

/// Ports to the NVM and to the SSD of the pair behind a port.
pub fn halves(pair: &Port) -> (Port, Port) {
    let pages = pair.info().pages;
    let n = split(pages);
    let half =
        |role, first, pages| Port::new(Arc::new(Half { pair: pair.drive().clone(), first, pages, role }));
    (half(Role::Nvm, 0, n), half(Role::Ssd, n, pages - n))
}
