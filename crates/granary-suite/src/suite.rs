//! Test support: properties that every file system on a drive must have, stated once.
//!
//! ```text
//!   Subject        how to make and mount one file system, with its options
//!   Mounted        drive, file system and vfs, all together
//!   model          random calls and crowds of tasks, against the reference
//!   power          what fsync promised, at power failures; a drive that takes its time (LateDrive)
//!   space, holes   full file systems, large directories and files; fallocate
//!   largest        the last bytes of the largest file
//!   attributes     extended attributes
//!   damage         media that somebody scribbled over
//!   pools          every pool filled on its own: no space only where statfs says so
//!   still          files that nobody changes, while their blocks move
//!   variants       those of PebbleSSD, whose cleaners never rest; settings of scripts
//!   pair           an NVM DIMM and an SSD as one range of pages
//! ```
//!
//! A file system's own tests name its subject, and have a table of all these properties
//! ([`whole_suite!`](crate::whole_suite)); what only it promises it tests itself. Everything panics with the
//! seed where a property does not hold.

mod attributes;
mod damage;
mod full;
mod holes;
mod largest;
mod late;
mod model;
mod pair;
mod pools;
mod power;
mod space;
mod still;
mod variants;
mod whole;

pub use attributes::{
    a_refused_access_list_changes_nothing, attributes_survive_power_failures,
    attributes_up_to_the_limit_come_back,
};
pub use damage::{damaged_media_give_errors, look_around, scribbled_images_are_refused_or_reported, walk};
pub use full::{
    a_full_file_system_loses_power_while_attributes_change,
    a_full_file_system_loses_power_while_it_is_emptied, attributes_of_a_full_file_system_can_be_changed,
    every_name_of_a_full_file_system_can_be_taken_away,
};
pub use holes::{
    a_refused_hole_changes_nothing, punched_and_zeroed_ranges_read_as_zeros, reserved_blocks_read_as_zeros,
    reserving_too_much_changes_nothing,
};
pub use largest::{the_end_of_the_largest_file, the_largest_file_is_whole_to_its_last_byte};
pub use late::LateDrive;
pub use model::{
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system, calls_behave_as_the_reference,
    concurrent_calls_have_a_serial_order, threads_on_the_wall_clock_leave_a_sound_file_system, tiny_caches,
};
pub use pair::{Pair, halves};
pub use pools::no_space_is_said_only_where_statfs_says_it;
pub use power::{
    a_power_failure_right_after_fsync_loses_nothing, fail_and_look, what_was_fsynced_survives_power_failures,
    write_all,
};
pub use space::{
    a_full_file_system_can_be_emptied_and_filled_again, a_full_file_system_survives_a_crowd,
    a_large_directory_keeps_every_name, a_large_sparse_file_keeps_every_piece, create, fill,
    listing_survives_changes_in_between,
};
pub use still::{still_files_stay_on_the_wall_clock, still_files_stay_while_readers_are_set_aside};
pub use variants::{Variant, Variants, restless_settings};
pub use whole::Whole;

use crate::reference::Limits;
use granary_device::{Drive, Port, Role};
use granary_fs::{Caller, Cred, FileSystem, Result};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_pmem::{Dimm, DimmConfig};
use granary_sim::{World, WorldConfig};
use granary_units::{Bytes, Nanos, PAGE_SIZE};
use granary_vfs::Process;
use granary_vfs::{Vfs, VfsConfig};
use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// A file system under test: how it is made and mounted.
pub trait Subject: Clone + Send + Sync + 'static {
    /// The file system.
    type Fs: FileSystem + 'static;
    /// Report of the mount on its recovery.
    type Recovery: Copy + Debug + Send + 'static;

    /// Its limits.
    fn limits(&self) -> Limits;

    /// Makes one.
    ///
    /// # Errors
    /// The file system's.
    fn mkfs(&self, port: &Port) -> Result<()>;

    /// Mounts it.
    ///
    /// # Errors
    /// The file system's.
    fn mount(&self, port: Port) -> Result<Arc<Self::Fs>>;

    /// Report of the mount on its recovery.
    fn recovery(fs: &Self::Fs) -> Self::Recovery;

    /// Whether that was nothing: it had been unmounted.
    fn was_clean(recovery: &Self::Recovery) -> bool;

    /// Whether nobody else takes and gives space where it is. Not so of a directory of the host: how much is
    /// free there is the affair of all programs of the host, and is not compared.
    fn has_its_space_alone(&self) -> bool {
        true
    }
}

