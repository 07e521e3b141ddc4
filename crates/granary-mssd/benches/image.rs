//! What images cost on the wall clock: opening, changes in process mode, barriers in machine mode.
//!
//! `cargo bench -p granary-mssd --bench image [DIR]` makes its images below DIR (default: the directory for temporary files).
#![allow(clippy::disallowed_methods, reason = "measures the wall clock")]

use granary_mssd::image::{Durability, Image, ImageMeta};
use granary_mssd::{Command, Drive, DriveConfig, Mode, Structure};
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const WHAT: Structure = Structure::Data;

fn config(mode: Mode, size: Bytes) -> DriveConfig {
    let mut c = DriveConfig::bytefs_emulator().with_mode(mode);
    c.flash = c.flash.with_capacity(size);
    c
}

fn open(path: &Path, durability: Durability) -> (Image, Arc<dyn Drive>) {
    Image::open(path, durability, false).expect("opens")
}

fn make(path: &Path, mode: Mode, size: Bytes) {
    Image::create(path, &config(mode, size), ImageMeta::default(), true).expect("made");
}

/// A page of bytes that no other has.
fn page(n: u64) -> Page {
    let mut b = [0; Page::SIZE];
    b.chunks_exact_mut(8)
        .enumerate()
        .for_each(|(i, c)| c.copy_from_slice(&(n << 20 | i as u64).to_le_bytes()));
    Page::from_bytes(&b)
}

fn write(drive: &dyn Drive, at: u64, page: &Page) {
    let pages = std::slice::from_ref(page);
    let now = granary_sim::now();
    drive.submit(now, Command::Write { lpa: Lpa(at), pages, what: WHAT }).expect("written");
}

fn persist(drive: &dyn Drive, at: u64, data: &[u8; 64]) {
    let now = granary_sim::now();
    drive.store(now, ByteAddr(at), data, TxId::NONE, WHAT).expect("stored");
    drive.flush_lines(now, ByteAddr(at), 64).expect("flushed");
    drive.verify(now).expect("verified");
}

fn line(what: &str, n: u64, begin: Instant) {
    let t = begin.elapsed();
    println!(
        "{what:<58} {:>10.2} us each, {:>9.3} s in all",
        t.as_secs_f64() * 1e6 / n as f64,
        t.as_secs_f64()
    );
}

fn opening(dir: &Path) {
    let path = dir.join("open");
    make(&path, Mode::Log, Bytes::gib(1024));
    let t = Instant::now();
    let (image, _drive) = open(&path, Durability::Process);
    line("open an empty 1 TiB image", 1, t);
    image.close().expect("closed");

    make(&path, Mode::Log, Bytes::gib(4));
    let (image, drive) = open(&path, Durability::Process);
    let n = image.config().pages();
    let t = Instant::now();
    (0..n).for_each(|l| write(&*drive, l, &page(l)));
    line("fill 4 GiB, 4 KiB writes, process mode", n, t);
    drop(image);
    let t = Instant::now();
    let (image, _drive) = open(&path, Durability::Process);
    line("open the full 4 GiB image, not closed cleanly", 1, t);
    image.close().expect("closed");
    let t = Instant::now();
    let (image, drive) = open(&path, Durability::Process);
    line("open it after a clean close", 1, t);
    let m = 200_000;
    let t = Instant::now();
    for i in 0..m {
        write(&*drive, i * 7_919 % n, &page(i));
    }
    line("overwrite at random, gc at work", m, t);
    drop(image);
}

