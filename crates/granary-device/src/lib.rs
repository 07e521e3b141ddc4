//! Storage devices as the host sees them.
//!
//! ```text
//!   file system ── Devices: by role, a Port each (blocks the task, charges host CPU) ──┐
//!                                                                                      v
//!   Drive   bytes: load store flush_lines stream verify | NVMe: read write flush trim
//!           vendor: COMMIT RECOVER REMAP ...
//!     implemented by    Mssd (granary-mssd): memory-semantic SSDs and plain ones
//!                       Dimm (granary-pmem): NVM DIMMs
//!     around it         wrappers, which state which calls they pass on (`layer`)
//! ```
//!
//! A drive never blocks anybody: every call takes the present instant and returns the instant at which the
//! host sees it done; [`Port`] waits. docs/FAULT_MODEL.md states the effects of a power failure.
//!
//! It does *not* know any device: latencies and counts are theirs.

#![forbid(unsafe_code)]

mod counters;
mod devices;
mod drive;
mod layer;
mod port;
mod structure;
pub mod vendor;

pub use counters::{
    BamCounters, BufferCounters, BusyTime, CacheCounters, CommandCounters, DriveCounters, LinkTraffic,
    LogCounters,
};
pub use devices::{Devices, Missing, Need, Role};
pub use drive::{
    Chain, Command, Drive, DriveError, DriveInfo, Streamed, load_one_by_one, load_pages_by_load,
    stream_by_store,
};
pub use port::{Port, Ticket};
pub use structure::Structure;
pub use vendor::pebble::{BamEntry, BamName, FileEnd, RemapRange};
pub use vendor::{Extension, Vendor};

// For the macros of `layer`, which are expanded elsewhere.
#[doc(hidden)]
pub use granary_sim::rng::Stream as Random;
#[doc(hidden)]
pub use granary_units as units;
