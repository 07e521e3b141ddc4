//! What others know of OrchFS.

use crate::options::refusal;
use crate::{MkfsOptions, MountOptions};
use granary_device::Need;
use granary_vfs::FsEntry;
use granary_vfs::entry::{CrashCase, OptionsEntry, Section, nothing_periodic, options};

/// OrchFS.
pub const ORCHFS: FsEntry = FsEntry {
    name: "orchfs",
    about: "OrchFS (FAST'25): writes partitioned between NVM (unaligned) and SSD (whole 32 KiB blocks)",
    needs: &[Need::Nvm, Need::Blocks],
    write_log: false,
    options: Some(OptionsEntry {
        section: "orchfs",
        read: |from| Section::read::<MountOptions>(from),
        refusal,
    }),
    periodic: nothing_periodic,
    mkfs: |devices, table| {
        let (nvm, ssd) = (devices.serving(Need::Nvm)?, devices.serving(Need::Blocks)?);
        crate::mkfs(nvm, ssd, &options::<MkfsOptions>(table)?)
    },
    mount: |devices, how| {
        let mut options: MountOptions = how.options()?;
        options.read_cache.get_or_insert(how.metadata_cache);
        let (nvm, ssd) = (devices.serving(Need::Nvm)?, devices.serving(Need::Blocks)?);
        Ok(crate::mount(nvm.clone(), ssd.clone(), &options)?)
    },
    repair: None,
    crash: &[
        // Journals that wrap every few milliseconds.
        CrashCase { mkfs: "journals = 3\njournal = '64 KiB'", ..CrashCase::plain("orchfs") },
        CrashCase {
            mkfs: "journals = 1\njournal = '64 KiB'",
            mount: &["reclaim = 'artifact'", "engine = false"],
            ..CrashCase::plain("orchfs-artifact")
        },
        // Blocks go to the SSD all the time.
        CrashCase {
            mkfs: "journals = 2\njournal = '64 KiB'",
            mount: &["migrate_high = 0", "migrate_low = 0", "migrate_pause = 200000"],
            ..CrashCase::plain("orchfs-migrate")
        },
    ],
};
