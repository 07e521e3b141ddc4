//! Helpers of the tests: small DIMMs, one-line calls, and cores that each do one thing after another.

use granary_device::{Drive, Streamed, Structure};
use granary_pmem::{Dimm, DimmConfig};
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Payload, TxId};

pub const WHAT: Structure = Structure::Data;

/// A small DIMM of this sort.
pub fn small(config: DimmConfig, pages: u64) -> DimmConfig {
    DimmConfig { capacity: Bytes::kib(4 * pages), ..config }
}

pub fn dimm(config: &DimmConfig) -> Dimm {
    Dimm::new(config).expect("valid")
}

pub fn store(d: &Dimm, core: u16, now: Nanos, at: u64, data: &[u8]) -> Nanos {
    d.store_from(core, now, ByteAddr(at), data, TxId::NONE, WHAT).expect("stores")
}

pub fn nt_store(d: &Dimm, core: u16, now: Nanos, at: u64, data: &[u8]) -> Nanos {
    let at = ByteAddr(at);
    let data = Streamed::Part(Payload::Bytes(data));
    d.stream_from(core, now, at.lpa(), at.in_page(), data, WHAT).expect("streams")
}

pub fn flush(d: &Dimm, now: Nanos, at: u64, len: usize) -> Nanos {
    d.flush_lines(now, ByteAddr(at), len).expect("flushes")
}

pub fn fence(d: &Dimm, now: Nanos) -> Nanos {
    d.verify(now).expect("fences")
}

pub fn load(d: &Dimm, core: u16, now: Nanos, at: u64, len: usize) -> Nanos {
    d.load_from(core, now, ByteAddr(at), &mut vec![0; len], WHAT).expect("loads")
}

/// All bytes, through the caches.
pub fn bytes(d: &Dimm, pages: u64) -> Vec<u8> {
    (0..pages).flat_map(|page| d.peek(Lpa(page)).expect("readable").to_bytes()).collect()
}

/// `cores` cores, each of which calls `op(core, number of its call, now)` as soon as the call before is done,
/// until one has made `calls`. Returns the calls per second of all, taken over their second half.
pub fn closed_loop(cores: u16, calls: u64, mut op: impl FnMut(u16, u64, Nanos) -> Nanos) -> f64 {
    let mut ready = vec![(Nanos::ZERO, 0u64); cores as usize];
    let (mut all, mut half) = (0u64, (0u64, Nanos::ZERO));
    loop {
        // Calls come in time order; of two cores that are ready at an instant the lower goes first.
        let next = (0..ready.len()).min_by_key(|&i| (ready[i].0, i)).expect("a core");
        let (now, n) = ready[next];
        if n == calls {
            return (all - half.0) as f64 / (now - half.1).as_secs_f64();
        }
        if n == calls / 2 && half.0 == 0 {
            half = (all, now);
        }
        ready[next] = (op(next as u16, n, now), n + 1);
        all += 1;
    }
}

/// Whether `ours` is within 3 % of `theirs`.
pub fn close(ours: f64, theirs: f64) -> bool {
    (ours / theirs - 1.0).abs() <= 0.03
}
