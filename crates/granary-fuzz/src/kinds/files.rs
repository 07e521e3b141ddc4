//! Files of a drive image: its header with the checksum put right, groups of its redo log in frames whose
//! sums are right, and any other of its bytes.

use crate::mutate::Numbers;
use granary_bench::Precondition;
use granary_bench::memory::{Limits, Use, ssd_fits};
use granary_device::vendor::transactions::Commit;
use granary_device::{Command, Devices, Structure};
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image, ImageDevices, ImageMeta, OpenOptions};
use granary_mssd::{DriveConfig, Mode};
use granary_pmem::DimmConfig;
use granary_redo::files::{COUNTERS, DRAM, EPOCH, FLASH, HEADER, NVM, WAL};
use granary_redo::host::Host;
use granary_redo::wal::{FRAME, Wal, Way, name_of, replay};
use granary_units::{Bytes, Lpa, Nanos, Page};
use std::sync::{Arc, OnceLock};

/// A half of the redo log.
const HALF: u64 = 64 << 10;
/// Memory that a drive of a header may need.
const MOST_MEMORY: u64 = 64 << 20;

fn options() -> OpenOptions {
    OpenOptions {
        durability: Durability::Process,
        inline_checkpoints: true,
        wal_half: Some(HALF),
        ..OpenOptions::default()
    }
}

/// Some commands.
fn work(devices: &Devices) {
    let mut now = Nanos::ZERO;
    for (_, drive) in devices.drives() {
        for i in 0..40 {
            let (lpa, what) = (Lpa(i * 5 % 60), Structure::Data);
            let pages = &[Page::word(i + 1)];
            now = drive.submit(now, Command::Write { lpa, pages, what }).unwrap_or(now);
            now = drive.store(now, lpa.byte(), &[7; 64], granary_units::TxId(1), what).unwrap_or(now);
            now = drive.flush_lines(now, lpa.byte(), 64).and_then(|now| drive.verify(now)).unwrap_or(now);
        }
        now = drive.submit(now, Command::Vendor(&mut Commit { tx: granary_units::TxId(1) })).unwrap_or(now);
    }
}

/// An image whose process died after some work; each call has its own.
fn died() -> MemoryHost {
    static MADE: OnceLock<MemoryHost> = OnceLock::new();
    MADE.get_or_init(make).after_process_death()
}

fn make() -> MemoryHost {
    let host = MemoryHost::new();
    let nvm = DimmConfig::optane_dcpmm().with_capacity(Bytes::mib(1));
    let devices = ImageDevices { ssd: Some(DriveConfig::tiny(Mode::Log)), nvm: Some(nvm) };
    Image::create_on(&host, &devices, ImageMeta::default(), false).expect("an image is made");
    let (image, devices) = Image::open_on(Arc::new(host.clone()), options()).expect("it opens");
    work(&devices);
    let left = host.after_process_death();
    drop(image);
    left
}

/// The text of its header.
pub(super) fn seed() -> Vec<u8> {
    read(&died(), HEADER)
}

fn read(host: &MemoryHost, name: &'static str) -> Vec<u8> {
    let Ok(file) = host.open(name, true) else { return Vec::new() };
    let mut bytes = vec![0; file.len().unwrap_or(0) as usize];
    file.read_at(0, &mut bytes).expect("reads");
    bytes
}

/// Opens it, if its devices are small, and works with what is there.
fn open(host: &MemoryHost) {
    let info = match Image::describe_on(host) {
        Ok(info) => info,
        Err(e) => return drop(e.to_string()),
    };
    if let Some(ssd) = &info.devices.ssd {
        let how = Use { precondition: Precondition::None, content: true };
        if ssd_fits("fuzz", ssd, how, &Limits::of(MOST_MEMORY)).is_err() {
            return;
        }
    }
    if info.devices.nvm.as_ref().is_some_and(|nvm| nvm.capacity.0 > MOST_MEMORY) {
        return;
    }
    match Image::open_on(Arc::new(host.clone()), options()) {
        Err(e) => drop(e.to_string()),
        Ok((image, devices)) => {
            let _ = devices.check();
            work(&devices);
            let _ = image.close();
        }
    }
}

/// The bytes are a header: as they are, and with their checksum put right.
pub(super) fn header(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |b| *b == b'\n');
    let (first, _, body) = (lines.next(), lines.next(), lines.next());
    let sealed = first.zip(body).map(|(first, body)| {
        let sum = format!("\ncrc32c = \"{:#010x}\"\n", crc32c::crc32c(body));
        [first, sum.as_bytes(), body].concat()
    });
    let first = bytes.to_vec();
    for text in [Some(first), sealed].into_iter().flatten() {
        let host = died();
        host.tamper(HEADER, |now| *now = text);
        open(&host);
    }
}

/// The bytes say what is changed: groups of the redo log, or bytes of any file.
pub(super) fn journal(bytes: &[u8]) {
    let mut n = Numbers::new(bytes);
    let host = died();
    if !n.byte().is_multiple_of(4) {
        groups(&host, &mut n);
    } else {
        let name = [DRAM, FLASH, NVM, WAL, EPOCH, COUNTERS][n.below(6)];
        host.tamper(name, |file| {
            for _ in 0..8 {
                if n.is_empty() || file.is_empty() {
                    break;
                }
                let at = n.wild(file.len() as u64) as usize % file.len();
                match n.byte() % 4 {
                    0 => file[at] = n.byte(),
                    1 => file.truncate(at),
                    2 => {
                        let to = file.len().min(at + 64);
                        file[at..to].fill(n.byte());
                    }
                    _ => {
                        let value = n.wild(1 << 20).to_le_bytes();
                        let to = file.len().min(at + 8);
                        file[at..to].copy_from_slice(&value[..to - at]);
                    }
                }
            }
        });
    }
    open(&host);
}

/// Changes records of the redo log, in frames with right sums.
fn groups(host: &MemoryHost, n: &mut Numbers<'_>) {
    let file = host.open(WAL, false).expect("it has a log");
    let mut head = [0; 64];
    if file.read_at(0, &mut head).is_err() {
        return;
    }
    let Some(uuid) = name_of(&head) else { return };
    let mut groups: Vec<Vec<u8>> = Vec::new();
    let read = replay(&*file, &uuid, |group| {
        groups.push(group.to_vec());
        Ok(())
    });
    if read.is_err() || groups.is_empty() {
        return;
    }
    for _ in 0..8 {
        if n.is_empty() {
            break;
        }
        let of = n.below(groups.len());
        let other = groups[n.below(groups.len())].clone();
        let group = &mut groups[of];
        let at = n.below(group.len());
        match n.byte() % 6 {
            0 if !group.is_empty() => group[at] = n.byte(),
            1 if !group.is_empty() => {
                let (value, to) = (n.wild(1 << 16).to_le_bytes(), group.len().min(at + 4));
                group[at..to].copy_from_slice(&value[..to - at]);
            }
            2 => group.truncate(at),
            3 => group.splice(at..at, other).for_each(drop),
            4 => drop(groups.remove(of)),
            _ => groups.push(n.rest().iter().copied().take(300).collect()),
        }
        if groups.is_empty() {
            break;
        }
    }
    let Ok(mut wal) = Wal::start(file, uuid, HALF, Way::Written) else { return };
    for group in groups {
        let mut frame = vec![0; FRAME];
        frame.extend(group);
        if !wal.fits(Wal::frame_len(&frame, 0)) || wal.append(&mut frame, &[]).is_err() {
            break;
        }
    }
}
