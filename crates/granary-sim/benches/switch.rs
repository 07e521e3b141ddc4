//! How fast virtual time runs: context switches between tasks, uncontended locks, waits that need no switch.
//! Command: `cargo bench -p granary-sim`.
#![allow(missing_docs)] // criterion's macros

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use granary_sim::sync::Mutex;
use granary_sim::{World, WorldConfig, sleep, spawn};
use granary_units::Nanos;
use std::sync::Arc;

/// `tasks` tasks that each sleep in turn, `switches` context switches in all.
fn round_robin(tasks: u64, switches: u64) {
    World::new(WorldConfig::default())
        .run(move || {
            let all: Vec<_> = (0..tasks)
                .map(|_| spawn("switcher", move || (0..switches / tasks).for_each(|_| sleep(Nanos(100)))))
                .collect();
            all.into_iter().for_each(|t| t.join());
        })
        .expect("no deadlock");
}

fn benches(c: &mut Criterion) {
    const N: u64 = 1_000_000;
    let mut g = c.benchmark_group("virtual");
    g.sample_size(10).throughput(Throughput::Elements(N));
    for tasks in [12, 200, 2000] {
        g.bench_function(format!("1M switches, {tasks} tasks"), |b| b.iter(|| round_robin(tasks, N)));
    }
    g.bench_function("1M waits of one task (no switch)", |b| b.iter(|| round_robin(1, N)));
    g.bench_function("1M uncontended locks", |b| {
        b.iter(|| {
            World::default().run(|| {
                let m = Arc::new(Mutex::new(0u64));
                (0..N).for_each(|_| *m.lock() += 1);
            })
        });
    });
    g.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
