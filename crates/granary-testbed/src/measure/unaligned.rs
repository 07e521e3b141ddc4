//! Direct writes that begin within a page beside those that begin with a mapping unit (OrchFS's talk,
//! Figure 3).
//!
//! ```text
//!   aligned      write of n bytes
//!   unaligned    read the first page, then the last | copy | write of n bytes and a page
//! ```
//!
//! Each command has the host's costs of a direct call; the drive is otherwise idle.

use crate::error::TestbedError;
use crate::testbed::Testbed;
use granary_bench::{BenchError, memory};
use granary_device::{Command, Drive, DriveError, Structure};
use granary_mssd::Mssd;
use granary_sim::rng::Stream;
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page};

/// Writes that are averaged.
const WRITES: u64 = 64;
const WHAT: Structure = Structure::Data;

/// How many times as long a write of `bytes` takes where it does not begin with a page.
///
/// # Errors
/// The drive's.
pub fn ratio(testbed: &Testbed, bytes: usize) -> Result<f64, TestbedError> {
    let failed =
        |e: &dyn std::fmt::Display| -> TestbedError { BenchError::run("drive", "measure", e).into() };
    let ssd = testbed.ssd()?;
    let pages = bytes / PAGE_SIZE;
    let room = (WRITES * 2 * (pages as u64 + 64)).min(ssd.pages() / 2);
    let mean = |drive: Mssd, unaligned: bool| -> Result<f64, DriveError> {
        drive.fill(Lpa(0), room, |_| Page::ZERO)?;
        let (mut random, mut now, mut all) = (Stream::new(1, "unaligned writes"), Nanos::ZERO, 0);
        for _ in 0..WRITES {
            // Between two of them the drive comes to rest.
            now = drive.settle(now)? + Nanos::from_millis(1);
            let unit = ssd.flash.unit_pages();
            let first = random.below((room - pages as u64 - unit) / unit) * unit;
            let done = write(&drive, testbed, now, first, pages, unaligned)?;
            all += (done - now).0;
            now = done;
        }
        Ok(all as f64 / WRITES as f64)
    };
    let new = || memory::ssd(&testbed.name, ssd, memory::Use::EMPTY);
    Ok(mean(new()?, true).map_err(|e| failed(&e))? / mean(new()?, false).map_err(|e| failed(&e))?)
}

fn write(
    drive: &Mssd,
    testbed: &Testbed,
    now: Nanos,
    first: u64,
    pages: usize,
    unaligned: bool,
) -> Result<Nanos, DriveError> {
    let c = &testbed.host.costs;
    let before = c.syscall + c.bio_submit + c.dma_map + c.nvme_submit;
    let after = c.request_complete + c.context_switch;
    let mut t = now;
    if unaligned {
        for page in [first, first + pages as u64] {
            let mut out = [Page::ZERO];
            t = drive.submit(t + before, Command::Read { lpa: Lpa(page), out: &mut out, what: WHAT })?
                + after;
        }
        t += c.copy(pages * PAGE_SIZE);
    }
    let data = vec![Page::word(1); pages + usize::from(unaligned)];
    let (most, mut done) = (drive.info().max_transfer, t);
    for (n, part) in data.chunks(most).enumerate() {
        let lpa = Lpa(first + (n * most) as u64);
        done = done.max(drive.submit(t + before, Command::Write { lpa, pages: part, what: WHAT })?);
    }
    Ok(done + after)
}
