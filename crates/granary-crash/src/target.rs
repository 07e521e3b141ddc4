//! [`Target`]: a file system under test, with its devices; made of what it says of itself
//! ([`FsEntry::crash`]).
//!
//! The devices are so small that logs are cleaned, journals wrap, caches evict and gc runs within a few
//! milliseconds of virtual time.

mod chosen;
mod forward;
mod host;
mod lying;
mod on_image;

pub use chosen::{by_name, by_name_on, names, names_on};
#[doc(hidden)]
pub use forward::parts;
pub use lying::without_flushes;
pub use on_image::OnImage;

use crate::load::Load;
use chosen::{On, usual_drive};
use granary_device::{Devices, Drive, Need, Role, Structure};
use granary_flash::Geometry;
use granary_fs::entry::{CrashCase, Mount};
use granary_fs::{CheckpointCall, FileSystem, FsEntry, FsError, Repaired};
use granary_mssd::{DriveCase, DriveConfig, DriveEntry, Mode, Promise};
use granary_pmem::{Dimm, DimmConfig, Domain};
use granary_sim::HostCosts;
use granary_units::{Bytes, Nanos};
use granary_vfs::Layer;
use granary_vfs::VfsConfig;
use host::{small_vfs, some_costs};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file system under test, with its devices. Make everything small, so that logs are cleaned, journals
/// wrap, caches evict and gc runs within a run of some milliseconds.
pub trait Target: Send + Sync {
    /// The name, as `cargo xtask soak --fs` takes it.
    fn name(&self) -> &str;

    /// New devices, without a file system.
    fn devices(&self, seed: u64) -> Devices;

    /// Whether a rename is there wholly or not at all, whatever is fsynced later. Where it is not, two things
    /// say nothing of it: a file that was made later and fsynced under one of its two names, and a file that
    /// had the old name earlier and is back. Promised files that were not removed must be found all the same.
    fn renames_are_whole(&self) -> bool;

    /// Whether a file's times are as durable as its data.
    fn times_are_durable(&self) -> bool;

    /// Whether what a call did is durable once it has returned.
    fn every_call_is_durable(&self) -> bool {
        false
    }

    /// Whether a file can have another inode number after the next mount.
    fn inodes_may_change(&self) -> bool {
        false
    }

    /// Whether a flipped bit or an unreadable page in a structure never passes for the truth.
    fn checks(&self, _what: Structure) -> bool {
        false
    }

    /// Whether it grows when its drive has become larger.
    fn grows(&self) -> bool {
        false
    }

    /// Whether it keeps snapshots.
    fn keeps_snapshots(&self) -> bool {
        false
    }

    /// Takes a snapshot of the file system while it is not mounted, and says its number.
    ///
    /// # Errors
    /// The file system's; `NotSupported` where it keeps none. So it is below.
    fn snapshot(&self, _devices: &Devices) -> Result<u64, FsError> {
        Err(FsError::NotSupported)
    }

    /// Mounts a snapshot, to be read.
    ///
    /// # Errors
    /// See above.
    fn mount_snapshot(&self, _devices: &Devices, _number: u64) -> Result<Arc<dyn FileSystem>, FsError> {
        Err(FsError::NotSupported)
    }

    /// Whether a load can run on it.
    fn serves(&self, load: &dyn Load) -> bool {
        (self.grows() || !load.leaves_room()) && (self.keeps_snapshots() || !load.takes_snapshots())
    }

    /// Mends damaged media as far as it can; `None`: it has no repair.
    fn repair(&self, _devices: &Devices) -> Option<Result<Repaired, FsError>> {
        None
    }

    /// Whether a write that a power failure meets is old or new in each page of 4 KiB.
    fn pages_are_whole(&self) -> bool {
        false
    }

    /// Whether a file that has been cut has no blocks beyond its end after recovery, but those that fallocate
    /// reserved.
    fn cuts_are_finished(&self) -> bool {
        false
    }

    /// The SSD and the NVM DIMMs of its devices, for who asks how much memory they take.
    fn configs(&self) -> (Option<DriveConfig>, Option<DimmConfig>) {
        (None, None)
    }

    /// How an image keeps it.
    ///
    /// # Errors
    /// Why no image does.
    fn on_image(&self) -> Result<OnImage, String> {
        Err(format!("no image keeps {}: its devices live in memory alone", self.name()))
    }

