//! [`CpuTime`]: measures the time that the thread was on a processor, so that a busy machine does not spoil
//! results.
//!
//! Linux counts it in `/proc/thread-self/schedstat` (first number, ns), brought up to date with each timer
//! tick: samples must be long (tens of ms), so the groups use flat sampling with few samples.

use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// On-processor time of the benchmark's thread.
pub struct CpuTime;

/// Nanoseconds that this thread has been on a processor.
pub fn on_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    stat.split(' ').next().and_then(|n| n.parse().ok()).expect("nanoseconds on a processor")
}

/// Nanoseconds that all threads of this process have been on a processor, in steps of 10 ms.
#[allow(dead_code, reason = "most benches have one thread")]
pub fn all_threads() -> u64 {
    // proc_pid_stat(5): fields 14 and 15 in ticks, of which a second has 100 (USER_HZ); the second field ends
    // in a bracket.
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields = stat.rsplit(')').next().expect("a name in brackets").split_whitespace();
    fields.skip(11).take(2).map(|n| n.parse::<u64>().expect("ticks")).sum::<u64>() * 10_000_000
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
