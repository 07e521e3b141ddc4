//! The host's CPU cost table: what software costs in virtual time (design section 3).
//!
//! Costs are modelled, not measured, so that a run is the same on every machine. The rows' values live in the testbed
//! file, each with its source; on the wall clock every row is zero because real software takes real time.

use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// CPU time of the host per event, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// Entering and leaving the kernel once.
    pub syscall: Nanos,
    /// One path component found in the dentry cache.
    pub path_component: Nanos,
    /// An operation on a descriptor or inode in memory (open, close, attribute change), beyond its system call.
    pub inode_op: Nanos,
    /// Adding or removing a name in the in-memory namespace (create, unlink, rename), beyond `inode_op`.
    pub namespace_op: Nanos,
    /// Finding or inserting one page of the page cache.
    pub page: Nanos,
    /// Bytes copied between user and page cache in one second; 0 = free.
    pub copy_bandwidth: Bytes,
    /// Changing one metadata structure (inode, bitmap, directory block...) in a file system's cache and journal.
    pub metadata_update: Nanos,
    /// Building a block request (bio) and taking it through the block layer.
    pub bio_submit: Nanos,
    /// Mapping and unmapping a command's data for DMA.
    pub dma_map: Nanos,
    /// Writing one NVMe command into its queue, doorbell included.
    pub nvme_submit: Nanos,
    /// Interrupt and completion of one command.
    pub request_complete: Nanos,
    /// Blocking a task and waking it again.
    pub context_switch: Nanos,
}

impl HostCosts {
    /// Nothing costs anything: the wall clock's table, and unit tests'.
    pub const ZERO: HostCosts = HostCosts {
        syscall: Nanos(0),
        path_component: Nanos(0),
        inode_op: Nanos(0),
        namespace_op: Nanos(0),
        page: Nanos(0),
        copy_bandwidth: Bytes(0),
        metadata_update: Nanos(0),
        bio_submit: Nanos(0),
        dma_map: Nanos(0),
        nvme_submit: Nanos(0),
        request_complete: Nanos(0),
        context_switch: Nanos(0),
    };

    /// Time to copy `bytes` between user memory and the page cache.
    pub fn copy(&self, bytes: usize) -> Nanos {
        match self.copy_bandwidth.0 {
            0 => Nanos::ZERO,
            rate => Nanos(bytes as u64 * 1_000_000_000 / rate),
        }
    }
}
