//! [`Companion`]: an addition beside any firmware: tables and commands of its own over the same pages.
//!
//! ```text
//!   read ── newest ──> the page that the firmware knows       write, trim ── release ──> firmware ── trimmed
//!   store ── part ──> firmware                                vendor command ── admits, serve ──> Controller
//!                                                                             `─ in flight: Pending ── apply
//! ```
//!
//! A drive has one or none. Without one, each access asks once whether there is one, and no more.
//!
//! A command that takes effect later than it is served leaves a [`Pending`] behind ([`Controller::defer`]).
//! The drive applies it when it is acknowledged, before that when a later access needs it, and drops or
//! applies it when power fails. Commands of a companion take effect in the order in which they were
//! submitted.

use crate::config::DriveConfig;
use crate::mssd::Controller;
use crate::saved::layout::Layout;
use granary_device::{DriveCounters, DriveError, Vendor};
use granary_redo::ImageError;
use granary_redo::redo::Redo;
use granary_redo::region::Region;
use granary_sim::rng::Thing;
use granary_units::{Lpa, Nanos, Page};
use std::any::Any;
use std::fmt::Debug;

/// See the module. Functions that serve something return when that is done.
pub trait Companion: Send + 'static {
    /// A second one that knows the same.
    fn fork(&self) -> Box<dyn Companion>;

    /// Vendor commands that it answers, by their names.
    fn offers(&self) -> &'static [&'static str];

    /// Fills in what it says of its own, where it knows the type of `facts`.
    fn identify(&self, facts: &mut dyn Any) -> bool {
        let _ = facts;
        false
    }

    /// Whether a vendor command is one of its own, and lies within a drive of so many pages. `None`: it is
    /// not its own.
    fn admits(&self, own: &dyn Vendor, pages: u64) -> Option<Result<(), DriveError>>;

    /// Serves a command that it [`Companion::admits`], which the host submits at `now`. It charges the
    /// processors itself: [`Controller::accept_with`].
    ///
    /// # Errors
    /// Its own and the drive's.
    fn serve(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
        own: &mut dyn Vendor,
    ) -> Result<Nanos, DriveError>;

    /// Carries out what a command left in flight.
    ///
    /// # Errors
    /// The drive's.
    fn apply(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        pending: Box<dyn Pending>,
    ) -> Result<Nanos, DriveError> {
        let _ = (drive, pending);
        Ok(t)
    }

    /// The page under which the firmware has what is read under this one.
    fn newest(&self, lpa: Lpa) -> Lpa {
        lpa
    }

    /// Whether any page is found under another one.
    fn redirects(&self) -> bool {
        false
    }

    /// All pages that share the content of this one, itself included; none where it has its content alone.
    fn sharing(&self, lpa: Lpa) -> Vec<Lpa> {
        let _ = lpa;
        Vec::new()
    }

    /// A page is about to get other content, or none, as a whole: pages that share its content keep it.
    ///
    /// # Errors
    /// The drive's.
    fn release(&mut self, drive: &mut Controller, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        let _ = (drive, lpa);
        Ok(t)
    }

    /// A part of a page is about to change: from now on it has its content alone.
    ///
    /// # Errors
    /// The drive's.
    fn part(&mut self, drive: &mut Controller, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        let _ = (drive, lpa);
        Ok(t)
    }

    /// The content of a page is gone.
    fn trimmed(&mut self, lpa: Lpa) {
        let _ = lpa;
    }

    /// Power is back, and the drive answers from `ready` on. Its memory is persistent: a failure takes
    /// nothing.
    fn power_on(&mut self, ready: Nanos) {
        let _ = ready;
    }

    /// Whether the host should ask it for room soon.
    fn wants_attention(&self) -> bool {
        false
    }

    /// Puts what was counted among the drive's counters.
    fn count(&self, all: &mut DriveCounters) {
        let _ = all;
    }

    /// Internal consistency, one sentence for each violation; `holds` says whether a page has content.
    fn check(&self, holds: &dyn Fn(Lpa) -> bool) -> Vec<String> {
        let _ = holds;
        Vec::new()
    }

    /// On an image: hands each record of changes to `carry`. They belong to what the flash changed just now.
    fn save(&mut self, carry: &mut dyn FnMut(&mut Redo)) {
        let _ = carry;
    }

    /// For a drive that has become larger, on an image with this layout.
    fn grow(&mut self, config: &DriveConfig, layout: &Layout) {
        let _ = (config, layout);
    }

    /// On an image: whether a command had begun when the power failed, and is not done.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// Carries out the rest of it.
    ///
    /// # Errors
    /// The drive's.
    fn resume(&mut self, drive: &mut Controller) -> Result<Nanos, DriveError> {
        let _ = drive;
        Ok(Nanos::ZERO)
    }
}

impl Clone for Box<dyn Companion> {
    fn clone(&self) -> Box<dyn Companion> {
        (**self).fork()
    }
}

/// The companion of a drive, where it has one.
pub type Beside<'a> = Option<&'a mut (dyn Companion + 'static)>;

/// The effect of a companion's command, which comes once it is acknowledged.
pub trait Pending: Any + Debug + Send {
    /// A second one.
    fn fork(&self) -> Box<dyn Pending>;

    /// The thing that a power failure may take, as a whole.
    fn thing(&self) -> Thing;

    /// The pages that it changes.
    fn reach(&self) -> Reach;

    /// Whether it changes this page.
    fn concerns(&self, lpa: Lpa) -> bool {
        self.reach() == Reach::Page(lpa)
    }

    /// The content of a page that it [`Pending::concerns`], as a read sees it before it is applied.
    fn seen(&self, lpa: Lpa) -> Seen;

    /// Whether it brings a page of data, which will want room in the write buffer.
    fn brings_page(&self) -> bool {
        false
    }
}

impl Clone for Box<dyn Pending> {
    fn clone(&self) -> Box<dyn Pending> {
        (**self).fork()
    }
}

/// The pages that a [`Pending`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This one alone.
    Page(Lpa),
    /// Several: [`Pending::concerns`] says which.
    Pages,
    /// None.
    Nothing,
}

/// The content that a read sees of the effects in flight.
pub enum Seen {
    /// This content.
    Content(Page),
    /// The content that this page has without them.
    Of(Lpa),
}

/// A companion, as a firmware's entry lists it ([`DriveEntry::beside`](crate::DriveEntry::beside)).
#[derive(Clone, Copy)]
pub struct CompanionEntry {
    /// Its name: the table of `[drive.firmware]` that asks for it.
    pub name: &'static str,
    /// A line about it, with its source.
    pub about: &'static str,
    /// Its commands.
    pub commands: &'static [&'static str],
    /// The one of a valid configuration, with nothing in it; `None`: the configuration does not ask for it.
    pub make: fn(&DriveConfig) -> Option<Box<dyn Companion>>,
    /// The same from the memory that an image kept; `None`: no image keeps it.
    pub load: Option<LoadCompanion>,
}

/// See [`CompanionEntry::load`].
pub type LoadCompanion = fn(&DriveConfig, &Layout, &Region) -> Result<Option<Box<dyn Companion>>, ImageError>;
