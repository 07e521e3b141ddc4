//! The names of targets: a case of a file system, and behind an `@` what it is on.
//!
//! ```text
//!   nova           its usual devices            ext4@volatile          a kind of its usual drive
//!                                                                      (granary_mssd::DriveCase)
//!   nova@nvm       DIMMs serve its bytes        ext4@mine              another drive of the registry
//!   nova@eadr      with eADR                    ext4@mine@failing      a kind of that
//! ```

use super::{Case, Target};
use granary_device::Need;
use granary_fs::FsEntry;
use granary_fs::entry::CrashCase;
use granary_mssd::{CACHE, DriveCase, DriveEntry, LOG, Mode, Promise};
use parking_lot::Mutex;
use std::sync::Arc;

/// The devices that serve bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// The byte window of an SSD.
    Usual,
    /// DIMMs.
    Nvm,
    /// DIMMs of a platform with eADR, whose processor caches survive.
    Eadr,
}

impl On {
    const ALL: [On; 3] = [On::Usual, On::Nvm, On::Eadr];

    /// Behind the name of a case.
    fn suffix(self) -> &'static str {
        match self {
            On::Usual => "",
            On::Nvm => "@nvm",
            On::Eadr => "@eadr",
        }
    }

    /// Bytes are served by DIMMs.
    pub(super) fn is_nvm(self) -> bool {
        matches!(self, On::Nvm | On::Eadr)
    }

    /// Whether a file system can be on it.
    fn serves(self, fs: &FsEntry) -> bool {
        let bytes = fs.needs.iter().any(|need| need.is_bytes());
        match self {
            On::Usual => true,
            On::Nvm => bytes,
            On::Eadr => bytes && !fs.write_log,
        }
    }
}

/// The SSD that a file system gets where none is named.
pub(super) fn usual_drive(fs: &FsEntry) -> &'static DriveEntry {
    if fs.write_log { &LOG } else { &CACHE }
}

/// Whether a file system can be on this kind of its drive.
fn survives(fs: &FsEntry, case: &CrashCase, kind: &DriveCase) -> bool {
    let on_ssd = fs.needs.iter().any(|need| !need.is_bytes()) || fs.write_log;
    // Block file systems flush; what other commands take, as those of BAM, is battery-backed.
    on_ssd
        && (kind.keeps(Promise::Durable) || fs.needs.contains(&Need::Blocks))
        && (kind.keeps(Promise::WholePages) || case.survives_torn_pages)
}

/// A file system, one of its cases, the devices: all that a name stands for but for the name.
type Chosen = (&'static FsEntry, &'static CrashCase, On, &'static DriveEntry, Option<&'static DriveCase>);

/// All targets of these file systems on what serves their bytes and on each kind of their usual drives, with
/// their names.
fn usual(all: &'static [FsEntry]) -> impl Iterator<Item = (String, Chosen)> {
    cases(all).flat_map(|(fs, case)| {
        let drive = usual_drive(fs);
        let on = On::ALL.into_iter().filter(|on| on.serves(fs));
        let on = on.map(move |on| (format!("{}{}", case.name, on.suffix()), (fs, case, on, drive, None)));
        let kinds = drive.crash.iter().filter(|kind| survives(fs, case, kind));
        let kinds = kinds.map(move |kind| {
            (format!("{}@{}", case.name, kind.name), (fs, case, On::Usual, drive, Some(kind)))
        });
        on.chain(kinds)
    })
}

/// The same on these drives and each kind of them. Such are file systems that need blocks alone.
fn elsewhere(
    all: &'static [FsEntry],
    drives: &'static [DriveEntry],
) -> impl Iterator<Item = (String, Chosen)> {
    cases(all).filter(|(fs, _)| is_plain(fs)).flat_map(|(fs, case)| {
        drives.iter().filter(|drive| is_own(drive)).flat_map(move |drive| {
            let name = format!("{}@{}", case.name, drive.name);
            let kinds = drive.crash.iter().filter(|kind| survives(fs, case, kind));
            let kinds: Vec<_> = kinds
                .map(|kind| (format!("{name}@{}", kind.name), (fs, case, On::Usual, drive, Some(kind))))
                .collect();
            std::iter::once((name, (fs, case, On::Usual, drive, None))).chain(kinds)
        })
    })
}

fn cases(all: &'static [FsEntry]) -> impl Iterator<Item = (&'static FsEntry, &'static CrashCase)> {
    all.iter().flat_map(|fs| fs.crash.iter().map(move |case| (fs, case)))
}

fn found(mut all: impl Iterator<Item = (String, Chosen)>, wanted: &str) -> Option<Arc<dyn Target>> {
    let (name, (fs, case, on, drive, kind)) = all.find(|(name, _)| name == wanted)?;
    Some(Arc::new(Case { name, fs, case, on, drive, kind, mounted: Mutex::default() }))
}

/// The names of all cases of these file systems. Each is there once for everything that it can be on: `nova`,
/// `nova@nvm`, `nova@eadr`; `nilfs2@torn`; `ext4`, `ext4@volatile`, `ext4@program`, `ext4@failing`.
pub fn names(all: &'static [FsEntry]) -> Vec<String> {
    usual(all).map(|(name, _)| name).collect()
}

/// The target with this name.
pub fn by_name(all: &'static [FsEntry], name: &str) -> Option<Arc<dyn Target>> {
    found(usual(all), name)
}

/// The names of all cases of these file systems on these drives, and on each kind of them: `ext4@minimal`,
/// `ext4@minimal@failing`. Such are file systems that need blocks alone.
pub fn names_on(all: &'static [FsEntry], drives: &'static [DriveEntry]) -> Vec<String> {
    elsewhere(all, drives).map(|(name, _)| name).collect()
}

/// The target with this name, on one of these drives.
pub fn by_name_on(
    all: &'static [FsEntry],
    drives: &'static [DriveEntry],
    name: &str,
) -> Option<Arc<dyn Target>> {
    found(elsewhere(all, drives), name)
}

/// A firmware that no file system here names.
fn is_own(drive: &DriveEntry) -> bool {
    matches!(Mode::named(drive.name), Mode::Own(_))
}

/// Whether a file system can be on any drive.
fn is_plain(fs: &FsEntry) -> bool {
    fs.needs == [Need::Blocks] && !fs.write_log
}
