//! Commands, loads and stores that a device is asked, with any addresses, lengths and order: refused or done.
//!
//! The documentation of [`Drive`] forbids callers in the same process some things, and they are not done:
//! more than 64 pages of a run, parts that cross a page.

use crate::mutate::Numbers;
use granary_device::vendor::pebble::{BamNames, BamRead, BamReset, FsWrite, Remap, RemapKeep};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Drive, DriveError, FileEnd, RemapRange, Streamed, Structure};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_pmem::{Dimm, DimmConfig};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, Payload, TxId};
use std::sync::Arc;

const WHAT: Structure = Structure::Data;
/// Calls of one input.
const MOST: usize = 400;
/// Largest buffer of a caller, pages.
const PAGES: usize = 300;

/// The device that the first byte chooses is asked what the others say.
pub(super) fn run(bytes: &[u8]) {
    let mut n = Numbers::new(bytes);
    let drive = device(n.byte());
    let (end, mut now, mut on) = (drive.info().pages, Nanos::ZERO, true);
    for _ in 0..MOST {
        if n.is_empty() {
            break;
        }
        match n.byte() % 32 {
            0 if on => {
                drive.power_fail(now, &mut Stream::new(u64::from(n.byte()), "power"));
                on = false;
            }
            1 if !on => {
                now = drive.power_on(now).expect("the power comes back");
                on = true;
            }
            _ => {
                now = ask(&*drive, now, end, &mut n).map_or(now, |done| now.max(done));
                if !n.byte().is_multiple_of(4) {
                    now += Nanos(u64::from(n.short()));
                }
            }
        }
    }
    if !on {
        now = drive.power_on(now).expect("the power comes back");
    }
    drive.settle(now).expect("the drive comes to rest");
    drive.check().expect("the drive is consistent");
}

fn device(which: u8) -> Arc<dyn Drive> {
    match which % 4 {
        0 => Arc::new(Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("a drive")),
        1 => Arc::new(Mssd::new(&DriveConfig::tiny(Mode::Cache)).expect("a drive")),
        2 => Arc::new(Mssd::new(&DriveConfig::tiny(Mode::Log).with_bam()).expect("a drive")),
        _ => Arc::new(Dimm::new(&DimmConfig::optane_dcpmm().with_capacity(Bytes::mib(1))).expect("a DIMM")),
    }
}

/// One call.
fn ask(drive: &dyn Drive, now: Nanos, end: u64, n: &mut Numbers<'_>) -> Result<Nanos, DriveError> {
    let kind = n.byte() % 18;
    let lpa = Lpa(n.wild(end));
    let at =
        ByteAddr(lpa.0.wrapping_mul(PAGE_SIZE as u64).wrapping_add(u64::from(n.short()) % PAGE_SIZE as u64));
    let tx = TxId(n.wild(8) as u32);
    match kind {
        0 => {
            let mut out = vec![Page::ZERO; n.below(PAGES)];
            drive.submit(now, Command::Read { lpa, out: &mut out, what: WHAT })
        }
        1 | 2 => {
            let pages = vec![Page::word(n.wild(1000)); n.below(if kind == 1 { 4 } else { PAGES })];
            drive.submit(now, Command::Write { lpa, pages: &pages, what: WHAT })
        }
        3 => drive.submit(now, Command::Flush),
        4 => drive.submit(now, Command::Trim { lpa, count: n.wild(end) }),
        5 => drive.submit(now, Command::Vendor(&mut Commit { tx })),
        6 => drive.submit(now, Command::Vendor(&mut Recover)),
        7 => {
            let pages = vec![Page::word(n.wild(1000)); n.below(40)];
            let end = FileEnd { valid: n.short(), grew: n.byte().is_multiple_of(2) };
            let (ino, offset) = (n.wild(4), n.wild(64) as u32);
            drive.submit(
                now,
                Command::Vendor(&mut FsWrite { lpa, pages: pages.to_vec(), ino, offset, end, what: WHAT }),
            )
        }
        8 => drive
            .submit(now, Command::Vendor(&mut Remap { src: lpa, dst: Lpa(n.wild(end)), count: n.wild(16) })),
        9 => {
            let most = if n.byte().is_multiple_of(8) { 400 } else { 4 };
            let mut range = |_| RemapRange { src: Lpa(n.wild(end)), dst: Lpa(n.wild(end)), count: n.wild(8) };
            let ranges: Vec<RemapRange> = (0..most).map(&mut range).collect();
            drive.submit(now, Command::Vendor(&mut RemapKeep { ranges: ranges.to_vec() }))
        }
        10 => drive.submit(now, Command::Vendor(&mut BamReset)),
        11 => drive.submit(now, Command::Vendor(&mut BamNames::default())),
        12 => {
            let ino = n.byte().is_multiple_of(2).then(|| n.wild(4));
            drive.submit(now, Command::Vendor(&mut BamRead { ino, out: Vec::new() }))
        }
        13 => {
            let mut out = vec![0; n.below(2 * PAGE_SIZE)];
            drive.load(now, at, &mut out, WHAT)
        }
        14 => {
            let data = vec![n.byte(); n.below(4 * LINE_SIZE)];
            drive.store(now, at, &data, tx, WHAT)
        }
        15 => drive.flush_lines(now, at, n.below(4 * PAGE_SIZE)),
        16 => {
            let from = n.below(PAGE_SIZE / LINE_SIZE) * LINE_SIZE;
            let len = n.below(PAGE_SIZE - from + 1) / 8 * 8;
            let data = Streamed::Part(Payload::Fill { word: n.wild(1000), len });
            drive.stream(now, lpa, from, data, WHAT)
        }
        _ => drive.verify(now),
    }
}
