//! A drive that gets larger, in use or not, keeps what it holds, and a crash at any write of it leaves the
//! old drive or the new one.

use super::rig::with_ssd;
use granary_device::vendor::pebble::{BamRead, FsWrite, Remap};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Drive, FileEnd, Structure};
use granary_image::host::{Host, memory::MemoryHost};
use granary_image::{Durability, Image, ImageDevices, ImageError, ImageMeta, OpenOptions};
use granary_mssd::{DriveConfig, Mode};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::sync::Arc;

fn page(n: u64) -> Page {
    let bytes: Vec<u8> = (0..PAGE_SIZE as u64).map(|i| (i * 7 + n * 13 + i / 100) as u8).collect();
    // Some pages are one word, which the image keeps elsewhere.
    if n.is_multiple_of(3) { Page::word(n + 1) } else { Page::from_bytes(&bytes.try_into().expect("a page")) }
}

fn options() -> OpenOptions {
    OpenOptions { durability: Durability::Machine, inline_checkpoints: true, ..OpenOptions::default() }
}

fn open(host: &MemoryHost) -> Result<(Image, Arc<dyn Drive>), ImageError> {
    open_as(host, options())
}

fn open_as(host: &MemoryHost, options: OpenOptions) -> Result<(Image, Arc<dyn Drive>), ImageError> {
    let (image, drive) = Image::open_on(Arc::new(host.clone()), options).map(with_ssd)?;
    if drive.info().answers("COMMIT") {
        drive.submit(Nanos::ZERO, Command::Vendor(&mut Recover)).expect("recovered");
    }
    Ok((image, drive))
}

/// A used drive, closed cleanly or not; logical pages `0..used` hold their numbers' pages.
fn used_drive(mode: Mode, clean: bool) -> (MemoryHost, u64) {
    let host = MemoryHost::new();
    let config = DriveConfig::tiny(mode);
    Image::create_on(&host, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false).expect("made");
    let (image, drive) = open(&host).expect("opens");
    let used = config.pages() / 2;
    let mut random = Stream::new(5, "image.grow");
    let mut now = Nanos::ZERO;
    for round in 0..3 {
        for n in 0..used {
            let content = if round == 2 { page(n) } else { page(random.below(1000)) };
            let pages = [content];
            now = drive
                .submit(now, Command::Write { lpa: Lpa(n), pages: &pages, what: Structure::Data })
                .expect("written");
        }
    }
    let line = drive.store(now, Lpa(used).byte(), &[9; 64], TxId::NONE, Structure::Data).expect("stored");
    let line = drive.flush_lines(line, Lpa(used).byte(), 64).expect("flushed");
    drive.verify(line).expect("verified");
    image.barrier().expect("safe");
    if clean {
        image.close().expect("closed");
    } else {
        drop(image);
    }
    (host.after_process_death(), used)
}

fn assert_holds(drive: &Arc<dyn Drive>, used: u64) {
    let mut out = [Page::ZERO];
    let mut read = |n: u64| {
        drive
            .submit(Nanos::ZERO, Command::Read { lpa: Lpa(n), out: &mut out, what: Structure::Data })
            .expect("readable");
        out[0].clone()
    };
    for n in 0..used {
        assert!(read(n).to_bytes() == page(n).to_bytes(), "page {n}");
    }
    assert!(read(used).to_bytes()[..64] == [9; 64], "a line in the log or the cache");
    assert_eq!(drive.check(), Ok(()));
}

fn wanted(mode: Mode, factor: u64) -> Bytes {
    Bytes(DriveConfig::tiny(mode).pages() * PAGE_SIZE as u64 * factor)
}

#[test]
fn a_drive_that_grows_keeps_what_it_holds_and_takes_more_at_once() {
    for mode in [Mode::Log, Mode::Cache] {
        for clean in [true, false] {
            let (host, used) = used_drive(mode, clean);
            let any: Arc<dyn Host> = Arc::new(host.clone());
            let mut pages = DriveConfig::tiny(mode).pages();
            for factor in [2, 3, 5] {
                let size = Bytes(DriveConfig::tiny(mode).pages() * PAGE_SIZE as u64 * factor);
                let config = Image::grow_on(&any, size).expect("grown");
                assert!(config.pages() * PAGE_SIZE as u64 >= size.0 && config.pages() > pages);
                pages = config.pages();
                let (image, drive) = open(&host).expect("opens");
                assert_eq!(drive.info().pages, pages);
                assert_holds(&drive, used);
                let mut now = Nanos::ZERO;
                for n in used + 1..pages {
                    let content = [page(n)];
                    let write = Command::Write { lpa: Lpa(n), pages: &content, what: Structure::Data };
                    now = drive.submit(now, write).expect("the new space is there");
                }
                assert_holds(&drive, used);
                image.close().expect("closed");
            }
            let smaller = Image::grow_on(&any, Bytes(4096)).expect_err("smaller");
            assert!(smaller.to_string().contains("cannot become smaller"), "{smaller}");
            assert!(Image::grow_on(&any, Bytes::gib(64 << 10)).is_err(), "more than pages have numbers");
            assert_eq!(open(&host).expect("opens").1.info().pages, pages, "a refusal changes nothing");
        }
    }
}

