//! RECOVER of a log that takes many steps: pages go to `flash` and frames to the redo log beside the drive,
//! in a thread.

use super::rig::{options, with_ssd};
use granary_device::vendor::transactions::Recover;
use granary_device::{Command, Drive, DriveError, Structure};
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image, ImageDevices, ImageMeta};
use granary_mssd::{DriveConfig, Mode};
use granary_sim::rng::Stream;
use granary_units::{Bytes, LINE_SIZE, Lpa, Nanos, Page, Payload, TxId};
use std::sync::Arc;

const WHAT: Structure = Structure::Data;
/// Pages with lines in the log: a step has 12 pages at most.
const LINED: u64 = 250;

fn page_of_bytes(rng: &mut Stream) -> Page {
    let mut bytes = [0; Page::SIZE];
    bytes.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&rng.next_u64().to_le_bytes()));
    Page::from_bytes(&bytes)
}

/// An image whose process has died over a full log, and what its pages hold. Half of the pages with lines are
/// in flash, too.
fn died(durability: Durability) -> (MemoryHost, Vec<Page>) {
    let (host, mut config) = (MemoryHost::new(), DriveConfig::tiny(Mode::Log));
    config.firmware.log_region = Bytes::kib(64);
    Image::create_on(&host, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false).expect("made");
    let mut rng = Stream::new(1, "image.recover");
    let mut pages = vec![Page::ZERO; config.pages() as usize];
    let (image, drive) =
        Image::open_on(Arc::new(host.clone()), options(durability, 256 << 10)).map(with_ssd).expect("opens");
    for l in (0..pages.len() as u64).step_by(2) {
        let page = page_of_bytes(&mut rng);
        let write = Command::Write { lpa: Lpa(l), pages: std::slice::from_ref(&page), what: WHAT };
        drive.submit(Nanos::ZERO, write).expect("written");
        pages[l as usize] = page;
    }
    for l in 0..LINED {
        let (line, at) = (rng.below(64) as usize, Lpa(l).byte());
        let data = [l as u8 | 1; LINE_SIZE];
        drive
            .store(Nanos::ZERO, at.offset((line * LINE_SIZE) as u64), &data, TxId::NONE, WHAT)
            .expect("stored");
        drive.flush_lines(Nanos::ZERO, at, Page::SIZE).expect("flushed");
        pages[l as usize].write(line * LINE_SIZE, Payload::Bytes(&data));
    }
    drive.verify(Nanos::ZERO).expect("verified");
    assert_eq!(drive.counters().log.pages_cleaned, 0, "the lines are in the log");
    image.barrier().expect("safe");
    (host.after_process_death(), pages)
}

fn check(drive: &dyn Drive, pages: &[Page], when: &str) {
    for (l, expected) in pages.iter().enumerate() {
        let mut out = [Page::ZERO];
        let read = Command::Read { lpa: Lpa(l as u64), out: &mut out, what: WHAT };
        drive.submit(Nanos::from_secs(9), read).unwrap_or_else(|e| panic!("{when}, page {l}: {e}"));
        assert_eq!(out[0], *expected, "{when}, page {l}");
    }
}

fn recover(drive: &dyn Drive) -> Result<(), DriveError> {
    drive.submit(Nanos::from_secs(1), Command::Vendor(&mut Recover)).map(drop)
}

/// The host stops at each write of RECOVER in turn, or within it: the drive says so and is read on, nothing
/// is lost, and the next process recovers.
fn stopped_everywhere(durability: Durability) {
    let (host, pages) = died(durability);
    let options = options(durability, 256 << 10);
    let open =
        |host: &MemoryHost| Image::open_on(Arc::new(host.clone()), options).map(with_ssd).expect("opens");
    let mut rng = Stream::new(2, "image.recover");
    let writes = {
        let host = host.after_process_death();
        let (_image, drive) = open(&host);
        let before = host.writes();
        recover(&*drive).expect("recovers");
        check(&*drive, &pages, "never stopped");
        assert_eq!(drive.counters().log.recovery_pages, LINED);
        host.writes() - before
    };
    assert!(writes > 40, "{writes} writes are no steps");
    for n in 0..writes {
        let host = host.after_process_death();
        let (image, drive) = open(&host);
        host.stop_after(n, rng.below(5000) as usize);
        let done = recover(&*drive);
        assert!(matches!(done, Err(DriveError::ReadOnly(_))), "stopped after {n} writes: {done:?}");
        assert!(image.failure().is_some_and(|why| why.contains("the host has stopped")));
        check(&*drive, &pages, &format!("stopped after {n} writes"));
        drop((image, drive));
        let left = match durability {
            Durability::Process => host.after_process_death(),
            Durability::Machine => host.after_machine_crash([512, 4096][n as usize % 2], &mut rng),
        };
        let (image, drive) = open(&left);
        recover(&*drive).expect("recovers");
        check(&*drive, &pages, &format!("recovered after {n} writes"));
        drive.check().expect("consistent");
        image.close().expect("closed");
    }
}

#[test]
fn a_process_that_dies_anywhere_in_recover_loses_nothing() {
    stopped_everywhere(Durability::Process);
}

#[test]
fn a_machine_that_crashes_anywhere_in_recover_loses_nothing() {
    stopped_everywhere(Durability::Machine);
}

/// Contents reach `flash` before the frames that name them, and both in the same order each time.
#[test]
fn the_order_of_writes_does_not_depend_on_the_thread() {
    let (host, _) = died(Durability::Process);
    let run = |writes: u64| {
        let host = host.after_process_death();
        let (image, drive) = Image::open_on(Arc::new(host.clone()), options(Durability::Process, 256 << 10))
            .map(with_ssd)
            .expect("opens");
        host.stop_after(writes, 0);
        let _ = recover(&*drive);
        drop((image, drive));
        let mut files = Vec::new();
        for name in ["flash", "dram", "wal"] {
            host.tamper(name, |bytes| files.push(bytes.clone()));
        }
        files
    };
    for writes in [1, 20, 21, 22, 23, 100] {
        assert!(run(writes) == run(writes), "the first {writes} writes are not always the same");
    }
}
