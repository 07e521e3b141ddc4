//! Execution of jobs by a bench: sizes, orders, rates, pauses, flushes, ends.

use super::*;
use crate::job::{Amount, Blocks, Pattern};
use crate::precondition::Precondition;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_units::Bytes;

pub(crate) fn job(rw: &str, bs: u64, depth: u32, accesses: u64) -> Job {
    let pattern = Pattern::named(rw).expect("known");
    let accesses = Some(accesses);
    Job { name: rw.to_owned(), pattern, depth, accesses, ..Job::default().with_block_size(Bytes(bs)) }
}

fn run_on(config: &DriveConfig, jobs: &[Job], precondition: Precondition) -> Measured {
    let drive = Mssd::new(config).expect("valid");
    precondition.apply(&drive, 1, |part| assert!((0.0..=1.0).contains(&part))).expect("fills");
    let measured =
        Bench::of(&drive, jobs).run(|_, part| assert!((0.0..=1.01).contains(&part))).expect("runs");
    drive.check().expect("consistent");
    measured
}

pub(crate) fn small() -> DriveConfig {
    let mut c = DriveConfig::bytefs_emulator();
    c.flash = c.flash.with_capacity(Bytes::mib(256));
    c
}

/// A lone read is the sum of its stages: nothing waits, nothing overlaps.
#[test]
fn a_lone_read_takes_exactly_the_sum_of_its_stages() {
    let c = small().with_mode(Mode::Log);
    let m = run_on(&c, &[job("randread", 4096, 1, 1000)], Precondition::Fill);
    let span = |bytes: u64, bandwidth: Bytes| Nanos((bytes * 1_000_000_000).div_ceil(bandwidth.0));
    let (l, n) = (&c.link, &c.link.nvme);
    let stages = n.fetch
        + c.firmware.command_cost
        + c.flash.timing.read
        + c.flash.timing.transfer(4096)
        + span(4096, l.read_bandwidth)
        + n.completion;
    assert_eq!(m.time, stages * 1000);
}

#[test]
fn large_transfers_saturate_the_link() {
    for (rw, bandwidth) in [("write", small().link.write_bandwidth), ("read", small().link.read_bandwidth)] {
        let m = run_on(&small(), &[job(rw, 1 << 20, 16, 2000)], Precondition::Fill);
        let rate = (2000u64 << 20) as f64 / m.time.as_secs_f64();
        assert!((rate / bandwidth.0 as f64 - 1.0).abs() < 0.03, "{rw}: {rate} B/s");
    }
}

/// Clients that begin together store to the same lines at one instant: each posts its own.
#[test]
fn the_bytes_that_clients_store_are_those_that_the_drive_gets() {
    for (rw, bs, clients) in [("persist", 64, 3), ("store", 64, 8), ("persist", 1024, 3), ("store", 4096, 2)]
    {
        let jobs = [Job { clients, ..job(rw, bs, 1, 1000) }, job("randstore", 128, 1, 1000)];
        let m = run_on(&small(), &jobs, Precondition::None);
        let written: u64 = m.jobs.iter().map(|j| j.write_bytes).sum();
        assert_eq!(m.jobs[0].write_bytes, clients as u64 * 1000 * bs);
        assert_eq!(m.run.link.byte_write.iter().sum::<u64>(), written, "{rw} {bs}");
    }
}

