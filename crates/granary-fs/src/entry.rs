//! [`FsEntry`]: all that the rest of the house knows of a file system.
//!
//! ```text
//!   crates/granary-NAME/src/entry.rs       pub const ENTRY: FsEntry     the file system describes itself
//!   crates/granary-testbed/src/registry.rs a list of them               runs, mounts, images, reports, crash
//!                                                                       tests, soaks
//! ```
//!
//! Options are [`Options`] outside of their file system: `[fs.SECTION]` of a testbed, of an image's header,
//! of a crash case. Only the file system knows their meaning, defaults and ranges.

use crate::checkpoints::{CheckpointCall, Checkpoints};
use crate::error::Result;
use crate::fs::FileSystem;
use crate::options::{Defaults, Options};
use crate::repair::Repaired;
use granary_device::{Devices, Need, Role, Structure};
use granary_units::{Bytes, Nanos};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// A file system that can be run.
pub struct FsEntry {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    /// Devices of the host that it needs.
    pub needs: &'static [Need],
    /// Its SSD runs the ByteFS write-log firmware; else the page-cache firmware (ByteFS section 5.1).
    pub write_log: bool,
    /// The file system that it is stacked on, if any. The lower one is made and mounted first, on the SSD,
    /// and handed over as [`Mount::lower`].
    pub below: Option<&'static FsEntry>,
    /// Its mount options; `None`: it has none.
    pub options: Option<OptionsEntry>,
    /// Its periodic work beside write-back, and the period: a shorter run does not show that work.
    pub periodic: fn(&dyn Options) -> Option<(&'static str, Nanos)>,
    /// Makes an empty file system on the devices, with the options of its `mkfs`.
    pub mkfs: fn(&Devices, &dyn Options) -> Result<()>,
    /// Mounts it, recovering where needed.
    pub mount: fn(&Devices, &Mount<'_>) -> Result<Arc<dyn FileSystem>>,
    /// Mends it, unmounted (what is damaged may not mount); `None` where nobody has written that.
    pub repair: Option<fn(&Devices) -> Result<Repaired>>,
    /// Mounts it for one call on its checkpoints; `None` where it has none.
    pub checkpoints: Option<AskCheckpoints>,
    /// How crash tests, schedules and soaks set it up, each under a name of its own.
    pub crash: &'static [CrashCase],
}

/// Mounts a file system for one call on its checkpoints.
pub type AskCheckpoints = fn(&Devices, &Mount<'_>, CheckpointCall) -> Result<Checkpoints>;

/// The section of a testbed that has a file system's mount options.
#[derive(Clone, Copy)]
pub struct OptionsEntry {
    /// Its name, as in `[fs.ext4]`. Variants of one file system share it.
    pub section: &'static str,
    /// Reads a section, which may be incomplete, and gives it back complete.
    pub read: fn(&mut dyn erased_serde::Deserializer<'_>) -> erased_serde::Result<Complete>,
    /// A value of a complete section that is out of its range: its key, and the valid range.
    pub refusal: fn(&dyn Options) -> Option<(&'static str, String)>,
}

/// A complete section of options: every key with its value. A key that is left out because others say what
/// its value is has none.
pub type Complete = Box<dyn erased_serde::Serialize>;

/// Reads a section of the type `T`, as [`OptionsEntry::read`] does.
///
/// # Errors
/// Unknown keys and wrong types.
pub fn complete<T: Serialize + DeserializeOwned + 'static>(
    from: &mut dyn erased_serde::Deserializer<'_>,
) -> erased_serde::Result<Complete> {
    Ok(Box::new(erased_serde::deserialize::<T>(from)?))
}

/// Processors inside a drive on which a file system works (DevFS), and the drive's memory that it may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inside {
    /// Processors.
    pub cores: usize,
    /// Their clock, MHz.
    pub clock_mhz: u32,
    /// The clock at which the host's costs were measured, MHz: at another one the same work takes longer.
    pub host_clock_mhz: u32,
    /// The drive's memory that the file system may take.
    pub memory: Bytes,
}

/// How to mount.
pub struct Mount<'a> {
    /// The file system's own options: complete, or those that differ from the defaults.
    pub options: &'a dyn Options,
    /// Host memory for metadata blocks, beside the page cache.
    pub metadata_cache: Bytes,
    /// For a mount that changes nothing: file systems that know how do without what only changes need.
    pub read_only: bool,
    /// The mounted vfs that a stacked file system stands on; `granary_vfs::below` takes it.
    pub lower: Option<Arc<dyn Any + Send + Sync>>,
    /// The drive's processors, for a file system that works there; `None`: one with the host's clock.
    pub inside: Option<Inside>,
}

impl Mount<'_> {
    /// The file system's own options.
    ///
    /// # Errors
    /// As [`read`](trait.Options.html#method.read).
    pub fn options<T: DeserializeOwned>(&self) -> Result<T> {
        self.options.read()
    }
}

impl FsEntry {
    /// One that asks for the blocks of an SSD, without options, without repair, in no crash test.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        mkfs: fn(&Devices, &dyn Options) -> Result<()>,
        mount: fn(&Devices, &Mount<'_>) -> Result<Arc<dyn FileSystem>>,
    ) -> FsEntry {
        FsEntry {
            name,
            about,
            needs: &[Need::Blocks],
            write_log: false,
            below: None,
            options: None,
            periodic: nothing_periodic,
            mkfs,
            mount,
            repair: None,
            checkpoints: None,
            crash: &[],
        }
    }

