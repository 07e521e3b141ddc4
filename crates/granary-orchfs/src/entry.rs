//! Registry entry of OrchFS.

use crate::options::{MkfsOptions, MountOptions, Partition, refusal};
use granary_device::{Devices, Need};
use granary_fs::entry::{CrashCase, Mount, OptionsEntry, complete, nothing_periodic};
use granary_fs::{FileSystem, FsEntry, Options, Result};
use std::sync::Arc;

const NEEDS: &[Need] = &[Need::Nvm, Need::Blocks];
const OPTIONS: OptionsEntry = OptionsEntry { section: "orchfs", read: complete::<MountOptions>, refusal };

fn mkfs(devices: &Devices, given: &dyn Options) -> Result<()> {
    let (nvm, ssd) = (devices.serving(Need::Nvm)?, devices.serving(Need::Blocks)?);
    crate::mkfs(nvm, ssd, &given.read::<MkfsOptions>()?)
}

fn mount(devices: &Devices, how: &Mount<'_>, options: MountOptions) -> Result<Arc<dyn FileSystem>> {
    let (nvm, ssd) = (devices.serving(Need::Nvm)?, devices.serving(Need::Blocks)?);
    let read_cache = Some(options.read_cache.unwrap_or(how.metadata_cache));
    Ok(crate::mount(nvm.clone(), ssd.clone(), &MountOptions { read_cache, ..options })?)
}

/// OrchFS.
pub const ORCHFS: FsEntry = FsEntry {
    name: "orchfs",
    about: "OrchFS (FAST'25): writes partitioned between NVM (unaligned) and SSD (whole 32 KiB blocks)",
    needs: NEEDS,
    write_log: false,
    below: None,
    options: Some(OPTIONS),
    periodic: nothing_periodic,
    mkfs,
    mount: |devices, how| mount(devices, how, how.options()?),
    repair: None,
    checkpoints: None,
    crash: &[
        // Journals that wrap every few milliseconds.
        CrashCase { mkfs: "journals = 3\njournal = '64 KiB'", ..case("orchfs") },
        CrashCase {
            mkfs: "journals = 1\njournal = '64 KiB'",
            mount: &["reclaim = 'artifact'\nrange_lock = 'bits'\nfull_upage = 'writeback'", "engine = false"],
            ..case("orchfs-artifact")
        },
        // Overwrites are old or new as a whole.
        CrashCase {
            mkfs: "journals = 2\njournal = '64 KiB'",
            mount: &["data_atomicity = 'undo'"],
            pages_are_whole: true,
            ..case("orchfs-undo")
        },
        CrashCase {
            mkfs: "journals = 2\njournal = '64 KiB'",
            mount: &["data_atomicity = 'redo'"],
            pages_are_whole: true,
            ..case("orchfs-redo")
        },
        // Blocks go to the SSD all the time.
        CrashCase {
            mkfs: "journals = 2\njournal = '64 KiB'",
            mount: &["migrate_high = 0", "migrate_low = 0", "migrate_pause = 200000"],
            ..case("orchfs-migrate")
        },
        // So many inodes that some 500 pages of the NVM are left: it is full at any time, and its journals
        // wait for a digest then.
        CrashCase {
            mkfs: "journals = 2\njournal = '64 KiB'\ninodes = 124800",
            mount: &["migrate_high = 95", "migrate_low = 90"],
            ..case("orchfs-small")
        },
    ],
};

/// PHFS, the paper's baseline on the same structures.
pub const PHFS: FsEntry = FsEntry {
    name: "phfs",
    about: "PHFS (OrchFS's baseline): requests below 32 KB to NVM, others through the page cache to the SSD",
    needs: NEEDS,
    write_log: false,
    below: None,
    options: Some(OPTIONS),
    periodic: nothing_periodic,
    mkfs,
    mount: |devices, how| {
        let options: MountOptions = how.options()?;
        mount(devices, how, MountOptions { partition: Partition::Phfs, ..options })
    },
    repair: None,
    checkpoints: None,
    crash: &[CrashCase { mkfs: "journals = 3\njournal = '64 KiB'", ..CrashCase::plain("phfs") }],
};

/// Every call is durable when it returns.
const fn case(name: &'static str) -> CrashCase {
    CrashCase {
        every_call_is_durable: true,
        cuts_are_finished: true,
        survives_torn_pages: true,
        ..CrashCase::plain(name)
    }
}