/// A log region filled to the point where cleaning begins, entries of one line on 12 lines of each page, of which one in
/// twelve is not committed; the process dies; open and RECOVER (ByteFS section 5.5: 0.9 s load, 2.7 s scan and flush).
fn recovery(dir: &Path) {
    let path = dir.join("recovery");
    make(&path, Mode::Log, Bytes::gib(32));
    let (image, drive) = open(&path, Durability::Process);
    let entries = image.config().firmware.log_region.0 / 2 / 80 * 84 / 100;
    let mut now = Nanos::ZERO;
    for i in 0..entries {
        let (at, tx) = (ByteAddr((i / 12) * 4096 + (i % 12) * 128), TxId(1 + (i % 12) as u32));
        now = drive.store(now, at, &[i as u8 | 1; 64], tx, WHAT).expect("stores");
        now = drive.flush_lines(now, at, 64).expect("flushes");
    }
    now = drive.verify(now).expect("verifies");
    for tx in 1..12 {
        now = drive.submit(now, Command::Commit { tx: TxId(tx) }).expect("commits");
    }
    drop(image);
    let t = Instant::now();
    let (image, drive) = open(&path, Durability::Process);
    line("open an image with a full log region, not closed cleanly", 1, t);
    let t = Instant::now();
    let done = drive.submit(now, Command::Recover).expect("recovers");
    line("RECOVER: scan and flush", entries, t);
    println!("  in virtual time {} after {} of loading", done - now, image.config().firmware.power_on);
    image.close().expect("closed");
}

fn changes(dir: &Path) {
    for mode in [Mode::Log, Mode::Cache] {
        let path = dir.join("changes");
        make(&path, mode, Bytes::gib(1));
        let (image, drive) = open(&path, Durability::Process);
        let n = 200_000;
        let content: Vec<Page> = (0..256).map(page).collect();
        for round in ["first", "again"] {
            let t = Instant::now();
            (0..n).for_each(|i| write(&*drive, i * 127 % n, &content[(i % 256) as usize]));
            line(&format!("{mode:?} firmware: write 4 KiB, {round}"), n, t);
        }
        let t = Instant::now();
        (0..n).for_each(|i| persist(&*drive, i * 127 % n * 4096 + i % 64 * 64, &[i as u8; 64]));
        line(&format!("{mode:?} firmware: persist 64 B"), n, t);
        println!("    {:?}", image.journal_counters());
        drop(image);
        let ram = granary_mssd::Mssd::new(&config(mode, Bytes::gib(1))).expect("a drive");
        let t = Instant::now();
        (0..n).for_each(|i| write(&ram, i * 127 % n, &content[(i % 256) as usize]));
        line(&format!("{mode:?} firmware, in memory: write 4 KiB"), n, t);
        let t = Instant::now();
        (0..n).for_each(|i| persist(&ram, i * 127 % n * 4096 + i % 64 * 64, &[i as u8; 64]));
        line(&format!("{mode:?} firmware, in memory: persist 64 B"), n, t);
    }
}

fn barriers(dir: &Path) {
    for (threads, n) in [(1, 1000u64), (16, 400)] {
        let path = dir.join("barriers");
        make(&path, Mode::Log, Bytes::gib(1));
        let (image, drive) = open(&path, Durability::Machine);
        let t = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (image, drive) = (&image, &drive);
                scope.spawn(move || {
                    for i in 0..n {
                        let at = thread * 10_000 + i;
                        write(&**drive, at, &page(at));
                        persist(&**drive, at * 4096, &[7; 64]);
                        image.barrier().expect("safe");
                    }
                });
            }
        });
        let all = threads * n;
        line(&format!("machine mode, {threads} threads: write, persist, barrier"), all, t);
        println!(
            "    {:.0} barriers/s, {:?}",
            all as f64 / t.elapsed().as_secs_f64(),
            image.journal_counters()
        );
        image.close().expect("closed");
    }
}

fn main() {
    let place = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    let dir = match place {
        Some(place) => tempfile::tempdir_in(place),
        None => tempfile::tempdir(),
    };
    let dir = dir.expect("a directory");
    // Time begins now.
    assert!(granary_sim::now() < Nanos::from_secs(1));
    opening(dir.path());
    recovery(dir.path());
    changes(dir.path());
    barriers(dir.path());
}