#[test]
fn mixed_jobs_balance_and_repeat() {
    let jobs = [
        Job { read_percent: 70, clients: 3, ..job("randrw", 8192, 4, 500) },
        job("randpersist", 100, 1, 300),
        Job { random_map: false, ..job("randload", 64, 1, 300) },
    ];
    let (a, b) =
        (run_on(&small(), &jobs, Precondition::Random(1)), run_on(&small(), &jobs, Precondition::Random(1)));
    assert_eq!(a.jobs[0].accesses, 1500);
    assert_eq!(a.jobs[0].read_bytes + a.jobs[0].write_bytes, 1500 * 8192);
    assert!((0.6..0.8).contains(&(a.jobs[0].read_bytes as f64 / (1500.0 * 8192.0))));
    let [reads, writes] = &**a.jobs[0].split.as_ref().expect("it reads and writes");
    assert_eq!((reads.read_bytes, reads.write_bytes), (a.jobs[0].read_bytes, 0));
    assert_eq!((writes.read_bytes, writes.write_bytes), (0, a.jobs[0].write_bytes));
    assert_eq!(reads.latency.count() + writes.latency.count(), a.jobs[0].latency.count());
    assert!(
        reads.latency.mean().0 > 2 * writes.latency.mean().0,
        "reads wait for flash, writes for the buffer"
    );
    assert!(a.jobs[1].split.is_none());
    let (read, written) = (a.run.link.block_read, a.run.link.block_write);
    assert_eq!(read.iter().sum::<u64>(), a.jobs[0].read_bytes);
    assert_eq!(written.iter().sum::<u64>(), a.jobs[0].write_bytes);
    assert_eq!((a.time, a.run, a.drain), (b.time, b.run, b.drain));
}

/// The next accesses of a client of `job`, `times` of them: places and bytes.
fn drawn(job: &Job, times: usize) -> Vec<(u64, u64)> {
    let drive = Mssd::without_data(&small()).expect("valid");
    let jobs = [job.clone()];
    let bench = Bench::of(&drive, &jobs);
    let parts = check_all(&jobs, small().pages() * PAGE).expect("fits");
    let mut clients = bench.clients(0..1, &parts, Nanos::ZERO);
    let mut io = Buffers::new(&drive);
    let next = |_| match clients[0].next(Nanos::ZERO, |ahead| io.look_ahead(ahead)) {
        Next::Access(d) => (d.at, d.len),
        _ => panic!("there is more"),
    };
    (0..times).map(next).collect()
}

/// The places that a client of `job` accesses, for each of so many passes over its blocks.
fn passes(job: Job, passes: usize) -> Vec<Vec<u64>> {
    let blocks = (job.size.expect("given").of(0) / job.most()) as usize;
    let all = drawn(&job, blocks * passes);
    all.chunks(blocks).map(|pass| pass.iter().map(|(at, _)| *at).collect()).collect()
}

#[test]
fn each_pass_visits_every_block_once_in_an_order_of_its_own() {
    let of = || Job { size: Some(Bytes(1000 * 4096).into()), ..job("randwrite", 4096, 1, 4000) };
    let orders = passes(of(), 4);
    for (n, order) in orders.iter().enumerate() {
        assert!(!orders[..n].contains(order), "pass {n} repeats an earlier one");
        let mut seen = order.clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..1000).map(|block| block * 4096).collect::<Vec<_>>());
    }
    assert_eq!(orders, passes(of(), 4), "equal seeds, equal orders");
    let in_order = passes(Job { size: Some(Bytes(100 * 4096).into()), ..job("write", 4096, 1, 300) }, 3);
    assert_eq!(in_order[2], (0..100).map(|block| block * 4096).collect::<Vec<_>>());
}

/// Passes in one order would leave whole blocks stale behind them, so that gc would have nothing to copy.
#[test]
fn gc_works_as_hard_under_passes_as_under_independent_draws() {
    // So little spare that gc copies several pages for each that is written.
    let mut config = DriveConfig::bytefs_emulator();
    let g = &mut config.flash.geometry;
    (g.channels, g.ways, g.blocks_per_plane) = (2, 2, 64);
    let accesses = 10 * config.flash.capacity_pages();
    let waf = |random_map| {
        let drive = Mssd::without_data(&config).expect("valid");
        Precondition::Random(2).apply(&drive, 1, |_| {}).expect("fills");
        let jobs = [Job { random_map, ..job("randwrite", 4096, 32, accesses) }];
        Bench::of(&drive, &jobs).run(|_, _| {}).expect("runs").run.flash.waf()
    };
    // Near, not equal: that each block is written once in a pass evens out how old data is (0.74; passes in
    // one order: 0.26).
    let (passes, independent) = (waf(true), waf(false));
    assert!((0.6..1.0).contains(&(passes / independent)), "WAF {passes} beside {independent}");
}

