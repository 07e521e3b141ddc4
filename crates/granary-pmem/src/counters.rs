//! [`DimmCounters`]: events behind the memory bus, which the counters of a `Drive` have no place for.
//!
//! ```text
//!   lines = written_back + evicted + streamed           what came over the bus
//!   lines = combined + left + waiting in the buffers    what became of it
//! ```
//!
//! Bytes over the bus by structure are in `LinkTraffic`; loads, stores and fences in `CommandCounters`. Sums
//! balance: see `Drive::check`.

use granary_units::Bytes;
use serde::{Deserialize, Serialize};

/// Counted since the DIMMs were made, over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DimmCounters {
    /// Lines that clwb wrote back.
    pub written_back: u64,
    /// Lines that the processors' caches wrote back for want of room.
    pub evicted: u64,
    /// Lines that non-temporal stores brought.
    pub streamed: u64,
    /// Lines of loads that the processors' caches held, so that nothing came over the bus.
    pub cache_hits: u64,
    /// Lines of loads that the write-combining buffer held.
    pub buffer_hits: u64,
    /// Lines that replaced a newer one of themselves in the buffer: they were written to the media once.
    pub combined: u64,
    /// Lines that left for the media.
    pub left: u64,
    /// Granules read from the media, those included that a partial write needs.
    pub media_reads: u64,
    /// Granules written to the media, those included that are `early`.
    pub media_writes: u64,
    /// Granules written because many writers pushed them out of the buffer before they were full.
    pub early: u64,
    /// Bytes of a granule.
    pub granule: u64,
    /// Fences.
    pub fences: u64,
}

impl DimmCounters {
    /// The counts since `earlier` was taken.
    pub fn since(&self, earlier: &DimmCounters) -> DimmCounters {
        DimmCounters {
            written_back: self.written_back - earlier.written_back,
            evicted: self.evicted - earlier.evicted,
            streamed: self.streamed - earlier.streamed,
            cache_hits: self.cache_hits - earlier.cache_hits,
            buffer_hits: self.buffer_hits - earlier.buffer_hits,
            combined: self.combined - earlier.combined,
            left: self.left - earlier.left,
            media_reads: self.media_reads - earlier.media_reads,
            media_writes: self.media_writes - earlier.media_writes,
            early: self.early - earlier.early,
            granule: self.granule,
            fences: self.fences - earlier.fences,
        }
    }

    /// Both together: a life before and since an image was opened.
    pub fn plus(&self, more: &DimmCounters) -> DimmCounters {
        DimmCounters {
            written_back: self.written_back + more.written_back,
            evicted: self.evicted + more.evicted,
            streamed: self.streamed + more.streamed,
            cache_hits: self.cache_hits + more.cache_hits,
            buffer_hits: self.buffer_hits + more.buffer_hits,
            combined: self.combined + more.combined,
            left: self.left + more.left,
            media_reads: self.media_reads + more.media_reads,
            media_writes: self.media_writes + more.media_writes,
            early: self.early + more.early,
            granule: more.granule.max(self.granule),
            fences: self.fences + more.fences,
        }
    }

    /// Lines that came over the bus.
    pub fn lines(&self) -> u64 {
        self.written_back + self.evicted + self.streamed
    }

    /// Bytes read from the media.
    pub fn media_read(&self) -> Bytes {
        Bytes(self.media_reads * self.granule)
    }

    /// Bytes written to the media.
    pub fn media_written(&self) -> Bytes {
        Bytes(self.media_writes * self.granule)
    }
}