/// Makes the [`Subject`] of a file system's crate, with the alias `Mounted` and the functions `fresh` and
/// `again`: name of the crate, its file system, largest file in bytes, most links.
///
/// The crate has `MkfsOptions`, `MountOptions`, `Recovery` (with a field `clean`), `mkfs` and `mount`.
#[macro_export]
macro_rules! subject {
    ($fs_crate:ident, $fs:ident, $max_file_size:expr, $max_links:expr) => {
        /// The file system with these options.
        #[derive(Clone, Default)]
        pub struct Subject {
            pub mkfs: $fs_crate::MkfsOptions,
            pub mount: $fs_crate::MountOptions,
        }

        /// One that is mounted.
        pub type Mounted = $crate::suite::Mounted<Subject>;

        impl $crate::suite::Subject for Subject {
            type Fs = $fs_crate::$fs;
            type Recovery = $fs_crate::Recovery;

            fn limits(&self) -> $crate::reference::Limits {
                $crate::reference::Limits { max_file_size: $max_file_size, max_links: $max_links }
            }

            fn mkfs(&self, port: &granary_device::Port) -> $crate::fs::Result<()> {
                $fs_crate::mkfs(port, &self.mkfs)
            }

            fn mount(&self, port: granary_device::Port) -> $crate::fs::Result<std::sync::Arc<Self::Fs>> {
                $fs_crate::mount(port, &self.mount)
            }

            fn recovery(fs: &Self::Fs) -> Self::Recovery {
                fs.recovery()
            }

            fn was_clean(recovery: &Self::Recovery) -> bool {
                recovery.clean
            }
        }

        /// Made and mounted with defaults.
        pub fn fresh(drive: &std::sync::Arc<dyn granary_device::Drive>) -> Mounted {
            Mounted::fresh(&Subject::default(), drive)
        }

        /// Mounted again with defaults.
        pub fn again(drive: &std::sync::Arc<dyn granary_device::Drive>) -> Mounted {
            Mounted::again(&Subject::default(), drive)
        }
    };
}

/// Kinds of a test's devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ssd,
    Bam,
    Dimm,
    Pair,
}

thread_local! {
    static KIND: Cell<Kind> = const { Cell::new(Kind::Ssd) };
}

fn on<T>(kind: Kind, test: impl FnOnce() -> T) -> T {
    struct Back(Kind);
    impl Drop for Back {
        fn drop(&mut self) {
            KIND.set(self.0);
        }
    }
    let _back = Back(KIND.replace(kind));
    test()
}

/// Runs a test whose devices ([`drive`]) are NVM DIMMs: for file systems that a byte window serves as well.
pub fn on_nvm<T>(test: impl FnOnce() -> T) -> T {
    on(Kind::Dimm, test)
}

/// Runs a part of a test whose devices are SSDs, within one where they are something else.
pub fn on_ssd<T>(test: impl FnOnce() -> T) -> T {
    on(Kind::Ssd, test)
}

/// Runs a test whose devices are SSDs with PebbleSSD's commands: for variants that need them.
pub fn on_bam<T>(test: impl FnOnce() -> T) -> T {
    on(Kind::Bam, test)
}

/// Runs a test whose devices are pairs of a DIMM and an SSD ([`Pair`]): for file systems that need both.
pub fn on_pair<T>(test: impl FnOnce() -> T) -> T {
    on(Kind::Pair, test)
}

/// A drive of this size, of the paper's make, in cache mode; within [`on_bam`] with BAM, within [`on_nvm`] an
/// Optane DIMM, within [`on_pair`] both a DIMM and an SSD.
pub fn drive(size: Bytes) -> Arc<dyn Drive> {
    match KIND.get() {
        Kind::Ssd => ssd(size, false),
        Kind::Bam => ssd(size, true),
        Kind::Dimm => dimm(size),
        Kind::Pair => Arc::new(Pair::new(size.0 / PAGE_SIZE as u64, |role, pages| {
            let size = Bytes(pages * PAGE_SIZE as u64);
            if role == Role::Nvm { dimm(size) } else { ssd(size, false) }
        })),
    }
}

/// The same with a volatile cache: it needs FLUSH, which other drives do not get
/// ([`granary_device::Port::flush`]).
pub fn volatile_drive(size: Bytes) -> Arc<dyn Drive> {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    config.flash = config.flash.with_capacity(size);
    config.firmware.volatile_cache = true;
    Arc::new(Mssd::new(&config).expect("a working drive"))
}

