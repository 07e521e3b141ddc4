//! The file systems under test, each on a drive so small that logs are cleaned, journals wrap, caches evict and gc runs
//! within a few milliseconds of virtual time. `cargo xtask soak` uses this file, too.

use granary_bytefs::{CommitMode, DataMode, MkfsOptions, MountOptions, Variant};
use granary_crash::{Filebench, Full, Late, Load, Sparse, Target, Torture};
use granary_device::{Drive, Port};
use granary_f2fs::{FsyncMode, InPlace};
use granary_flash::Geometry;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::HostCosts;
use granary_units::{Bytes, Nanos};
use granary_vfs::{FileSystem, FsError, VfsConfig};
use std::sync::Arc;

/// Every target by name.
#[allow(dead_code)] // for `cargo xtask soak`
pub const ALL: &[&str] = &[
    "bytefs",
    "bytefs-sync",
    "bytefs-log",
    "bytefs-dual",
    "bytefs-journal",
    "bytefs-journal-sync",
    "bytefs-journal-steps",
    "ext4",
    "ext4-writeback",
    "ext4-journal",
    "f2fs",
    "f2fs-strict",
    "f2fs-never-in-place",
    "nova",
    "nova-in-place",
    "pmfs",
];

/// Every load by name.
#[allow(dead_code)] // likewise
pub const LOADS: &[&str] = &["torture", "sparse", "late", "full", "varmail", "fileserver", "oltp"];

/// The load with this name, of some hundred operations.
#[allow(dead_code)] // tests/atomic.rs has its own
pub fn load(name: &str) -> Option<Arc<dyn Load>> {
    Some(match name {
        "torture" => Arc::new(Torture::default()),
        "late" => Arc::new(Late::default()),
        "full" => Arc::new(Full::default()),
        "sparse" => Arc::new(Sparse::default()),
        "varmail" | "fileserver" | "oltp" => Arc::new(Filebench::new(name, 250)),
        _ => return None,
    })
}

/// The target with this name.
pub fn by_name(name: &str) -> Option<Arc<dyn Target>> {
    Some(match name {
        "bytefs" => ByteFs::target(name, MountOptions::default()),
        "bytefs-sync" => {
            ByteFs::target(name, MountOptions { commit: CommitMode::Sync, ..MountOptions::default() })
        }
        "bytefs-log" => {
            ByteFs::target(name, MountOptions { variant: Variant::Log, ..MountOptions::default() })
        }
        "bytefs-dual" => {
            ByteFs::target(name, MountOptions { variant: Variant::Dual, ..MountOptions::default() })
        }
        "bytefs-journal" => {
            ByteFs::target(name, MountOptions { data: DataMode::Journal, ..MountOptions::default() })
        }
        "bytefs-journal-sync" => {
            let (data, commit) = (DataMode::Journal, CommitMode::Sync);
            ByteFs::target(name, MountOptions { data, commit, ..MountOptions::default() })
        }
        // Transactions so small that a fallocate takes several.
        "bytefs-journal-steps" => {
            let (data, commit, commit_lines) = (DataMode::Journal, CommitMode::Sync, 8);
            ByteFs::target(name, MountOptions { data, commit, commit_lines, ..MountOptions::default() })
        }
        "ext4" => Arc::new(Ext4 { data: granary_ext4::DataMode::Ordered }),
        "ext4-writeback" => Arc::new(Ext4 { data: granary_ext4::DataMode::Writeback }),
        "ext4-journal" => Arc::new(Ext4 { data: granary_ext4::DataMode::Journal }),
        "f2fs" => F2fs::target(name, FsyncMode::Posix, InPlace::Fsync),
        "f2fs-strict" => F2fs::target(name, FsyncMode::Strict, InPlace::Fsync),
        "f2fs-never-in-place" => F2fs::target(name, FsyncMode::Posix, InPlace::Never),
        "pmfs" => Arc::new(Pmfs),
        "nova" => Arc::new(Nova { data: granary_nova::DataMode::Cow }),
        "nova-in-place" => Arc::new(Nova { data: granary_nova::DataMode::InPlace }),
        _ => return None,
    })
}