#[test]
fn a_runtime_ends_a_job_whose_blocks_come_round_again_only_where_it_goes_by_time() {
    let of = |time_based, size| {
        let (size, runtime) = (Some(Amount::Bytes(size)), Some(Nanos::from_millis(20)));
        let job = Job { runtime, time_based, size, accesses: None, ..job("randread", 4096, 8, 0) };
        let m = run_on(&small(), &[job], Precondition::Fill);
        (m.jobs[0].accesses, m.time)
    };
    let about = Nanos::from_millis(20)..Nanos::from_millis(21);
    let (round, time) = of(true, Bytes::kib(64));
    assert!(round > 16 && about.contains(&time), "{round} accesses of 16 blocks in {time}");
    let (once, time) = of(false, Bytes::kib(64));
    assert!(once == 16 && time < Nanos::from_millis(1), "{once} accesses in {time}");
    let (cut, time) = of(false, Bytes::mib(200));
    assert!(cut < 200 << 8 && about.contains(&time), "{cut} accesses in {time}");
}

/// Loads of lines that were stored before come from the drive's DRAM.
#[test]
fn warm_loads_do_not_touch_the_flash() {
    for mode in [Mode::Log, Mode::Cache] {
        let config = small().with_mode(mode);
        let drive = Mssd::new(&config).expect("valid");
        Precondition::Fill.apply(&drive, 1, |_| {}).expect("fills");
        let jobs = [Job { size: Some(Bytes::mib(1).into()), ..job("randload", 64, 1, 5000) }];
        let m = Bench { warm: true, ..Bench::of(&drive, &jobs) }.run(|_, _| {}).expect("runs");
        assert_eq!(m.time, config.link.line_read * 5000, "{mode:?}");
        assert_eq!(m.run.flash.total_reads(), 0);
    }
}

/// Reads and writes saturate at the slowest of link, channels and planes.
#[test]
fn bandwidth_is_that_of_the_slowest_stage() {
    let limited = |change: fn(&mut DriveConfig)| {
        let mut c = small().with_mode(Mode::Log);
        change(&mut c);
        c.flash = c.flash.with_capacity(Bytes::mib(256));
        c
    };
    let channels = limited(|c| c.flash.timing.channel_bandwidth = Bytes(100_000_000));
    let planes = limited(|c| {
        (c.flash.geometry.ways, c.flash.timing.read, c.flash.timing.program) =
            (1, Nanos(80_000), Nanos(400_000))
    });
    let page = 4096.0 * 1e9;
    for (what, config, read, write) in [
        ("channels", &channels, 8.0 * 1e8, 8.0 * 1e8),
        ("planes", &planes, 8.0 * page / 80_000.0, 8.0 * page / 400_000.0),
    ] {
        for (rw, bandwidth) in [("read", read), ("write", write)] {
            let held = if rw == "read" { Precondition::Fill } else { Precondition::None };
            let m = run_on(config, &[job(rw, 64 << 10, 64, 4000)], held);
            let rate = (4000u64 << 16) as f64
                / (m.time + if rw == "write" { m.drain_time } else { Nanos::ZERO }).as_secs_f64();
            assert!((rate / bandwidth - 1.0).abs() < 0.03, "{what}, {rw}: {rate} B/s of {bandwidth}");
        }
    }
}

