//! A complete small firmware, to begin one's own from: a battery-backed write buffer, and a policy of gc.
//!
//! ```text
//!   block write, posted lines ──> | page page page ... |  64 pages, battery-backed: taken is safe
//!                                   oldest, when full ──> Backend ──> flash
//!   read ──> the buffer, else flash
//! ```
//!
//! Invariant: the newest content of a page is in the buffer, where that has it, else in the [`Backend`].

#![forbid(unsafe_code)]

use granary_device::vendor::Extension;
use granary_device::{DriveError, Port, Vendor};
use granary_flash::{Blocks, Cause, Policies, Victims};
use granary_mssd::{Backend, DriveEntry, Firmware};
use granary_sim::rng::Stream;
use granary_units::{LINE_SIZE, Lpa, Nanos, Page, Payload, TxId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Pages of the buffer. \[choice\] so few that it is full within any test.
pub const PAGES: usize = 64;

/// The line of a registry.
pub const ENTRY: DriveEntry = DriveEntry {
    name: "minimal",
    about: "a battery-backed write buffer of 64 pages, oldest page out first (example)",
    options: &[],
    load: None,
    beside: granary_mssd::BESIDE,
    crash: &[granary_mssd::cases::FAILING],
    firmware: |_| Ok(Box::new(Minimal::default())),
    policies: Some(|flash| Policies { victims: Arc::new(Oldest), ..Policies::of(flash) }),
};

/// A run of lines that was posted and not verified: a power failure loses it, or does not.
#[derive(Clone)]
struct Posted {
    post: u64,
    lpa: Lpa,
    first: usize,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// See the crate.
#[derive(Clone, Default)]
pub struct Minimal {
    pages: BTreeMap<Lpa, Page>,
    /// Pages of the buffer, the oldest first.
    order: VecDeque<Lpa>,
    tracking: bool,
    unverified: Vec<Posted>,
    posts: u64,
    lines: u64,
}

impl Minimal {
    /// Puts a page into the buffer at `t`; returns when it has a place.
    fn take(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        let mut t = t;
        if !self.pages.contains_key(&lpa) {
            if self.pages.len() == PAGES {
                t = self.write_oldest(be, t)?;
            }
            self.order.push_back(lpa);
        }
        self.pages.insert(lpa, page);
        Ok(t)
    }

    fn write_oldest(&mut self, be: &mut Backend, t: Nanos) -> Result<Nanos, DriveError> {
        let Some(&oldest) = self.order.front() else { return Ok(t) };
        let done = be.write(t, oldest, self.pages[&oldest].clone(), Cause::Host)?;
        // Only now: where the flash takes nothing more, the page stays.
        self.forget(oldest);
        Ok(done)
    }

    fn forget(&mut self, lpa: Lpa) {
        self.pages.remove(&lpa);
        self.order.retain(|other| *other != lpa);
    }

    fn put_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        data: &[u8],
    ) -> Result<Nanos, DriveError> {
        let (mut page, read) = self.read_page(be, t, lpa)?;
        page.write(first * LINE_SIZE, Payload::Bytes(data));
        self.take(be, read, lpa, page)
    }
}

impl Firmware for Minimal {
    fn fork(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }

    fn offers(&self) -> &'static [&'static str] {
        &["BUFFER_USED"]
    }

    fn read_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<(Page, Nanos), DriveError> {
        match self.pages.get(&lpa) {
            Some(page) => Ok((page.clone(), t)),
            None => be.read(t, lpa, Cause::Host),
        }
    }

    fn write_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        // A whole page hides what was posted to it.
        self.unverified.retain(|posted| posted.lpa != lpa);
        self.take(be, t, lpa, page)
    }

    fn write_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        data: &[u8],
        _: TxId,
    ) -> Result<Nanos, DriveError> {
        let mut old = vec![0; data.len()];
        let read = if self.tracking { self.read_lines(be, t, lpa, first, &mut old)? } else { t };
        let done = self.put_lines(be, read, lpa, first, data)?;
        self.lines += (data.len() / LINE_SIZE) as u64;
        if self.tracking {
            self.posts += 1;
            self.unverified.push(Posted { post: self.posts, lpa, first, old, new: data.to_vec() });
        }
        Ok(done)
    }

    fn trim(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        self.unverified.retain(|posted| posted.lpa != lpa);
        self.forget(lpa);
        be.trim(lpa)?;
        Ok(t)
    }

    fn remap(&mut self, be: &mut Backend, t: Nanos, src: Lpa, dst: Lpa) -> Result<(Nanos, bool), DriveError> {
        self.forget(dst);
        self.unverified.retain(|posted| posted.lpa != src && posted.lpa != dst);
        be.remap(src, dst)?;
        let Some(page) = self.pages.get(&src).cloned() else { return Ok((t, false)) };
        self.forget(src);
        Ok((self.take(be, t, dst, page)?, false))
    }

    fn peek(&self, be: &Backend, lpa: Lpa) -> Result<Page, DriveError> {
        self.pages.get(&lpa).map_or_else(|| be.peek(lpa), |page| Ok(page.clone()))
    }

    fn holds(&self, lpa: Lpa) -> bool {
        self.pages.contains_key(&lpa)
    }

    fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    fn settle(&mut self, be: &mut Backend, now: Nanos) -> Result<Nanos, DriveError> {
        let mut t = now;
        while !self.pages.is_empty() {
            t = self.write_oldest(be, t)?;
        }
        Ok(t)
    }

    fn track(&mut self, on: bool) {
        self.tracking = on;
        self.unverified.clear();
    }

    fn posts(&self) -> u64 {
        self.posts
    }

    fn verified(&mut self, posts: u64) {
        self.unverified.retain(|posted| posted.post > posts);
    }

    fn power_fail(&mut self, be: &mut Backend, now: Nanos, random: &mut Stream) -> Result<(), DriveError> {
        // Back to what was verified, then forward with what has landed: each line for itself.
        let posted = std::mem::take(&mut self.unverified);
        for run in posted.iter().rev() {
            self.put_lines(be, now, run.lpa, run.first, &run.old)?;
        }
        for run in &posted {
            for (i, line) in run.new.chunks_exact(LINE_SIZE).enumerate() {
                if random.chance(0.5) {
                    self.put_lines(be, now, run.lpa, run.first + i, line)?;
                }
            }
        }
        Ok(())
    }

    fn lines(&self) -> u64 {
        self.lines
    }

    fn check(&self) -> Vec<String> {
        let same = self.order.len() == self.pages.len() && self.order.iter().all(|lpa| self.holds(*lpa));
        if same { Vec::new() } else { vec!["buffer: the order is not of its pages".to_owned()] }
    }

    fn serve(&mut self, _: &mut Backend, t: Nanos, own: &mut dyn Vendor) -> Result<Nanos, DriveError> {
        let name = own.name();
        let used = own.get_mut::<BufferUsed>().ok_or(DriveError::Unsupported(name))?;
        used.pages = self.pages.len();
        Ok(t)
    }
}

