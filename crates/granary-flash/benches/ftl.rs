//! Speed of the FTL: simulated operations per second on one core.
#![allow(missing_docs)] // criterion_group! makes an undocumented function

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use granary_flash::{Cause, Ftl, FtlConfig, Geometry, NandTiming};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Lpa, Nanos, Page};
use std::hint::black_box;

/// Operations in one measured batch.
const OPS: u64 = 100_000;

/// ByteFS Table 4 timing; 8 channels of 2 ways.
fn drive(capacity: Bytes) -> Ftl {
    let geometry =
        Geometry { channels: 8, ways: 2, dies: 1, planes: 1, blocks_per_plane: 1, pages_per_block: 128 };
    let timing = NandTiming {
        read: Nanos::from_micros(40),
        program: Nanos::from_micros(60),
        erase: Nanos::from_millis(2),
        channel_bandwidth: Bytes::mib(800),
    };
    Ftl::new(&FtlConfig::new(geometry, timing).with_capacity(capacity)).expect("a working drive")
}

fn filled(capacity: Bytes) -> Ftl {
    let mut ftl = drive(capacity);
    for l in 0..ftl.capacity_pages() {
        ftl.write(Nanos::ZERO, Lpa(l), Page::word(l), Cause::Host).expect("write");
    }
    ftl
}

/// A load of 5 us between commands, so that the planes' timelines stay realistic.
fn random_writes(ftl: &mut Ftl, rng: &mut Stream, now: &mut Nanos) {
    let pages = ftl.capacity_pages();
    for i in 0..OPS {
        *now += Nanos::from_micros(5);
        let done = ftl.write(*now, Lpa(rng.below(pages)), Page::word(i), Cause::Host).expect("write");
        black_box(done);
    }
}

fn ftl(c: &mut Criterion) {
    let mut group = c.benchmark_group("ftl");
    group.throughput(Throughput::Elements(OPS)).sample_size(20);

    let mut ftl = filled(Bytes::gib(8));
    let (mut rng, mut now) = (Stream::new(1, "bench"), Nanos::ZERO);
    group.bench_function("random_read_8GiB", |b| {
        b.iter(|| {
            for _ in 0..OPS {
                now += Nanos::from_micros(5);
                let l = Lpa(rng.below(ftl.capacity_pages()));
                black_box(ftl.read(now, l, Cause::Host).expect("read"));
            }
        });
    });

    // 8 GiB of a 32 GiB drive are written: stale copies are far from gc's threshold within one batch.
    let mut base = drive(Bytes::gib(32));
    for l in 0..base.capacity_pages() / 4 {
        base.write(Nanos::ZERO, Lpa(l), Page::word(l), Cause::Host).expect("write");
    }
    group.bench_function("random_write_no_gc_32GiB", |b| {
        b.iter_batched_ref(
            || (base.clone(), Stream::new(2, "bench"), Nanos::ZERO),
            |(ftl, rng, now)| random_writes(ftl, rng, now),
            BatchSize::PerIteration,
        );
    });

    let mut ftl = filled(Bytes::gib(1));
    let (mut rng, mut now) = (Stream::new(3, "bench"), Nanos::ZERO);
    for _ in 0..10 {
        random_writes(&mut ftl, &mut rng, &mut now);
    }
    let before = ftl.counters();
    group.bench_function("random_overwrite_steady_1GiB", |b| {
        b.iter(|| random_writes(&mut ftl, &mut rng, &mut now));
    });
    eprintln!("steady state: WAF {:.2}", ftl.counters().since(&before).waf());
    group.finish();
}

criterion_group!(benches, ftl);
criterion_main!(benches);
