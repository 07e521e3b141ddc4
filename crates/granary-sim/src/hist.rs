//! Latency histograms with three significant digits (crate `hdrhistogram`), from 1 ns to an hour.

use granary_units::Nanos;

/// A latency distribution; identical samples give identical figures on every machine.
#[derive(Clone, Debug)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

const HOUR: u64 = 3_600_000_000_000;

impl Histogram {
    /// Empty.
    pub fn new() -> Histogram {
        Histogram(hdrhistogram::Histogram::new_with_bounds(1, HOUR, 3).expect("constant bounds are valid"))
    }

    /// Counts one sample; longer than an hour counts as an hour.
    pub fn record(&mut self, sample: Nanos) {
        self.0.saturating_record(sample.0.max(1));
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("same bounds");
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Mean, rounded to a nanosecond (zero where there are no samples).
    pub fn mean(&self) -> Nanos {
        if self.0.is_empty() { Nanos::ZERO } else { Nanos(self.0.mean().round() as u64) }
    }

    /// The value that a share `q` (0 to 1) of the samples does not exceed.
    pub fn quantile(&self, q: f64) -> Nanos {
        Nanos(if self.0.is_empty() { 0 } else { self.0.value_at_quantile(q) })
    }

    /// Largest sample.
    pub fn max(&self) -> Nanos {
        Nanos(if self.0.is_empty() { 0 } else { self.0.max() })
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}
