//! A replayed record is the recorded run; block traces do what their format says.

use super::*;
use crate::bench::Bench;
use crate::bench::tests::{job, small};
use crate::precondition::Precondition;
use crate::recorded::Recorded;
use crate::{DriveRecord, Job, record::Origin};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Streamed, Structure};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_trace::drive::native::{Header, Reader};
use granary_trace::drive::{Choice, read};
use granary_units::{ByteAddr, Lpa};
use granary_units::{Bytes, TxId};
use parking_lot::Mutex;
use std::io::{BufReader, Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// A file in memory.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn header(drive: &DriveConfig, precondition: &str) -> Header {
    Header {
        granary: "test".into(),
        source: "test".into(),
        testbed: "small".into(),
        set: Vec::new(),
        seed: 1,
        precondition: precondition.into(),
        drive: drive.clone(),
    }
}

fn recorded(config: &DriveConfig, work: impl FnOnce(&Recorded<Mssd>)) -> (Arc<Mssd>, Vec<u8>) {
    let (file, drive) = (Shared::default(), Arc::new(Mssd::new(config).expect("valid")));
    let r = Recorded::over(Path::new("t"), Box::new(file.clone()), &header(config, "none"), drive.clone())
        .expect("memory");
    work(&r);
    r.finish().expect("memory");
    let bytes = file.0.lock().clone();
    (drive, bytes)
}

fn reader(bytes: &[u8]) -> Result<Reader, TraceError> {
    let input: Box<dyn Read> = Box::new(Cursor::new(bytes.to_vec()));
    Reader::new("t", BufReader::new(input))
}

fn replay_on(
    drive: &dyn Drive,
    source: &mut dyn Source,
    pace: Pace,
    wrap: bool,
) -> Result<Replayed, BenchError> {
    Replay { drive, name: "t", pace, wrap, mark: &|_, _| {}, stop: &|| false }.run(source, |_| {})
}

fn same_content(a: &Mssd, b: &Mssd) {
    for lpa in 0..a.config().pages() {
        let bytes = |d: &Mssd| d.peek(Lpa(lpa)).expect("reads").to_bytes();
        assert_eq!(bytes(a), bytes(b), "page {lpa}");
    }
}

/// Everything that the trait offers, refused calls and a power failure included.
fn all_kinds(d: &Recorded<Mssd>) {
    use granary_units::Payload;
    let what = Structure::Data;
    let mut t = Nanos::ZERO;
    let mut bytes = [0; 4096];
    bytes[7] = 9;
    let pages = [Page::from_bytes(&bytes), Page::word(3), Page::prefix(5, 100), Page::ZERO];
    t = d.submit(t, Command::Write { lpa: Lpa(4), pages: &pages, what }).expect("writes");
    t = d.store(t, ByteAddr(4100), b"some bytes", TxId(7), Structure::Inode).expect("stores");
    t = d.flush_lines(t, ByteAddr(4100), 10).expect("flushes");
    d.track_in_flight(true);
    t = d.stream(t, Lpa(9), 64, Streamed::Part(Payload::Fill { word: 8, len: 200 }), what).expect("streams");
    t = d.stream(t, Lpa(9), 300, Streamed::Part(Payload::Bytes(&[1, 2, 3])), what).expect("streams");
    t = d.stream(t, Lpa(10), 0, Streamed::Page(&pages[0]), what).expect("streams");
    t = d.verify(t).expect("verifies");
    t = d.submit(t, Command::Vendor(&mut Commit { tx: TxId(7) })).expect("commits");
    assert!(d.submit(t, Command::Trim { lpa: Lpa(u64::MAX >> 15), count: 1 }).is_err(), "refused");
    t = d.submit(t, Command::Trim { lpa: Lpa(5), count: 1 }).expect("trims");
    t = d.submit(t, Command::Flush).expect("flushes");
    let mut out = [Page::ZERO, Page::ZERO];
    t = d.load_pages(t, ByteAddr(4096 * 9 + 50), 5000, &mut out, what).expect("loads");
    t = d.load(t, ByteAddr(4100), &mut [0; 100], what).expect("loads");
    t = d.submit(t, Command::Read { lpa: Lpa(4), out: &mut out, what }).expect("reads");
    d.store(t, ByteAddr(8192), &[7; 64], TxId::NONE, what).expect("stores");
    d.submit(t, Command::Write { lpa: Lpa(20), pages: &pages, what }).expect("writes");
    d.power_fail(t + Nanos(10), &mut Stream::new(3, "test"));
    t = d.power_on(t + Nanos(20)).expect("powers on");
    t = d.submit(t, Command::Vendor(&mut Recover)).expect("recovers");
    d.settle(t).expect("settles");
}

