//! The kinds of DIMM, each value with its source.
//!
//! - Yang: Yang et al., "An Empirical Guide to the Behavior and Use of Scalable Persistent Memory", FAST'20.
//!   Figures by number; their values are those that the authors publish with the paper (repository
//!   `NVSL/OptaneStudy`, `graphs/`).
//! - Izraelevitz: Izraelevitz et al., "Basic Performance Measurements of the Intel Optane DC Persistent
//!   Memory Module", arXiv 1903.05714 (2019).
//! - ByteFS: Li et al., "ByteFS", ASPLOS'25, Table 1.
//! - OrchFS, SPFS, DevFS: the papers that own such a DIMM, with the values that they give for their machines.
//! - VANS: Wang et al., "Characterizing and Modeling Non-Volatile Memory Systems", MICRO'20: configuration of
//!   the simulator that was validated against the hardware.
//!
//! `[derived]` = computed from the source named; `[choice]` = the sources are silent, and the comment says
//! why this value.

use super::{DimmConfig, Domain, ErrorConfig, Kind};
use granary_units::{Bytes, Nanos};

/// Yang Figure 4 (one DIMM, 256 B accesses), reads by 1 to 24 threads, over the best of them (6.52 GB/s). One
/// and two threads are limited by their cores, so the DIMM itself is taken to have its full bandwidth there.
const OPTANE_READERS: [u16; 24] = [
    1000, 1000, 1000, 1000, 998, 997, 997, 991, 980, 965, 942, 906, 859, 805, 762, 725, 704, 660, 638, 629,
    617, 609, 600, 597,
];

/// The same figure, non-temporal stores, over the best of them (2.22 GB/s). From the fifth writer on the DIMM
/// loses: its buffer gives granules up before they are full (Yang section 5.3; Figure 8 has bandwidth and
/// effective write ratio fall together).
const OPTANE_NT: [u16; 24] = [
    1000, 995, 995, 991, 955, 883, 779, 689, 617, 563, 523, 505, 459, 441, 423, 423, 419, 378, 401, 387, 378,
    351, 365, 360,
];

/// The same figure, stores and clwb, over the best of non-temporal stores: caches write back out of order.
/// One thread reaches 1.44 GB/s, which is what its core can do, so the DIMM is taken to be as with two.
const OPTANE_CLWB: [u16; 24] = [
    806, 806, 806, 770, 739, 698, 667, 631, 586, 545, 505, 486, 477, 441, 432, 396, 405, 378, 401, 383, 369,
    378, 365, 369,
];

impl DimmConfig {
    /// One DIMM of this kind.
    pub fn of(kind: Kind) -> DimmConfig {
        match kind {
            Kind::OptaneDcpmm => DimmConfig::optane_dcpmm(),
            Kind::NvdimmN => DimmConfig::nvdimm_n(),
            Kind::DramSpeed => DimmConfig::dram_speed(),
        }
    }

    /// Intel Optane DC persistent memory, 128 GB: OrchFS's one, each of SPFS's two.
    pub fn optane_dcpmm() -> DimmConfig {
        DimmConfig {
            dimms: 1,
            capacity: Bytes(128_000_000_000),      // OrchFS, SPFS: 128 GB
            stripe: Bytes::kib(4),                 // Yang section 2.1: interleaved in 4 KB
            domain: Domain::Adr,                   // Yang section 2.1: ADR from the write-pending queue on
            read_random: Nanos(305),               // Izraelevitz; Yang Figure 2: 305.0
            read_sequential: Nanos(169),           // the same; 169.4
            nt_store: Nanos(90),                   // Yang Figure 2: 90.4; ByteFS Table 1: 90
            store_clwb: Nanos(62),                 // Yang Figure 2: 62.3
            read_bandwidth: Bytes(6_600_000_000),  // ByteFS Table 1, OrchFS; Izraelevitz: 39.4 GB/s of six
            write_bandwidth: Bytes(2_300_000_000), // ByteFS Table 1, OrchFS; Izraelevitz: 13.9 GB/s of six
            core_read: Bytes(2_920_000_000),       // [derived] Yang Figure 4, one thread
            core_nt: Bytes(4_130_000_000), // [derived] Yang Figure 4, one thread, six DIMMs, which do not limit it
            core_clwb: Bytes(1_440_000_000), // [derived] Yang Figure 4, one thread: the same on one, six, and DRAM
            readers: OPTANE_READERS.to_vec(),
            nt_writers: OPTANE_NT.to_vec(),
            clwb_writers: OPTANE_CLWB.to_vec(),
            // [derived] the time in which a DIMM takes a buffer full of writes: then nothing of the writer is
            // in it any more.
            window: Nanos(7_123),
            queue: 68, // VANS: wpq_entries 4 of the processor and lsq_entries 64 of the DIMM
            granule: Bytes(256), // Yang section 2.1: XPLine
            buffer: Bytes::kib(16), // Yang section 5.1 and Figure 9: XPBuffer
            caches: Bytes::mib(33), // last-level cache of Yang's machine (Xeon Platinum 8260)
            errors: ErrorConfig::default(),
        }
    }

    /// NVDIMM-N, 16 GB: SPFS's. DRAM while it runs.
    pub fn nvdimm_n() -> DimmConfig {
        DimmConfig {
            dimms: 1,
            capacity: Bytes::gib(16), // SPFS: 16 GB; memory is counted in powers of two
            stripe: Bytes::kib(4),    // [choice] as on Optane's platform
            domain: Domain::Adr,      // JEDEC NVDIMM-N: saved by ADR
            // It is DRAM while it runs. Yang Figure 2, DRAM: 101.5, 81.4, 86.9, 57.3
            read_random: Nanos(101),
            read_sequential: Nanos(81),
            nt_store: Nanos(87),
            store_clwb: Nanos(57),
            // [derived] a sixth of the best that six DDR4-2666 reach, Yang Figure 4: 105.56 and 76.81 GB/s
            read_bandwidth: Bytes(17_600_000_000),
            write_bandwidth: Bytes(12_800_000_000),
            // [derived] Yang Figure 4, DRAM, one thread
            core_read: Bytes(7_380_000_000),
            core_nt: Bytes(4_310_000_000),
            core_clwb: Bytes(1_440_000_000),
            // Yang Figure 4: DRAM loses nothing up to 24 threads
            readers: vec![1000],
            nt_writers: vec![1000],
            clwb_writers: vec![1000],
            window: Nanos(7_123), // [choice] as Optane's; without loss it says nothing
            queue: 4,             // VANS: wpq_entries of the processor; no queue of the DIMM's own
            granule: Bytes(64),   // DDR4: a burst of 8 x 8 B
            buffer: Bytes(0),
            caches: Bytes::mib(33), // [choice] as Optane's machine
            errors: ErrorConfig::default(),
        }
    }

    /// Storage of DRAM speed, 60 GB: DevFS's, "maximum bandwidth and minimum latency", no delay added.
    pub fn dram_speed() -> DimmConfig {
        DimmConfig {
            capacity: Bytes::gib(60), // DevFS: 60 GB of DRAM; memory is counted in powers of two
            read_random: Nanos(100),  // ByteFS Table 1, DRAM
            // ByteFS Table 1, DRAM: one figure for sequential reads and writes
            read_bandwidth: Bytes(31_800_000_000),
            write_bandwidth: Bytes(31_800_000_000),
            // Values that Table 1 does not have are an NVDIMM-N's, which is DRAM.
            ..DimmConfig::nvdimm_n()
        }
    }
}
