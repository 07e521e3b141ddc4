//! Measurements of NVM DIMMs: latencies of one core on an idle DIMM, bandwidths of four cores.
//!
//! Loops of direct calls: the time from the call to its completion is the DIMM's alone, no host is in it.

use crate::error::TestbedError;
use granary_bench::{BenchError, memory};
use granary_device::{Drive, DriveError, Streamed, Structure};
use granary_pmem::DimmConfig;
use granary_sim::on_behalf;
use granary_units::{ByteAddr, Bytes, Nanos, PAGE_SIZE, Page, Payload, TxId};

/// Lines of a latency's loop, each in another page where they are scattered.
const LINES: u64 = 4096;
/// Cores of a bandwidth's loop: as many as reach the published figures (Izraelevitz et al. 2019).
const CORES: u64 = 4;
/// Bytes that each of them moves.
const EACH: u64 = 2 << 20;
const WHAT: Structure = Structure::Data;

/// A figure of DIMMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nvm {
    Capacity,
    LoadRandom,
    LoadSequential,
    Streamed,
    Stored,
    Read,
    Write,
}

impl Nvm {
    /// All, with their titles, in the order of the table.
    pub(super) const ROWS: [(Nvm, &'static str); 7] = [
        (Nvm::Capacity, "NVM: capacity"),
        (Nvm::LoadRandom, "NVM: 64 B load, random"),
        (Nvm::LoadSequential, "NVM: 64 B load, sequential"),
        (Nvm::Streamed, "NVM: 64 B non-temporal store and fence"),
        (Nvm::Stored, "NVM: 64 B store, clwb and fence"),
        (Nvm::Read, "NVM: sequential loads, 4 cores"),
        (Nvm::Write, "NVM: sequential non-temporal stores, 4 cores"),
    ];

    /// Whether it is in bytes per second.
    pub(super) fn is_rate(self) -> bool {
        matches!(self, Nvm::Read | Nvm::Write)
    }

    /// Bytes, nanoseconds or bytes per second.
    pub(super) fn measure(self, testbed: &str, config: &DimmConfig) -> Result<f64, TestbedError> {
        let failed =
            |e: &dyn std::fmt::Display| -> TestbedError { BenchError::run("NVM", "measure", e).into() };
        if self == Nvm::Capacity {
            return Ok((config.pages() * PAGE_SIZE as u64) as f64);
        }
        // The part that the loops touch; bandwidths and latencies do not depend on the rest.
        let part = Bytes((LINES * 4096).max(CORES * EACH)).0.min(config.pages() * 4096);
        let dimm = memory::nvm(testbed, &config.clone().with_capacity(Bytes(part)))?;
        let done = match self {
            Nvm::Capacity => return Ok(0.0),
            Nvm::LoadRandom => mean(|n, now| {
                let line = n * 2_654_435_761 % LINES * 64 + n % 64;
                dimm.load(now, ByteAddr(line * 64), &mut [0; 64], WHAT)
            }),
            Nvm::LoadSequential => mean(|n, now| dimm.load(now, ByteAddr(n * 64), &mut [0; 64], WHAT)),
            Nvm::Streamed => mean(|n, now| {
                let data = Streamed::Part(Payload::Bytes(&[1; 64]));
                let at = ByteAddr(n * 64);
                dimm.verify(dimm.stream(now, at.lpa(), at.in_page(), data, WHAT)?)
            }),
            Nvm::Stored => mean(|n, now| {
                let at = ByteAddr(n * 64);
                let t = dimm.store(now, at, &[2; 64], TxId::NONE, WHAT)?;
                dimm.verify(dimm.flush_lines(t, at, 64)?)
            }),
            Nvm::Read => rate(|at, now| dimm.load(now, at, &mut [0; 4096], WHAT)),
            Nvm::Write => rate(|at, now| {
                let page = Page::word(7);
                dimm.stream(now, at.lpa(), 0, Streamed::Page(&page), WHAT)
            }),
        };
        done.map_err(|e| failed(&e))
    }
}

/// Mean time of calls that are far from each other.
fn mean(mut call: impl FnMut(u64, Nanos) -> Result<Nanos, DriveError>) -> Result<f64, DriveError> {
    let mut all = 0;
    for n in 0..LINES {
        let now = Nanos::from_micros(100 * n);
        all += (call(n, now)? - now).0;
    }
    Ok(all as f64 / LINES as f64)
}

/// Bytes per second of cores that each make one call after the other, in the order of time.
fn rate(mut call: impl FnMut(ByteAddr, Nanos) -> Result<Nanos, DriveError>) -> Result<f64, DriveError> {
    let mut next = vec![(Nanos::ZERO, 0u64); CORES as usize];
    let mut end = Nanos::ZERO;
    while let Some((core, &(now, done))) =
        next.iter().enumerate().filter(|(_, (_, done))| *done < EACH).min_by_key(|(_, (now, _))| *now)
    {
        let _core = on_behalf(core);
        let t = call(ByteAddr(core as u64 * EACH + done), now)?;
        next[core] = (t, done + 4096);
        end = end.max(t);
    }
    Ok((CORES * EACH) as f64 / end.as_secs_f64())
}