#[test]
fn every_call_is_recorded_and_replayed() {
    let config = DriveConfig::tiny(Mode::Log);
    let (drive, bytes) = recorded(&config, all_kinds);
    let again = Mssd::new(&config).expect("valid");
    let r = replay_on(&again, &mut reader(&bytes).expect("a record"), Pace::Stamped(1.0), false)
        .expect("replays");
    assert_eq!(again.counters(), drive.counters());
    same_content(&again, &drive);
    assert_eq!(r.ops["stream"].accesses, 3);
    again.check().expect("consistent");
    // A record of a replay is the record.
    let (_, twice) = recorded(&config, |d| {
        replay_on(d, &mut reader(&bytes).expect("a record"), Pace::Stamped(1.0), false).expect("replays");
    });
    let ops = |bytes: &[u8]| {
        let mut r = reader(bytes).expect("a record");
        std::iter::from_fn(|| r.next_event().expect("whole")).map(|e| e.op).collect::<Vec<_>>()
    };
    let (a, b) = (ops(&bytes), ops(&twice));
    // The power failure's own seed is drawn anew; what was refused lies beyond the drive; the replay settles
    // it in the end.
    let plain = |ops: &[Op]| {
        ops.iter()
            .filter(|o| !matches!(o, Op::PowerFail(_) | Op::Settle | Op::Trim(..)))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(plain(&a), plain(&b));
}

#[test]
fn a_replayed_bench_gives_the_same_record() {
    for mode in [Mode::Log, Mode::Cache] {
        let config = small().with_mode(mode);
        let jobs = [
            Job { read_percent: 70, clients: 3, ..job("randrw", 8192, 4, 3000) },
            Job { size: Some(Bytes::mib(1).into()), ..job("randpersist", 100, 1, 300) },
            job("randload", 64, 1, 300),
        ];
        let origin = Origin {
            granary: String::new(),
            commit: String::new(),
            testbed: "small".into(),
            set: Vec::new(),
            seed: 1,
            precondition: "none".into(),
            warm: false,
            no_data: false,
        };
        let mut bench = None;
        let (drive, bytes) = recorded(&config, |d| {
            let mark = |now, phase| d.mark(now, phase);
            let m = Bench { mark: &mark, ..Bench::of(d, &jobs) }.run(|_, _| {}).expect("runs");
            bench = Some(DriveRecord::new(origin.clone(), &config, &jobs, &m));
        });
        let again = Mssd::new(&config).expect("valid");
        let mut source = reader(&bytes).expect("a record");
        assert_eq!(source.header().drive, config);
        let r = replay_on(&again, &mut source, Pace::Stamped(1.0), false).expect("replays");
        assert_eq!((again.traffic(), again.counters()), (drive.traffic(), drive.counters()));
        same_content(&again, &drive);
        let replay =
            crate::ReplayRecord::new(origin.clone(), &config, "t", "granary", Pace::Stamped(1.0), &r);
        assert_eq!(Some(replay.moved), bench.map(|b| b.moved), "{mode:?}");
        // As fast as possible, one at a time: other times, the same bytes.
        let serial = Mssd::new(&config).expect("valid");
        replay_on(&serial, &mut reader(&bytes).expect("a record"), Pace::Fast(1), false).expect("replays");
        same_content(&serial, &drive);
        assert_eq!(serial.traffic(), drive.traffic());
    }
}

#[test]
fn a_damaged_record_is_refused_wherever_it_is_damaged() {
    let config = DriveConfig::tiny(Mode::Log);
    let (_, good) = recorded(&config, all_kinds);
    let replay = |bytes: &[u8]| -> Result<(), String> {
        let drive = Mssd::new(&config).expect("valid");
        let mut source = reader(bytes).map_err(|e| e.to_string())?;
        // Read whole first: what is wrong is found at the latest at the end.
        while source.next_event().map_err(|e| e.to_string())?.is_some() {}
        replay_on(&drive, &mut reader(bytes).expect("was good"), Pace::Stamped(1.0), true)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    replay(&good).expect("good");
    for cut in 0..good.len() {
        replay(&good[..cut]).expect_err("cut off");
    }
    let said = replay(&good[..good.len() - 1]).expect_err("cut off");
    assert!(said.contains("cut off") && said.contains("record it again"), "{said}");
    let mut random = Stream::new(1, "damage");
    for _ in 0..3000 {
        let mut bad = good.clone();
        bad[random.below(good.len() as u64) as usize] ^= 1 << random.below(8);
        replay(&bad).expect_err("damaged");
    }
    let mut newer = good.clone();
    newer[8] = 2;
    assert!(replay(&newer).expect_err("newer").contains("version 2 of the format"));
}

/// Wherever a record is cut off, its whole operations can be replayed, and no others.
#[test]
fn what_is_left_of_a_record_that_is_cut_off_is_replayed_where_asked_for() {
    let config = DriveConfig::tiny(Mode::Log);
    let (_, good) = recorded(&config, all_kinds);
    let input =
        |bytes: &[u8]| -> BufReader<Box<dyn Read>> { BufReader::new(Box::new(Cursor::new(bytes.to_vec()))) };
    let events = |bytes: &[u8]| -> Result<(Vec<Event>, Option<u64>), BenchError> {
        let mut source = Reader::new("t", input(bytes))?.take_cut(true);
        let mut events = Vec::new();
        while let Some(event) = source.next_event()? {
            events.push(event);
        }
        Ok((events, source.seen().cut))
    };
    let (all, cut) = events(&good).expect("good");
    assert_eq!(cut, None);
    let mut most = 0;
    for at in 0..good.len() {
        // Without its header it is no record.
        let Ok((some, cut)) = events(&good[..at]) else {
            assert!(most == 0, "byte {at}");
            continue;
        };
        assert_eq!((&some[..], cut), (&all[..some.len()], Some(some.len() as u64)));
        assert!(some.len() >= most);
        most = some.len();
        if at % 7 != 0 || some.is_empty() {
            continue;
        }
        let drive = Mssd::new(&config).expect("valid");
        let mut source = Reader::new("t", input(&good[..at])).expect("a record").take_cut(true);
        let replayed = replay_on(&drive, &mut source, Pace::Stamped(1.0), true).expect("replays");
        assert_eq!(replayed.seen.cut, cut);
    }
    assert_eq!(most, all.len());
    // Damage is damage still.
    let mut bad = good.clone();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    events(&bad).expect_err("its checksum is wrong");
}

#[test]
fn the_records_of_a_process_that_is_stopped_end() {
    let config = DriveConfig::tiny(Mode::Log);
    let dir = tempfile::tempdir().expect("a directory");
    let (path, drive) = (dir.path().join("record"), Arc::new(Mssd::new(&config).expect("valid")));
    let r = Recorded::create(&path, &header(&config, "none"), drive).expect("written");
    r.mark(Nanos::ZERO, Phase::Run);
    r.submit(Nanos(5), Command::Flush).expect("flushes");
    let ended = crate::recorded::end_all();
    let (_, count) = ended.into_iter().find(|(p, _)| *p == path).expect("it was open");
    assert_eq!(count.expect("written"), 2);
    r.submit(Nanos(9), Command::Flush).expect("the drive goes on");
    assert_eq!(r.finish().expect("nothing is left to do"), 0);
    let bytes = std::fs::read(&path).expect("read");
    let drive = Mssd::new(&config).expect("valid");
    let replayed = replay_on(&drive, &mut reader(&bytes).expect("a record"), Pace::Stamped(1.0), false);
    let replayed = replayed.expect("replays");
    assert_eq!((replayed.ops["flush"].accesses, replayed.whole), (1, false));
}

#[test]
fn a_device_that_the_trace_does_not_have_is_refused_with_those_that_it_has() {
    let input: Box<dyn Read> = Box::new(Cursor::new(MSR.as_bytes().to_vec()));
    let choice = Choice { device: Some("hm.7".to_owned()), ..Choice::default() };
    let mut source = read("t", input, 0, &choice).expect("a trace").source;
    let drive = Mssd::new(&small()).expect("valid");
    let said = replay_on(&drive, &mut *source, Pace::Stamped(1.0), true).expect_err("none").to_string();
    assert!(said.contains("--device hm.7") && said.contains("but of hm.1"), "{said}");
}

const MSR: &str = "128166372003061629,hm,1,Write,0,4096,59\n\
                   128166372003063629,hm,1,Read,0,8192,59\n\
                   128166372003062629,hm,1,Write,1073741824,4096,59\n";

fn trace(text: &str) -> Box<dyn Source> {
    let input: Box<dyn Read> = Box::new(Cursor::new(text.as_bytes().to_vec()));
    read("t", input, 0, &Choice::default()).expect("a trace").source
}

#[test]
fn a_block_trace_is_issued_in_the_order_of_its_stamps_and_folded_if_allowed() {
    let drive = || Mssd::new(&small()).expect("valid");
    let said =
        replay_on(&drive(), &mut *trace(MSR), Pace::Stamped(1.0), false).expect_err("too far").to_string();
    assert!(said.starts_with("t:3: ") && said.contains("--wrap"), "{said}");
    let d = drive();
    let r = replay_on(&d, &mut *trace(MSR), Pace::Stamped(1.0), true).expect("replays");
    assert_eq!(
        (r.bent, r.ops["read"].accesses, r.ops["write"].write_bytes),
        (Bent { wrapped: 1, late: 0 }, 1, 8192)
    );
    // The last is issued 200 us after the first.
    assert!(r.time > Nanos(200_000) && r.time < Nanos(300_000), "{:?}", r.time);
    d.check().expect("consistent");
    let slow = replay_on(&drive(), &mut *trace(MSR), Pace::Stamped(10.0), true).expect("replays");
    assert!(slow.time > Nanos(2_000_000) && slow.time < Nanos(2_100_000));
    let fast = replay_on(&drive(), &mut *trace(MSR), Pace::Fast(1), true).expect("replays");
    assert!(fast.time < Nanos(100_000));
    let latencies: u64 = fast.ops.values().map(|o| o.latency.mean().0 * o.accesses).sum();
    assert!(fast.time.0.abs_diff(latencies) < 200, "one after the other: {:?} and {latencies}", fast.time);
    let deep = replay_on(&drive(), &mut *trace(MSR), Pace::Fast(32), true).expect("replays");
    assert!(deep.time < fast.time);
}

#[test]
fn stamps_beyond_the_virtual_clock_are_refused_with_their_line() {
    let drive = Mssd::new(&small()).expect("valid");
    let text = "fio version 3 iolog\n0 /d read 0 4096\n18000000000000000 /d read 0 4096\n";
    let said =
        replay_on(&drive, &mut *trace(text), Pace::Stamped(1.0), false).expect_err("too late").to_string();
    assert!(said.starts_with("t:3: ") && said.contains("292 years"), "{said}");
    let waits = "/d wait 31000000000000 0\n".repeat(700);
    let text = format!("fio version 2 iolog\n/d read 0 4096\n{waits}/d read 0 4096\n");
    let said =
        replay_on(&drive, &mut *trace(&text), Pace::Stamped(1.0), false).expect_err("too late").to_string();
    assert!(said.contains("584 years"), "{said}");
}

/// The flush of a write with REQ_PREFLUSH is asked for before the write, although both have the line's stamp.
#[test]
fn a_flush_that_belongs_to_a_write_comes_before_it() {
    let line = |n: u64| format!("8,0 3 {n} 0.00000{n} 697 D FWFSM {} + 8 [x]\n", 8 * n);
    let text: String = (1..=9).map(line).collect();
    let input: Box<dyn Read> = Box::new(Cursor::new(text.into_bytes()));
    let mut source = read("t", input, 0, &Choice::default()).expect("a trace").source;
    let mut events = Ordered::new(&mut *source);
    let mut flushes = Vec::new();
    while let Some(event) = events.next().expect("good") {
        flushes.push(matches!(event.op, Op::Flush));
    }
    assert_eq!(flushes, [true, false].repeat(9));
}

#[test]
fn a_trace_without_an_access_is_refused() {
    let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    let said = replay_on(&Mssd::new(&small()).expect("valid"), &mut *trace(text), Pace::Stamped(1.0), false);
    assert!(said.expect_err("empty").to_string().contains("no access"));
}

#[test]
fn a_fill_before_a_trace_makes_its_reads_reach_the_flash() {
    let drive = Mssd::new(&small()).expect("valid");
    Precondition::Fill.apply(&drive, 1, |_| {}).expect("fills");
    let r = replay_on(&drive, &mut *trace(MSR), Pace::Fast(4), true).expect("replays");
    assert!(r.run.flash.total_reads() > 0);
}
