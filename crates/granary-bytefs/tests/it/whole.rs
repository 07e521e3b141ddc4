//! The shared suite, whole: a property that is forgotten here does not compile.

use crate::common::Subject;
use granary_bytefs::MountOptions;
use granary_suite::suite;
use granary_units::{Bytes, Nanos};

/// Little memory for metadata, and transactions that are committed often.
fn busy() -> Subject {
    let subject = Subject::default();
    let mount = MountOptions {
        metadata_cache: Bytes::kib(64),
        commit_interval: Nanos::from_millis(1),
        ..subject.mount
    };
    Subject { mount, ..subject }
}

granary_suite::whole_suite! { suite::on_ssd;
    attributes_survive_power_failures => of Subject::default();
    attributes_up_to_the_limit_come_back => of Subject::default();
    a_refused_access_list_changes_nothing => of Subject::default();
    scribbled_images_are_refused_or_reported => of Subject::default(), 2048;
    damaged_media_give_errors => of Subject::default(), 4096;
    every_name_of_a_full_file_system_can_be_taken_away => of Subject::default();
    a_full_file_system_loses_power_while_it_is_emptied => of Subject::default(), 3;
    attributes_of_a_full_file_system_can_be_changed => of Subject::default();
    a_full_file_system_loses_power_while_attributes_change => of Subject::default(), 3;
    reserved_blocks_read_as_zeros => of Subject::default();
    reserving_too_much_changes_nothing => of Subject::default();
    punched_and_zeroed_ranges_read_as_zeros => of Subject::default();
    a_refused_hole_changes_nothing => of Subject::default();
    the_largest_file_is_whole_to_its_last_byte => of Subject::default();
    concurrent_calls_have_a_serial_order => of busy();
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system => of busy();
    threads_on_the_wall_clock_leave_a_sound_file_system => of busy();
    no_space_is_said_only_where_statfs_says_it => of Subject::default();
    what_was_fsynced_survives_power_failures => is {
        let all = suite::what_was_fsynced_survives_power_failures(&Subject::default(), 4);
        assert!(all.iter().any(|r| !r.clean && r.groups > 0), "nothing was recovered: {all:?}");
    };
    a_power_failure_right_after_fsync_loses_nothing => of Subject::default(), |r| assert!(!r.clean, "{r:?}");
    a_full_file_system_can_be_emptied_and_filled_again => of Subject::default();
    a_full_file_system_survives_a_crowd => of busy();
    a_large_directory_keeps_every_name => of Subject::default(), 5_000, 300_000;
    listing_survives_changes_in_between => of Subject::default();
    a_large_sparse_file_keeps_every_piece => of Subject::default();
    still_files_stay_while_readers_are_set_aside => of busy(), Bytes::mib(64), 0..3, |_| ();
}
