//! Costs of images on the wall clock: opening, changes in process mode, barriers in machine mode.
//!
//! `cargo bench -p granary-image --bench image -- [DIR [opening|recovery|changes|barriers|fences [LINES]]]`
//! makes its images below DIR (default: the directory for temporary files).
#![allow(clippy::disallowed_methods, reason = "measures the wall clock")]

#[path = "../../granary-mssd/benches/cpu_time/mod.rs"]
#[allow(dead_code, reason = "the criterion benches use the rest")]
mod cpu_time;

use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Drive, Role, Streamed, Structure};
use granary_image::{Durability, Image, ImageDevices, ImageMeta};
use granary_mssd::{DriveConfig, Mode};
use granary_pmem::{Dimm, DimmConfig};
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The allocator of the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WHAT: Structure = Structure::Data;

fn config(mode: Mode, size: Bytes) -> DriveConfig {
    let mut c = DriveConfig::bytefs_emulator().with_mode(mode);
    c.flash = c.flash.with_capacity(size);
    c
}

fn open(path: &Path, durability: Durability) -> (Image, Arc<dyn Drive>) {
    let (image, devices) = Image::open(path, durability, false).expect("opens");
    let drive = devices.get(Role::Ssd).expect("an SSD").drive().clone();
    (image, drive)
}

