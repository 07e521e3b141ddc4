//! Priorities in a busy drive: a host's reads pass background work and queued programs. No data is served
//! before it is there: pages on their way from flash are waited for, and stores go no faster than the
//! firmware takes them.

use granary_device::{Command, Drive, Structure};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};

const WHAT: Structure = Structure::Data;

fn read(d: &Mssd, now: Nanos, lpa: u64) -> Nanos {
    let mut out = [Page::ZERO];
    d.submit(now, Command::Read { lpa: Lpa(lpa), out: &mut out, what: WHAT }).expect("reads")
}

fn write(d: &Mssd, now: Nanos, lpa: u64) -> Nanos {
    let page = [Page::word(now.0)];
    d.submit(now, Command::Write { lpa: Lpa(lpa), pages: &page, what: WHAT }).expect("writes")
}

/// A drive that was written full and then over at random, all of it.
fn steady(c: &DriveConfig, rng: &mut Stream) -> Mssd {
    let d = Mssd::new(c).expect("valid");
    let pages = d.info().pages;
    d.fill(Lpa(0), pages, |lpa| Page::word(lpa.0)).expect("fills");
    d.scatter((0..2 * pages).map(|i| (Lpa(rng.below(pages)), Page::word(i)))).expect("scatters");
    d
}

/// Reads of a drive that cleans its log and collects garbage all the time: (slowest, mean) in ns, when asked
/// one by one.
fn reads_beside(writes: bool) -> (u64, u64) {
    let mut c = DriveConfig::bytefs_emulator();
    c.flash = c.flash.with_capacity(Bytes::mib(256));
    c.firmware.log_region = Bytes::mib(1);
    c.firmware.write_buffer = Bytes::mib(1);
    let mut rng = Stream::new(3, "reads");
    let d = steady(&c, &mut rng);
    let pages = d.info().pages;
    let before = d.counters();
    let (mut now, mut slowest, mut sum, n) = (Nanos::ZERO, 0, 0, 4000);
    for _ in 0..n {
        if writes {
            for _ in 0..6 {
                let at = ByteAddr(rng.below(pages * 64) * 64);
                d.store(now, at, &[1; 64], TxId::NONE, WHAT).expect("stores");
                d.flush_lines(now, at, 64).expect("flushes");
            }
            write(&d, now, rng.below(pages));
        }
        let done = read(&d, now, rng.below(pages));
        slowest = slowest.max((done - now).0);
        sum += (done - now).0;
        now = done + Nanos::from_micros(20);
    }
    if writes {
        let c = d.counters().since(&before);
        let gc = c.flash.programs(granary_flash::Cause::Gc);
        assert!(c.log.cleanings > 1 && gc > 1000, "{} cleanings, {gc} pages moved", c.log.cleanings);
    }
    (slowest, sum / n)
}

/// Cleaning shares the firmware's processor, page by page, and takes as many pages at a time as there are
/// planes; programs are issued two ahead of a plane; gc pays its share with each write. So a host's read
/// waits for what its plane is doing, not for a queue of background work: at the worst an erase and what was
/// issued behind it.
#[test]
fn a_hosts_read_goes_before_log_cleaning_and_gc() {
    let (alone, _) = reads_beside(false);
    let (slowest, mean) = reads_beside(true);
    let t = DriveConfig::bytefs_emulator().flash.timing;
    let bound = alone + t.erase.0 + 8 * (t.program.0 + t.read.0);
    assert!(slowest <= bound, "slowest read {slowest} ns, {alone} ns on an idle drive");
    assert!(mean <= 3 * alone, "mean read {mean} ns, {alone} ns on an idle drive");
}

