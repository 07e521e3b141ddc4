//! Damage of media behind a file system's back: what a drive or a DIMM may do to a page without telling
//! anybody.
//!
//! | kind | what the page holds then |
//! |---|---|
//! | flipped bit | as before, but for one bit |
//! | lost write | what it held before the load began |
//! | stale page | what it held at some instant in the load |
//! | misdirected write | what it held before the load began; its content is in another page |
//! | torn write | the first sectors of 512 B as before, the others as at some instant in the load |
//! | unreadable page | nothing: reads fail until it is written |

use crate::faulty::{DevicePage, Faults};
use granary_device::{Command, Devices, Drive, DriveError, Structure};
use granary_sim::rng::Stream;
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::collections::BTreeMap;
use std::fmt;

/// The content of a page.
pub type Block = [u8; PAGE_SIZE];

/// The smallest part of a page that a torn write leaves whole.
const SECTOR: usize = 512;

/// Reads a page, past every file system.
///
/// # Errors
/// The drive's.
pub fn read_page(drive: &dyn Drive, at: Nanos, lpa: u64) -> Result<Block, DriveError> {
    let (mut bytes, what) = ([0; PAGE_SIZE], Structure::Data);
    if drive.info().blocks {
        let out = &mut [Page::ZERO];
        drive.submit(at, Command::Read { lpa: Lpa(lpa), out, what })?;
        out[0].copy_out(0, &mut bytes);
    } else {
        drive.load(at, Lpa(lpa).byte(), &mut bytes, what)?;
    }
    Ok(bytes)
}

/// Writes a page, past every file system. Returns when the drive has it.
///
/// # Errors
/// The drive's.
pub fn write_page(drive: &dyn Drive, at: Nanos, lpa: u64, bytes: &Block) -> Result<Nanos, DriveError> {
    let what = Structure::Data;
    if drive.info().blocks {
        let pages = &[Page::from_bytes(bytes)];
        return drive.submit(at, Command::Write { lpa: Lpa(lpa), pages, what });
    }
    let t = drive.store(at, Lpa(lpa).byte(), bytes, TxId::NONE, what)?;
    let t = drive.flush_lines(t, Lpa(lpa).byte(), PAGE_SIZE)?;
    drive.verify(t)
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    FlippedBit,
    LostWrite,
    Stale,
    Misdirected,
    Torn,
    Unreadable,
}

impl Kind {
    /// Those that are drawn. Of flipped bits many hit what nobody uses, and they alone show a checksum that
    /// nobody compares.
    const DRAWN: [Kind; 8] = [
        Kind::FlippedBit,
        Kind::FlippedBit,
        Kind::FlippedBit,
        Kind::LostWrite,
        Kind::Stale,
        Kind::Misdirected,
        Kind::Torn,
        Kind::Unreadable,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::FlippedBit => "a flipped bit",
            Kind::LostWrite => "a lost write",
            Kind::Stale => "a stale page",
            Kind::Misdirected => "a misdirected write",
            Kind::Torn => "a torn write",
            Kind::Unreadable => "an unreadable page",
        }
    }
}

/// One damaged page (two, where a write was misdirected).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) kind: Kind,
    page: DevicePage,
    /// The page that a misdirected write hit.
    hit: DevicePage,
    pub(crate) what: Structure,
    hit_what: Structure,
    /// Draws the byte and the sector.
    draw: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (role, lpa) = self.page;
        write!(f, "{}: page {lpa} of the {role} ({})", self.kind.name(), self.what.name())?;
        match self.kind {
            Kind::Misdirected => write!(f, ", found in page {} ({})", self.hit.1, self.hit_what.name()),
            _ => Ok(()),
        }
    }
}

/// Devices at rest, and where the content of lost and stale pages comes from.
pub(crate) struct Media<'a> {
    pub(crate) devices: &'a Devices,
    pub(crate) faults: &'a Faults,
    /// Before the load.
    pub(crate) before: &'a Devices,
    /// At an instant in the load.
    pub(crate) between: &'a Devices,
    pub(crate) now: Nanos,
}