    /// Makes an empty file system; it must be durable on return.
    ///
    /// # Errors
    /// The file system's.
    fn mkfs(&self, devices: &Devices) -> Result<(), FsError>;

    /// Mounts, recovering where it was not unmounted.
    ///
    /// # Errors
    /// The file system's.
    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError>;

    /// The vfs: a small cache, write-back within milliseconds.
    fn vfs(&self) -> VfsConfig;

    /// Host CPU costs; not all zero, so that schedules differ.
    fn costs(&self) -> HostCosts;
}

/// The drive has a pause where it was idle for so long.
const PAUSE: Nanos = Nanos::from_micros(20);

/// A crash case of a registered file system.
struct Case {
    name: String,
    fs: &'static FsEntry,
    case: &'static CrashCase,
    on: On,
    /// The SSD.
    drive: &'static DriveEntry,
    /// The kind of SSD, where it is not the usual one.
    kind: Option<&'static DriveCase>,
    /// How each layer is mounted, by its name: read once, since each crash point mounts.
    mounted: Mutex<BTreeMap<&'static str, toml::Table>>,
}

impl Case {
    fn needs(&self, role: Role) -> bool {
        self.fs.needs.iter().any(|need| match need {
            need if need.is_bytes() => (role == Role::Nvm) == self.on.is_nvm(),
            need => need.roles().contains(&role),
        })
    }
}

impl Case {
    /// 64 MiB over 16 dies, or 4.
    fn ssd_config(&self) -> DriveConfig {
        let mut c = DriveConfig::bytefs_emulator().with_mode(Mode::named(usual_drive(self.fs).name));
        (c.firmware.volatile_cache, c.firmware.tears_pages) = (false, false);
        c.firmware.log_region = Bytes::kib(192);
        c.firmware.txlog = Bytes::kib(4);
        c.firmware.cache = Bytes::kib(512);
        c.firmware.write_buffer = Bytes::kib(64);
        c.firmware.power_on = Nanos::from_micros(100);
        if let Some(kind) = self.kind {
            (kind.change)(&mut c);
        }
        // Few dies where the write buffer is volatile: a page whose program was begun is kept, so some must
        // wait for theirs.
        let ways = if c.firmware.volatile_cache { 2 } else { 4 };
        c.flash.geometry =
            Geometry { channels: ways, ways, dies: 1, planes: 1, blocks_per_plane: 1, pages_per_block: 16 };
        c.flash = c.flash.with_capacity(Bytes::mib(64));
        // A cleaner that starts whenever it may: blocks of which a quarter is stale are collected in each
        // pause.
        (c.flash.idle_gc, c.flash.idle_gc_stop) = (PAUSE, c.flash.geometry.blocks_per_plane);
        if self.fs.needs.contains(&Need::Names) {
            c = c.with_bam();
        }
        // So few that a load can fill them; then the drive warns, and file systems write checkpoints.
        if let Some(bam) = &mut c.firmware.bam {
            (bam.entries, bam.files, bam.names) = (512, 48, 256);
        }
        c
    }

    fn ssd(&self, config: &DriveConfig) -> Arc<dyn Drive> {
        Arc::new(self.drive.make(config).expect("a valid drive"))
    }

    /// How one layer is mounted.
    fn options(&self, fs: &FsEntry) -> Result<toml::Table, FsError> {
        if let Some(known) = self.mounted.lock().get(fs.name) {
            return Ok(known.clone());
        }
        let options = table(&self.case_of(fs).mount.join("\n"))?;
        self.mounted.lock().insert(fs.name, options.clone());
        Ok(options)
    }

    /// The case of one layer: below, the first that its file system has.
    fn case_of(&self, fs: &FsEntry) -> CrashCase {
        match fs.name == self.fs.name {
            true => *self.case,
            false => fs.crash.first().copied().unwrap_or(CrashCase::plain(fs.name)),
        }
    }
}

fn table(text: &str) -> Result<toml::Table, FsError> {
    toml::from_str(text).map_err(|e| FsError::Corrupt(format!("options of a crash case: {e}")))
}

impl Target for Case {
    fn name(&self) -> &str {
        &self.name
    }

    fn devices(&self, _seed: u64) -> Devices {
        let (mut devices, (ssd, nvm)) = (Devices::none(), self.configs());
        if let Some(ssd) = ssd {
            devices = devices.with(Role::Ssd, self.ssd(&ssd));
        }
        if let Some(nvm) = nvm {
            devices = devices.with(Role::Nvm, Arc::new(Dimm::new(&nvm).expect("a valid DIMM")));
        }
        devices
    }

