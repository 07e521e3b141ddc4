//! The registry of file systems: one line each, and everything else finds it here.

use crate::error::LabError;
use crate::testbed::Host;
use granary_bytefs::Variant;
use granary_device::Port;
use granary_units::Nanos;
use granary_vfs::{FileSystem, Repaired, Result};
use std::sync::Arc;

/// A file system that can be run.
pub struct FsEntry {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    /// Needs the ByteFS write-log firmware; the others run on the page-cache firmware (paper section 5.1).
    pub write_log: bool,
    /// What it does every so often beside write-back, and how often: what a shorter run does not show.
    pub periodic: fn(&Host) -> Option<(&'static str, Nanos)>,
    /// Makes an empty file system on the drive.
    pub mkfs: fn(&Port) -> Result<()>,
    /// Mounts it, recovering where needed.
    pub mount: fn(Port, &Host) -> Result<Arc<dyn FileSystem>>,
    /// Mends it, unmounted (what is damaged may not mount); `None` where nobody has written that.
    pub repair: Option<fn(&Port) -> Result<Repaired>>,
}

/// All file systems, in the order of comparisons.
pub const FILE_SYSTEMS: &[FsEntry] = &[
    FsEntry {
        name: "bytefs",
        about: "ByteFS (ASPLOS'25): byte and block interface, firmware write log, transactions",
        write_log: true,
        periodic: |host| Some(("commits", host.bytefs.commit_interval)),
        mkfs: |port| granary_bytefs::mkfs(port, &granary_bytefs::MkfsOptions::default()),
        mount: |port, host| bytefs(port, host, Variant::Full),
        repair: Some(granary_bytefs::repair),
    },
    FsEntry {
        name: "bytefs-log",
        about: "ByteFS-Log (its Figure 12): firmware write log, metadata by byte, data by block only",
        write_log: true,
        periodic: |host| Some(("commits", host.bytefs.commit_interval)),
        mkfs: |port| granary_bytefs::mkfs(port, &granary_bytefs::MkfsOptions::default()),
        mount: |port, host| bytefs(port, host, Variant::Log),
        repair: Some(granary_bytefs::repair),
    },
    FsEntry {
        name: "bytefs-dual",
        about: "ByteFS-Dual (its Figure 12): page-cache firmware, metadata by byte, data by block, redo log of the host",
        write_log: false,
        periodic: |host| Some(("commits", host.bytefs.commit_interval)),
        mkfs: |port| granary_bytefs::mkfs(port, &granary_bytefs::MkfsOptions::default()),
        mount: |port, host| bytefs(port, host, Variant::Dual),
        repair: Some(granary_bytefs::repair),
    },
    FsEntry {
        name: "ext4",
        about: "ext4 over JBD2 (data = ordered, writeback or journal), block interface only",
        write_log: false,
        periodic: |host| Some(("commits", host.ext4.commit_interval)),
        mkfs: |port| granary_ext4::mkfs(port, &granary_ext4::MkfsOptions::default()),
        mount: |port, host| {
            let options =
                granary_ext4::MountOptions { metadata_cache: host.metadata_cache, ..host.ext4.clone() };
            Ok(granary_ext4::mount(port, &options)?)
        },
        repair: None,
    },
    FsEntry {
        name: "f2fs",
        about: "F2FS, log-structured, block interface only",
        write_log: false,
        periodic: |host| Some(("checkpoints", host.f2fs.checkpoint_interval)),
        mkfs: |port| granary_f2fs::mkfs(port, &granary_f2fs::MkfsOptions::default()),
        mount: |port, host| {
            let options =
                granary_f2fs::MountOptions { metadata_cache: host.metadata_cache, ..host.f2fs.clone() };
            Ok(granary_f2fs::mount(port, &options)?)
        },
        repair: None,
    },
    FsEntry {
        name: "nova",
        about: "NOVA (FAST'16): one log per inode, copy on write, byte interface only",
        write_log: false,
        periodic: |_| None,
        mkfs: |port| granary_nova::mkfs(port, &granary_nova::MkfsOptions::default()),
        mount: |port, host| Ok(granary_nova::mount(port, &host.nova)?),
        repair: None,
    },
    FsEntry {
        name: "pmfs",
        about: "PMFS (EuroSys'14): in-place updates under an undo journal, byte interface only",
        write_log: false,
        periodic: |_| None,
        mkfs: |port| granary_pmfs::mkfs(port, &granary_pmfs::MkfsOptions::default()),
        mount: |port, _| Ok(granary_pmfs::mount(port, &granary_pmfs::MountOptions::default())?),
        repair: None,
    },
];

fn bytefs(port: Port, host: &Host, variant: Variant) -> Result<Arc<dyn FileSystem>> {
    let options =
        granary_bytefs::MountOptions { variant, metadata_cache: host.metadata_cache, ..host.bytefs.clone() };
    Ok(granary_bytefs::mount(port, &options)?)
}

/// The file system of this name.
///
/// # Errors
/// None has it.
pub fn find(name: &str) -> std::result::Result<&'static FsEntry, LabError> {
    FILE_SYSTEMS.iter().find(|f| f.name == name).ok_or_else(|| {
        let known: Vec<&str> = FILE_SYSTEMS.iter().map(|f| f.name).collect();
        let meant = crate::meant(name, known.iter().copied());
        LabError::UnknownFs { name: name.to_owned(), meant, known: known.join(", ") }
    })
}
