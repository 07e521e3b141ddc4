//! Registry entries of NILFS2 and its variants.

use crate::fs::Nilfs2;
use crate::options::{MkfsOptions, MountOptions};
use granary_device::{Devices, Need};
use granary_fs::entry::{CrashCase, Mount, OptionsEntry, complete, too_short};
use granary_fs::{Call, CheckpointCall, Checkpoints, FsEntry, Life as _, Options, Result};
use std::sync::Arc;

/// NILFS2.
pub const NILFS2: FsEntry = FsEntry {
    name: "nilfs2",
    about: "NILFS2, log-structured with continuous snapshots, block interface only",
    needs: &[Need::Blocks],
    write_log: false,
    below: None,
    options: Some(OptionsEntry { section: "nilfs2", read: complete::<MountOptions>, refusal }),
    periodic: |given| {
        let o: MountOptions = given.read().ok()?;
        Some(("logs", o.log_interval))
    },
    mkfs: |devices, given| crate::mkfs(devices.serving(Need::Blocks)?, &given.read::<MkfsOptions>()?),
    mount: |devices, how| Ok(open(devices, how, Need::Blocks, |own| own)?),
    repair: None,
    checkpoints: Some(|devices, how, call| asked(&*open(devices, how, Need::Blocks, |own| own)?, call)),
    crash: &[
        case("nilfs2", &[SMALL, "protection_period = 0"]),
        case("nilfs2-protected", &[SMALL, "protection_period = 3000000"]),
    ],
};

/// NILFS2 whose cleaner lets the drive rename blocks (PebbleSSD section 4.2.1).
pub const NILFS2_REMAP: FsEntry = FsEntry {
    name: "nilfs2-remap",
    about: "NILFS2 on PebbleSSD: cleaning renames blocks",
    needs: &[Need::Names],
    mount: |devices, how| Ok(open(devices, how, Need::Names, renames)?),
    checkpoints: Some(|devices, how, call| asked(&*open(devices, how, Need::Names, renames)?, call)),
    crash: &[case("nilfs2-remap", &[SMALL, "protection_period = 0"])],
    ..NILFS2
};

/// NILFS2 whose fsync writes data with FS_WRITE (PebbleSSD section 4.2.2).
pub const NILFS2_FSWRITE: FsEntry = FsEntry {
    name: "nilfs2-fswrite",
    about: "NILFS2 on PebbleSSD: fsync writes data and a summary",
    needs: &[Need::Names],
    mount: |devices, how| Ok(open(devices, how, Need::Names, fs_writes)?),
    checkpoints: Some(|devices, how, call| asked(&*open(devices, how, Need::Names, fs_writes)?, call)),
    crash: &[case("nilfs2-fswrite", &[SMALL, "protection_period = 0"])],
    ..NILFS2
};

/// NILFS2-opt: both (PebbleSSD section 5).
pub const NILFS2_PEBBLE: FsEntry = FsEntry {
    name: "nilfs2-pebble",
    about: "NILFS2-opt of PebbleSSD: cleaning renames blocks, fsync writes data and a summary",
    needs: &[Need::Names],
    mount: |devices, how| Ok(open(devices, how, Need::Names, |own| renames(fs_writes(own)))?),
    checkpoints: Some(|devices, how, call| {
        asked(&*open(devices, how, Need::Names, |own| renames(fs_writes(own)))?, call)
    }),
    crash: &[case("nilfs2-pebble", &[SMALL, "protection_period = 0"])],
    ..NILFS2
};

/// Cleaning renames blocks.
fn renames(own: MountOptions) -> MountOptions {
    MountOptions { remap_cleaning: true, ..own }
}

/// fsync writes data with FS_WRITE.
fn fs_writes(own: MountOptions) -> MountOptions {
    MountOptions { fs_write_fsync: true, ..own }
}

/// Mounts with the options of the testbed as a variant changes them.
fn open(
    devices: &Devices,
    how: &Mount<'_>,
    need: Need,
    variant: impl FnOnce(MountOptions) -> MountOptions,
) -> Result<Arc<Nilfs2>> {
    let own: MountOptions = how.options()?;
    let options = MountOptions { metadata_cache: how.metadata_cache, ..variant(own) };
    crate::mount(devices.serving(need)?.clone(), &options)
}

/// One call on the checkpoints of a file system that is unmounted afterwards.
fn asked(fs: &Nilfs2, call: CheckpointCall) -> Result<Checkpoints> {
    let done = match call {
        CheckpointCall::List => Ok(None),
        CheckpointCall::Make { snapshot } => fs.make_checkpoint().and_then(|number| {
            let kept = if snapshot { fs.make_snapshot(number) } else { Ok(()) };
            kept.map(|()| Some(number))
        }),
        CheckpointCall::Keep(number) => fs.make_snapshot(number).map(|()| None),
        CheckpointCall::Release(number) => fs.remove_snapshot(number).map(|()| None),
        CheckpointCall::End(number) => fs.remove_checkpoint(number).map(|()| None),
    };
    let answer = done.and_then(|made| Ok(Checkpoints { all: fs.checkpoints()?, made }));
    let unmounted = fs.unmount(&Call::offline());
    answer.and_then(|answer| unmounted.map(|()| answer))
}

/// Logs every 2 ms, cleaning every 500 us, superblocks every 3 ms; fsync promises everything.
const SMALL: &str = "fsync = 'all'\nlog_interval = 2000000\nsuper_interval = 30000000\nwatermark = 60\n\
                     cleaning_interval = [500000, 200000]\nmin_clean_segments = 60\nmax_clean_segments = 80";

/// Segments of 128 KiB, so that logs go on in the next one and segments are cleaned all the time.
const fn case(name: &'static str, mount: &'static [&'static str]) -> CrashCase {
    CrashCase {
        mkfs: "size = '8MiB'\nsegment_blocks = 32",
        mount,
        pages_are_whole: true,
        cuts_are_finished: true,
        survives_torn_pages: true,
        ..CrashCase::plain(name)
    }
}

fn refusal(given: &dyn Options) -> Option<(&'static str, String)> {
    let o: MountOptions = given.read().ok()?;
    let pauses = [
        ("log_interval", o.log_interval),
        ("cleaning_interval", o.cleaning_interval.0.min(o.cleaning_interval.1)),
    ];
    if let Some(refused) = too_short(&pauses) {
        return Some(refused);
    }
    if o.watermark == 0 {
        return Some(("watermark", "must be at least 1: a log has a block".to_owned()));
    }
    let percent =
        [("min_clean_segments", o.min_clean_segments), ("max_clean_segments", o.max_clean_segments)];
    let (key, value) = percent.into_iter().find(|(_, value)| *value > 100)?;
    Some((key, format!("is {value}: a share of all segments in percent")))
}
