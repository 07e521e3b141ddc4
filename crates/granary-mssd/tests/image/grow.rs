//! A drive that gets larger keeps what it holds, and a crash at any write of it leaves the old drive or the new one.

use granary_mssd::image::host::{Host, memory::MemoryHost};
use granary_mssd::image::{Durability, Image, ImageError, ImageMeta, OpenOptions};
use granary_mssd::{Command, Drive, DriveConfig, Mode, Structure};
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
    let (image, drive) = Image::open_on(Arc::new(host.clone()), options())?;
    if drive.info().write_log {
        drive.submit(Nanos::ZERO, Command::Recover).expect("recovered");
    }
    Ok((image, drive))
}

/// A used drive, closed cleanly or not; logical pages `0..used` hold their numbers' pages.
fn used_drive(mode: Mode, clean: bool) -> (MemoryHost, u64) {
    let host = MemoryHost::new();
    let config = DriveConfig::tiny(mode);
    Image::create_on(&host, &config, ImageMeta::default(), false).expect("made");
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

fn wanted(mode: Mode) -> Bytes {
    Bytes(DriveConfig::tiny(mode).pages() * PAGE_SIZE as u64 * 2)
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
        Image::grow_on(&(Arc::new(whole.clone()) as Arc<dyn Host>), wanted(mode)).expect("grown");
        let writes = whole.writes();
        // Every write near the end, where the new drive takes the old one's place; of those before a sample.
        for stop in (0..=writes).filter(|n| n.is_multiple_of((writes / 6).max(1)) || n + 8 > writes) {
            let mut random = Stream::new(stop, "image.grow.crash");
            let host = made.after_process_death();
            host.stop_after(stop, random.below(5000) as usize);
            let grown = Image::grow_on(&(Arc::new(host.clone()) as Arc<dyn Host>), wanted(mode));
            let done = !host.has_stopped();
            assert_eq!(grown.is_ok(), done, "{:?}", grown.err());
            let left = match stop % 2 {
                0 => host.after_process_death(),
                _ => host.after_machine_crash(4096, &mut random),
            };
            // Who only looks finds a whole drive, and changes nothing.
            let look = OpenOptions { read_only: true, ..options() };
            let seen = Image::open_on(Arc::new(left.clone()), look).expect("opens").1.info().pages;
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
                Image::grow_on(&(Arc::new(left.clone()) as Arc<dyn Host>), wanted(mode)).expect("grown");
            let (image, drive) = open(&left).expect("opens");
            assert_eq!(drive.info().pages, config.pages());
            assert_holds(&drive, used);
            image.close().expect("closed");
            assert_eq!(done, stop == writes);
        }
    }
    assert!(old > 10 && new >= 3, "crashes before and after: {old} {new}");
}