    fn renames_are_whole(&self) -> bool {
        let below = std::iter::successors(self.fs.below, |fs| fs.below);
        self.case.renames_are_whole && below.map(|fs| self.case_of(fs)).all(|case| case.renames_are_whole)
    }

    fn times_are_durable(&self) -> bool {
        let below = std::iter::successors(self.fs.below, |fs| fs.below);
        self.case.times_are_durable && below.map(|fs| self.case_of(fs)).all(|case| case.times_are_durable)
    }

    fn every_call_is_durable(&self) -> bool {
        self.case.every_call_is_durable
    }

    fn inodes_may_change(&self) -> bool {
        self.case.inodes_may_change
    }

    fn checks(&self, what: Structure) -> bool {
        self.case.checked.contains(&what)
    }

    fn grows(&self) -> bool {
        self.case.grows
    }

    fn repair(&self, devices: &Devices) -> Option<Result<Repaired, FsError>> {
        self.fs.repair.map(|repair| repair(devices))
    }

    fn pages_are_whole(&self) -> bool {
        let below = std::iter::successors(self.fs.below, |fs| fs.below);
        self.kind.is_none_or(|kind| kind.keeps(Promise::WholePages))
            && self.case.pages_are_whole
            && below.map(|fs| self.case_of(fs)).all(|case| case.pages_are_whole)
    }

    fn cuts_are_finished(&self) -> bool {
        self.case.cuts_are_finished
    }

    fn configs(&self) -> (Option<DriveConfig>, Option<DimmConfig>) {
        let ssd = self.needs(Role::Ssd).then(|| self.ssd_config());
        (ssd, self.needs(Role::Nvm).then(|| dimm_config(self.on)))
    }

    fn on_image(&self) -> Result<OnImage, String> {
        self.kept()
    }

    fn mkfs(&self, devices: &Devices) -> Result<(), FsError> {
        self.fs.make(devices, &|fs| Ok(Box::new(table(self.case_of(fs).mkfs)?)))
    }

    fn keeps_snapshots(&self) -> bool {
        self.fs.checkpoints.is_some()
    }

    fn snapshot(&self, devices: &Devices) -> Result<u64, FsError> {
        let ask = self.fs.checkpoints.ok_or(FsError::NotSupported)?;
        let call = CheckpointCall::Make { snapshot: true };
        ask(devices, &self.how(&self.options(self.fs)?, false), call)?.made.ok_or(FsError::NotSupported)
    }

    fn mount_snapshot(&self, devices: &Devices, number: u64) -> Result<Arc<dyn FileSystem>, FsError> {
        let mut own = self.options(self.fs)?;
        // As `granary mount --read-only --set fs.NAME.cp=NUMBER` has it.
        own.insert("cp".into(), toml::Value::Integer(number as i64));
        self.brought_up(devices, &own, true)
    }

    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError> {
        self.brought_up(devices, &self.options(self.fs)?, false)
    }

    fn vfs(&self) -> VfsConfig {
        small_vfs()
    }

    fn costs(&self) -> HostCosts {
        some_costs()
    }
}

impl Case {
    fn how<'a>(&self, options: &'a toml::Table, read_only: bool) -> Mount<'a> {
        let metadata_cache = self.case.metadata_cache;
        Mount { options, metadata_cache, read_only, lower: None, inside: None }
    }

    fn brought_up(
        &self,
        devices: &Devices,
        own: &toml::Table,
        read_only: bool,
    ) -> Result<Arc<dyn FileSystem>, FsError> {
        let how = self.how(own, read_only);
        granary_vfs::bring_up(self.fs, devices, &how, &|fs| {
            let metadata_cache = self.case_of(fs).metadata_cache;
            Ok(Layer { options: Box::new(self.options(fs)?), metadata_cache, vfs: small_vfs() })
        })
    }
}

/// 64 MiB of Optane, with processor caches so small that lines are evicted at any time.
fn dimm_config(on: On) -> DimmConfig {
    let domain = if on == On::Eadr { Domain::Eadr } else { Domain::Adr };
    let config = DimmConfig { caches: Bytes::kib(16), domain, ..DimmConfig::optane_dcpmm() };
    config.with_capacity(Bytes::mib(64))
}
