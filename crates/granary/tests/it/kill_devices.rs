//! `kill -9` of a process that works on an image of two devices: what a fence covered, and what the SSD
//! acknowledged, is there afterwards, in both modes of durability.
//!
//! `GRANARY_KILLS=50 cargo test -p granary kill_devices::` for more than the sample.

use crate::kill::{CHILD, durability, kill_one, kills, say, when_free};
use granary_device::{Command, Devices, Drive, Role, Structure};
use granary_image::{Durability, Image, ImageDevices, ImageMeta};
use granary_lab::LabError;
use granary_sim::rng::Stream;
use granary_testbed::Testbed;
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};
use std::path::Path;
use std::sync::Arc;

/// Words and pages that the child goes round over.
const ROUND: u64 = 4000;

fn open(image: &Path, durability: Durability) -> (Image, Devices) {
    when_free(|| Image::open(image, durability, false).map_err(LabError::from))
}

fn drive(devices: &Devices, role: Role) -> Arc<dyn Drive> {
    devices.get(role).expect("an image of both").drive().clone()
}

/// A counter on the DIMM and one on the SSD, in turn; the line says what both have made safe.
fn work(image: &Path) {
    let (image, devices) = open(image, durability());
    // As a mount ends what promises something, in machine mode.
    let barrier = || image.barrier().expect("a barrier");
    let (nvm, ssd) = (drive(&devices, Role::Nvm), drive(&devices, Role::Ssd));
    for n in found(&*nvm, &*ssd).0 + 1.. {
        let (now, place) = (Nanos(n * 1_000_000), n % ROUND);
        let t = nvm
            .store(now, ByteAddr(place * 64), &n.to_le_bytes(), TxId::NONE, Structure::Data)
            .expect("stores");
        let t = nvm.flush_lines(t, ByteAddr(place * 64), 8).expect("writes back");
        let t = nvm.verify(t).expect("fences");
        barrier();
        say(format_args!("log {n}"));
        let page = [Page::word(n)];
        ssd.submit(t, Command::Write { lpa: Lpa(place), pages: &page, what: Structure::Data })
            .expect("writes");
        barrier();
        say(format_args!("file {n}"));
    }
}

/// The largest number on each device.
fn found(nvm: &dyn Drive, ssd: &dyn Drive) -> (u64, u64) {
    let (mut words, mut pages) = (0, 0);
    for place in 0..ROUND {
        let mut word = [0; 8];
        nvm.load(Nanos::ZERO, ByteAddr(place * 64), &mut word, Structure::Data).expect("loads");
        words = words.max(u64::from_le_bytes(word));
        let mut page = [Page::ZERO];
        let read = Command::Read { lpa: Lpa(place), out: &mut page, what: Structure::Data };
        ssd.submit(Nanos::ZERO, read).expect("reads");
        pages = pages.max(page[0].as_word().map_or(u64::MAX, |(word, _)| word));
    }
    (words, pages)
}

fn survives(machine: bool) {
    let dir = tempfile::tempdir().expect("directory");
    let image = dir.path().join("img");
    let testbed = Testbed::load("orchfs", &[]).expect("built in");
    let mut ssd = testbed.ssd().expect("one").clone();
    ssd.flash = ssd.flash.with_capacity(Bytes::mib(64));
    let nvm = testbed.device.nvm.map(|nvm| nvm.with_capacity(Bytes::mib(16)));
    Image::create(&image, &ImageDevices { ssd: Some(ssd), nvm }, ImageMeta::default(), false).expect("made");
    let (mut rng, mut safe) = (Stream::new(1, "devices"), (0, 0));
    for round in 0..kills() {
        safe = kill_one("kill_devices::the_child", &image, machine, &mut rng, safe);
        let (opened, devices) = open(&image, Durability::Process);
        let has = found(&*drive(&devices, Role::Nvm), &*drive(&devices, Role::Ssd));
        assert!(has.0 >= safe.0 && has.1 >= safe.1, "round {round}: {safe:?} were safe, there is {has:?}");
        // The DIMM's word was fenced before its page was written: one order over both.
        assert!(has.1 <= has.0, "round {round}: the SSD is ahead, {has:?}");
        devices.check().expect("consistent");
        drop(devices);
        opened.close().expect("closes");
    }
    assert!(safe.0 > kills() && safe.1 > kills() / 2, "only {safe:?} were done");
}

#[test]
fn two_devices_keep_what_was_safe_when_their_process_is_killed() {
    survives(false);
}

#[test]
fn two_devices_keep_what_was_safe_in_machine_mode_too() {
    survives(true);
}

#[test]
fn the_child() {
    if let Some(image) = std::env::var_os(CHILD) {
        work(Path::new(&image));
    }
}
