//! Registry entries of SPFS: one for each file system that it is stacked on.

use crate::options::{MkfsOptions, MountOptions};
use granary_device::Need;
use granary_fs::FsEntry;
use granary_fs::entry::{CrashCase, OptionsEntry, complete, nothing_periodic};
use std::collections::BTreeMap;

/// Options of crash cases: small tables that split, files that are promoted by their second fsync, and
/// demotion at work. The last two have all new files in persistent memory alone: their inode numbers change
/// when they have gone below. The very last has tables of one segment, which get overflow pages.
const CASES: [(&str, &[&str]); 4] = [
    ("segment = 1", &[BUSY, "consistency = 'data'\npiece = 4"]),
    ("segment = 1\nform = 'pointers'", &[BUSY, "consistency = 'meta'\npromotion_copy = 'extent'"]),
    ("segment = 1", &[BUSY, "mode = 'pm'"]),
    ("segment = 1", &[BUSY, "mode = 'pm'\ndirectory_bits = 0"]),
];

/// Demotion every millisecond, of files that were used some ten times without an fsync.
const BUSY: &str = "promote_after = 2\ntick = 1000000\nfactor_percent = 40\npurge_after = 3000000";

/// SPFS over another file system, which needs blocks only.
pub const fn over(below: &'static FsEntry, name: &'static str, crash: &'static [CrashCase]) -> FsEntry {
    FsEntry {
        name,
        about: "SPFS (FAST'23): persistent memory takes small synchronous writes, the file system below all else",
        needs: &[Need::Blocks, Need::Nvm],
        write_log: below.write_log,
        below: Some(below),
        options: Some(OptionsEntry {
            section: "spfs",
            read: complete::<MountOptions>,
            refusal: |given| given.read::<MountOptions>().ok()?.refusal(),
        }),
        periodic: nothing_periodic,
        mkfs: |devices, given| crate::mkfs(devices.serving(Need::Nvm)?, &given.read::<MkfsOptions>()?),
        mount: |devices, how| {
            let own: MountOptions = how.options()?;
            let lower = granary_vfs::below(how)?;
            let port = devices.serving(Need::Nvm)?.clone();
            // Devices that are opened for reading keep nothing: what has to be recovered is, there.
            let read_only = how.read_only && crate::is_clean(&port)?;
            let access = if read_only { crate::Access::Read } else { crate::Access::Write };
            Ok(crate::mount_as(port, lower, &own, access)?)
        },
        repair: None,
        checkpoints: None,
        crash,
    }
}

/// The name of SPFS over a file system.
pub fn stacked_name(below: &str) -> &'static str {
    static NAMES: parking_lot::Mutex<BTreeMap<String, &'static str>> =
        parking_lot::Mutex::new(BTreeMap::new());
    // A few names for the life of the program.
    NAMES.lock().entry(below.to_owned()).or_insert_with(|| format!("spfs+{below}").leak())
}

/// The crash cases of SPFS under a name in the registry, as a `&'static [CrashCase]`.
#[macro_export]
macro_rules! cases {
    ($name:literal) => {
        &[
            $crate::case($name, 0),
            $crate::case(concat!($name, "-pointers"), 1),
            $crate::case(concat!($name, "-alone"), 2),
            $crate::case(concat!($name, "-overflow"), 3),
        ]
    };
}

/// A crash case with the options at `which` of `CASES`.
pub const fn case(name: &'static str, which: usize) -> CrashCase {
    // With `consistency = "meta"` an overwrite may be torn.
    let (inodes_may_change, pages_are_whole) = (which >= 2, which != 1);
    let (mkfs, mount) = CASES[which];
    CrashCase { mkfs, mount, inodes_may_change, pages_are_whole, ..CrashCase::plain(name) }
}
