//! [`CpuTime`]: measures the time that the thread was on a processor, so that a busy machine does not spoil results.
//!
//! Linux counts it in `/proc/thread-self/schedstat` (first number, ns), brought up to date with each timer tick: samples
//! must be long (tens of ms), so the groups use flat sampling with few samples.

use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// On-processor time of the benchmark's thread.
pub struct CpuTime;

/// Nanoseconds that this thread has been on a processor.
pub fn on_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    stat.split(' ').next().and_then(|n| n.parse().ok()).expect("nanoseconds on a processor")
}

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        on_cpu()
    }

    fn end(&self, start: u64) -> u64 {
        on_cpu() - start
    }

    fn add(&self, a: &u64, b: &u64) -> u64 {
        a + b
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, ns: &u64) -> f64 {
        *ns as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Nanoseconds
    }
}

/// Nanoseconds shown as wall time is.
struct Nanoseconds;

impl ValueFormatter for Nanoseconds {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        WallTime.formatter().scale_values(typical, values)
    }

    fn scale_throughputs(&self, typical: f64, throughput: &Throughput, values: &mut [f64]) -> &'static str {
        WallTime.formatter().scale_throughputs(typical, throughput, values)
    }

    fn scale_for_machines(&self, values: &mut [f64]) -> &'static str {
        WallTime.formatter().scale_for_machines(values)
    }
}