fn make(path: &Path, mode: Mode, size: Bytes) {
    Image::create(path, &ImageDevices::ssd(config(mode, size)), ImageMeta::default(), true).expect("made");
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
    let n = image.ssd_config().expect("an SSD").pages();
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

/// Fills a log while time stands still: the first half to where cleaning begins, then the second one, of
/// which cleaning has not freed anything. Entries of one line on `lines` lines of each page, of which one in
/// twelve is not committed. Ends after `most` entries or when one has to wait; returns how many did not.
fn fill_log(drive: &dyn Drive, lines: u64, most: u64) -> u64 {
    let now = Nanos::ZERO;
    let mut entries = 0;
    while entries < most {
        let at = ByteAddr(entries / lines * 4096 + entries % lines * (64 / lines * 64));
        let group = TxId(2 + (entries / 12) as u32);
        let tx = if entries % 12 == 11 { TxId(1) } else { group };
        drive.store(now, at, &[entries as u8 | 1; 64], tx, WHAT).expect("stores");
        drive.flush_lines(now, at, 64).expect("flushes");
        if drive.counters().log.stalls > 0 {
            break;
        }
        if entries % 12 == 11 {
            drive.submit(now, Command::Vendor(&mut Commit { tx: group })).expect("commits");
        }
        entries += 1;
    }
    entries
}

/// The process dies over a log of which both halves are full; open and RECOVER (ByteFS section 5.5: 0.9 s
/// load, 2.7 s scan and flush).
fn recovery(dir: &Path, lines: u64) {
    let path = dir.join("recovery");
    let config = config(Mode::Log, Bytes::gib(32));
    let most = fill_log(&granary_mssd::Mssd::new(&config).expect("a drive"), lines, u64::MAX);
    make(&path, Mode::Log, Bytes::gib(32));
    let (image, drive) = open(&path, Durability::Process);
    let entries = fill_log(&*drive, lines, most);
    let (size, log) = (config.firmware.log_region, drive.counters().log);
    println!(
        "a log of {size} with {entries} entries of one line, {lines} to a page: {:.1} % full, {} pages cleaned",
        (entries * 80) as f64 * 100.0 / size.0 as f64,
        log.pages_cleaned
    );
    drop(image);
    let (t, cpu) = (Instant::now(), cpu_time::on_cpu());
    let (image, drive) = open(&path, Durability::Process);
    line("open the image, not closed cleanly", 1, t);
    println!("    {:.3} s of processor time", (cpu_time::on_cpu() - cpu) as f64 / 1e9);
    let (t, cpu, all) = (Instant::now(), cpu_time::on_cpu(), cpu_time::all_threads());
    let done = drive.submit(Nanos::ZERO, Command::Vendor(&mut Recover)).expect("recovers");
    line("RECOVER: scan and flush", entries, t);
    println!(
        "    {:.3} s of processor time, all threads {:.2} s",
        (cpu_time::on_cpu() - cpu) as f64 / 1e9,
        (cpu_time::all_threads() - all) as f64 / 1e9
    );
    let log = drive.counters().log;
    println!(
        "  in virtual time {done} after {} of loading: scan {}, flush {} of {} pages",
        config.firmware.power_on, log.scan_time, log.flush_time, log.pages_cleaned
    );
    println!("    {:?}", image.journal_counters());
    let t = Instant::now();
    image.close().expect("closed");
    line("close", 1, t);
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

/// NOVA's stores to DIMMs for a small change: a page of data past the caches, a log entry, a fence, the log's
/// tail, a fence.
fn append(dimm: &dyn Drive, n: u64, page: &Page) {
    let now = granary_sim::now();
    let (log, tail) = ((1 << 28) + n * 64 % (16 << 20), (1 << 29) + n % 1024 * 128);
    dimm.stream(now, Lpa(n % 60_000), 0, Streamed::Page(page), WHAT).expect("streamed");
    for (at, data) in [(log, &[n as u8; 64][..]), (tail, &n.to_le_bytes()[..])] {
        dimm.store(now, ByteAddr(at), data, TxId::NONE, WHAT).expect("stored");
        dimm.flush_lines(now, ByteAddr(at), data.len()).expect("flushed");
        dimm.verify(now).expect("verified");
    }
}

/// NVM DIMMs: in memory, on an image, on an image with barriers once in a while.
fn fences(dir: &Path) {
    let config = DimmConfig { capacity: Bytes::gib(1), ..DimmConfig::optane_dcpmm() };
    let n = 200_000;
    let pages: Vec<Page> = (0..64).map(page).collect();
    let run = |what: &str, dimm: &dyn Drive, each: &dyn Fn(u64)| {
        let t = Instant::now();
        for i in 0..n {
            append(dimm, i, &pages[i as usize % pages.len()]);
            each(i);
        }
        line(what, n, t);
    };
    run("DIMMs in memory: NOVA's append", &Dimm::new(&config).expect("DIMMs"), &|_| {});
    for (durability, every) in [(Durability::Process, n), (Durability::Machine, 1000)] {
        let path = dir.join("fences");
        Image::create(&path, &ImageDevices::nvm(config.clone()), ImageMeta::default(), true).expect("made");
        let (image, devices) = Image::open(&path, durability, false).expect("opens");
        let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
        run(&format!("the same on an image, {durability:?}, barrier each {every}"), &**dimm, &|i| {
            if i % every == every - 1 {
                image.barrier().expect("safe");
            }
        });
        println!("    {:?}", image.journal_counters());
        image.close().expect("closed");
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let dir = match args.next() {
        Some(place) => tempfile::tempdir_in(place),
        None => tempfile::tempdir(),
    };
    let dir = dir.expect("a directory");
    let only = args.next();
    let lines: Option<u64> = args.next().map(|lines| lines.parse().expect("lines to a page"));
    let wanted = |part: &str| only.as_ref().is_none_or(|only| only == part);
    // Time begins now.
    assert!(granary_sim::now() < Nanos::from_secs(1));
    if wanted("opening") {
        opening(dir.path());
    }
    if wanted("recovery") {
        [12, 16, 64]
            .into_iter()
            .filter(|n| lines.is_none_or(|lines| lines == *n))
            .for_each(|lines| recovery(dir.path(), lines));
    }
    if wanted("changes") {
        changes(dir.path());
    }
    if wanted("barriers") {
        barriers(dir.path());
    }
    if wanted("fences") {
        fences(dir.path());
    }
}
