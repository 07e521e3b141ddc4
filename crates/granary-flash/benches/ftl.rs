//! Speed of the FTL: simulated operations per second of processor time on one core, 32 commands in flight;
//! opening and filling a drive of 512 GiB.
#![allow(missing_docs)] // criterion_group! makes an undocumented function

#[path = "../../granary-mssd/benches/cpu_time/mod.rs"]
mod cpu_time;

use cpu_time::CpuTime;
use criterion::{BatchSize, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use granary_flash::{Cause, Ftl, FtlConfig, Geometry, Medium, NandTiming, NoData, RamMedium};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Lpa, Nanos, Page};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Operations in one measured batch.
const OPS: u64 = 96_000;

/// ByteFS Table 4 timing; 8 channels of 8 ways.
fn config(capacity: Bytes) -> FtlConfig {
    let geometry =
        Geometry { channels: 8, ways: 8, dies: 1, planes: 1, blocks_per_plane: 1, pages_per_block: 128 };
    let timing = NandTiming {
        read: Nanos::from_micros(40),
        program: Nanos::from_micros(60),
        erase: Nanos::from_millis(2),
        channel_bandwidth: Bytes::mib(800),
    };
    FtlConfig::new(geometry, timing).with_capacity(capacity)
}

fn with_data(capacity: Bytes) -> Ftl<RamMedium> {
    Ftl::new(&config(capacity)).expect("a working drive")
}

fn without_data(capacity: Bytes) -> Ftl<NoData> {
    let config = config(capacity);
    let medium = NoData::new(config.geometry.blocks(), config.geometry.pages_per_block);
    Ftl::with_medium(&config, medium).expect("a working drive")
}

fn fill<M: Medium>(mut ftl: Ftl<M>, pages: u64) -> Ftl<M> {
    ftl.fill_sequential(Lpa(0), pages, Cause::Host, |l| Page::word(l.0)).expect("fill");
    ftl
}

/// Commands in flight, and random pages.
#[derive(Clone)]
struct Load {
    rng: Stream,
    /// Pages that are asked for: 0 to this; the whole drive where that is smaller.
    within: u64,
    in_flight: BinaryHeap<Reverse<Nanos>>,
}

impl Load {
    fn new() -> Load {
        Load {
            rng: Stream::new(1, "bench"),
            within: u64::MAX,
            in_flight: vec![Reverse(Nanos::ZERO); 32].into(),
        }
    }

    fn within(self, pages: u64) -> Load {
        Load { within: pages, ..self }
    }

    fn run<M: Medium>(&mut self, ftl: &mut Ftl<M>, mut submit: impl FnMut(&mut Ftl<M>, Nanos, Lpa) -> Nanos) {
        let pages = ftl.capacity_pages().min(self.within);
        for _ in 0..OPS / 32 {
            let together: [Lpa; 32] = std::array::from_fn(|_| Lpa(self.rng.below(pages)));
            ftl.look_ahead(&together);
            for lpa in together {
                if let Some(mut first) = self.in_flight.peek_mut() {
                    ftl.pass(first.0);
                    first.0 = submit(ftl, first.0, lpa);
                }
            }
        }
    }

    fn read<M: Medium>(&mut self, ftl: &mut Ftl<M>) {
        self.run(ftl, |ftl, now, lpa| ftl.read(now, lpa, Cause::Host).expect("read").1);
    }

    fn write<M: Medium>(&mut self, ftl: &mut Ftl<M>) {
        self.run(ftl, |ftl, now, lpa| ftl.write(now, lpa, Page::word(lpa.0), Cause::Host).expect("write"));
    }
}

/// Reads of a full drive, writes that are far from gc's threshold within one batch, overwrites in the steady
/// state.
fn random<M: Medium + Clone>(c: &mut Criterion<CpuTime>, name: &str, drive: fn(Bytes) -> Ftl<M>) {
    let mut g = c.benchmark_group(format!("random 4 KiB, {name}"));
    g.throughput(Throughput::Elements(OPS)).sampling_mode(SamplingMode::Flat).sample_size(15);

    let filled = |capacity: Bytes, part: u64| {
        let ftl = drive(capacity);
        let pages = ftl.capacity_pages() / part;
        (fill(ftl, pages), Load::new())
    };
    let mut full = None;
    g.bench_function("read, 32 GiB", |b| {
        let (ftl, load) = full.get_or_insert_with(|| filled(Bytes::gib(32), 1));
        b.iter(|| load.read(ftl));
    });
    drop(full);
    let mut half = None;
    g.bench_function("write without gc, 32 GiB", |b| {
        let half = half.get_or_insert_with(|| filled(Bytes::gib(32), 2));
        b.iter_batched_ref(|| half.clone(), |(ftl, load)| load.write(ftl), BatchSize::PerIteration);
    });
    drop(half);
    for (capacity, permille) in [(Bytes::gib(1), 70), (Bytes::gib(8), 70), (Bytes::gib(8), 280)] {
        let mut steady = None;
        g.bench_function(format!("overwrite in steady state, {capacity}, {permille} permille"), |b| {
            let (ftl, load) = steady.get_or_insert_with(|| {
                let (mut ftl, mut load) = match permille {
                    70 => filled(capacity, 1),
                    // The host leaves the rest of the drive alone.
                    more => {
                        let (ftl, load) = filled(capacity, 1);
                        let pages = ftl.capacity_pages();
                        let mut ftl = ftl;
                        let used = pages * 1070 / (1000 + more);
                        ftl.trim(Lpa(used), pages - used).expect("trim");
                        (ftl, load.within(used))
                    }
                };
                for _ in 0..3 * ftl.capacity_pages() / OPS {
                    load.write(&mut ftl);
                }
                let before = ftl.counters();
                load.write(&mut ftl);
                eprintln!("WAF {:.2}", ftl.counters().since(&before).waf());
                (ftl, load)
            });
            b.iter(|| load.write(ftl));
        });
    }
    g.finish();
}

fn ftl(c: &mut Criterion<CpuTime>) {
    random(c, "no data", without_data);
    random(c, "in memory", with_data);
}

fn large(c: &mut Criterion<CpuTime>) {
    let size = Bytes::gib(512);
    let mut g = c.benchmark_group("512 GiB, no data");
    g.sampling_mode(SamplingMode::Flat).sample_size(10);
    g.bench_function("open", |b| b.iter_with_large_drop(|| without_data(size)));
    g.bench_function("fill", |b| {
        b.iter_batched(
            || without_data(size),
            |ftl| {
                let pages = ftl.capacity_pages();
                fill(ftl, pages)
            },
            BatchSize::PerIteration,
        );
    });
    let mut full = None;
    g.throughput(Throughput::Elements(OPS));
    g.bench_function("read", |b| {
        let (ftl, load) = full.get_or_insert_with(|| {
            let ftl = without_data(size);
            let pages = ftl.capacity_pages();
            let full = fill(ftl, pages);
            let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
            let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("a line").trim();
            let kib: f64 = resident.trim_end_matches(" kB").parse().expect("a number");
            eprintln!("resident {resident}, {:.2} bytes per logical page", kib * 1024.0 / pages as f64);
            (full, Load::new())
        });
        b.iter(|| load.read(ftl));
    });
    g.bench_function("overwrite", |b| {
        let Some((ftl, load)) = &mut full else { return b.iter(|| ()) };
        b.iter(|| load.write(ftl));
    });
    g.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = large, ftl
}
criterion_main!(benches);
