//! Plain SSDs: no window, mapping units, volatile caches, SATA.

use granary_device::vendor::transactions::Facts;
use granary_device::{Command, Drive, DriveError, Port, Structure::Data};
use granary_flash::Cause;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_sim::{World, now};
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};
use std::sync::Arc;

fn plain() -> DriveConfig {
    DriveConfig { window: false, ..DriveConfig::tiny(Mode::Cache) }
}

fn drive(change: impl FnOnce(&mut DriveConfig)) -> Mssd {
    let mut config = plain();
    change(&mut config);
    Mssd::new(&config).expect("valid")
}

fn write(d: &Mssd, now: Nanos, first: u64, pages: &[Page]) -> Nanos {
    d.submit(now, Command::Write { lpa: Lpa(first), pages, what: Data }).expect("takes it")
}

fn word(d: &Mssd, lpa: u64) -> u64 {
    d.peek(Lpa(lpa)).expect("readable").as_word().map_or(u64::MAX, |(word, _)| word)
}

#[test]
fn a_plain_ssd_has_no_byte_interface() {
    let d = drive(|_| {});
    let info = d.info();
    assert!(info.blocks && !info.bytes && !info.answers("COMMIT"));
    let now = Nanos::ZERO;
    let refused =
        |r: Result<Nanos, DriveError>| assert!(matches!(r, Err(DriveError::Unsupported(_))), "{r:?}");
    refused(d.load(now, ByteAddr(0), &mut [0; 64], Data));
    refused(d.store(now, ByteAddr(0), &[0; 64], TxId::NONE, Data));
    refused(d.flush_lines(now, ByteAddr(0), 64));
    refused(d.verify(now));
    assert_eq!(d.traffic().read() + d.traffic().written(), 0);
}

/// Facts of a firmware's own go through ports and drives that know nothing of them; one that has none of it
/// says so.
#[test]
fn a_firmware_says_of_itself_what_no_list_of_features_has() {
    let config = DriveConfig::tiny(Mode::Log);
    let log: Arc<dyn Drive> = Arc::new(Mssd::new(&config).expect("valid"));
    let half = config.firmware.log_region.0 / 2;
    assert_eq!(Port::new(Arc::clone(&log)).identify::<Facts>(), Facts { half });
    assert!(log.identify(&mut Facts::default()) && !log.identify(&mut 0u8));
    let plain: Arc<dyn Drive> = Arc::new(drive(|_| {}));
    assert!(!plain.identify(&mut Facts::default()));
    assert_eq!(Port::new(plain).identify::<Facts>(), Facts::default());
}

/// A part of a mapping unit makes the drive read and program the rest; whole units do not.
#[test]
fn a_part_of_a_mapping_unit_programs_all_of_it() {
    let d = drive(|c| c.flash.mapping_unit = Bytes::kib(16));
    let mut now = write(&d, Nanos::ZERO, 0, &vec![Page::word(1); 32]);
    now = d.settle(now).expect("settles");
    let whole = d.counters().flash;
    assert_eq!(whole.programs(Cause::MappingUnit) + whole.reads(Cause::MappingUnit), 0);
    // Other pages push the first ones out of the cache.
    now = write(&d, now, 100, &vec![Page::word(3); 16]);
    now = d.settle(now).expect("settles");
    let before = d.counters().flash;
    now = write(&d, now, 5, &[Page::word(2)]);
    d.settle(now).expect("settles");
    let after = d.counters().flash;
    assert_eq!(after.programs(Cause::Host) - before.programs(Cause::Host), 1);
    assert_eq!(after.programs(Cause::MappingUnit) - before.programs(Cause::MappingUnit), 3);
    assert_eq!(after.reads(Cause::MappingUnit) - before.reads(Cause::MappingUnit), 3);
    assert_eq!([4, 5, 6].map(|n| word(&d, n)), [1, 2, 1]);
    d.check().expect("consistent");
}