#[test]
fn a_crash_at_any_write_of_a_growth_leaves_the_old_drive_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for mode in [Mode::Log, Mode::Cache] {
        let (made, used) = used_drive(mode, false);
        let before = DriveConfig::tiny(mode).pages();
        let whole = made.after_process_death();
        Image::grow_on(&(Arc::new(whole.clone()) as Arc<dyn Host>), wanted(mode, 2)).expect("grown");
        let writes = whole.writes();
        // Every write near the end, where the new drive takes the old one's place; of those before a sample.
        for stop in (0..=writes).filter(|n| n.is_multiple_of((writes / 6).max(1)) || n + 8 > writes) {
            let mut random = Stream::new(stop, "image.grow.crash");
            let host = made.after_process_death();
            host.stop_after(stop, random.below(5000) as usize);
            let grown = Image::grow_on(&(Arc::new(host.clone()) as Arc<dyn Host>), wanted(mode, 2));
            let done = !host.has_stopped();
            assert_eq!(grown.is_ok(), done, "{:?}", grown.err());
            let left = match stop % 2 {
                0 => host.after_process_death(),
                _ => host.after_machine_crash(4096, &mut random),
            };
            // A read-only opening finds a whole drive, and changes nothing.
            let look = OpenOptions { read_only: true, ..options() };
            let seen =
                Image::open_on(Arc::new(left.clone()), look).map(with_ssd).expect("opens").1.info().pages;
            let (image, drive) = open(&left).expect("opens");
            let pages = drive.info().pages;
            assert_eq!(seen, pages, "stop {stop}");
            assert_holds(&drive, used);
            image.close().expect("closed");
            if pages == before {
                old += 1
            } else {
                new += 1
            }
            // Once more, to the end.
            let config =
                Image::grow_on(&(Arc::new(left.clone()) as Arc<dyn Host>), wanted(mode, 2)).expect("grown");
            let (image, drive) = open(&left).expect("opens");
            assert_eq!(drive.info().pages, config.pages());
            assert_holds(&drive, used);
            image.close().expect("closed");
            assert_eq!(done, stop == writes);
        }
    }
    assert!(old > 10 && new >= 3, "crashes before and after: {old} {new}");
}

fn write(drive: &Arc<dyn Drive>, n: u64) {
    let content = [page(n)];
    let write = Command::Write { lpa: Lpa(n), pages: &content, what: Structure::Data };
    drive.submit(Nanos::ZERO, write).expect("written");
}

#[test]
fn an_open_drive_grows_in_the_midst_of_transactions_and_of_what_is_on_its_way() {
    for mode in [Mode::Log, Mode::Cache] {
        for durability in [Durability::Process, Durability::Machine] {
            for inline_checkpoints in [true, false] {
                let (host, used) = used_drive(mode, true);
                let how = OpenOptions { durability, inline_checkpoints, ..OpenOptions::default() };
                let (image, drive) = open_as(&host, how).expect("opens");
                let log = mode == Mode::Log;
                let tx = if log { TxId(7) } else { TxId::NONE };
                let (line, other) = (Lpa(used + 1).byte(), Lpa(used + 2).byte());
                // Of an open transaction; and stored but still in the processor's buffers.
                let mut now = drive.store(Nanos::ZERO, line, &[5; 64], tx, Structure::Data).expect("stored");
                now = drive.flush_lines(now, line, 64).expect("flushed");
                now = drive.store(now, other, &[6; 24], TxId::NONE, Structure::Data).expect("stored");
                let mut pages = drive.info().pages;
                for factor in [2, 3] {
                    let config = image.grow_open(wanted(mode, factor)).expect("grown");
                    assert!(drive.info().pages > pages && config.pages() == drive.info().pages);
                    let new = pages..drive.info().pages;
                    pages = new.end;
                    assert_holds(&drive, used);
                    new.clone().for_each(|n| write(&drive, n));
                    for n in new.chain(0..used).step_by(3) {
                        write(&drive, n);
                    }
                    assert_holds(&drive, used);
                }
                if log {
                    now = drive.submit(now, Command::Vendor(&mut Commit { tx })).expect("committed");
                }
                now = drive.flush_lines(now, other, 24).expect("flushed");
                drive.verify(now).expect("verified");
                image.barrier().expect("safe");
                let left = host.after_process_death();
                image.close().expect("closed");
                for host in [host, left] {
                    let (image, drive) = open(&host).expect("opens");
                    assert_eq!(drive.info().pages, pages);
                    assert_holds(&drive, used);
                    let mut out = [0; 64];
                    for (at, expected) in [(line, &[5; 64][..]), (other, &[6; 24][..])] {
                        drive.load(Nanos::ZERO, at, &mut out, Structure::Data).expect("readable");
                        assert_eq!(&out[..expected.len()], expected);
                    }
                    image.close().expect("closed");
                }
            }
        }
    }
}