/// 64 MiB over 16 dies.
fn drive(mode: Mode) -> Arc<dyn Drive> {
    let mut c = DriveConfig::bytefs_emulator().with_mode(mode);
    c.firmware.log_region = Bytes::kib(192);
    c.firmware.txlog = Bytes::kib(4);
    c.firmware.cache = Bytes::kib(512);
    c.firmware.write_buffer = Bytes::kib(64);
    c.firmware.power_on = Nanos::from_micros(100);
    c.flash.geometry =
        Geometry { channels: 4, ways: 4, dies: 1, planes: 1, blocks_per_plane: 1, pages_per_block: 16 };
    c.flash = c.flash.with_capacity(Bytes::mib(64));
    Arc::new(Mssd::new(&c).expect("a valid drive"))
}

/// A page cache of 2 MiB that writes back what is 2 ms old.
fn vfs() -> VfsConfig {
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
fn costs() -> HostCosts {
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

struct ByteFs {
    name: String,
    options: MountOptions,
}

impl ByteFs {
    fn target(name: &str, options: MountOptions) -> Arc<dyn Target> {
        let options = MountOptions {
            commit_interval: Nanos::from_millis(3),
            commit_batch: 32,
            cpus: 4,
            metadata_cache: Bytes::kib(256),
            // With a data journal removals are to be atomic, too.
            max_free_lines: if options.data == DataMode::Journal { 64 } else { 2 },
            ..options
        };
        Arc::new(ByteFs { name: name.to_owned(), options })
    }
}

impl Target for ByteFs {
    fn name(&self) -> &str {
        &self.name
    }

    fn drive(&self, _seed: u64) -> Arc<dyn Drive> {
        drive(if self.options.variant.write_log() { Mode::Log } else { Mode::Cache })
    }

    fn mkfs(&self, drive: &Arc<dyn Drive>) -> Result<(), FsError> {
        granary_bytefs::mkfs(&Port::new(Arc::clone(drive)), &MkfsOptions::default())
    }

    fn mount(&self, drive: Arc<dyn Drive>) -> Result<Arc<dyn FileSystem>, FsError> {
        Ok(granary_bytefs::mount(Port::new(drive), &self.options)?)
    }

    fn vfs(&self) -> VfsConfig {
        vfs()
    }

    fn costs(&self) -> HostCosts {
        costs()
    }
}

struct Ext4 {
    data: granary_ext4::DataMode,
}

impl Target for Ext4 {
    fn name(&self) -> &str {
        match self.data {
            granary_ext4::DataMode::Ordered => "ext4",
            granary_ext4::DataMode::Writeback => "ext4-writeback",
            granary_ext4::DataMode::Journal => "ext4-journal",
        }
    }

    fn drive(&self, _seed: u64) -> Arc<dyn Drive> {
        drive(Mode::Cache)
    }

    fn mkfs(&self, drive: &Arc<dyn Drive>) -> Result<(), FsError> {
        let options = granary_ext4::MkfsOptions {
            journal_size: Some(Bytes::mib(4)),
            ..granary_ext4::MkfsOptions::default()
        };
        granary_ext4::mkfs(&Port::new(Arc::clone(drive)), &options)
    }

    fn mount(&self, drive: Arc<dyn Drive>) -> Result<Arc<dyn FileSystem>, FsError> {
        let options = granary_ext4::MountOptions {
            data: self.data,
            commit_interval: Nanos::from_millis(1),
            dirty_expire: Nanos::from_millis(3),
            writeback_interval: Nanos::from_millis(1),
            metadata_cache: Bytes::kib(512),
            cpus: 4,
            ..granary_ext4::MountOptions::default()
        };
        Ok(granary_ext4::mount(Port::new(drive), &options)?)
    }

    fn vfs(&self) -> VfsConfig {
        vfs()
    }

    fn costs(&self) -> HostCosts {
        costs()
    }
}

struct Nova {
    data: granary_nova::DataMode,
}

impl Target for Nova {
    fn name(&self) -> &str {
        match self.data {
            granary_nova::DataMode::Cow => "nova",
            granary_nova::DataMode::InPlace => "nova-in-place",
        }
    }

    fn drive(&self, _seed: u64) -> Arc<dyn Drive> {
        drive(Mode::Cache)
    }

    fn mkfs(&self, drive: &Arc<dyn Drive>) -> Result<(), FsError> {
        let options = granary_nova::MkfsOptions { cpus: 4, ..Default::default() };
        granary_nova::mkfs(&Port::new(Arc::clone(drive)), &options)
    }

    fn mount(&self, drive: Arc<dyn Drive>) -> Result<Arc<dyn FileSystem>, FsError> {
        Ok(granary_nova::mount(Port::new(drive), &granary_nova::MountOptions { data: self.data })?)
    }

    fn vfs(&self) -> VfsConfig {
        vfs()
    }

    fn costs(&self) -> HostCosts {
        costs()
    }
}

struct F2fs {
    name: String,
    fsync_mode: FsyncMode,
    in_place: InPlace,
}

impl F2fs {
    fn target(name: &str, fsync_mode: FsyncMode, in_place: InPlace) -> Arc<dyn Target> {
        Arc::new(F2fs { name: name.to_owned(), fsync_mode, in_place })
    }
}

impl Target for F2fs {
    fn name(&self) -> &str {
        &self.name
    }

    fn renames_are_whole(&self) -> bool {
        self.fsync_mode == FsyncMode::Strict
    }

    fn drive(&self, _seed: u64) -> Arc<dyn Drive> {
        drive(Mode::Cache)
    }

    /// Segments of 64 KiB, so that logs switch and segments are cleaned all the time.
    fn mkfs(&self, drive: &Arc<dyn Drive>) -> Result<(), FsError> {
        let options = granary_f2fs::MkfsOptions {
            size: Some(Bytes::mib(5)),
            segment_blocks: Some(16),
            ..Default::default()
        };
        granary_f2fs::mkfs(&Port::new(Arc::clone(drive)), &options)
    }

    fn mount(&self, drive: Arc<dyn Drive>) -> Result<Arc<dyn FileSystem>, FsError> {
        let options = granary_f2fs::MountOptions {
            checkpoint_interval: Nanos::from_millis(4),
            idle_interval: Nanos::from_micros(500),
            gc_sleep: (Nanos::from_millis(1), Nanos::from_millis(2), Nanos::from_millis(4)),
            in_place: self.in_place,
            fsync_mode: self.fsync_mode,
            discard_sleep: (Nanos::from_micros(100), Nanos::from_micros(300), Nanos::from_micros(500)),
            dirty_nodes: 64,
            metadata_cache: Bytes::kib(512),
            ..granary_f2fs::MountOptions::default()
        };
        Ok(granary_f2fs::mount(Port::new(drive), &options)?)
    }

    fn vfs(&self) -> VfsConfig {
        vfs()
    }

    fn costs(&self) -> HostCosts {
        costs()
    }
}

struct Pmfs;

impl Target for Pmfs {
    fn name(&self) -> &str {
        "pmfs"
    }

    fn drive(&self, _seed: u64) -> Arc<dyn Drive> {
        drive(Mode::Cache)
    }

    fn mkfs(&self, drive: &Arc<dyn Drive>) -> Result<(), FsError> {
        // A journal of 1,023 entries: wraps all the time.
        let options = granary_pmfs::MkfsOptions {
            journal: Some(Bytes::kib(64)),
            ..granary_pmfs::MkfsOptions::default()
        };
        granary_pmfs::mkfs(&Port::new(Arc::clone(drive)), &options)
    }

    fn mount(&self, drive: Arc<dyn Drive>) -> Result<Arc<dyn FileSystem>, FsError> {
        Ok(granary_pmfs::mount(Port::new(drive), &granary_pmfs::MountOptions::default())?)
    }

    fn vfs(&self) -> VfsConfig {
        vfs()
    }

    fn costs(&self) -> HostCosts {
        costs()
    }
}
