//! [`Target`]: a file system under test, with its devices; made of what it says of itself ([`FsEntry::crash`]).
//!
//! The devices are so small that logs are cleaned, journals wrap, caches evict and gc runs within a few milliseconds of
//! virtual time.

mod host;
mod lying;
mod on_image;

pub use lying::without_flushes;
pub use on_image::OnImage;

use granary_device::{Devices, Drive, Need, Role, Structure};
use granary_flash::{ErrorConfig, Geometry};
use granary_fs::entry::{CrashCase, Mount};
use granary_fs::{FileSystem, FsEntry, FsError, Repaired};
use granary_mssd::{DriveConfig, DriveEntry, Mode, Mssd, WriteAck};
use granary_pmem::{Dimm, DimmConfig, Domain};
use granary_sim::HostCosts;
use granary_units::{Bytes, Nanos};
use granary_vfs::Layer;
use granary_vfs::VfsConfig;
use host::{small_vfs, some_costs};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file system under test, with its devices. Make everything small, so that logs are cleaned, journals wrap, caches
/// evict and gc runs within a run of some milliseconds.
pub trait Target: Send + Sync {
    /// The name, as `cargo xtask soak --fs` takes it.
    fn name(&self) -> &str;

    /// New devices, without a file system.
    fn devices(&self, seed: u64) -> Devices;

    /// Whether a rename is there wholly or not at all, whatever is fsynced later. Else a file that was made later and
    /// fsynced under one of its two names says nothing of it, nor does what had the old name earlier and is back.
    /// What was promised and not removed must be found all the same.
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

    /// Mends damaged media as far as it can; `None`: it has no repair.
    fn repair(&self, _devices: &Devices) -> Option<Result<Repaired, FsError>> {
        None
    }

    /// Whether a write that a power failure meets is old or new in each page of 4 KiB.
    fn pages_are_whole(&self) -> bool {
        false
    }

    /// Whether a file that has been cut has no blocks beyond its end after recovery, but those that fallocate reserved.
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
    /// The SSD's firmware, where it is none of ours.
    drive: Option<&'static DriveEntry>,
    /// How each layer is mounted, by its name: read once, since each crash point mounts.
    mounted: Mutex<BTreeMap<&'static str, toml::Table>>,
}

/// The devices of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// Those that its file system asks for; bytes are served by the byte window of an SSD.
    Usual,
    /// Bytes are served by DIMMs.
    Nvm,
    /// By DIMMs of a platform with eADR, whose processor caches survive.
    Eadr,
    /// The SSD has a volatile cache.
    Volatile,
    /// The same, and what is lost of it may be a part of a page.
    Torn,
    /// The SSD acknowledges block writes when flash holds them.
    Program,
    /// Programs and erases of the SSD's flash fail now and then.
    Failing,
}

impl On {
    const ALL: [On; 7] = [On::Usual, On::Nvm, On::Eadr, On::Volatile, On::Torn, On::Program, On::Failing];

    /// Behind the name of a case.
    fn suffix(self) -> &'static str {
        match self {
            On::Usual => "",
            On::Nvm => "@nvm",
            On::Eadr => "@eadr",
            On::Volatile => "@volatile",
            On::Torn => "@torn",
            On::Program => "@program",
            On::Failing => "@failing",
        }
    }

    /// The SSD has a volatile cache.
    fn is_volatile(self) -> bool {
        matches!(self, On::Volatile | On::Torn)
    }

    /// Bytes are served by DIMMs.
    fn is_nvm(self) -> bool {
        matches!(self, On::Nvm | On::Eadr)
    }

    /// Whether a file system can be on it.
    fn serves(self, fs: &FsEntry, case: &CrashCase) -> bool {
        let bytes = fs.needs.iter().any(|need| need.is_bytes());
        match self {
            On::Usual => true,
            On::Nvm => bytes,
            On::Eadr => bytes && !fs.write_log,
            // The write log and BAM are battery-backed.
            On::Volatile => fs.needs.contains(&Need::Blocks) && !fs.write_log,
            On::Torn => On::Volatile.serves(fs, case) && case.survives_torn_pages,
            On::Program | On::Failing => fs.needs.iter().any(|need| !need.is_bytes()) || fs.write_log,
        }
    }
}

/// The names of all cases of these file systems. Each is there once for everything that it can be on: `nova`, `nova@nvm`,
/// `nova@eadr`; `nilfs2@torn`; `ext4`, `ext4@volatile`, `ext4@program`, `ext4@failing`.
pub fn names(all: &'static [FsEntry]) -> Vec<String> {
    let cases = all.iter().flat_map(|fs| fs.crash.iter().map(move |case| (fs, case)));
    let of = |(fs, case): (&FsEntry, &CrashCase)| {
        let on = On::ALL.into_iter().filter(|on| on.serves(fs, case));
        on.map(|on| format!("{}{}", case.name, on.suffix())).collect::<Vec<_>>()
    };
    cases.flat_map(of).collect()
}

