//! The shared suite, whole: a property that is forgotten here does not compile.

use crate::common::{Subject, promising};
use crate::model::busy;
use granary_nilfs2::MkfsOptions;
use granary_suite::suite;
use granary_units::Bytes;

granary_suite::whole_suite! { suite::on_ssd;
    attributes_survive_power_failures => lacks "it has no extended attributes";
    attributes_up_to_the_limit_come_back => lacks "it has no extended attributes";
    a_refused_access_list_changes_nothing => of busy();
    scribbled_images_are_refused_or_reported => of promising(), 2048;
    damaged_media_give_errors => of promising(), 256;
    every_name_of_a_full_file_system_can_be_taken_away => of promising();
    a_full_file_system_loses_power_while_it_is_emptied => of promising(), 5;
    attributes_of_a_full_file_system_can_be_changed => of promising();
    a_full_file_system_loses_power_while_attributes_change => of promising(), 5;
    reserved_blocks_read_as_zeros => lacks "it has no fallocate";
    reserving_too_much_changes_nothing => lacks "it has no fallocate";
    punched_and_zeroed_ranges_read_as_zeros => lacks "it has no fallocate";
    a_refused_hole_changes_nothing => lacks "it has no fallocate";
    the_largest_file_is_whole_to_its_last_byte => of promising();
    concurrent_calls_have_a_serial_order => of busy();
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system => of busy();
    threads_on_the_wall_clock_leave_a_sound_file_system => of busy();
    // "No space" is said only where nothing is available, and removed space is there for others.
    no_space_is_said_only_where_statfs_says_it => of promising();
    what_was_fsynced_survives_power_failures => is {
        let all = suite::what_was_fsynced_survives_power_failures(&crate::power::busy(), 8);
        assert!(all.iter().any(|r| r.logs > 0) && all.iter().any(|r| r.orphans > 0), "{all:?}");
    };
    a_power_failure_right_after_fsync_loses_nothing => of promising(), |r| assert!(!r.clean, "{r:?}");
    a_full_file_system_can_be_emptied_and_filled_again => of promising();
    a_full_file_system_survives_a_crowd => is {
        // So small that some of the writes find nothing from their first page on.
        let mkfs = MkfsOptions { size: Some(Bytes::mib(24)), ..MkfsOptions::default() };
        suite::a_full_file_system_survives_a_crowd(&Subject { mkfs, ..promising() });
    };
    a_large_directory_keeps_every_name => of promising(), 20_000, 250 * 4096;
    listing_survives_changes_in_between => of promising();
    a_large_sparse_file_keeps_every_piece => of promising();
    still_files_stay_while_readers_are_set_aside => of promising(), Bytes::mib(64), 0..1, |_| ();
}
