//! Registry entries of ByteFS and its two ablations.

use crate::{MkfsOptions, MountOptions, Variant};
use granary_device::{Devices, Need, Structure};
use granary_fs::entry::{CrashCase, Mount, OptionsEntry, complete, too_short, wrong_cpus};
use granary_fs::{FileSystem, FsEntry, Options, Repaired, Result};
use granary_units::{Bytes, Nanos};
use std::sync::Arc;

const OPTIONS: OptionsEntry = OptionsEntry {
    section: "bytefs",
    read: complete::<MountOptions>,
    refusal: |given| {
        let o: MountOptions = given.read().ok()?;
        too_short(&[("commit_interval", o.commit_interval)]).or_else(|| wrong_cpus("cpus", o.cpus))
    },
};

/// ByteFS.
pub const BYTEFS: FsEntry = FsEntry {
    name: "bytefs",
    about: "ByteFS (ASPLOS'25): byte and block interface, firmware write log, transactions",
    needs: &[Need::Both],
    write_log: true,
    below: None,
    options: Some(OPTIONS),
    periodic,
    mkfs,
    mount: |devices, how| mount(devices, how, Variant::Full),
    repair: Some(repair),
    checkpoints: None,
    crash: &[
        case("bytefs", &[SMALL, STEPS]),
        case("bytefs-sync", &[SMALL, STEPS, SYNC]),
        CrashCase { pages_are_whole: true, ..case("bytefs-journal", &[SMALL, WHOLE]) },
        CrashCase { pages_are_whole: true, ..case("bytefs-journal-sync", &[SMALL, WHOLE, SYNC]) },
        // Transactions so small that a fallocate takes several.
        CrashCase {
            pages_are_whole: true,
            ..case("bytefs-journal-steps", &[SMALL, WHOLE, SYNC, "commit_lines = 8"])
        },
    ],
};

/// Its first ablation.
pub const BYTEFS_LOG: FsEntry = FsEntry {
    name: "bytefs-log",
    about: "ByteFS-Log (its Figure 12): firmware write log, metadata by byte, data by block only",
    mount: |devices, how| mount(devices, how, Variant::Log),
    crash: &[case("bytefs-log", &[SMALL, STEPS])],
    ..BYTEFS
};

/// Its second one.
pub const BYTEFS_DUAL: FsEntry = FsEntry {
    name: "bytefs-dual",
    about: "ByteFS-Dual (its Figure 12): page-cache firmware, metadata by byte, data by block, redo log of the host",
    write_log: false,
    mount: |devices, how| mount(devices, how, Variant::Dual),
    crash: &[case("bytefs-dual", &[SMALL, STEPS])],
    ..BYTEFS
};

/// Commits every 3 ms.
const SMALL: &str = "commit_interval = 3000000\ncpus = 4";
/// Removals take several transactions.
const STEPS: &str = "max_free_lines = 2";
/// With a data journal removals are to be atomic, too.
const WHOLE: &str = "data = 'journal'\nmax_free_lines = 64";
const SYNC: &str = "commit = 'sync'";

const fn case(name: &'static str, mount: &'static [&'static str]) -> CrashCase {
    CrashCase {
        mount,
        metadata_cache: Bytes::kib(256),
        checked: &[
            Structure::Superblock,
            Structure::Bitmap,
            Structure::Inode,
            Structure::Dentry,
            Structure::DataPointer,
        ],
        grows: true,
        cuts_are_finished: true,
        ..CrashCase::plain(name)
    }
}

fn periodic(given: &dyn Options) -> Option<(&'static str, Nanos)> {
    let o: MountOptions = given.read().ok()?;
    Some(("commits", o.commit_interval))
}

fn mkfs(devices: &Devices, given: &dyn Options) -> Result<()> {
    crate::mkfs(devices.serving(Need::Both)?, &given.read::<MkfsOptions>()?)
}

fn mount(devices: &Devices, how: &Mount<'_>, variant: Variant) -> Result<Arc<dyn FileSystem>> {
    let own: MountOptions = how.options()?;
    let options =
        MountOptions { variant, metadata_cache: how.metadata_cache, read_only: how.read_only, ..own };
    Ok(crate::mount(devices.serving(Need::Both)?.clone(), &options)?)
}

fn repair(devices: &Devices) -> Result<Repaired> {
    crate::repair(devices.serving(Need::Both)?)
}
