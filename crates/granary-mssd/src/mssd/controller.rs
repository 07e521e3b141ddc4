//! [`Controller`]: the parts that serve a command behind the host's interface: link, queue, firmware, write
//! buffer, flash, commands in flight.
//!
//! Functions that may change a page's content take the drive's companion along, which may have to see to it
//! first. The companion that serves a command passes itself.

use super::queue::Queue;
use crate::companion::{Beside, Companion, Pending};
use crate::config::DriveConfig;
use crate::firmware::{Backend, Firmware};
use crate::link::Link;
use crate::power::{Effect, InFlight};
use granary_device::{CommandCounters, DriveError, LinkTraffic, Structure};
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page};

/// See the module.
#[derive(Clone)]
pub struct Controller {
    /// The drive's personality.
    pub firmware: Box<dyn Firmware>,
    /// Write buffer, flash, processors.
    pub backend: Backend,
    pub(crate) link: Link,
    pub(crate) queue: Queue,
    pub(crate) tracking: bool,
    pub(crate) in_flight: InFlight,
    pub(crate) traffic: LinkTraffic,
    pub(crate) commands: CommandCounters,
    /// An acknowledged command that could not be carried out.
    pub(crate) fault: Option<DriveError>,
}

impl Controller {
    pub(super) fn new(config: &DriveConfig, firmware: Box<dyn Firmware>, backend: Backend) -> Controller {
        Controller {
            firmware,
            backend,
            link: Link::new(&config.link),
            queue: Queue::new(config.link.nvme.queue_depth),
            tracking: false,
            in_flight: InFlight::default(),
            traffic: LinkTraffic::default(),
            commands: CommandCounters::default(),
            fault: None,
        }
    }

    /// When the firmware has read the command and worked on it.
    #[inline]
    pub fn accept(&mut self, c: &DriveConfig, now: Nanos) -> Nanos {
        self.accept_with(c, now, Nanos::ZERO)
    }

    /// The same with `more` work.
    #[inline]
    pub fn accept_with(&mut self, c: &DriveConfig, now: Nanos, more: Nanos) -> Nanos {
        let now = self.queue.place(now);
        self.backend.cores.serve(now + c.link.nvme.fetch, c.firmware.command_cost + more)
    }

    /// Sends so many bytes of tables to the host as pages, from `t` on; returns when the last is there.
    pub fn give_pages(&mut self, t: Nanos, bytes: usize) -> Nanos {
        let (mut done, pages) = (t, bytes.div_ceil(PAGE_SIZE));
        for _ in 0..pages {
            done = self.link.page_out(t);
        }
        self.traffic.block_read[Structure::DataPointer as usize] += (pages * PAGE_SIZE) as u64;
        self.commands.read_pages += pages as u64;
        done
    }

    /// Whether commands wait, with their effect, for their acknowledgement. Else they take effect at once.
    #[inline]
    pub fn is_tracking(&self) -> bool {
        self.tracking
    }

    /// A companion's command, which is acknowledged at `done`, takes effect then.
    pub fn defer(&mut self, done: Nanos, pending: impl Pending) {
        self.in_flight.push(done, Effect::Own(Box::new(pending)));
    }

    /// Companions' commands whose effect waits, in order of submission.
    pub fn deferred(&self) -> impl Iterator<Item = &dyn Pending> {
        self.in_flight.own()
    }

    /// Whether anything of a page is kept anywhere: a trim of the others changes nothing.
    #[inline]
    pub fn holds(&self, lpa: Lpa) -> bool {
        self.firmware.holds(lpa) || self.backend.holds(lpa)
    }

    /// Whether a page has content that is kept: of a page without, a cache may hold the zeros that it reads
    /// as.
    pub fn has_content(&self, lpa: Lpa) -> bool {
        self.firmware.holds_newer(lpa) || self.backend.holds(lpa)
    }

    /// Takes a whole page.
    ///
    /// # Errors
    /// The drive's.
    #[inline]
    pub fn write_page(
        &mut self,
        own: Beside<'_>,
        t: Nanos,
        lpa: Lpa,
        page: Page,
    ) -> Result<Nanos, DriveError> {
        let t = match own {
            None => t,
            Some(own) => own.release(self, t, lpa)?,
        };
        self.firmware.write_page(&mut self.backend, t, lpa, page)
    }

    /// Drops a page's content, and with it what the companion says of it.
    ///
    /// # Errors
    /// The drive's.
    pub fn trim_page(&mut self, own: Beside<'_>, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        let Some(own) = own else {
            return Ok(t.max(self.firmware.trim(&mut self.backend, t, lpa)?));
        };
        let mut done = own.release(self, t, lpa)?;
        if own.newest(lpa) == lpa {
            done = done.max(self.firmware.trim(&mut self.backend, t, lpa)?);
        }
        own.trimmed(lpa);
        self.save(own);
        Ok(done)
    }

    /// A companion's changes belong to those of the flash just now: they are handed over together.
    #[inline]
    pub fn save(&mut self, own: &mut dyn Companion) {
        if let Some(image) = self.backend.image() {
            own.save(&mut |redo| image.carry(redo));
        }
    }

    /// Hands what changed to the image.
    ///
    /// # Errors
    /// The image takes no more.
    #[inline]
    pub fn publish(&mut self, own: Beside<'_>) -> Result<(), DriveError> {
        match self.backend.image() {
            None => Ok(()),
            Some(image) => {
                if let Some(own) = own {
                    own.save(&mut |redo| image.carry(redo));
                }
                self.backend.publish(|out| self.firmware.drain_redo(out))
            }
        }
    }

    /// Lets what is in flight for a page take effect before its acknowledgement.
    pub fn land(&mut self, mut own: Beside<'_>, lpa: Lpa, now: Nanos) {
        if self.in_flight.is_empty() {
            return;
        }
        // Effects on one name of a page decide which name is the newest, and what the companion knows of it:
        // in their order.
        let sharing = |own: &Beside<'_>| own.as_ref().map_or_else(Vec::new, |own| own.sharing(lpa));
        let mut names = sharing(&own);
        if self.in_flight.is_own(lpa) || names.iter().any(|&name| self.in_flight.is_own(name)) {
            self.land_own(own.as_deref_mut(), now);
            names = sharing(&own);
        }
        for (_, effect) in self.in_flight.of_pages(lpa, &names) {
            self.apply(own.as_deref_mut(), now, effect);
        }
    }

    /// Lets everything in flight that changes a companion's tables take effect, in order of submission.
    pub fn land_own(&mut self, mut own: Beside<'_>, now: Nanos) {
        if !self.in_flight.is_empty() {
            for (_, effect) in self.in_flight.take_own() {
                self.apply(own.as_deref_mut(), now, effect);
            }
        }
    }

    pub(super) fn apply(&mut self, own: Beside<'_>, t: Nanos, effect: Effect) {
        // The host has, or may have, its acknowledgement: no end of life comes in between.
        self.backend.owe(true);
        let done = match effect {
            Effect::Write(lpa, page) => self.write_page(own, t, lpa, page),
            Effect::Trim(lpa) => self.trim_page(own, t, lpa),
            Effect::Own(pending) => own.map_or(Ok(t), |own| own.apply(self, t, pending)),
            Effect::Commit(tx) => match self.firmware.transactions() {
                Some(log) => log.commit(&mut self.backend, t, tx),
                None => Ok(t),
            },
        };
        self.backend.owe(false);
        if let Err(e) = done {
            self.fault.get_or_insert(e);
        }
    }
}