/// Log cleaning is work of the firmware's processor: it is counted there, and while it goes on a command
/// waits for a page's work of it at most. On a second processor it is in nobody's way.
#[test]
fn log_cleaning_shares_the_firmwares_processor_and_lets_commands_go_first() {
    let run = |cores: usize, pause: u64| {
        let mut c = DriveConfig::bytefs_emulator();
        c.firmware.cores = cores;
        c.firmware.log_region = Bytes::mib(8);
        let d = Mssd::new(&c).expect("valid");
        d.fill(Lpa(0), 1 << 15, |lpa| Page::word(lpa.0)).expect("fills");
        let flush = |now: Nanos| d.submit(now, Command::Flush).expect("flushes") - now;
        let alone = flush(Nanos::ZERO);
        let (mut now, mut slowest, mut rng) = (Nanos(10_000), alone, Stream::new(7, "lines"));
        let before = d.counters();
        for _ in 0..100_000 {
            let at = ByteAddr(rng.below(1 << 21) * 64);
            d.store(now, at, &[1; 64], TxId::NONE, WHAT).expect("stores");
            now = d.flush_lines(now, at, 64).expect("written back") + Nanos(700);
            slowest = slowest.max(flush(now));
            now += Nanos(pause);
        }
        let counted = d.counters().since(&before);
        let cleaned = (c.firmware.entry_cost + c.firmware.line_cost) * counted.log.lines_cleaned;
        let asked = (c.firmware.entry_cost + c.firmware.line_cost + c.firmware.command_cost) * 100_000;
        assert!(counted.log.cleanings > 1, "{:?}", counted.log);
        assert!(counted.busy.cores >= asked + cleaned, "{} for {asked} and {cleaned}", counted.busy.cores);
        let done = d.counters_at(now).busy.cores;
        assert!(done <= now * cores as u64, "{done} of work in {now}");
        // Lines lie in the log at random: a few of them to a page.
        let page = (c.firmware.entry_cost + c.firmware.line_cost) * 16;
        assert!(slowest <= alone + page, "the slowest command took {slowest}, {alone} alone");
        counted.log.lines_cleaned
    };
    // The busier it is with commands, the less it cleans in the same number of them.
    let (idle, busy, two) = (run(1, 3_000), run(1, 0), run(2, 0));
    assert!(busy < idle && busy < two, "{busy} lines, {idle} with pauses, {two} by two processors");
}

/// 32 writes at a time keep every plane of a drive with 7 % spare space busy, four fifths of it with gc. A
/// read waits for what its plane is doing, an erase of 2 ms at the most and 60 us as a rule, not for the
/// milliseconds that are reserved.
#[test]
fn a_hosts_read_passes_the_gc_of_deep_writes() {
    let mut c = DriveConfig::bytefs_emulator();
    c.flash = c.flash.with_capacity(Bytes::gib(1));
    let mut rng = Stream::new(4, "reads");
    let d = steady(&c, &mut rng);
    let pages = d.info().pages;
    let alone = read(&d, Nanos::ZERO, 0);
    let mut now = Nanos::from_millis(10);
    let before = d.counters();
    let mut writes = [now; 32];
    let (mut next, mut sum, mut slowest, mut n) = (now, 0, 0, 0);
    while n < 2_000 {
        let w = (0..32).min_by_key(|&w| writes[w]).expect("there are some");
        if writes[w] < next {
            now = now.max(writes[w]);
            writes[w] = write(&d, now, rng.below(pages));
        } else {
            now = now.max(next);
            next = read(&d, now, rng.below(pages));
            (sum, slowest, n) = (sum + (next - now).0, slowest.max((next - now).0), n + 1);
        }
    }
    let c = d.counters().since(&before);
    assert!(c.flash.programs(granary_flash::Cause::Gc) > 10_000, "{:?}", c.flash);
    let mean = sum / n;
    assert!(mean <= 5 * alone.0, "mean read {mean} ns, {} ns on an idle drive", alone.0);
    let t = DriveConfig::bytefs_emulator().flash.timing;
    assert!(slowest <= alone.0 + t.erase.0 + 8 * (t.program.0 + t.read.0), "slowest read {slowest} ns");
}

/// Thousands of pages that wait for the link and for their planes do not hold up a read of another page.
#[test]
fn a_read_does_not_queue_behind_writes() {
    for pages in [64, 1024, 4096] {
        let d = Mssd::new(&DriveConfig::bytefs_emulator()).expect("valid");
        write(&d, Nanos::ZERO, 1_000_000);
        let now = d.settle(Nanos::from_millis(1)).expect("settles");
        let alone = read(&d, now, 1_000_000) - now;
        let now = now + Nanos::from_millis(1);
        for lpa in 0..pages {
            write(&d, now, lpa);
        }
        let beside = read(&d, now, 1_000_000) - now;
        let t = DriveConfig::bytefs_emulator().flash.timing;
        let bound = alone
            + t.program
            + t.transfer(4096)
            + DriveConfig::bytefs_emulator().firmware.command_cost * pages;
        assert!(beside <= bound, "{beside} beside {pages} writes, {alone} alone");
    }
}

