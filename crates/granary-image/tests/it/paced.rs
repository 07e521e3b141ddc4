//! A drive on an image that does all at the same instants as one in memory: for images of power failures.

use crate::rig::{options, with_ssd};
use granary_device::{Command, Drive, Structure};
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image, ImageDevices, ImageMeta, OpenOptions};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Lpa, Nanos, PAGE_SIZE, Page};
use std::sync::Arc;

/// Writes that come faster than flash takes them; the instants at which they are done.
fn write_fast(drive: &dyn Drive) -> Vec<Nanos> {
    let pages = drive.info().pages;
    let write = |n: u64| {
        let page = Page::from_bytes(&[n as u8 + 1; PAGE_SIZE]);
        let command = Command::Write { lpa: Lpa(n * 7 % pages), pages: &[page], what: Structure::Data };
        drive.submit(Nanos(n * 100), command).expect("written")
    };
    (0..200).map(write).collect()
}

fn pages(drive: &dyn Drive) -> Vec<Page> {
    let mut out = vec![Page::ZERO; drive.info().pages as usize];
    for (n, page) in out.iter_mut().enumerate() {
        let out = std::slice::from_mut(page);
        let command = Command::Read { lpa: Lpa(n as u64), out, what: Structure::Data };
        drive.submit(Nanos::from_secs(1), command).expect("read");
    }
    out
}

#[test]
fn a_paced_drive_is_as_fast_as_one_in_memory_and_its_image_has_all_that_the_power_failure_left() {
    for mode in [Mode::Log, Mode::Cache] {
        let (host, mut config) = (MemoryHost::new(), DriveConfig::tiny(mode));
        // More than the planes have in hand: some pages wait.
        config.firmware.write_buffer = Bytes::kib(128);
        let memory = Mssd::new(&config).expect("a drive");
        let devices = ImageDevices::ssd(config);
        Image::create_on(&host, &devices, ImageMeta::default(), false).expect("made");
        let open = |paced| {
            let options = OpenOptions { paced, ..options(Durability::Process, 1 << 20) };
            with_ssd(Image::open_on(Arc::new(host.clone()), options).expect("opened"))
        };
        let (image, drive) = open(true);
        assert_eq!(write_fast(&*drive), write_fast(&memory), "{mode:?}");
        let buffer = memory.counters().buffer;
        assert!(buffer.issued + buffer.coalesced < buffer.pages, "{mode:?}: some wait: {buffer:?}");
        for drive in [&*drive, &memory as &dyn Drive] {
            drive.power_fail(Nanos::from_micros(20), &mut Stream::new(1, "power"));
        }
        drop(drive);
        image.close().expect("closed");
        memory.power_on(Nanos::from_millis(1)).expect("powered");
        let (image, drive) = open(false);
        assert!(pages(&*drive) == pages(&memory), "{mode:?}: the same content");
        drop(drive);
        image.close().expect("closed");
    }
}