/// The target with this name.
pub fn by_name(all: &'static [FsEntry], name: &str) -> Option<Arc<dyn Target>> {
    let (bare, suffix) = name.split_at(name.find('@').unwrap_or(name.len()));
    let on = On::ALL.into_iter().find(|on| on.suffix() == suffix)?;
    let mut cases = all.iter().flat_map(|fs| fs.crash.iter().map(move |case| (fs, case)));
    let (fs, case) = cases.find(|(fs, case)| case.name == bare && on.serves(fs, case))?;
    Some(Arc::new(Case { name: name.to_owned(), fs, case, on, drive: None, mounted: Mutex::default() }))
}

/// The names of all cases of these file systems on these drives: `ext4@minimal`. Such are file systems that need blocks alone.
pub fn names_on(all: &'static [FsEntry], drives: &'static [DriveEntry]) -> Vec<String> {
    let own: Vec<&DriveEntry> = drives.iter().filter(|drive| is_own(drive)).collect();
    let on = |fs: &FsEntry| if is_plain(fs) { own.clone() } else { Vec::new() };
    let cases = all.iter().flat_map(|fs| fs.crash.iter().map(move |case| (fs, case)));
    cases
        .flat_map(|(fs, case)| on(fs).into_iter().map(|drive| format!("{}@{}", case.name, drive.name)))
        .collect()
}

/// The target with this name, on one of these drives.
pub fn by_name_on(
    all: &'static [FsEntry],
    drives: &'static [DriveEntry],
    name: &str,
) -> Option<Arc<dyn Target>> {
    let (bare, suffix) = name.split_once('@')?;
    let drive = drives.iter().find(|drive| is_own(drive) && drive.name == suffix)?;
    let mut cases = all.iter().flat_map(|fs| fs.crash.iter().map(move |case| (fs, case)));
    let (fs, case) = cases.find(|(fs, case)| case.name == bare && is_plain(fs))?;
    let (name, on, mounted) = (name.to_owned(), On::Usual, Mutex::default());
    Some(Arc::new(Case { name, fs, case, on, drive: Some(drive), mounted }))
}

/// A firmware that no file system here names.
fn is_own(drive: &DriveEntry) -> bool {
    matches!(Mode::named(drive.name), Mode::Own(_))
}

/// Whether a file system can be on any drive.
fn is_plain(fs: &FsEntry) -> bool {
    fs.needs == [Need::Blocks] && !fs.write_log
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
        let mode = if self.fs.write_log { Mode::Log } else { Mode::Cache };
        let mut c = DriveConfig::bytefs_emulator().with_mode(mode);
        (c.firmware.volatile_cache, c.firmware.tears_pages) = (self.on.is_volatile(), self.on == On::Torn);
        if self.on == On::Program {
            (c.firmware.write_ack, c.firmware.cache_write_ack) = (WriteAck::Program, None);
        }
        if self.on == On::Failing {
            // One in 5,000: some in each run, and not so many that the spare blocks end. Pages that cannot be read are no power failure.
            c.flash.errors =
                ErrorConfig { program_ppb: 200_000, erase_ppb: 200_000, ..ErrorConfig::default() };
        }
        c.firmware.log_region = Bytes::kib(192);
        c.firmware.txlog = Bytes::kib(4);
        c.firmware.cache = Bytes::kib(512);
        c.firmware.write_buffer = Bytes::kib(64);
        c.firmware.power_on = Nanos::from_micros(100);
        // Few dies where the write buffer is volatile: a page whose program was begun is kept, so some must wait for theirs.
        let ways = if self.on.is_volatile() { 2 } else { 4 };
        c.flash.geometry =
            Geometry { channels: ways, ways, dies: 1, planes: 1, blocks_per_plane: 1, pages_per_block: 16 };
        c.flash = c.flash.with_capacity(Bytes::mib(64));
        // A cleaner that starts whenever it may: blocks of which a quarter is stale are collected in each pause.
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
        match self.drive {
            Some(drive) => Arc::new(drive.make(config).expect("a valid drive")),
            None => Arc::new(Mssd::new(config).expect("a valid drive")),
        }
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
        self.on != On::Torn
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

    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError> {
        let (own, metadata_cache) = (self.options(self.fs)?, self.case.metadata_cache);
        let how = Mount { options: &own, metadata_cache, read_only: false, lower: None, inside: None };
        granary_vfs::bring_up(self.fs, devices, &how, &|fs| {
            let metadata_cache = self.case_of(fs).metadata_cache;
            Ok(Layer { options: Box::new(self.options(fs)?), metadata_cache, vfs: small_vfs() })
        })
    }

    fn vfs(&self) -> VfsConfig {
        small_vfs()
    }

    fn costs(&self) -> HostCosts {
        some_costs()
    }
}

/// 64 MiB of Optane, with processor caches so small that lines are evicted at any time.
fn dimm_config(on: On) -> DimmConfig {
    let domain = if on == On::Eadr { Domain::Eadr } else { Domain::Adr };
    let config = DimmConfig { caches: Bytes::kib(16), domain, ..DimmConfig::optane_dcpmm() };
    config.with_capacity(Bytes::mib(64))
}
