//! Recovery from a power failure over a full log, by the drive alone (section 5.5), and what the log's index
//! takes (section 4.3).
//!
//! Both halves are filled while time stands still, so that cleaning frees nothing: entries of one line over
//! pages that flash holds, in transactions of eleven, and one entry in twelve of a transaction that never
//! commits. How many lines a page has in the log decides how many pages are read and programmed; the paper
//! does not say it. Twelve is \[choice\]; the leftovers of the authors' runs have 74 to 94 entries for each
//! page that cleaning wrote (2.5 to 3.1 million on 33,400).

use granary_bench::memory;
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Drive, Structure};
use granary_lab::LabError;
use granary_mssd::{Mode, Mssd};
use granary_sim::rng::Stream;
use granary_testbed::Testbed;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};

/// Lines of each page that are in the log.
const LINES: u64 = 12;

/// Cost of a recovery, in virtual time.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// Entries in the log.
    pub entries: u64,
    /// Loading the drive's memory.
    pub load: Nanos,
    /// Looking through the log.
    pub scan: Nanos,
    /// Programming what had committed.
    pub flush: Nanos,
    /// From power-up until the drive has recovered.
    pub total: Nanos,
    /// Bytes of the drive's memory that the full log's index took.
    pub index_bytes: u64,
}

/// Fills the log of the testbed's drive, cuts the power, recovers.
///
/// # Errors
/// The drive's.
pub fn recovery(testbed: &Testbed, seed: u64) -> Result<Recovery, LabError> {
    let config = testbed.ssd()?.clone().with_mode(Mode::Log);
    let failed = |e: &dyn std::fmt::Display| LabError::Usage(format!("the recovery experiment: {e}"));
    let drive = memory::ssd(&testbed.name, &config, memory::Use::NEW)?;
    let pages = (config.firmware.log_region.0 / 80 / LINES + 1).min(drive.info().pages);
    drive.fill(Lpa(0), pages, |lpa| Page::word(lpa.0 + 1)).map_err(|e| failed(&e))?;
    let entries = fill(&drive).map_err(|e| failed(&e))?;
    let index_bytes = drive.index_memory() as u64;
    drive.power_fail(Nanos::ZERO, &mut Stream::new(seed, "recovery"));
    let up = drive.power_on(Nanos::ZERO).map_err(|e| failed(&e))?;
    let total = drive.submit(up, Command::Vendor(&mut Recover)).map_err(|e| failed(&e))?;
    let log = drive.counters().log;
    Ok(Recovery { entries, load: up, scan: log.scan_time, flush: log.flush_time, total, index_bytes })
}

fn fill(drive: &Mssd) -> Result<u64, granary_device::DriveError> {
    let (now, mut entries) = (Nanos::ZERO, 0);
    let all = drive.info().pages * LINES;
    while entries < all {
        let (page, line) = (entries / LINES, entries % LINES * (64 / LINES));
        let at = ByteAddr(page * PAGE_SIZE as u64 + line * 64);
        let (last, group) = (entries % 12 == 11, TxId(2 + (entries / 12) as u32));
        let tx = if last { TxId(1) } else { group };
        drive.store(now, at, &[entries as u8 | 1; 64], tx, Structure::Data)?;
        drive.flush_lines(now, at, 64)?;
        if drive.counters().log.stalls > 0 {
            break;
        }
        if last {
            drive.submit(now, Command::Vendor(&mut Commit { tx: group }))?;
        }
        entries += 1;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_load_scan_and_flush_and_fewer_planes_flush_longer() {
        let of = |ways: &str| {
            let sets = ["firmware.log_region=8MiB", ways].map(str::to_owned);
            recovery(&Testbed::load("bytefs-reproduction", &sets).expect("valid"), 1).expect("recovers")
        };
        let one = of("geometry.ways=1");
        assert!(one.entries > 90_000 && one.index_bytes > 0, "{one:?}");
        assert_eq!(one.load, Nanos::from_millis(900));
        let parts = one.load + one.scan + one.flush;
        assert!(one.total >= parts && one.total < parts + Nanos::from_millis(1), "{one:?}");
        assert!(of("geometry.ways=8").flush * 4 < one.flush);
    }
}