#[test]
fn threads_write_on_while_the_drive_grows() {
    for durability in [Durability::Process, Durability::Machine] {
        let (host, used) = used_drive(Mode::Log, true);
        let wal_half = Some(1 << 20);
        let how = OpenOptions { durability, wal_half, ..OpenOptions::default() };
        let (image, drive) = open_as(&host, how).expect("opens");
        let (image, done) = (&image, &std::sync::atomic::AtomicBool::new(false));
        let rounds: u64 = std::thread::scope(|s| {
            let mine = |t: u64| {
                let drive = &drive;
                move || {
                    let (mut rounds, part) = (0, used / 4);
                    while rounds < 3 || !done.load(std::sync::atomic::Ordering::SeqCst) {
                        for n in t * part..(t + 1) * part {
                            write(drive, n);
                            if n.is_multiple_of(50) {
                                image.barrier().expect("safe");
                            }
                        }
                        rounds += 1;
                    }
                    rounds
                }
            };
            let writers: Vec<_> = (0..4).map(|t| s.spawn(mine(t))).collect();
            for factor in [2, 3, 4, 6] {
                image.grow_open(wanted(Mode::Log, factor)).expect("grown");
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
            writers.into_iter().map(|w| w.join().expect("wrote")).sum()
        });
        assert!(rounds >= 12);
        image.barrier().expect("safe");
        let left = host.after_process_death();
        let (image, drive) = open(&left).expect("opens");
        assert!(drive.info().pages * PAGE_SIZE as u64 >= wanted(Mode::Log, 6).0);
        assert_holds(&drive, used);
        image.close().expect("closed");
    }
}

#[test]
fn a_crash_at_any_write_of_the_growth_of_an_open_image_leaves_the_old_drive_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for (mode, durability) in [(Mode::Log, Durability::Machine), (Mode::Cache, Durability::Process)] {
        let (made, used) = used_drive(mode, true);
        let how = OpenOptions { durability, ..options() };
        // Something is in the redo log when the growth begins.
        let ready = || {
            let host = made.after_process_death();
            let (image, drive) = open_as(&host, how).expect("opens");
            (0..used).step_by(5).for_each(|n| write(&drive, n));
            image.barrier().expect("safe");
            (host, image)
        };
        let (host, image) = ready();
        let begin = host.writes();
        image.grow_open(wanted(mode, 2)).expect("grown");
        let writes = host.writes() - begin;
        drop(image);
        for stop in (0..=writes).filter(|n| n.is_multiple_of((writes / 8).max(1)) || n + 12 > writes) {
            let mut random = Stream::new(stop, "image.grow.open");
            let (host, image) = ready();
            host.stop_after(stop, random.below(5000) as usize);
            let grown = image.grow_open(wanted(mode, 2));
            assert_eq!(grown.is_ok(), !host.has_stopped(), "{:?}", grown.err());
            drop(image);
            let left = match durability {
                Durability::Process => host.after_process_death(),
                Durability::Machine => host.after_machine_crash(4096, &mut random),
            };
            let (image, drive) = open(&left).expect("opens");
            match drive.info().pages > DriveConfig::tiny(mode).pages() {
                true => new += 1,
                false => old += 1,
            }
            assert_holds(&drive, used);
            image.close().expect("closed");
            Image::grow_on(&(Arc::new(left.clone()) as Arc<dyn Host>), wanted(mode, 2)).expect("grown");
            assert_holds(&open(&left).expect("opens").1, used);
        }
    }
    assert!(old > 10 && new >= 3, "crashes before and after: {old} {new}");
}