    /// Makes an empty file system, what is below first. `options`: of `mkfs`, for this one and for those
    /// below.
    ///
    /// # Errors
    /// The file systems'.
    pub fn make(
        &self,
        devices: &Devices,
        options: &dyn Fn(&FsEntry) -> Result<Box<dyn Options>>,
    ) -> Result<()> {
        if let Some(below) = self.below {
            below.make(&ssd_of(devices), options)?;
        }
        (self.mkfs)(devices, &*options(self)?)
    }
}

/// No options of `mkfs` for any layer, as [`FsEntry::make`] takes them.
///
/// # Errors
/// None.
pub fn defaults(_layer: &FsEntry) -> Result<Box<dyn Options>> {
    Ok(Box::new(Defaults))
}

/// The SSD alone: what is below in a stack leaves the rest to the upper one.
pub fn ssd_of(devices: &Devices) -> Devices {
    let ssd = devices.drives().find(|(role, _)| *role == Role::Ssd);
    ssd.map_or_else(Devices::none, |(_, drive)| Devices::ssd(drive.clone()))
}

/// How crash tests set up a file system: everything small, so that logs are cleaned, journals wrap, caches
/// evict and cleaning runs within some milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct CrashCase {
    /// The name, as `cargo xtask soak --fs` takes it.
    pub name: &'static str,
    /// Options of `mkfs`, TOML.
    pub mkfs: &'static str,
    /// Options of the mount, TOML in pieces.
    pub mount: &'static [&'static str],
    /// Memory for metadata blocks.
    pub metadata_cache: Bytes,
    /// Whether a rename is there wholly or not at all, whatever is fsynced later. Else a file that was made
    /// later and fsynced under one of its two names says nothing of it, nor does what had the old name
    /// earlier and is back.
    pub renames_are_whole: bool,
    /// Whether a file's times are as durable as its data.
    pub times_are_durable: bool,
    /// Whether what a call did is durable once it has returned.
    pub every_call_is_durable: bool,
    /// Whether a file can have another inode number after the next mount.
    pub inodes_may_change: bool,
    /// Structures of which each byte has a checksum: a flipped bit or an unreadable page in them never passes
    /// for the truth. The mount, `check()` or a call tells of it, or nothing is another than it was.
    pub checked: &'static [Structure],
    /// Whether it grows when its drive has become larger ([`Space::grow`](crate::Space::grow)).
    pub grows: bool,
    /// Whether a write that a power failure meets is old or new in each page of 4 KiB: no page has a part of
    /// it.
    pub pages_are_whole: bool,
    /// Whether it survives that pages which no FLUSH covers get to the medium in part, by sectors of 512 B.
    /// Others rely on writes of 4 KiB that are whole.
    pub survives_torn_pages: bool,
    /// Whether a file that has been cut has no blocks beyond its end after recovery, but those that fallocate
    /// reserved.
    pub cuts_are_finished: bool,
}

impl CrashCase {
    /// The defaults, 512 KiB for metadata, whole renames, durable times, calls that fsync makes durable,
    /// lasting inode numbers, pages that may be torn.
    pub const fn plain(name: &'static str) -> CrashCase {
        CrashCase {
            name,
            mkfs: "",
            mount: &[],
            metadata_cache: Bytes::kib(512),
            renames_are_whole: true,
            times_are_durable: true,
            every_call_is_durable: false,
            inodes_may_change: false,
            checked: &[],
            grows: false,
            pages_are_whole: false,
            survives_torn_pages: false,
            cuts_are_finished: false,
        }
    }
}

/// For file systems that do nothing every so often.
pub fn nothing_periodic(_options: &dyn Options) -> Option<(&'static str, Nanos)> {
    None
}

/// For options without ranges.
pub fn nothing_refused(_options: &dyn Options) -> Option<(&'static str, String)> {
    None
}

/// Shortest pause of a daemon; Linux's timers have steps of 1 to 10 ms. With none the clock never goes on.
pub const SHORTEST_PAUSE: Nanos = Nanos(1_000);

/// The first of these pauses of daemons that is too short, as [`OptionsEntry::refusal`] wants it.
pub fn too_short(pauses: &[(&'static str, Nanos)]) -> Option<(&'static str, String)> {
    let (key, _) = pauses.iter().find(|(_, pause)| *pause < SHORTEST_PAUSE)?;
    let why = format!(
        "must be at least {}: a daemon sleeps so long, in nanoseconds; 5 s are 5000000000",
        SHORTEST_PAUSE.0
    );
    Some((key, why))
}

/// Most processors that lists are kept for: Linux on x86-64 has at most 8192 (NR_CPUS).
pub const MOST_CPUS: usize = 8192;

/// A number of processors that is none, or too many, as [`OptionsEntry::refusal`] wants it.
pub fn wrong_cpus(key: &'static str, cpus: usize) -> Option<(&'static str, String)> {
    match cpus {
        0 => Some((key, "must be at least 1: there is one that allocates".to_owned())),
        n if n > MOST_CPUS => Some((key, format!("is {n}: at most {MOST_CPUS}"))),
        _ => None,
    }
}