/// A log without room makes stores wait, not reads.
#[test]
fn a_full_log_does_not_hold_up_reads() {
    let mut c = DriveConfig::bytefs_emulator();
    c.firmware.log_region = Bytes::mib(8);
    let d = Mssd::new(&c).expect("valid");
    let pages = d.info().pages;
    for lpa in 0..64 {
        write(&d, Nanos::ZERO, lpa);
    }
    let mut now = d.settle(Nanos::from_millis(1)).expect("settles");
    let alone = read(&d, now, 5) - now;
    let mut rng = Stream::new(5, "stores");
    let (mut stores, mut reads, mut sum, mut n) = (now, now, 0, 0);
    while n < 2_000 {
        if stores <= reads {
            now = now.max(stores);
            let at = Lpa(64 + rng.below(pages - 64)).byte();
            d.store(now, at, &[1; 4096], TxId::NONE, WHAT).expect("stores");
            stores = d.flush_lines(now, at, 4096).expect("flushes");
        } else {
            now = now.max(reads);
            reads = read(&d, now, rng.below(64));
            (sum, n) = (sum + (reads - now).0, n + 1);
        }
    }
    let log = d.counters().log;
    assert!(log.cleanings > 5, "{log:?}");
    assert!(sum / n <= 2 * alone.0, "mean read {} ns, {} ns alone: {log:?}", sum / n, alone.0);
}

/// The firmware takes a line in so long; stores of whatever many processors are not done faster than that.
#[test]
fn stores_go_no_faster_than_the_firmware_takes_them() {
    for mode in [Mode::Log, Mode::Cache] {
        let c = DriveConfig::bytefs_emulator().with_mode(mode);
        let d = Mssd::new(&c).expect("valid");
        let n = 20_000;
        let mut clients = [Nanos::ZERO; 64];
        for i in 0..n {
            let client = clients.iter_mut().min().expect("there are some");
            let at = ByteAddr(i % 1024 * 64);
            d.store(*client, at, &[1; 64], TxId::NONE, WHAT).expect("stores");
            *client = d.flush_lines(*client, at, 64).expect("flushes");
        }
        let end = clients.into_iter().max().expect("there are some");
        let work = (c.firmware.entry_cost + c.firmware.line_cost) * (n - c.link.posted_lines as u64);
        assert!(end >= work, "{mode:?}: {n} stores in {end}, {work} of work");
    }
}

/// A page that is on its way from flash to the drive's cache is there when it has come, for everybody.
#[test]
fn a_page_on_its_way_to_the_cache_is_waited_for() {
    let c = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    let flash = c.flash.timing.read + c.flash.timing.transfer(4096);
    let fresh = || {
        let d = Mssd::new(&c).expect("valid");
        d.fill(Lpa(0), 16, |lpa| Page::word(lpa.0 + 1)).expect("fills");
        d
    };
    type Access = fn(&Mssd, Nanos) -> Nanos;
    let accesses: [(&str, Access); 5] = [
        ("read", |d, now| read(d, now, 3)),
        ("load", |d, now| d.load(now, Lpa(3).byte(), &mut [0; 64], WHAT).expect("loads")),
        ("pages", |d, now| d.load_pages(now, Lpa(3).byte(), 4096, &mut [Page::ZERO], WHAT).expect("loads")),
        ("known", |d, now| {
            let (known, mut fresh) = ([Page::word(4)], [Page::ZERO]);
            d.load_known(now, &[(Lpa(3), 1)], Nanos::MAX, &known, &mut fresh, WHAT).done
        }),
        ("store", |d, now| {
            d.store(now, Lpa(3).byte(), &[1; 64], TxId::NONE, WHAT).expect("stores");
            let sent = d.flush_lines(now, Lpa(3).byte(), 64).expect("flushes");
            d.verify(sent).expect("verifies")
        }),
    ];
    for (name, access) in accesses {
        let d = fresh();
        let first = read(&d, Nanos::ZERO, 3);
        let second = access(&d, Nanos(1_000));
        assert!(first > flash && second > flash, "{name}: {second}, the first at {first}");
        assert!(second <= first + Nanos::from_micros(10), "{name}: {second}, the first at {first}");
        // Once it is there it costs what the cache costs.
        let (now, later) = (Nanos::from_millis(1), access(&d, Nanos::from_millis(1)));
        assert!(later - now < Nanos::from_micros(11), "{name}: {later}");
    }
}

/// Ten lines of a load under way at a time take a line's time for each ten.
#[test]
fn a_load_may_be_limited_to_so_many_lines_at_a_time() {
    let load = |load_lines: usize, lines: usize| {
        let mut c = DriveConfig::bytefs_emulator();
        c.link.load_lines = load_lines;
        let d = Mssd::new(&c).expect("valid");
        d.load(Nanos::ZERO, ByteAddr(0), &mut vec![0; lines * 64], WHAT).expect("loads")
    };
    let line = DriveConfig::bytefs_emulator().link.line_read;
    assert_eq!(load(10, 1), load(0, 1));
    assert_eq!(load(10, 64), line * 7);
    assert_eq!(load(1, 64), line * 64);
    assert!(load(0, 64) < line * 2);
}