fn dimm(size: Bytes) -> Arc<dyn Drive> {
    let config = DimmConfig { caches: Bytes::kib(64), ..DimmConfig::optane_dcpmm() };
    Arc::new(Dimm::new(&config.with_capacity(size)).expect("a DIMM"))
}

fn ssd(size: Bytes, bam: bool) -> Arc<dyn Drive> {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    config.flash = config.flash.with_capacity(size);
    if bam {
        config = config.with_bam();
    }
    Arc::new(Mssd::new(&config).expect("a drive of the paper's make"))
}

/// A port to the drive.
pub fn port(drive: &Arc<dyn Drive>) -> Port {
    Port::new(drive.clone())
}

/// Runs `main` in virtual time.
pub fn run<T: 'static>(main: impl FnOnce() -> T + 'static) -> T {
    World::default().run(main).unwrap_or_else(|stop| panic!("{stop}"))
}

/// Runs `main` in virtual time, with random waits at locks.
pub fn run_jittered<T: 'static>(seed: u64, main: impl FnOnce() -> T + 'static) -> T {
    let world = World::new(WorldConfig { jitter: Nanos(500), seed, ..WorldConfig::default() });
    world.run(main).unwrap_or_else(|stop| panic!("seed {seed}: {stop}"))
}

/// A mounted file system with all its layers.
pub struct Mounted<S: Subject> {
    /// How it was made.
    pub subject: S,
    /// Its drive.
    pub drive: Arc<dyn Drive>,
    /// The file system.
    pub fs: Arc<S::Fs>,
    /// The vfs above it.
    pub vfs: Arc<Vfs>,
}

impl<S: Subject> Mounted<S> {
    /// Makes it and mounts it.
    pub fn fresh(subject: &S, drive: &Arc<dyn Drive>) -> Mounted<S> {
        subject.mkfs(&port(drive)).expect("mkfs");
        Mounted::again(subject, drive)
    }

    /// Mounts what is there.
    pub fn again(subject: &S, drive: &Arc<dyn Drive>) -> Mounted<S> {
        Mounted::with(subject, drive, VfsConfig::default())
    }

    /// Mounts what is there under a vfs of this configuration.
    pub fn with(subject: &S, drive: &Arc<dyn Drive>, config: VfsConfig) -> Mounted<S> {
        let fs = subject.mount(port(drive)).expect("mount");
        let vfs = Vfs::mount(fs.clone(), config).expect("vfs");
        Mounted { subject: subject.clone(), drive: drive.clone(), fs, vfs }
    }

    /// A process of root.
    pub fn process(&self) -> Process {
        Process::new(self.vfs.clone(), Cred::ROOT)
    }

    /// Report of the mount on its recovery.
    pub fn recovery(&self) -> S::Recovery {
        S::recovery(&self.fs)
    }

    /// Whether it had been unmounted before.
    pub fn was_clean(&self) -> bool {
        S::was_clean(&self.recovery())
    }

    /// On the wall clock: waits until flushers, which may just be writing a removed file back, have let go of
    /// it. A fault that is left after that stays, and [`Mounted::check`] says so.
    #[allow(clippy::disallowed_methods)] // threads that nobody paces: only the clock knows how long they were kept from running
    pub fn settle(&self) {
        /// In all 5 s.
        const LOOKS: u32 = 500;
        for _ in 0..LOOKS {
            match self.vfs.sync(&Caller::KERNEL).and_then(|()| self.vfs.check()) {
                Ok(wrong) if wrong.is_empty() => return,
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// [`Mounted::settle`] on the wall clock; in virtual time there is nothing to wait for.
    fn settle_now(&self) {
        if !granary_sim::in_virtual_time() {
            self.settle();
        }
    }

    /// Syncs and checks.
    pub fn check(&self) {
        self.vfs.sync(&Caller::KERNEL).expect("sync");
        let wrong = self.vfs.check().expect("check");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Unmounts; nobody may use it any more.
    pub fn unmount(self) {
        self.vfs.unmount().expect("unmount");
    }

    /// Unmounts, mounts again, and checks that the file system noticed.
    pub fn remounted(self) -> Mounted<S> {
        let (subject, drive) = (self.subject.clone(), self.drive.clone());
        self.unmount();
        let m = Mounted::again(&subject, &drive);
        assert!(m.was_clean(), "after an unmount: {:?}", m.recovery());
        m
    }
}
