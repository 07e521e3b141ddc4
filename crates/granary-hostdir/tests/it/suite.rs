//! The suite that every file system must pass. The host's calls take no virtual time, so schedules differ by
//! the vfs's locks only.
//!
//! The host's file system decides a few things that the suite does not compare: sizes of directories, time
//! stamps; and, since it is everybody's, how much space is free. The host's limits are not met here. As the
//! suite makes devices and files of other users, it needs to be the superuser's.

use granary_device::Port;
use granary_fs::{FsError, Result};
use granary_hostdir::HostDir;
use granary_suite::model::Mix;
use granary_suite::reference::Limits;
use granary_suite::suite::{self, tiny_caches};
use granary_units::Bytes;
use granary_vfs::VfsConfig;
use parking_lot::Mutex;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tempfile::TempDir;

/// A directory that is there from one mount to the next.
#[derive(Clone, Default)]
struct Subject(Arc<Mutex<Option<TempDir>>>);

impl suite::Subject for Subject {
    type Fs = HostDir;
    type Recovery = ();

    fn limits(&self) -> Limits {
        Limits { max_file_size: i64::MAX as u64, max_links: 1000 }
    }

    fn mkfs(&self, _: &Port) -> Result<()> {
        let dir = TempDir::new().expect("a directory");
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("chmod");
        *self.0.lock() = Some(dir);
        Ok(())
    }

    fn mount(&self, _: Port) -> Result<Arc<HostDir>> {
        let dir = self.0.lock();
        let path = dir.as_ref().ok_or(FsError::NoEntry)?.path();
        Ok(Arc::new(HostDir::open(path)?))
    }

    fn recovery(_: &HostDir) {}

    fn was_clean((): &()) -> bool {
        true
    }

    fn has_its_space_alone(&self) -> bool {
        false
    }
}

/// Whether the tests can be made, which others than the superuser cannot.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        granary_suite::skip::skipped("only root can give files away and make devices");
    }
    root
}

#[test]
fn calls_behave_as_the_reference() {
    if is_root() {
        let subject = Subject::default();
        suite::calls_behave_as_the_reference(&subject, 0..6, tiny_caches(), Mix::default(), 3_000);
        suite::calls_behave_as_the_reference(&subject, 6..10, VfsConfig::default(), Mix::default(), 3_000);
        let names = Mix { names: 10, attrs: 10, data: 1, ..Mix::default() };
        suite::calls_behave_as_the_reference(&subject, 10..14, tiny_caches(), names, 3_000);
        let sparse = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
        suite::calls_behave_as_the_reference(&subject, 14..16, tiny_caches(), sparse, 600);
    }
}

/// Runs a test where it can be made.
fn as_root(test: impl FnOnce()) {
    if is_root() {
        test();
    }
}

granary_suite::whole_suite! { as_root;
    attributes_survive_power_failures => lacks "the host keeps its power";
    attributes_up_to_the_limit_come_back => lacks "the host's space is everybody's: what attributes take of it cannot be seen";
    a_refused_access_list_changes_nothing => lacks "times are the host's, which stamps what is set and set back";
    scribbled_images_are_refused_or_reported => lacks "the media are the host's";
    damaged_media_give_errors => lacks "the media are the host's";
    every_name_of_a_full_file_system_can_be_taken_away => lacks "the host's space is everybody's: nobody fills it";
    a_full_file_system_loses_power_while_it_is_emptied => lacks "the host keeps its power";
    attributes_of_a_full_file_system_can_be_changed => lacks "the host's space is everybody's: nobody fills it";
    a_full_file_system_loses_power_while_attributes_change => lacks "the host keeps its power";
    reserved_blocks_read_as_zeros => of Subject::default();
    reserving_too_much_changes_nothing => lacks "the host's space is everybody's: nobody fills it";
    punched_and_zeroed_ranges_read_as_zeros => is {
        let file = tempfile::tempfile().expect("a file");
        if rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::ZERO_RANGE, 0, 1).is_ok() {
            suite::punched_and_zeroed_ranges_read_as_zeros(&Subject::default());
        } else {
            granary_suite::skip::skipped("the host's file system for temporary files cannot zero a range");
        }
    };
    a_refused_hole_changes_nothing => lacks "the host's space is everybody's: nobody fills it";
    the_largest_file_is_whole_to_its_last_byte => lacks "how large a file can be is the host's affair";
    concurrent_calls_have_a_serial_order => of Subject::default();
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system => of Subject::default();
    threads_on_the_wall_clock_leave_a_sound_file_system => of Subject::default();
    no_space_is_said_only_where_statfs_says_it => lacks "the host's space is everybody's: nobody fills it";
    what_was_fsynced_survives_power_failures => lacks "the host keeps its power";
    a_power_failure_right_after_fsync_loses_nothing => lacks "the host keeps its power";
    a_full_file_system_can_be_emptied_and_filled_again => lacks "the host's space is everybody's: nobody fills it";
    a_full_file_system_survives_a_crowd => lacks "the host's space is everybody's: nobody fills it";
    a_large_directory_keeps_every_name => of Subject::default(), 5_000, 0;
    listing_survives_changes_in_between => of Subject::default();
    a_large_sparse_file_keeps_every_piece => of Subject::default();
    still_files_stay_while_readers_are_set_aside => of Subject::default(), Bytes::mib(64), 0..1, |_| ();
}
