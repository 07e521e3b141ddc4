//! Files of two images, or of two times of one, are no image: each swap is refused, whichever file it is, and
//! what fits is opened.

use granary_device::{Command, Role, Structure};
use granary_image::host::Host;
use granary_image::host::memory::MemoryHost;
use granary_image::{Image, ImageDevices, ImageError, ImageMeta, OpenOptions};
use granary_mssd::{DriveConfig, Mode};
use granary_pmem::{DimmConfig, Domain};
use granary_units::{Bytes, Lpa, Nanos, Page};
use std::sync::Arc;

/// The files with content of devices.
const MEMBERS: [&str; 4] = ["flash", "dram", "nvm", "wal"];

fn devices() -> ImageDevices {
    let nvm =
        DimmConfig { dimms: 1, capacity: Bytes::kib(64), domain: Domain::Adr, ..DimmConfig::optane_dcpmm() };
    ImageDevices { nvm: Some(nvm), ..ImageDevices::ssd(DriveConfig::tiny(Mode::Cache)) }
}

fn made() -> MemoryHost {
    let host = MemoryHost::new();
    Image::create_on(&host, &devices(), ImageMeta::default(), false).expect("made");
    host
}

fn options() -> OpenOptions {
    OpenOptions { inline_checkpoints: true, ..OpenOptions::default() }
}

/// Opens it, writes something, and closes it, or leaves it as a process that dies.
fn used(host: &MemoryHost, word: u64, closes: bool) {
    let (image, devices) = Image::open_on(Arc::new(host.clone()), options()).expect("opens");
    let drive = devices.get(Role::Ssd).expect("an SSD").drive().clone();
    let page = [Page::word(word)];
    let command = Command::Write { lpa: Lpa(3), pages: &page, what: Structure::Data };
    drive.submit(Nanos::ZERO, command).expect("written");
    if closes {
        image.close().expect("closes");
    }
}

/// Puts a file of one image in the place of another one's.
fn put(from: &MemoryHost, name: &'static str, to: &MemoryHost) {
    let content = from.after_process_death();
    let source = content.open(name, true).expect("there");
    let mut bytes = vec![0; source.len().expect("length") as usize];
    source.read_at(0, &mut bytes).expect("read");
    let file = to.open(name, false).expect("there");
    file.set_len(0).and_then(|()| file.set_len(bytes.len() as u64)).expect("set");
    file.write_at(0, &bytes).expect("written");
}

fn refused(host: &MemoryHost, name: &str, read_only: bool) -> String {
    let options = OpenOptions { read_only, ..options() };
    match Image::open_on(Arc::new(host.after_process_death()), options).err() {
        Some(e @ ImageError::Mixed { file, .. }) if file == name => e.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_file_of_another_image_is_refused() {
    for name in MEMBERS {
        let (a, b) = (made(), made());
        used(&a, 1, true);
        used(&b, 2, name != "wal");
        put(&b, name, &a);
        for read_only in [false, true] {
            assert!(refused(&a, name, read_only).contains("another image") || name != "wal");
        }
    }
}

#[test]
fn a_file_of_an_older_or_a_later_copy_is_refused() {
    for name in MEMBERS {
        for later in [false, true] {
            let image = made();
            used(&image, 1, name != "wal");
            let copy = image.after_process_death();
            used(&image, 2, name != "wal");
            let (from, to) = if later { (&image, &copy) } else { (&copy, &image) };
            put(from, name, to);
            refused(to, name, false);
            refused(to, name, true);
        }
    }
}

#[test]
fn an_emptied_log_of_an_image_that_was_not_closed_is_refused() {
    let image = made();
    used(&image, 1, false);
    image.tamper("wal", Vec::clear);
    refused(&image, "wal", false);
}

/// Damage of what tells files apart is none of the content.
#[test]
fn labels_that_agree_are_enough_and_one_copy_of_each_is() {
    let image = made();
    used(&image, 1, true);
    let older = image.after_process_death();
    used(&image, 2, true);
    image.remove("epoch").expect("removed");
    for name in ["flash", "dram", "nvm"] {
        image.tamper(name, |b| {
            let at = b.len() - 4096;
            b[at + 9] ^= 1;
        });
    }
    Image::open_on(Arc::new(image.after_process_death()), options()).expect("opens");
    put(&older, "nvm", &image);
    refused(&image, "dram", true);
    image.tamper("nvm", |b| {
        let at = b.len() - 4096;
        b[at..].fill(0);
    });
    refused(&image, "nvm", true);
}

#[test]
fn an_epoch_of_another_image_is_refused() {
    let (image, other) = (made(), made());
    used(&image, 1, true);
    used(&other, 1, true);
    let epoch = other.open("epoch", true).expect("there");
    let mut bytes = vec![0; epoch.len().expect("length") as usize];
    epoch.read_at(0, &mut bytes).expect("read");
    image.replace("epoch", &bytes).expect("replaced");
    refused(&image, "epoch", true);
}

/// The image can be opened after an opening or a closing that was interrupted at any write.
#[test]
fn an_opening_that_dies_at_any_write_leaves_files_that_fit() {
    let before = made();
    used(&before, 1, true);
    for crashed in [false, true] {
        for stop in 0.. {
            let host = before.after_process_death();
            if crashed {
                used(&host, 2, false);
            }
            host.stop_after(stop, 0);
            let whole = Image::open_on(Arc::new(host.clone()), options())
                .and_then(|(image, _)| image.close())
                .is_ok();
            let found = Image::open_on(Arc::new(host.after_process_death()), options());
            found.unwrap_or_else(|e| panic!("after {stop} writes: {e}"));
            if whole {
                assert!(stop > 8, "{stop} writes");
                break;
            }
        }
    }
}