#[test]
fn where_the_hosts_disk_is_full_an_open_drive_goes_on_with_its_size() {
    let (made, used) = used_drive(Mode::Log, true);
    let (mut went_on, mut grew) = (0, 0);
    for kib in (0..320).step_by(8).chain((512..4096).step_by(512)) {
        let host = made.after_process_death();
        let (image, drive) = open(&host).expect("opens");
        write(&drive, 0);
        image.barrier().expect("safe");
        let before = drive.info().pages;
        host.limit_space(Some(kib << 10));
        let grown = image.grow_open(wanted(Mode::Log, 2));
        host.limit_space(None);
        match grown {
            Ok(_) => grew += 1,
            Err(e) => {
                assert!(matches!(e, ImageError::NoSpace { .. }) || image.failure().is_some(), "{e}");
                assert_eq!(drive.info().pages, before);
            }
        }
        if image.failure().is_none() {
            write(&drive, 1);
            image.barrier().expect("safe");
            if drive.info().pages == before {
                went_on += 1;
                image.grow_open(wanted(Mode::Log, 2)).expect("there is space now");
            }
            assert_holds(&drive, used);
            image.close().expect("closed");
        }
        let (image, drive) = open(&host).expect("opens");
        assert_holds(&drive, used);
        image.close().expect("closed");
    }
    assert!(went_on > 0 && grew > 0, "{went_on} {grew}");
}

#[test]
fn what_cannot_grow_while_it_is_open_says_so_and_goes_on() {
    let (host, used) = used_drive(Mode::Log, true);
    let (image, drive) = open(&host).expect("opens");
    let smaller = image.grow_open(Bytes(4096)).expect_err("smaller");
    assert!(smaller.to_string().contains("cannot become smaller"), "{smaller}");
    assert!(image.grow_open(Bytes::gib(64 << 10)).is_err(), "more than pages have numbers");
    assert_eq!(
        image.grow_open(Bytes(drive.info().pages * 4096)).expect("as it is").pages(),
        drive.info().pages
    );
    write(&drive, 0);
    assert_holds(&drive, used);
    image.close().expect("closed");
    let look = OpenOptions { read_only: true, ..options() };
    let (image, _) = open_as(&host, look).expect("opens");
    assert!(image.grow_open(wanted(Mode::Log, 2)).expect_err("only read").to_string().contains("read only"));
    drop(image);
}

fn fs_write(drive: &Arc<dyn Drive>, lpa: u64, ino: u64, offset: u32) {
    let pages = [page(lpa), page(lpa + 1)];
    let command = Command::Vendor(&mut FsWrite {
        lpa: Lpa(lpa),
        pages: pages.to_vec(),
        ino,
        offset,
        end: FileEnd::WHOLE,
        what: Structure::Data,
    });
    drive.submit(Nanos::ZERO, command).expect("written");
}

fn remap(drive: &Arc<dyn Drive>, src: u64, dst: u64, count: u64) {
    drive
        .submit(Nanos::ZERO, Command::Vendor(&mut Remap { src: Lpa(src), dst: Lpa(dst), count }))
        .expect("moved");
}

fn entries(drive: &Arc<dyn Drive>) -> Vec<(u64, u32, u64)> {
    let (out, _) = BamRead::ask(&**drive, Nanos::ZERO, None).expect("read");
    out.iter().map(|e| (e.ino, e.offset, e.lpa.0)).collect()
}

/// Asserts the content of a logical page: the page of this number; `None`: zeros.
fn assert_page(drive: &Arc<dyn Drive>, lpa: u64, holds: Option<u64>) {
    let mut out = [Page::ZERO];
    let read = Command::Read { lpa: Lpa(lpa), out: &mut out, what: Structure::Data };
    drive.submit(Nanos::ZERO, read).expect("readable");
    let expected = holds.map_or(Page::ZERO, page);
    assert!(out[0].to_bytes() == expected.to_bytes(), "page {lpa} is not that of {holds:?}");
}