/// Buffered programs and gc are reserved far beyond the end of a short run; they are not work of the run.
#[test]
fn nothing_is_busier_than_the_run_is_long() {
    let mut gc = small();
    gc.flash = gc.flash.with_capacity(Bytes::mib(64));
    let mut slow = small();
    slow.flash.timing.program = Nanos(50_000_000);
    for (config, held, accesses) in [
        (&gc, Precondition::Random(1), 100),
        (&gc, Precondition::Random(1), 5_000),
        (&slow, Precondition::None, 300),
    ] {
        let m = run_on(config, &[job("randwrite", 4096, 32, accesses)], held);
        let g = &config.flash.geometry;
        let share = |busy: Nanos, units: u64| busy.0 as f64 / (m.time.0 * units) as f64;
        let b = m.run.busy;
        let (planes, channels) = (g.plane_count() as u64, g.channels as u64);
        for part in [share(b.planes, planes), share(b.channels, channels), share(b.link_to_drive, 1)] {
            assert!(part <= 1.0, "{accesses} accesses: {part}");
        }
        let all = m.run.busy.planes + m.drain.busy.planes;
        let least = config.flash.timing.program.0 * accesses;
        assert!(all.0 >= least, "run and drain hold all programs: {all:?} of {least}");
    }
}

#[test]
fn too_much_under_way_is_refused() {
    let drive = Mssd::new(&small()).expect("valid");
    let jobs = [Job { clients: 1 << 12, ..job("randread", 4096, 1 << 12, 1) }];
    let said = Bench::of(&drive, &jobs).run(|_, _| {}).expect_err("too many").to_string();
    assert!(said.contains("iodepth x numjobs"), "{said}");
}

fn fio(text: &str) -> Vec<Job> {
    crate::fio::jobs("f", text).unwrap_or_else(|e| panic!("{e}")).0
}

fn fio_on(config: &DriveConfig, text: &str) -> Measured {
    run_on(config, &fio(text), Precondition::Fill)
}

#[test]
fn a_job_behind_a_stonewall_begins_when_those_before_it_have_ended() {
    let text =
        "[global]\nbs=64k\nsize=4m\n[first]\nrw=write\n[second]\nrw=read\n[third]\nstonewall\nrw=randread\n";
    let m = fio_on(&small(), text);
    let [first, second, third] = &m.jobs[..] else { panic!("three jobs") };
    assert_eq!((first.begin, second.begin), (Nanos::ZERO, Nanos::ZERO));
    assert_eq!(third.begin, first.time.max(second.time));
    assert_eq!(m.time, third.begin + third.time);
    let together = fio_on(&small(), &text.replace("stonewall\n", ""));
    assert_eq!(together.jobs[2].begin, Nanos::ZERO);
    assert!(together.time < m.time);
}

#[test]
fn a_rate_is_kept_and_what_was_late_is_made_up_for() {
    for (line, depth) in [("rate=40m", 1), ("rate=40m", 8), ("rate_iops=10240", 4)] {
        let m = fio_on(&small(), &format!("[a]\nrw=randread\n{line}\niodepth={depth}\nsize=16m\n"));
        let rate = m.jobs[0].read_bytes as f64 / m.time.as_secs_f64();
        assert!((rate / (40 << 20) as f64 - 1.0).abs() < 0.01, "{line}: {rate} B/s");
    }
    // Each direction has its own.
    let m = fio_on(&small(), "[a]\nrw=randrw\nrate=40m,10m\niodepth=4\nruntime=1\ntime_based\n");
    let per_s = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let (reads, writes) = (per_s(m.jobs[0].read_bytes), per_s(m.jobs[0].write_bytes));
    assert!((reads - 40.0).abs() < 1.0 && (writes - 10.0).abs() < 1.0, "{reads} and {writes} MiB/s");
}

