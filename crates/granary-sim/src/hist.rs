//! Latency histograms: count, mean and maximum are exact, quantiles have three significant digits (crate
//! `hdrhistogram`) up to an hour.

use granary_units::Nanos;
use std::borrow::Cow;

type Buckets = hdrhistogram::Histogram<u64>;

/// Samples that are counted together: each finds its bucket in main memory, and one by one each would be
/// waited for.
const TOGETHER: usize = 32;

/// A latency distribution; identical samples give identical figures on every machine.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Buckets,
    /// The last samples, not in their buckets yet.
    waiting: [u64; TOGETHER],
    waiters: usize,
    /// All samples together, in nanoseconds.
    sum: u128,
    longest: Nanos,
}

const HOUR: u64 = 3_600_000_000_000;

impl Histogram {
    /// Empty.
    pub fn new() -> Histogram {
        let buckets = Buckets::new_with_bounds(1, HOUR, 3).expect("constant bounds are valid");
        Histogram { buckets, waiting: [0; TOGETHER], waiters: 0, sum: 0, longest: Nanos::ZERO }
    }

    /// Counts one sample; for the quantiles, longer than an hour counts as an hour.
    #[inline]
    pub fn record(&mut self, sample: Nanos) {
        if self.waiters == TOGETHER {
            count(&mut self.buckets, &self.waiting);
            self.waiters = 0;
        }
        self.waiting[self.waiters] = sample.0;
        self.waiters += 1;
        self.sum += u128::from(sample.0);
        self.longest = self.longest.max(sample);
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.add(&*other.all()).expect("same bounds");
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// All samples in their buckets.
    fn all(&self) -> Cow<'_, Buckets> {
        let mut all = Cow::Borrowed(&self.buckets);
        if self.waiters > 0 {
            count(all.to_mut(), &self.waiting[..self.waiters]);
        }
        all
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.buckets.len() + self.waiters as u64
    }

    /// Mean, rounded to a nanosecond (zero where there are no samples).
    pub fn mean(&self) -> Nanos {
        let count = u128::from(self.count());
        Nanos((self.sum + count / 2).checked_div(count).unwrap_or(0) as u64)
    }

    /// The value that a share `q` (0 to 1) of the samples does not exceed: at most one in a thousand above
    /// the sample itself.
    pub fn quantile(&self, q: f64) -> Nanos {
        // A bucket's end may lie above all samples.
        Nanos(if self.count() == 0 { 0 } else { self.all().value_at_quantile(q) }).min(self.longest)
    }

    /// Samples by powers of two, as `(from, count)`: from so many nanoseconds to below twice as many; those
    /// that take no time have 0. Empty ones are left out. Exact up to an hour: no bucket of the quantiles
    /// lies on both sides of a power of two.
    pub fn by_powers_of_two(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = Vec::new();
        for bucket in self.all().iter_recorded() {
            let from = bucket.value_iterated_to().checked_ilog2().map_or(0, |n| 1 << n);
            match all.last_mut().filter(|last| last.0 == from) {
                Some(last) => last.1 += bucket.count_at_value(),
                None => all.push((from, bucket.count_at_value())),
            }
        }
        all
    }

    /// Largest sample (zero where there are none).
    pub fn max(&self) -> Nanos {
        self.longest
    }
}

fn count(buckets: &mut Buckets, samples: &[u64]) {
    samples.iter().for_each(|&sample| buckets.saturating_record(sample));
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: &[u64]) -> Histogram {
        let mut h = Histogram::new();
        samples.iter().for_each(|&s| h.record(Nanos(s)));
        h
    }

    #[test]
    fn count_mean_and_maximum_are_exact() {
        let h = of(&[123_456_789, 987_654_321, 3 * HOUR]);
        assert_eq!((h.count(), h.max()), (3, Nanos(3 * HOUR)));
        assert_eq!(h.mean(), Nanos((123_456_789 + 987_654_321 + 3 * HOUR + 1) / 3));
        let hours = h.quantile(1.0).0 as f64 / HOUR as f64;
        assert!(
            (1.0..1.3).contains(&hours),
            "three hours count as an hour, to the end of its bucket: {hours}"
        );
    }

    #[test]
    fn no_quantile_is_above_the_largest_sample_and_what_takes_no_time_has_none() {
        assert_eq!(of(&[47_845; 5]).quantile(0.99), Nanos(47_845));
        let idle = of(&[0, 0, 0]);
        assert_eq!((idle.mean(), idle.quantile(0.5), idle.max()), (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO));
        assert_eq!((of(&[]).mean(), of(&[]).quantile(0.5)), (Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn powers_of_two_are_kept_apart_exactly() {
        assert_eq!(of(&[0, 0, 1, 2, 3, 4]).by_powers_of_two(), [(0, 2), (1, 1), (2, 2), (4, 1)]);
        for n in 1..41 {
            let edge = 1u64 << n;
            let found = of(&[edge - 1, edge, 2 * edge - 1, 2 * edge]).by_powers_of_two();
            assert_eq!(found, [(edge / 2, 1), (edge, 2), (2 * edge, 1)]);
        }
        assert_eq!(of(&[]).by_powers_of_two(), []);
    }

    #[test]
    fn samples_that_wait_for_their_buckets_are_counted() {
        for n in [1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 3 * TOGETHER + 5] {
            let h = of(&(1..=n as u64).collect::<Vec<_>>());
            let mut twice = of(&[]);
            (0..2).for_each(|_| twice.merge(&h));
            assert_eq!((h.count(), twice.count()), (n as u64, 2 * n as u64));
            assert_eq!(h.quantile(0.5), Nanos((n as u64).div_ceil(2)));
            assert_eq!((h.quantile(1.0), twice.quantile(1.0)), (Nanos(n as u64), Nanos(n as u64)));
            let all: u64 = h.by_powers_of_two().iter().map(|b| b.1).sum();
            assert_eq!(all, n as u64);
        }
    }

    #[test]
    fn merged_distributions_are_that_of_all_samples() {
        let (mut a, b) = (of(&[5, 7_000_001]), of(&[900, 12]));
        a.merge(&b);
        let all = of(&[5, 7_000_001, 900, 12]);
        assert_eq!((a.count(), a.mean(), a.max()), (4, all.mean(), all.max()));
        assert_eq!(a.quantile(0.5), all.quantile(0.5));
    }
}