/// Without power-loss protection a page is safe once a FLUSH is done; before that it may be the old one.
#[test]
fn what_no_flush_has_written_may_be_lost_and_what_one_has_is_not() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..20 {
        let d = drive(|c| c.firmware.volatile_cache = true);
        let now = write(&d, Nanos::ZERO, 0, &vec![Page::word(1); 24]);
        let flushed = d.submit(now, Command::Flush).expect("flushes");
        let now = write(&d, flushed, 4, &vec![Page::word(2); 8]);
        d.power_fail(now, &mut Stream::new(seed, "power"));
        d.power_on(now).expect("on");
        for n in 0..24 {
            match (word(&d, n), (4..12).contains(&n)) {
                (1, false) => {}
                (1, true) => lost += 1,
                (2, true) => kept += 1,
                (other, _) => panic!("page {n} holds {other}"),
            }
        }
        d.check().expect("consistent");
    }
    assert!(lost > 20 && kept > 20, "{lost} lost, {kept} kept");
}

/// The host's FUA: a FLUSH where the cache is volatile, nothing where it is not.
#[test]
fn what_was_written_with_fua_is_kept() {
    for (volatile, flushes) in [(true, 1), (false, 0)] {
        for seed in 0..10 {
            let d = Arc::new(drive(|c| c.firmware.volatile_cache = volatile));
            let port = Port::new(d.clone());
            let end = World::default().run(move || {
                port.write_safe(Lpa(0), &vec![Page::word(1); 8], Data).expect("writes");
                now()
            });
            let end = end.expect("ends");
            assert_eq!(d.counters().commands.flushes, flushes);
            d.power_fail(end, &mut Stream::new(seed, "power"));
            d.power_on(end).expect("on");
            assert!((0..8).all(|n| word(&d, n) == 1), "seed {seed}");
        }
    }
}

/// As Linux's block layer has it: an empty flush goes to drives that have something to flush.
#[test]
fn a_host_sends_no_flush_where_the_cache_is_not_volatile() {
    for (volatile, flushes) in [(true, 3), (false, 0)] {
        let d = Arc::new(drive(|c| c.firmware.volatile_cache = volatile));
        let port = Port::new(d.clone());
        let ended = World::default().run(move || (0..3).for_each(|_| port.flush().expect("flushes")));
        ended.expect("ends");
        assert_eq!(d.counters().commands.flushes, flushes);
    }
}

#[test]
fn a_flush_waits_for_programs_and_costs_where_the_cache_is_volatile_only() {
    let time = |volatile: bool| {
        let d = drive(|c| {
            c.firmware.volatile_cache = volatile;
            c.firmware.flush_cost = if volatile { Nanos(900_000) } else { Nanos::ZERO };
        });
        let now = write(&d, Nanos::ZERO, 0, &[Page::word(1)]);
        (d.submit(now, Command::Flush).expect("flushes") - now, d.counters().flash.programs(Cause::Host))
    };
    let (protected, volatile) = (time(false), time(true));
    let program = plain().flash.timing.program;
    assert!(protected.0 < Nanos(10_000) && protected.1 == 0, "{protected:?}");
    assert!(volatile.0 > program + Nanos(900_000) && volatile.1 == 1, "{volatile:?}");
}

/// A host that does not wait for the first write before the second may find the second alone after a power
/// failure: the drive's rules allow it, and where it answers late it shows.
#[test]
fn a_late_write_is_overtaken_by_those_behind_it() {
    let overtaken = |late: Option<u64>| {
        (0..200)
            .filter(|seed| {
                let d = drive(|_| ());
                d.track_in_flight(true);
                d.answer_late(late.map(|n| n + seed));
                let pages = [Page::word(1)];
                let submit = |n: u64| {
                    let command = Command::Write { lpa: Lpa(n), pages: &pages, what: Data };
                    d.submit(Nanos::ZERO, command).expect("writes")
                };
                let (first, second) = (submit(0), submit(1));
                // The second has been answered, and so is there.
                d.power_fail(second, &mut Stream::new(*seed, "power"));
                d.power_on(second).expect("on");
                assert_eq!(word(&d, 1), 1, "seed {seed}");
                assert!(first > second || word(&d, 0) == 1, "what was answered is there");
                word(&d, 0) == 0
            })
            .count()
    };
    assert_eq!(overtaken(None), 0);
    let with = overtaken(Some(7));
    assert!((10..50).contains(&with), "{with} of 200");
}

