//! Finding the changed lines of a page: each kernel on pages in the processor's cache and on pages in memory,
//! beside copying memory. Throughput counts one page per comparison, as the paper does (section 4.6: up to 14
//! GB/s); the comparison reads two.

#![allow(missing_docs)] // made by criterion_group!

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use granary_units::PAGE_SIZE;
use granary_vfs::diff::Kernel;
use std::hint::black_box;

/// 64 MiB of pages, and as many duplicates: larger than last-level caches.
const PAGES: usize = 16_384;

fn pages(seed: u8) -> Vec<[u8; PAGE_SIZE]> {
    (0..PAGES).map(|n| std::array::from_fn(|i| (i ^ n).wrapping_mul(31) as u8 ^ seed)).collect()
}

fn diff(c: &mut Criterion) {
    let originals = pages(0);
    let mut changed = originals.clone();
    changed.iter_mut().for_each(|p| p[100] ^= 1);
    let mut group = c.benchmark_group("diff");
    for kernel in Kernel::ALL.into_iter().filter(|k| k.is_available()) {
        group.throughput(Throughput::Bytes(PAGE_SIZE as u64));
        group.bench_function(BenchmarkId::new("in-cache", format!("{kernel:?}")), |b| {
            b.iter(|| kernel.changed_lines(black_box(&originals[0]), black_box(&changed[0])));
        });
        group.throughput(Throughput::Bytes((PAGES * PAGE_SIZE) as u64));
        group.bench_function(BenchmarkId::new("in-memory", format!("{kernel:?}")), |b| {
            b.iter(|| {
                let lines = |(a, b)| kernel.changed_lines(a, b);
                black_box(originals.iter().zip(&changed).map(lines).fold(0, |m, l| m | l))
            });
        });
    }
    group.throughput(Throughput::Bytes((PAGES * PAGE_SIZE) as u64));
    group.bench_function("memcpy", |b| b.iter(|| changed.copy_from_slice(black_box(&originals))));
    group.finish();
}

criterion_group!(benches, diff);
criterion_main!(benches);
