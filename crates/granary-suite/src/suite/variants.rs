//! The variants of a file system for PebbleSSD: duties of every one of them while its cleaner never rests.
//!
//! ```text
//!   plain      | -remap       | -fswrite       | -pebble
//!   copies     | REMAP cleans | FS_WRITE syncs | both
//! ```
//!
//! The plain one's own tests already show some of these duties; here they are shown of the other three alone.

use super::{Subject, drive, fill, on_bam, run, tiny_caches};
use crate::model::Mix;
use granary_device::Devices;
use granary_fs::entry::{FsEntry, Mount};
use granary_fs::{Caller, Cred};
use granary_units::Bytes;
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};

/// The file of settings that scripts and soaks make images of variants with.
const SETTINGS: &str = include_str!("../../../../scripts/restless.settings");

/// The settings of a file system in `scripts/restless.settings`, each as `--set` takes it. `section`: the
/// name that its variants share.
pub fn restless_settings(section: &str) -> impl Iterator<Item = &'static str> {
    let section = format!("{section}.");
    SETTINGS.lines().filter(move |line| line.starts_with(&section))
}

/// The commands of PebbleSSD that a variant uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// REMAP moves blocks.
    pub remaps: bool,
    /// fsync is FS_WRITE.
    pub fs_writes: bool,
    /// Few files lie between others, most of the file system is in use: the test is of what moves. Else
    /// random calls may need all of it.
    pub is_full: bool,
}

/// A file system with its variants.
pub struct Variants<S: Subject> {
    /// One that never rests.
    pub subject: fn(Variant) -> S,
    /// Size of the drive on which files lie still.
    pub drive: Bytes,
    /// Whether something was cleaned, in the way of the variant: panics where not.
    pub cleaned: fn(&S::Fs),
    /// The names of the three variants in testbeds, scripts and soaks.
    pub entries: [&'static FsEntry; 3],
}

impl<S: Subject> Variants<S> {
    fn each(&self, is_full: bool, test: impl Fn(S)) {
        for (remaps, fs_writes) in [(false, false), (true, false), (false, true), (true, true)] {
            // In a file system that is not full random calls of the plain one are tests of its own.
            if is_full || remaps || fs_writes {
                on_bam(|| test((self.subject)(Variant { remaps, fs_writes, is_full })));
            }
        }
    }

    /// See [`super::still_files_stay_while_readers_are_set_aside`].
    pub fn still_files_stay_while_readers_are_set_aside(&self) {
        self.each(true, |subject| {
            super::still_files_stay_while_readers_are_set_aside(&subject, self.drive, 0..2, self.cleaned);
        });
    }

    /// See [`super::still_files_stay_on_the_wall_clock`].
    pub fn still_files_stay_on_the_wall_clock(&self) {
        self.each(true, |subject| {
            super::still_files_stay_on_the_wall_clock(&subject, self.drive, 2_000, self.cleaned);
        });
    }

    /// See [`super::calls_behave_as_the_reference`].
    pub fn calls_behave_as_the_reference(&self) {
        self.each(false, |subject| {
            super::calls_behave_as_the_reference(&subject, 0..2, tiny_caches(), Mix::default(), 2_000);
        });
    }

    /// See [`super::any_calls_of_64_tasks_end_and_leave_a_sound_file_system`].
    pub fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&self) {
        self.each(false, |subject| {
            super::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&subject);
        });
    }

    /// See [`super::threads_on_the_wall_clock_leave_a_sound_file_system`].
    pub fn threads_on_the_wall_clock_leave_a_sound_file_system(&self) {
        self.each(false, |subject| super::threads_on_the_wall_clock_leave_a_sound_file_system(&subject));
    }

    /// Scripts that need root, and soaks, are run seldom. A setting that has another name or range since
    /// would be noticed by nobody before.
    pub fn settings_of_scripts_are_known_and_work(&self) {
        for entry in self.entries {
            on_bam(|| run(move || works_with_settings(entry)));
        }
    }
}

/// Makes it, mounts it with the settings, writes, mounts it again and reads.
fn works_with_settings(entry: &FsEntry) {
    let name = entry.name;
    let own = entry.options.expect("a variant has options");
    let settings: Vec<&str> =
        restless_settings(own.section).map(|set| &set[own.section.len() + 1..]).collect();
    assert!(!settings.is_empty(), "{name}: no settings of {}", own.section);
    let given: toml::Table = toml::from_str(&settings.join("\n")).expect("TOML");
    let read = (own.read)(&mut <dyn erased_serde::Deserializer<'_>>::erase(given.clone()));
    assert_eq!(read.err().map(|e| e.to_string()), None, "{name}: scripts/restless.settings");
    assert_eq!((own.refusal)(&given), None, "{name}: scripts/restless.settings");
    let drive = drive(Bytes::mib(256));
    let devices = Devices::ssd(drive.clone());
    entry.make(&devices, &granary_fs::entry::defaults).expect("mkfs");
    let mounted = || {
        let how = Mount {
            options: &given,
            metadata_cache: Bytes::mib(4),
            read_only: false,
            lower: None,
            inside: None,
        };
        let fs = granary_vfs::bring_up(entry, &devices, &how, &|_| unreachable!("nothing is below"))
            .expect("mount");
        Vfs::mount(fs, VfsConfig::default()).expect("vfs")
    };
    let vfs = mounted();
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    let fd = p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
    p.pwrite(fd, fill(7, 9_000), 0).expect("write");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
    drop(p);
    vfs.unmount().expect("unmount");
    let vfs = mounted();
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    assert_eq!(p.stat("/f").expect("stat").attr.size, 9_000, "{name}");
    vfs.sync(&Caller::KERNEL).expect("sync");
    assert_eq!(vfs.check().expect("check"), [""; 0], "{name}");
}