/// Clients side by side: each writes a page of its own and sends a FLUSH when that is answered. Flushed pages
/// are there after a power failure, though writes are late.
#[test]
fn what_was_flushed_is_there_though_writes_are_late() {
    const CLIENTS: u64 = 4;
    for seed in 0..200 {
        let d = drive(|c| c.firmware.volatile_cache = true);
        d.track_in_flight(true);
        d.answer_late(Some(seed));
        let mut random = Stream::new(seed, "clients");
        // Of each client: when its last command is answered, what it has written, what was flushed, and
        // whether a FLUSH is next.
        let mut clients = vec![(Nanos::ZERO, 0u64, 0u64, false); CLIENTS as usize];
        let end = Nanos(random.below(4_000_000));
        loop {
            let (n, c) = clients.iter_mut().enumerate().min_by_key(|(_, c)| c.0).expect("clients");
            if c.0 > end {
                break;
            }
            if c.3 {
                c.0 = d.submit(c.0, Command::Flush).expect("flushes");
            } else {
                c.2 = c.1;
                c.1 += 1;
                let pages = [Page::word(c.1)];
                let command = Command::Write { lpa: Lpa(n as u64), pages: &pages, what: Data };
                c.0 = d.submit(c.0, command).expect("writes");
            }
            c.3 = !c.3;
        }
        d.power_fail(end, &mut Stream::new(seed, "power"));
        d.power_on(end).expect("on");
        for (n, (_, written, flushed, _)) in clients.into_iter().enumerate() {
            let found = word(&d, n as u64);
            assert!(
                (flushed..=written).contains(&found),
                "seed {seed}, client {n}: {found}, not {flushed} to {written}"
            );
        }
        d.check().expect("consistent");
    }
}

/// A recovery makes nothing safe that it finds: content that a power failure has left is on flash, and the
/// next one leaves it there.
#[test]
fn what_a_power_failure_left_in_flight_is_there_after_the_next_one() {
    for seed in 0..50 {
        let d = drive(|c| c.firmware.volatile_cache = true);
        d.track_in_flight(true);
        let pages = vec![Page::word(1); 16];
        d.submit(Nanos::ZERO, Command::Write { lpa: Lpa(0), pages: &pages, what: Data }).expect("writes");
        let found = |at: Nanos, random: u64| {
            d.power_fail(at, &mut Stream::new(random, "power"));
            let on = d.power_on(at).expect("on");
            (on, (0..16).map(|n| word(&d, n)).collect::<Vec<_>>())
        };
        let (on, first) = found(Nanos(1), seed);
        // At once, and long after: neither what is programmed late nor what is dropped then was safe.
        let (on, second) = found(on, seed + 1000);
        assert_eq!(second, first, "seed {seed}");
        assert_eq!(found(on + Nanos(1_000_000_000), seed + 2000).1, first, "seed {seed}");
    }
}

/// The same of stores that were in the host's buffers: each is lost, or on flash.
#[test]
fn a_store_that_survived_a_power_failure_is_there_after_the_next_one() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..50 {
        let mut config = DriveConfig::tiny(Mode::Cache);
        config.firmware.volatile_cache = true;
        let d = Mssd::new(&config).expect("valid");
        d.track_in_flight(true);
        d.store(Nanos::ZERO, ByteAddr(0), &[7; 64], TxId::NONE, Data).expect("stores");
        let found = |at: Nanos, random: u64| {
            d.power_fail(at, &mut Stream::new(random, "power"));
            let on = d.power_on(at).expect("on");
            let mut line = [0; 64];
            d.peek(Lpa(0)).expect("readable").copy_out(0, &mut line);
            (on, line[0])
        };
        let (on, first) = found(Nanos(1), seed);
        assert_eq!(found(on, seed + 1000).1, first, "seed {seed}");
        *(if first == 7 { &mut kept } else { &mut lost }) += 1;
    }
    assert!(lost > 5 && kept > 5, "{lost} lost, {kept} kept");
}

