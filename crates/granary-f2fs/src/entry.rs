//! Registry entries of F2FS and its variants.

use crate::options::{InPlace, MkfsOptions, MountOptions};
use granary_device::{Devices, Need};
use granary_fs::entry::{CrashCase, Mount, OptionsEntry, complete, too_short};
use granary_fs::{FileSystem, FsEntry, Options, Result};
use std::sync::Arc;

/// Longest run of free blocks that the drive is told of on its own, as Linux's `discard_granularity`
/// (MAX_PLIST_NUM).
const LONGEST_RUN: u32 = 512;

/// F2FS.
pub const F2FS: FsEntry = FsEntry {
    name: "f2fs",
    about: "F2FS, log-structured, block interface only",
    needs: &[Need::Blocks],
    write_log: false,
    below: None,
    options: Some(OptionsEntry { section: "f2fs", read: complete::<MountOptions>, refusal }),
    periodic: |given| {
        let o: MountOptions = given.read().ok()?;
        Some(("checkpoints", o.checkpoint_interval))
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
        case("f2fs", &[SMALL, "fsync_mode = 'posix'\nin_place = 'fsync'"]),
        CrashCase {
            renames_are_whole: true,
            ..case("f2fs-strict", &[SMALL, "fsync_mode = 'strict'\nin_place = 'fsync'"])
        },
        case("f2fs-never-in-place", &[SMALL, "fsync_mode = 'posix'\nin_place = 'never'"]),
    ],
};

/// F2FS that cleans by REMAP keep, always out of place (PebbleSSD section 5.2).
pub const F2FS_REMAP: FsEntry = FsEntry {
    name: "f2fs-remap",
    about: "F2FS on PebbleSSD: cleaning renames blocks, nothing in place",
    needs: &[Need::Names],
    mount: |devices, how| {
        mount_with(devices, how, |own| MountOptions { remap_cleaning: true, in_place: InPlace::Never, ..own })
    },
    crash: &[case("f2fs-remap", &[SMALL, "fsync_mode = 'posix'"])],
    ..F2FS
};

/// F2FS whose fsync writes no nodes where BAM knows the blocks, always out of place (PebbleSSD section 5.2).
pub const F2FS_FS_WRITE: FsEntry = FsEntry {
    name: "f2fs-fswrite",
    about: "F2FS on PebbleSSD: fsync of new data writes no node, nothing in place",
    needs: &[Need::Names],
    mount: |devices, how| {
        mount_with(devices, how, |own| MountOptions { fs_write_fsync: true, in_place: InPlace::Never, ..own })
    },
    crash: &[
        case("f2fs-fswrite", &[SMALL, "fsync_mode = 'posix'"]),
        CrashCase {
            times_are_durable: false,
            ..case("f2fs-fswrite-lazy-times", &[SMALL, "fsync_mode = 'posix'\nlazy_times = true"])
        },
    ],
    ..F2FS
};

/// Both of PebbleSSD's changes.
pub const F2FS_PEBBLE: FsEntry = FsEntry {
    name: "f2fs-pebble",
    about: "F2FS on PebbleSSD: f2fs-remap and f2fs-fswrite together",
    needs: &[Need::Names],
    mount: |devices, how| {
        mount_with(devices, how, |own| MountOptions {
            remap_cleaning: true,
            fs_write_fsync: true,
            in_place: InPlace::Never,
            ..own
        })
    },
    crash: &[case("f2fs-pebble", &[SMALL, "fsync_mode = 'posix'"])],
    ..F2FS
};

/// With the options of the testbed as a variant changes them.
fn mount_with(
    devices: &Devices,
    how: &Mount<'_>,
    variant: impl FnOnce(MountOptions) -> MountOptions,
) -> Result<Arc<dyn FileSystem>> {
    let own: MountOptions = how.options()?;
    let options = MountOptions { metadata_cache: how.metadata_cache, ..variant(own) };
    Ok(crate::mount(devices.serving(Need::Names)?.clone(), &options)?)
}

/// Checkpoints every 4 ms, cleaning every 1 to 4 ms.
const SMALL: &str = "checkpoint_interval = 4000000\nidle_interval = 500000\ngc_sleep = [1000000, 2000000, 4000000]\n\
                     discard_sleep = [100000, 300000, 500000]\ndirty_nodes = 64";

/// Segments of 64 KiB, so that logs switch and segments are cleaned all the time.
const fn case(name: &'static str, mount: &'static [&'static str]) -> CrashCase {
    CrashCase {
        mkfs: "size = '5MiB'\n segment_blocks = 16",
        mount,
        renames_are_whole: false,
        pages_are_whole: true,
        ..CrashCase::plain(name)
    }
}

fn refusal(given: &dyn Options) -> Option<(&'static str, String)> {
    let o: MountOptions = given.read().ok()?;
    let (gc, discard) = (o.gc_sleep, o.discard_sleep);
    let pauses = [
        ("checkpoint_interval", o.checkpoint_interval),
        ("idle_interval", o.idle_interval),
        ("gc_sleep", gc.0.min(gc.1).min(gc.2)),
        ("discard_sleep", discard.0.min(discard.1).min(discard.2)),
    ];
    if let Some(refused) = too_short(&pauses) {
        return Some(refused);
    }
    if o.victim_search == 0 {
        return Some(("victim_search", "must be at least 1: a search looks at one segment".to_owned()));
    }
    let why = match o.discard_granularity? {
        0 => "must be at least 1: a run has one block".to_owned(),
        run if run > LONGEST_RUN => {
            format!("is {run}: a segment, and so a run of free blocks, has at most {LONGEST_RUN}")
        }
        _ => return None,
    };
    Some(("discard_granularity", why))
}