/// A drive with PebbleSSD's tables grows, in use or not: pages move between the old part and the new one, and
/// the lists go on.
#[test]
fn byte_addressable_metadata_grow_with_their_drive() {
    for mode in [Mode::Log, Mode::Cache] {
        for in_use in [true, false] {
            for clean in [true, false] {
                let host = MemoryHost::new();
                let config = DriveConfig::tiny(mode).with_bam();
                Image::create_on(&host, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false)
                    .expect("made");
                let (mut image, mut drive) = open(&host).expect("opens");
                let old = drive.info().pages;
                fs_write(&drive, 0, 7, 0);
                fs_write(&drive, 2, 8, 0);
                remap(&drive, 1, 20, 1);
                let mut list = vec![(7, 0, 0), (7, 1, 20), (8, 0, 2), (8, 1, 3)];
                assert_eq!(entries(&drive), list);
                if in_use {
                    image.grow_open(wanted(mode, 2)).expect("grown");
                } else {
                    image.close().expect("closed");
                    Image::grow_on(&(Arc::new(host.clone()) as Arc<dyn Host>), wanted(mode, 2))
                        .expect("grown");
                    (image, drive) = open(&host).expect("opens");
                }
                let new = drive.info().pages;
                assert!(new > old);
                assert_eq!(entries(&drive), list);
                // From the old part into the new one, within the new one, and back over a page that had
                // content.
                remap(&drive, 2, old + 5, 2);
                fs_write(&drive, new - 2, 9, 4);
                remap(&drive, new - 1, old, 1);
                remap(&drive, old + 6, 20, 1);
                list = vec![(7, 0, 0), (8, 0, old + 5), (8, 1, 20), (9, 4, new - 2), (9, 5, old)];
                assert_eq!(entries(&drive), list);
                drive.check().expect("consistent");
                // More entries than the table of the smaller drive had.
                for n in 0..old as u32 / 2 {
                    fs_write(&drive, 30, 10, 2 * n);
                }
                list.extend([(10, old as u32 - 2, 30), (10, old as u32 - 1, 31)]);
                assert_eq!(old % 2, 0);
                assert_eq!(entries(&drive), list);
                image.barrier().expect("safe");
                if clean {
                    image.close().expect("closed");
                } else {
                    drop(image);
                }
                let (image, drive) = open(&host.after_process_death()).expect("opens");
                assert_eq!((drive.info().pages, entries(&drive)), (new, list));
                drive.check().expect("consistent");
                let held = [(0, Some(0)), (1, None), (2, None), (3, None), (20, Some(3)), (30, Some(30))];
                let held =
                    held.into_iter().chain([(old + 5, Some(2)), (old + 6, None), (old, Some(new - 1))]);
                for (lpa, holds) in held.chain([(new - 2, Some(new - 2)), (new - 1, None)]) {
                    assert_page(&drive, lpa, holds);
                }
                image.close().expect("closed");
            }
        }
    }
}

/// A host that dies at any write of it leaves lists and pages of the drive as they were, whatever its size.
#[test]
fn a_crash_in_the_growth_of_byte_addressable_metadata_loses_nothing() {
    let mode = Mode::Log;
    let ready = || {
        let host = MemoryHost::new();
        Image::create_on(
            &host,
            &ImageDevices::ssd(DriveConfig::tiny(mode).with_bam()),
            ImageMeta::default(),
            false,
        )
        .expect("made");
        let (image, drive) = open(&host).expect("opens");
        (0..40).for_each(|n| fs_write(&drive, 2 * n, n % 5 + 1, 2 * n as u32));
        remap(&drive, 0, 100, 10);
        image.barrier().expect("safe");
        let list = entries(&drive);
        (host, image, list)
    };
    let (host, image, _) = ready();
    let begin = host.writes();
    image.grow_open(wanted(mode, 2)).expect("grown");
    let writes = host.writes() - begin;
    drop(image);
    let mut sizes = std::collections::BTreeSet::new();
    for stop in (0..=writes).filter(|n| n.is_multiple_of((writes / 8).max(1)) || n + 12 > writes) {
        let mut random = Stream::new(stop, "image.grow.bam");
        let (host, image, list) = ready();
        host.stop_after(stop, random.below(5000) as usize);
        assert_eq!(image.grow_open(wanted(mode, 2)).is_ok(), !host.has_stopped());
        drop(image);
        let left = host.after_machine_crash(4096, &mut random);
        let (image, drive) = open(&left).expect("opens");
        sizes.insert(drive.info().pages);
        assert_eq!(entries(&drive), list, "stop {stop}");
        (0..10).for_each(|n| assert_page(&drive, 100 + n, Some(n)));
        (10..80).for_each(|n| assert_page(&drive, n, Some(n)));
        remap(&drive, 10, drive.info().pages - 10, 10);
        drive.check().expect("consistent");
        image.close().expect("closed");
    }
    assert_eq!(sizes.len(), 2, "crashes before and after: {sizes:?}");
}
