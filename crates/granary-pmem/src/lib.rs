//! An NVM DIMM on the memory bus: a file system that owns one loads, stores, writes back and fences.
//!
//! ```text
//!   store ─> processors' caches ── clwb, or evicted ──┐
//!   nt-store ─────────────────────────────────────────┤
//!                                                     v
//!        ADR starts here ──>      write-pending queue of the DIMM whose stripe it is
//!                                                     v
//!                                 write-combining buffer (granules of 256 B) ─> media
//!   load <──────────────────────────────── from the buffer, else from the media
//! ```
//!
//! [`Dimm`] is a `Drive` of bytes only: block and vendor commands are refused. Its fence is an sfence: it
//! waits until the lines that were written back have reached the persistence domain, and not for a round trip
//! over PCIe.
//!
//! | module | what it knows |
//! |---|---|
//! | `config` | every constant with its source: Optane DCPMM, NVDIMM-N, storage of DRAM speed |
//! | `caches` | lines that were stored and not written back |
//! | `module` | the time of one DIMM: both directions, its queue, its buffer |
//! | `risk` | which words a power failure may take back |
//! | `medium` | where the content lives |
//! | `dimm` | the calls of `Drive`, in terms of the others |
//!
//! It does *not* model reads for ownership: a store that misses the caches reads its line. The rate of a
//! core's cached stores includes that time, no counter includes the bytes. It does *not* model prefetching
//! from one load to the next, NUMA, wear levelling, or bandwidth that reads and writes take from each other.

#![forbid(unsafe_code)]

mod caches;
mod config;
mod counters;
mod dimm;
mod medium;
mod module;
mod risk;

pub use config::{ConfigError, DimmConfig, Domain, ErrorConfig, Kind};
pub use counters::DimmCounters;
pub use dimm::Dimm;
pub use medium::{KeptMedium, Medium, RamMedium};