#[test]
fn a_job_ends_before_the_virtual_clock_does() {
    for line in [
        "thinktime=32850d",
        "rate=1\nbs=1m\nloops=1000",
        "startdelay=36000d\nramp_time=36000d\nruntime=36000d",
    ] {
        let m = fio_on(
            &small(),
            &format!("[a]\nrw=read\nsize=64m\nloops=1000\n{line}\n[b]\nstonewall\nrw=read\nsize=1m\n"),
        );
        assert!(m.time.0 <= u64::MAX / 2 + 1_000_000_000, "{line}: {:?}", m.time);
    }
}

#[test]
fn a_client_pauses_when_so_many_accesses_are_done() {
    let lone = fio_on(&small(), "[a]\nrw=randread\nnumber_ios=100\n").time;
    let m = fio_on(&small(), "[a]\nrw=randread\nnumber_ios=100\nthinktime=1ms\n");
    assert_eq!(m.time, lone + Nanos::from_millis(99), "a pause between two");
    let m = fio_on(
        &small(),
        "[a]\nrw=randread\nnumber_ios=100\nthinktime=1ms\nthinktime_blocks=10\niodepth=32\n",
    );
    let nine = Nanos::from_millis(9);
    assert!(m.time > nine && m.time < nine + lone, "nine pauses, ten at a time: {}", m.time);
    assert_eq!(m.jobs[0].accesses, 100);
}

#[test]
fn a_flush_follows_so_many_writes() {
    for (depth, every, flushes) in [(1, 1, 99), (8, 1, 99), (4, 10, 9), (1, 200, 0)] {
        let text = format!("[a]\nrw=randwrite\nnumber_ios=100\nfsync={every}\niodepth={depth}\n");
        let m = fio_on(&small(), &text);
        let f = m.jobs[0].flushes.as_ref().expect("counted");
        assert_eq!((m.jobs[0].accesses, f.accesses), (100, flushes), "{text}");
    }
    // Only writes count.
    let m = fio_on(&small(), "[a]\nrw=randrw\nnumber_ios=1000\nfsync=10\n");
    let writes = m.jobs[0].write_bytes / 4096;
    assert_eq!(m.jobs[0].flushes.as_ref().map(|f| f.accesses), Some((writes - 1) / 10));
}

#[test]
fn what_runs_in_is_not_counted() {
    let text = "[a]\nrw=randread\nruntime=20ms\ntime_based\n";
    let m = fio_on(&small(), text);
    let late = fio_on(&small(), &format!("{text}ramp_time=30ms\n"));
    let about = |n: u64| (m.jobs[0].accesses as f64 / n as f64 - 1.0).abs() < 0.02;
    assert!(about(late.jobs[0].accesses), "{} and {}", m.jobs[0].accesses, late.jobs[0].accesses);
    assert!(
        late.time <= Nanos::from_millis(21),
        "the run is counted from the end of the lead-in: {}",
        late.time
    );
    assert_eq!(
        late.run.link.block_read.iter().sum::<u64>() / 4096 + 1,
        late.jobs[0].accesses,
        "one was under way"
    );
}

#[test]
fn jobs_begin_when_they_are_told_to() {
    let m = fio_on(
        &small(),
        "[global]\nrw=read\nsize=1m\n[a]\n[b]\nstartdelay=2\n[c]\nnumjobs=4\nstartdelay=3-5\n",
    );
    assert_eq!(m.jobs[0].begin, Nanos::ZERO);
    assert_eq!(m.jobs[1].begin, Nanos::from_millis(2000));
    assert!((3000..5000).contains(&(m.jobs[2].begin.0 / 1_000_000)), "{}", m.jobs[2].begin);
    assert!(m.time > Nanos::from_millis(3000));
}

