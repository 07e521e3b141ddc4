//! How many device operations one core simulates: block commands at queue depth 32, stores and loads of one
//! line.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

mod cpu_time;

use cpu_time::CpuTime;
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use granary_device::{Command, Drive, Structure};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, Page, TxId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const WHAT: Structure = Structure::Data;
/// Pages that the benchmarks touch: 4 GiB.
const SPAN: u64 = 1 << 20;

/// Keeps 32 commands in flight.
struct Pipeline {
    in_flight: BinaryHeap<Reverse<Nanos>>,
    now: Nanos,
}

impl Pipeline {
    fn new(now: Nanos) -> Pipeline {
        Pipeline { in_flight: BinaryHeap::new(), now }
    }

    fn step(&mut self, submit: impl FnOnce(Nanos) -> Nanos) {
        if self.in_flight.len() == 32
            && let Some(Reverse(done)) = self.in_flight.pop()
        {
            self.now = self.now.max(done);
        }
        self.in_flight.push(Reverse(submit(self.now)));
    }
}

fn filled(mode: Mode) -> (Mssd, Nanos) {
    let d = Mssd::new(&DriveConfig::bytefs_emulator().with_mode(mode)).expect("valid");
    let pages: Vec<Page> = (0..64).map(Page::word).collect();
    let mut now = Nanos::ZERO;
    for lpa in (0..SPAN).step_by(64) {
        now = d.submit(now, Command::Write { lpa: Lpa(lpa), pages: &pages, what: WHAT }).expect("writes");
    }
    let now = d.settle(now).expect("settles");
    (d, now)
}

fn block(c: &mut Criterion<CpuTime>) {
    let mut g = c.benchmark_group("block");
    g.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat).sample_size(20);
    for mode in [Mode::Log, Mode::Cache] {
        let (d, now) = filled(mode);
        let mut rng = Stream::new(1, "bench");
        let mut p = Pipeline::new(now);
        g.bench_function(format!("{mode:?} read 4KiB random, 32 in flight"), |b| {
            b.iter(|| {
                let lpa = Lpa(rng.below(SPAN));
                let mut out = [Page::ZERO];
                p.step(|now| d.submit(now, Command::Read { lpa, out: &mut out, what: WHAT }).expect("reads"));
                out
            });
        });
        g.bench_function(format!("{mode:?} write 4KiB random, 32 in flight"), |b| {
            b.iter(|| {
                let lpa = Lpa(rng.below(SPAN));
                let pages = [Page::word(lpa.0)];
                p.step(|now| {
                    d.submit(now, Command::Write { lpa, pages: &pages, what: WHAT }).expect("writes")
                });
            });
        });
    }
    g.finish();
}

fn byte(c: &mut Criterion<CpuTime>) {
    let mut g = c.benchmark_group("byte");
    g.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat).sample_size(20);
    for mode in [Mode::Log, Mode::Cache] {
        let d = Mssd::new(&DriveConfig::bytefs_emulator().with_mode(mode)).expect("valid");
        let mut rng = Stream::new(1, "bench");
        // 4 lines in each of 8192 pages: hot metadata.
        let line = |rng: &mut Stream| ByteAddr(rng.below(8192) * 4096 + rng.below(4) * 64);
        let mut now = Nanos::ZERO;
        g.bench_function(format!("{mode:?} store, flush, verify 64B"), |b| {
            b.iter(|| {
                let at = line(&mut rng);
                now = d.store(now, at, &[now.0 as u8; 64], TxId::NONE, WHAT).expect("stores");
                now = d.flush_lines(now, at, 64).expect("flushes");
                now = d.verify(now).expect("verifies");
            });
        });
        g.bench_function(format!("{mode:?} load 64B"), |b| {
            b.iter(|| {
                let mut out = [0; 64];
                now = d.load(now, line(&mut rng), &mut out, WHAT).expect("loads");
                out
            });
        });
    }
    g.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .with_measurement(CpuTime)
        .warm_up_time(std::time::Duration::from_secs(1))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = block, byte
}
criterion_main!(benches);