/// From inside there is no link: a load is the firmware's work, however slow the host's way is.
#[test]
fn from_inside_the_drive_a_line_costs_the_firmwares_work_alone() {
    let time = |inside: bool, slower: u64| {
        let mut config = DriveConfig::tiny(Mode::Cache);
        config.link.line_read = Nanos(config.link.line_read.0 * slower);
        let (entry, line) = (config.firmware.entry_cost, config.firmware.line_cost);
        let config = if inside { config.from_inside() } else { config };
        config.validate().expect("valid");
        assert_eq!(config.clone().from_inside(), config.clone().from_inside().from_inside());
        let d = Mssd::new(&config).expect("valid");
        let now = write(&d, Nanos::ZERO, 0, &[Page::word(1)]) + Nanos(1_000_000);
        let mut out = [0; 64];
        (d.load(now, ByteAddr(0), &mut out, Data).expect("loads") - now, entry + line)
    };
    let (inside, work) = time(true, 1);
    assert_eq!((inside, time(true, 9).0), (work, work));
    assert!(time(false, 9).0 > time(false, 1).0 && time(false, 1).0 > work);
}

#[test]
fn sata_moves_data_one_way_at_a_time() {
    let end = |half: bool| {
        let d = drive(|c| c.link.half_duplex = half);
        write(&d, Nanos::ZERO, 0, &vec![Page::word(1); 8]);
        let now = Nanos::from_millis(1);
        let mut out = vec![Page::ZERO; 8];
        let written = write(&d, now, 64, &vec![Page::word(2); 8]);
        let read = d.submit(now, Command::Read { lpa: Lpa(0), out: &mut out, what: Data }).expect("reads");
        written.max(read)
    };
    assert!(end(true) > end(false), "{} and {}", end(true), end(false));
}

#[test]
fn a_full_queue_makes_commands_wait() {
    let last = |depth: usize| {
        let d = drive(|c| c.link.nvme.queue_depth = depth);
        let mut out = [Page::ZERO];
        (0..8)
            .map(|n| {
                d.submit(Nanos::ZERO, Command::Read { lpa: Lpa(n), out: &mut out, what: Data })
                    .expect("reads")
            })
            .max()
    };
    let [one, two, all] = [1, 2, 0].map(last);
    assert!(one > two && two > all, "{one:?}, {two:?}, {all:?}");
}

#[test]
fn what_cannot_be_is_refused_with_the_key() {
    for (change, word) in [
        (
            (|c: &mut DriveConfig| c.flash.mapping_unit = Bytes::kib(12)) as fn(&mut DriveConfig),
            "mapping_unit",
        ),
        (|c| c.firmware.flush_cost = Nanos(5), "flush_cost"),
        (
            |c| {
                c.firmware.volatile_cache = true;
                c.firmware.mode = Mode::Log;
            },
            "firmware.mode",
        ),
        (
            |c| {
                c.firmware.volatile_cache = true;
                *c = c.clone().with_bam();
            },
            "volatile_cache",
        ),
        (|c| c.flash.mapping_unit = Bytes::kib(128), "firmware.cache"),
    ] {
        let mut config = plain();
        change(&mut config);
        let said = config.validate().expect_err(word).to_string();
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// A page that no FLUSH covers, written over one that a FLUSH covers: each sector of 512 B is one of the two,
/// in a page of one kind where nothing tears.
#[test]
fn a_page_that_was_not_flushed_tears_at_its_sectors_where_the_drive_says_so() {
    for tears in [false, true] {
        let mut torn = 0;
        for seed in 0..100 {
            let d = drive(|c| (c.firmware.volatile_cache, c.firmware.tears_pages) = (true, tears));
            d.track_in_flight(true);
            let written = write(&d, Nanos::ZERO, 0, &[Page::word(1)]);
            let flushed = d.submit(written, Command::Flush).expect("flushes");
            let done = write(&d, flushed, 0, &[Page::word(2)]);
            // In half of the cases the command is still in flight.
            let end = if seed % 2 == 0 { done } else { flushed + Nanos(1) };
            d.power_fail(end, &mut Stream::new(seed, "power"));
            d.power_on(end).expect("on");
            let page = d.peek(Lpa(0)).expect("readable").to_bytes();
            let words = page.chunks_exact(512).map(|sector| {
                let mut words = sector.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("8")));
                let first = words.next().expect("a word");
                assert!([1, 2].contains(&first) && words.all(|word| word == first), "a sector is torn");
                first
            });
            let all: Vec<u64> = words.collect();
            torn += u64::from(all.iter().any(|word| *word != all[0]));
        }
        assert!(if tears { torn > 10 } else { torn == 0 }, "{torn} torn pages");
    }
}
