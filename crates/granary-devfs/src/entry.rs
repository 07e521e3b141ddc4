//! Registry entries of DevFS and its variants.

use crate::options::{Crossing, MkfsOptions, MountOptions};
use granary_device::{Devices, Need};
use granary_fs::entry::{CrashCase, Mount, OptionsEntry, complete, nothing_periodic};
use granary_fs::{FileSystem, FsEntry, Options, Result};
use std::sync::Arc;

/// Variants share their options; what a variant is it decides itself, whatever the section says.
const OPTIONS: Option<OptionsEntry> = Some(OptionsEntry {
    section: "devfs",
    read: complete::<MountOptions>,
    refusal: |given| {
        let o: MountOptions = given.read().ok()?;
        let small = o.capacitor_bytes.0 < 64 << 10;
        small.then(|| {
            ("capacitor_bytes", "must be at least 64 KiB: a transaction may have that much".to_owned())
        })
    },
});

fn mkfs(devices: &Devices, given: &dyn Options) -> Result<()> {
    crate::mkfs(devices.serving(Need::Inside)?, &given.read::<MkfsOptions>()?)
}

fn mount(
    devices: &Devices,
    how: &Mount<'_>,
    name: &'static str,
    variant: impl FnOnce(&mut MountOptions),
) -> Result<Arc<dyn FileSystem>> {
    let mut options: MountOptions = how.options()?;
    variant(&mut options);
    let port = devices.serving(Need::Inside)?.clone();
    Ok(crate::mount_inside(port, &options, name, how.inside.as_ref())?)
}

/// Small budgets, so that commits wait for what goes home.
const SMALL: CrashCase = CrashCase {
    mkfs: "journal = '320KiB'",
    mount: &["capacitor_bytes = '64KiB'"],
    every_call_is_durable: true,
    cuts_are_finished: true,
    ..CrashCase::plain("devfs")
};

/// DevFS whole: capacitor, reverse caching, direct.
pub const DEVFS: FsEntry = FsEntry {
    name: "devfs",
    about: "DevFS (FAST'18): inside the drive, entered by commands, a capacitor keeps its journal",
    needs: &[Need::Inside],
    write_log: false,
    below: None,
    options: OPTIONS,
    periodic: nothing_periodic,
    mkfs,
    mount: |devices, how| mount(devices, how, "devfs", |_| ()),
    repair: None,
    checkpoints: None,
    crash: &[SMALL],
};

/// With the capacitor only, by system calls (section 5.2).
pub const DEVFS_CAP: FsEntry = FsEntry {
    name: "devfs-cap",
    about: "DevFS by system calls, all of its objects in the drive's memory",
    mount: |devices, how| {
        mount(devices, how, "devfs-cap", |o| {
            o.crossing = Crossing::Trap;
            (o.on_demand, o.reverse_dentries, o.reverse_inodes) = (false, false, false);
        })
    },
    crash: &[],
    ..DEVFS
};

/// Without a capacitor: data and metadata go through a log on storage (section 5.2).
pub const DEVFS_NAIVE: FsEntry = FsEntry {
    name: "devfs-naive",
    about: "DevFS by system calls, without a capacitor: all goes through a log on storage first",
    mount: |devices, how| {
        mount(devices, how, "devfs-naive", |o| {
            (o.crossing, o.capacitor) = (Crossing::Trap, false);
            (o.on_demand, o.reverse_dentries, o.reverse_inodes) = (false, false, false);
        })
    },
    crash: &[CrashCase { name: "devfs-naive", ..SMALL }],
    ..DEVFS
};
