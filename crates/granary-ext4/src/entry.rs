//! Registry entry of ext4.

use crate::options::{MkfsOptions, MountOptions};
use granary_device::{Need, Structure};
use granary_fs::FsEntry;
use granary_fs::entry::{CrashCase, OptionsEntry, complete, too_short, wrong_cpus};

/// ext4.
pub const EXT4: FsEntry = FsEntry {
    name: "ext4",
    about: "ext4 over JBD2 (data = ordered, writeback or journal), block interface only",
    needs: &[Need::Blocks],
    write_log: false,
    below: None,
    options: Some(OptionsEntry {
        section: "ext4",
        read: complete::<MountOptions>,
        refusal: |given| {
            let o: MountOptions = given.read().ok()?;
            let pauses =
                [("commit_interval", o.commit_interval), ("writeback_interval", o.writeback_interval)];
            too_short(&pauses).or_else(|| wrong_cpus("cpus", o.cpus as usize))
        },
    }),
    periodic: |given| {
        let o: MountOptions = given.read().ok()?;
        Some(("commits", o.commit_interval))
    },
    mkfs: |devices, given| crate::mkfs(devices.serving(Need::Blocks)?, &given.read::<MkfsOptions>()?),
    mount: |devices, how| {
        let own: MountOptions = how.options()?;
        let options = MountOptions { metadata_cache: how.metadata_cache, ..own };
        Ok(crate::mount(devices.serving(Need::Blocks)?.clone(), &options)?)
    },
    repair: None,
    checkpoints: None,
    crash: &[
        case("ext4", &[SMALL, "data = 'ordered'"]),
        case("ext4-writeback", &[SMALL, "data = 'writeback'"]),
        case("ext4-journal", &[SMALL, "data = 'journal'"]),
        // Nothing goes home before the journal has no room left.
        case("ext4-lazy", &[LAZY, "data = 'journal'"]),
    ],
};

/// Commits and write-back within milliseconds.
const SMALL: &str =
    "commit_interval = 1000000\ndirty_expire = 3000000\nwriteback_interval = 1000000\ncpus = 4";

/// Commits within milliseconds, and write-back when it must be.
const LAZY: &str =
    "commit_interval = 1000000\ndirty_expire = 30000000000\nwriteback_interval = 5000000000\ncpus = 4";

/// The smallest journal, which wraps all the time.
const fn case(name: &'static str, mount: &'static [&'static str]) -> CrashCase {
    CrashCase {
        mkfs: "journal_size = '4MiB'",
        mount,
        // Inodes have checksums, too, but attribute blocks are counted as inodes, and have none.
        checked: &[Structure::Superblock],
        pages_are_whole: true,
        cuts_are_finished: true,
        ..CrashCase::plain(name)
    }
}
