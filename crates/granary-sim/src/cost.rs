//! The host's CPU cost table: costs of software in virtual time (design section 3).
//!
//! Costs are modelled, not measured, so that a run is the same on every machine. The rows' values live in the
//! testbed file, each with its source; on the wall clock every row is zero because real software takes real
//! time.

use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Rows that only some testbeds have.
fn is_free(cost: &Nanos) -> bool {
    *cost == Nanos::ZERO
}

/// CPU time of the host per event, in nanoseconds. Rows from `journal_handle` to `log_entry` are work of file
/// systems on their structures, beyond what the rows before them say of every file system
/// (docs/HOST_COSTS.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// Entering and leaving the kernel once.
    pub syscall: Nanos,
    /// A call of a library in the program's own process instead of the kernel (the direct entrance).
    #[serde(default, skip_serializing_if = "is_free")]
    pub library_call: Nanos,
    /// Writing a command of 64 bytes to memory that a drive reads (the device's entrance).
    #[serde(default, skip_serializing_if = "is_free")]
    pub command_build: Nanos,
    /// Telling the drive of it: a store to a register of the drive that nobody waits for.
    #[serde(default, skip_serializing_if = "is_free")]
    pub doorbell: Nanos,
    /// The drive's time for a command before it works on it: fetch, check of the sender, its file's queue.
    #[serde(default, skip_serializing_if = "is_free")]
    pub admission: Nanos,
    /// Seeing that a command is done: the word that the program polls comes from the drive.
    #[serde(default, skip_serializing_if = "is_free")]
    pub completion: Nanos,
    /// One path component found in the dentry cache.
    pub path_component: Nanos,
    /// An operation on a descriptor or inode in memory (open, close, attribute change), beyond its system
    /// call.
    pub inode_op: Nanos,
    /// Adding or removing a name in the in-memory namespace (create, unlink, rename), beyond `inode_op`.
    pub namespace_op: Nanos,
    /// Finding or inserting one page of the page cache.
    pub page: Nanos,
    /// Bytes copied between user and page cache in one second; 0 = free.
    pub copy_bandwidth: Bytes,
    /// Starting and stopping a handle of a transaction.
    pub journal_handle: Nanos,
    /// A block that a handle announces to its transaction.
    pub journal_block: Nanos,
    /// More for a block that is new to its transaction.
    pub journal_join: Nanos,
    /// Searching a directory for a name that the dentry cache does not know, before its entries.
    pub dentry_find: Nanos,
    /// An entry that a search or an insertion passes over.
    pub dentry_scan: Nanos,
    /// Walking a directory's hash index to a leaf.
    pub dentry_hash: Nanos,
    /// Entering a name, before the entries that are passed over.
    pub dentry_insert: Nanos,
    /// Removing a name, before the entries that are passed over.
    pub dentry_remove: Nanos,
    /// A new directory block.
    pub dir_block_init: Nanos,
    /// Allocating an inode: bitmap, group, its first content.
    pub inode_alloc: Nanos,
    /// Freeing an inode.
    pub inode_free: Nanos,
    /// An inode that goes to its block of the table.
    pub inode_update: Nanos,
    /// An attribute change that puts a clean inode on the write-back list.
    pub inode_dirty: Nanos,
    /// An inode that is not in memory, of a block that is.
    pub inode_read: Nanos,
    /// Entering or leaving the list of orphans.
    pub orphan: Nanos,
    /// Allocating an extent out of a preallocation.
    pub extent_alloc: Nanos,
    /// More where groups must be searched for it.
    pub extent_search: Nanos,
    /// Freeing an extent.
    pub extent_free: Nanos,
    /// An extent that enters or leaves the tree of its file.
    pub extent_update: Nanos,
    /// A page of a file whose block is to be allocated at write-back.
    pub delayed_page: Nanos,
    /// A small extended attribute, its inode included.
    pub xattr_update: Nanos,
    /// An entry of an inode's log in mapped memory, with what it stands for in memory (NOVA), or a group of
    /// undo entries (PMFS).
    pub log_entry: Nanos,
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
        library_call: Nanos::ZERO,
        command_build: Nanos::ZERO,
        doorbell: Nanos::ZERO,
        admission: Nanos::ZERO,
        completion: Nanos::ZERO,
        path_component: Nanos(0),
        inode_op: Nanos(0),
        namespace_op: Nanos(0),
        page: Nanos(0),
        copy_bandwidth: Bytes(0),
        journal_handle: Nanos(0),
        journal_block: Nanos(0),
        journal_join: Nanos(0),
        dentry_find: Nanos(0),
        dentry_scan: Nanos(0),
        dentry_hash: Nanos(0),
        dentry_insert: Nanos(0),
        dentry_remove: Nanos(0),
        dir_block_init: Nanos(0),
        inode_alloc: Nanos(0),
        inode_free: Nanos(0),
        inode_update: Nanos(0),
        inode_dirty: Nanos(0),
        inode_read: Nanos(0),
        orphan: Nanos(0),
        extent_alloc: Nanos(0),
        extent_search: Nanos(0),
        extent_free: Nanos(0),
        extent_update: Nanos(0),
        delayed_page: Nanos(0),
        xattr_update: Nanos(0),
        log_entry: Nanos(0),
        bio_submit: Nanos(0),
        dma_map: Nanos(0),
        nvme_submit: Nanos(0),
        request_complete: Nanos(0),
        context_switch: Nanos(0),
    };

    /// The same work on a processor with another clock: each time grows as the clock falls, and copies take
    /// longer.
    pub fn at_clock(&self, from_mhz: u32, to_mhz: u32) -> HostCosts {
        let (from, to) = (u64::from(from_mhz.max(1)), u64::from(to_mhz.max(1)));
        let t = |n: Nanos| Nanos((n.0 * from).div_ceil(to));
        HostCosts {
            syscall: t(self.syscall),
            library_call: t(self.library_call),
            command_build: t(self.command_build),
            doorbell: t(self.doorbell),
            admission: t(self.admission),
            completion: t(self.completion),
            path_component: t(self.path_component),
            inode_op: t(self.inode_op),
            namespace_op: t(self.namespace_op),
            page: t(self.page),
            copy_bandwidth: Bytes(self.copy_bandwidth.0 * to / from),
            journal_handle: t(self.journal_handle),
            journal_block: t(self.journal_block),
            journal_join: t(self.journal_join),
            dentry_find: t(self.dentry_find),
            dentry_scan: t(self.dentry_scan),
            dentry_hash: t(self.dentry_hash),
            dentry_insert: t(self.dentry_insert),
            dentry_remove: t(self.dentry_remove),
            dir_block_init: t(self.dir_block_init),
            inode_alloc: t(self.inode_alloc),
            inode_free: t(self.inode_free),
            inode_update: t(self.inode_update),
            inode_dirty: t(self.inode_dirty),
            inode_read: t(self.inode_read),
            orphan: t(self.orphan),
            extent_alloc: t(self.extent_alloc),
            extent_search: t(self.extent_search),
            extent_free: t(self.extent_free),
            extent_update: t(self.extent_update),
            delayed_page: t(self.delayed_page),
            xattr_update: t(self.xattr_update),
            log_entry: t(self.log_entry),
            bio_submit: t(self.bio_submit),
            dma_map: t(self.dma_map),
            nvme_submit: t(self.nvme_submit),
            request_complete: t(self.request_complete),
            context_switch: t(self.context_switch),
        }
    }

    /// Time to copy `bytes` between user memory and the page cache.
    pub fn copy(&self, bytes: usize) -> Nanos {
        match self.copy_bandwidth.0 {
            0 => Nanos::ZERO,
            rate => Nanos(bytes as u64 * 1_000_000_000 / rate),
        }
    }
}
