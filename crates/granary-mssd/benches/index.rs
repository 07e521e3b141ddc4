//! The log index with a full 256 MB log, against a `BTreeMap` and a hash table of lines.
//!
//! The paper reports 89 ns for a lookup on the prototype's ARM core (section 4.3).

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

mod cpu_time;

use cpu_time::CpuTime;
use criterion::{BatchSize, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use granary_mssd::bench::{EntryRef, Index, LineVersions, Piece, TOGETHER};
use granary_sim::rng::Stream;
use granary_units::TxId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hint::black_box;

/// The allocator of the command line. In small pages of memory, an index of 20 MB also waits for the
/// translation of their addresses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Pages of a 32 GB drive.
const PAGES: u64 = 8 << 20;
/// Single-line entries that fit into both halves: 256 MiB / 80 B.
const FULL: u32 = 3_300_000;

/// Everything is committed, entries are numbered by age.
struct Committed;

impl LineVersions for Committed {
    fn tx(&self, _: EntryRef) -> TxId {
        TxId::NONE
    }
    fn committed(&self, _: TxId) -> bool {
        true
    }
}

/// (page, line) of `n` lines. Clustered: `per_page` lines in each page, pages in runs as metadata lies in
/// block groups.
fn lines(n: u32, per_page: u32, spread: u64) -> Vec<(u32, u8)> {
    let mut rng = Stream::new(1, "lines");
    let mut out = Vec::new();
    while (out.len() as u32) < n {
        let page = rng.below(spread) as u32;
        let first = rng.below((65 - per_page) as u64) as u8;
        out.extend((0..per_page as u8).map(|i| (page, first + i)));
    }
    out
}

fn filled(lines: &[(u32, u8)]) -> Index {
    let mut index = Index::new(PAGES, 1);
    for (i, &(page, line)) in lines.iter().enumerate() {
        index.insert(page, piece(i, line), &Committed);
    }
    index
}

fn piece(entry: usize, line: u8) -> Piece {
    Piece { entry: EntryRef(entry as u32), first: line, lines: 1 }
}

fn bench(c: &mut Criterion<CpuTime>) {
    // Few lines in each page, anywhere on the drive: where a page costs most for each line.
    for per_page in [2, 4, 8] {
        let index = filled(&lines(FULL, per_page, PAGES));
        let bytes = index.memory() as f64 / index.lines() as f64;
        eprintln!("{per_page} lines to a page: {} lines, {bytes:.1} B of index for each line", index.lines());
    }
    // Alone: every line in a page of its own, anywhere on the drive. Metadata: 16 lines in each of 200,000
    // pages. Dense: whole pages of lines, 52,000 of them in 2 GiB.
    for (name, per_page, spread) in [("alone", 1, PAGES), ("metadata", 16, 400_000), ("dense", 64, 500_000)] {
        let lines = lines(FULL, per_page, spread);
        let index = filled(&lines);
        let bytes = index.memory() as f64 / index.lines() as f64;
        eprintln!("{name}: {} lines, {bytes:.1} B of index for each line", index.lines());
        let btree: BTreeMap<u64, u32> = keys(&lines);
        let hash: FxHashMap<u64, u32> = keys(&lines);

        let mut g = c.benchmark_group(format!("index/{name}"));
        g.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat).sample_size(20);
        // Random lines of the log, drawn beforehand and read in sequence: the draw's own cache misses are not
        // the index's.
        let mut rng = Stream::new(2, "probe");
        let probes: Vec<(u32, u8)> =
            (0..1 << 20).map(|_| lines[rng.below(lines.len() as u64) as usize]).collect();
        let mut at = 0;
        let mut probe = || {
            at = (at + 1) % probes.len();
            probes[at]
        };
        let mut found = Vec::new();
        g.bench_function("lookup of a line", |b| {
            b.iter(|| {
                let (page, line) = probe();
                found.clear();
                index.lookup(page, line as usize, 1, &mut found)
            });
        });
        // The lines of many commands in flight, or of one command with many lines, are known ahead. `drive
        // bench` looks them up like this.
        g.bench_function("lookup of a line, 32 looked ahead", |b| {
            let mut next = probes.chunks(TOGETHER).cycle().flat_map(|lines| {
                black_box(index.look_ahead(lines));
                lines
            });
            b.iter(|| {
                let &(page, line) = next.next().expect("it begins again");
                found.clear();
                index.lookup(page, line as usize, 1, &mut found)
            });
        });
        // File systems look again at what they just wrote: lines of one page in sixteen.
        let recent: Vec<(u32, u8)> = probes.iter().copied().filter(|(page, _)| page % 16 == 0).collect();
        g.bench_function("lookup of a line, one page in 16", |b| {
            let mut at = 0;
            b.iter(|| {
                at = (at + 1) % recent.len();
                found.clear();
                index.lookup(recent[at].0, recent[at].1 as usize, 1, &mut found)
            });
        });
        g.bench_function("lookup of a line, BTreeMap", |b| {
            b.iter(|| {
                let (page, line) = probe();
                btree.get(&((page as u64) << 6 | line as u64))
            });
        });
        g.bench_function("lookup of a line, hash", |b| {
            b.iter(|| {
                let (page, line) = probe();
                hash.get(&((page as u64) << 6 | line as u64))
            });
        });
        g.bench_function("lookup of a page", |b| {
            b.iter(|| {
                found.clear();
                index.lookup(probe().0, 0, 64, &mut found)
            });
        });
        g.bench_function("lookup of a page, BTreeMap", |b| {
            b.iter(|| {
                let first = (probe().0 as u64) << 6;
                btree.range(first..first + 64).map(|(_, e)| *e as u64).sum::<u64>()
            });
        });
        let mut miss = Stream::new(3, "miss");
        g.bench_function("lookup of a page that the log does not hold", |b| {
            b.iter(|| {
                found.clear();
                let page = (PAGES / 2 + miss.below(PAGES / 2)) as u32;
                index.lookup(page, 0, 64, &mut found)
            });
        });
        g.sample_size(10);
        g.throughput(Throughput::Elements(FULL as u64));
        g.bench_function("insert of all lines", |b| {
            b.iter_batched(|| (), |()| black_box(filled(&lines)), BatchSize::PerIteration);
        });
        g.bench_function("insert of all lines, BTreeMap", |b| {
            b.iter_batched(|| (), |()| keys::<BTreeMap<u64, u32>>(&lines), BatchSize::PerIteration);
        });
        g.finish();
    }
}

fn keys<M: FromIterator<(u64, u32)>>(lines: &[(u32, u8)]) -> M {
    lines.iter().enumerate().map(|(i, &(p, l))| ((p as u64) << 6 | l as u64, i as u32)).collect()
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .with_measurement(CpuTime)
        .warm_up_time(std::time::Duration::from_secs(1))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = bench
}
criterion_main!(benches);