/// A vendor command of its own: asks how many pages the buffer has.
#[derive(Debug, Default)]
pub struct BufferUsed {
    /// The answer.
    pub pages: usize,
}

impl Vendor for BufferUsed {
    fn name(&self) -> &'static str {
        "BUFFER_USED"
    }
}

/// The way of a file system to [`BufferUsed`].
pub struct Buffer<'p>(&'p Port);

impl<'p> Extension<'p> for Buffer<'p> {
    const NAME: &'static str = "write buffer that can be asked";

    fn of(port: &'p Port) -> Option<Buffer<'p>> {
        port.offers("BUFFER_USED").then_some(Buffer(port))
    }
}

impl Buffer<'_> {
    /// Pages in the buffer.
    ///
    /// # Errors
    /// Of the drive.
    pub fn used(&self) -> Result<usize, DriveError> {
        let mut command = BufferUsed::default();
        let ticket = self.0.submit_vendor(&mut command)?;
        self.0.wait(ticket);
        Ok(command.pages)
    }
}

/// Empties the block whose data is oldest, as long as an eighth of it is stale; else the one with the fewest
/// live pages.
#[derive(Debug)]
pub struct Oldest;

impl Victims for Oldest {
    fn choose(&self, blocks: &Blocks<'_>) -> Option<u32> {
        let most = blocks.pages_per_block() - blocks.pages_per_block().div_ceil(8);
        let worth = blocks.candidates().filter(|candidate| candidate.live <= most);
        worth.max_by_key(|candidate| candidate.age).map(|found| found.block).or_else(|| blocks.fewest_live())
    }

    fn needs_ages(&self) -> bool {
        true
    }
}