impl Damage {
    /// Draws one. Half of them hit content; the others hit each structure as often as another. `None` where
    /// nothing was written.
    pub(crate) fn draw(random: &mut Stream, written: &BTreeMap<DevicePage, Structure>) -> Option<Damage> {
        let mut structures: Vec<Structure> = written.values().copied().collect();
        structures.sort_unstable();
        structures.dedup();
        structures.retain(|what| what.is_metadata());
        let wanted = match structures.len() as u64 {
            n if n > 0 && random.chance(0.5) => structures[random.below(n) as usize],
            _ => Structure::Data,
        };
        let pages: Vec<DevicePage> = written.iter().filter(|(_, w)| **w == wanted).map(|(p, _)| *p).collect();
        let all: Vec<DevicePage> = written.keys().copied().collect();
        let pages = if pages.is_empty() { &all } else { &pages };
        if pages.is_empty() {
            return None;
        }
        let kind = Kind::DRAWN[random.below(Kind::DRAWN.len() as u64) as usize];
        let page = pages[random.below(pages.len() as u64) as usize];
        // Any page that is in use, of whatever structure.
        let hit = all[random.below(all.len() as u64) as usize];
        let (what, hit_what) = (written[&page], written[&hit]);
        // A write that went where it was to go is not misdirected.
        let kind = if kind == Kind::Misdirected && hit == page { Kind::LostWrite } else { kind };
        Some(Damage { kind, page, hit, what, hit_what, draw: random.next_u64() })
    }

    /// The same damage where these pages were written: to the same page, or to the nearest that holds the
    /// same structure.
    pub(crate) fn moved(&self, written: &BTreeMap<DevicePage, Structure>) -> Option<Damage> {
        let near = |(role, lpa): DevicePage, what: Structure| {
            let alike = written.iter().filter(|((of, _), holds)| *of == role && **holds == what);
            alike.map(|(page, _)| *page).min_by_key(|(_, page)| page.abs_diff(lpa))
        };
        Some(Damage { page: near(self.page, self.what)?, hit: near(self.hit, self.hit_what)?, ..*self })
    }

    /// Whether a checksum shows it. Old and misplaced pages have right ones, and a page may be torn between
    /// two parts that have one each.
    pub(crate) fn breaks_checksums(&self) -> bool {
        matches!(self.kind, Kind::FlippedBit | Kind::Unreadable)
    }

    /// Whether only content of files is hit.
    pub(crate) fn is_of_content(&self) -> bool {
        !self.what.is_metadata() && (self.kind != Kind::Misdirected || !self.hit_what.is_metadata())
    }

    /// Does it. `None`: nothing is another one than before. Else when the devices are at rest again.
    ///
    /// # Errors
    /// The devices'.
    pub(crate) fn apply(&self, media: &Media<'_>) -> Result<Option<Nanos>, DriveError> {
        let read = |devices: &Devices, (role, lpa): DevicePage| match devices.get(role) {
            Some(port) => read_page(&**port.drive(), media.now, lpa),
            None => Err(DriveError::Unsupported("page: that device is not there")),
        };
        let is = read(media.devices, self.page)?;
        let mut becomes = is;
        match self.kind {
            Kind::Unreadable => {
                media.faults.make_unreadable([self.page]);
                return Ok(Some(media.now));
            }
            Kind::FlippedBit => {
                // Most of a page is often empty, and nobody looks at it.
                let from = self.draw as usize % PAGE_SIZE;
                let at = (from..PAGE_SIZE).chain(0..from).find(|i| is[*i] != 0).unwrap_or(from);
                becomes[at] ^= 1 << (self.draw >> 32 & 7);
            }
            Kind::LostWrite | Kind::Misdirected => becomes = read(media.before, self.page)?,
            Kind::Stale => becomes = read(media.between, self.page)?,
            Kind::Torn => {
                let whole = SECTOR * (1 + self.draw as usize % (PAGE_SIZE / SECTOR - 1));
                becomes[whole..].copy_from_slice(&read(media.between, self.page)?[whole..]);
            }
        }
        let mut changed = None;
        let mut put = |(role, lpa): DevicePage, was: &Block, bytes: &Block| {
            if let Some(port) = media.devices.get(role).filter(|_| was != bytes) {
                let at = changed.unwrap_or(media.now);
                changed = Some(write_page(&**port.drive(), at, lpa, bytes)?.max(at));
            }
            Ok(())
        };
        if self.kind == Kind::Misdirected {
            put(self.hit, &read(media.devices, self.hit)?, &is)?;
        }
        put(self.page, &is, &becomes)?;
        Ok(changed)
    }
}