#[test]
fn how_much_is_accessed_is_what_was_asked_for() {
    for (lines, bytes) in [
        ("size=1m\nloops=3", 3 << 20),
        ("size=1m\nio_size=256k", 256 << 10),
        ("size=1m\nio_size=200%", 2 << 20),
        ("size=1m\nnumber_ios=7", 7 << 12),
        ("size=1%", small().pages() * PAGE / 100 / 4096 * 4096),
        ("size=1m\nbssplit=4k/50:16k/50", 1 << 20),
        ("size=1m\nbsrange=4k-16k\nloops=2", 2 << 20),
        ("size=1m\nnumjobs=3\noffset_increment=1m", 3 << 20),
    ] {
        for rw in ["read", "randread"] {
            let m = fio_on(&small(), &format!("[a]\nrw={rw}\n{lines}\n"));
            let got = m.jobs[0].read_bytes;
            assert_eq!(got, bytes, "{rw}, {lines}");
        }
    }
}

#[test]
fn accesses_of_several_sizes_visit_every_unit_once_in_a_pass() {
    let size = Bytes::mib(4);
    for (lines, most) in
        [("bssplit=4k/60:16k/40", 16384), ("bsrange=4k-32k", 32768), ("rw=randrw\nbs=4k,8k", 8192)]
    {
        let text = format!("[a]\nrw=randread\n{lines}\nsize=4m\nloops=3\n");
        let job = fio(&text).remove(0);
        let mut units = vec![0u32; (size.0 / 4096) as usize];
        let (mut bytes, mut largest) = (0, 0);
        let mut passes = drawn(&job, 300).into_iter();
        while bytes < size.0 {
            let (at, len) = passes.next().expect("a pass is shorter");
            assert!(at.is_multiple_of(4096) && len.is_multiple_of(4096) && len > 0 && at + len <= size.0);
            units[(at / 4096) as usize..((at + len) / 4096) as usize].iter_mut().for_each(|u| *u += 1);
            (bytes, largest) = (bytes + len, largest.max(len));
            if passes.len() == 0 {
                break;
            }
        }
        assert!(units.iter().all(|u| *u <= 1), "{lines}: one twice in a pass");
        assert_eq!(largest, most, "{lines}");
    }
    // Shares are those of the draws, where nothing is cut short.
    let job = fio("[a]\nrw=randread\nbssplit=4k/90:64k/10\nnorandommap\n").remove(0);
    let all = drawn(&job, 5000);
    let large = all.iter().filter(|(_, len)| *len == 65536).count();
    assert!((450..550).contains(&large), "{large} of 5000");
    assert!(matches!(job.blocks[0], Blocks::Split(_)));
}

#[test]
fn trims_are_trims() {
    let m = fio_on(&small(), "[a]\nrw=randtrim\nbs=64k\nsize=8m\n");
    assert_eq!((m.jobs[0].accesses, m.jobs[0].trim_bytes), (128, 8 << 20));
    assert_eq!((m.jobs[0].read_bytes, m.jobs[0].write_bytes), (0, 0));
    assert_eq!(m.run.link.written(), 0);
    let drive = Mssd::new(&small()).expect("valid");
    Precondition::Fill.apply(&drive, 1, |_| {}).expect("fills");
    Bench::of(&drive, &fio("[a]\nrw=trim\nsize=4k\noffset=4k\n")).run(|_, _| {}).expect("runs");
    assert_eq!(drive.peek(granary_units::Lpa(1)).expect("reads").as_word(), Some((0, 0)));
    assert_eq!(drive.peek(granary_units::Lpa(2)).expect("reads").as_word(), Some((2, 4096)));
}

#[test]
fn a_run_that_is_stopped_has_what_it_did_until_then() {
    let jobs = [job("randread", 4096, 32, 1 << 40), Job { stonewall: true, ..job("read", 4096, 1, 1) }];
    let drive = Mssd::new(&small()).expect("valid");
    let asked = std::cell::Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) == 2;
    let m = Bench { stop: &stop, ..Bench::of(&drive, &jobs) }.run(|_, _| {}).expect("runs");
    assert!(m.cut);
    assert_eq!(m.jobs[0].accesses, 3 * STOP_EVERY);
    assert_eq!(m.jobs[1].accesses, 0);
    drive.check().expect("consistent");
}
