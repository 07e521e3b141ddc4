//! The host of crash cases: so small that caches evict and write back all the time.

use granary_sim::HostCosts;
use granary_units::{Bytes, Nanos};
use granary_vfs::VfsConfig;

/// A page cache of 2 MiB that writes back what is 2 ms old.
pub(super) fn small_vfs() -> VfsConfig {
    VfsConfig {
        page_cache: Bytes::mib(2),
        dirty_expire: Nanos::from_millis(2),
        writeback_interval: Nanos::from_millis(1),
        flushers: 2,
        dentries: 256,
        // So few that inodes leave memory and come back all the time.
        inodes: 4,
        tick: Nanos(1),
        ..VfsConfig::default()
    }
}

/// The order of magnitude of testbeds/bytefs-emulator.toml; only that time passes matters here.
pub(super) fn some_costs() -> HostCosts {
    HostCosts {
        syscall: Nanos(90),
        path_component: Nanos(100),
        inode_op: Nanos(360),
        namespace_op: Nanos(900),
        page: Nanos(300),
        copy_bandwidth: Bytes(8_000_000_000),
        journal_handle: Nanos(110),
        journal_block: Nanos(30),
        dentry_find: Nanos(160),
        dentry_insert: Nanos(250),
        inode_update: Nanos(120),
        inode_read: Nanos(960),
        extent_alloc: Nanos(510),
        delayed_page: Nanos(350),
        log_entry: Nanos(410),
        bio_submit: Nanos(720),
        dma_map: Nanos(520),
        nvme_submit: Nanos(370),
        request_complete: Nanos(810),
        context_switch: Nanos(950),
        ..HostCosts::ZERO
    }
}
