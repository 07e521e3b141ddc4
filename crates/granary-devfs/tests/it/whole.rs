//! The shared suite, whole: a property that is forgotten here does not compile.

use crate::common::Subject;
use crate::model::busy;
use granary_suite::suite::{self, on_nvm};
use granary_units::Bytes;

granary_suite::whole_suite! { suite::on_nvm;
    attributes_survive_power_failures => lacks "it has no extended attributes";
    attributes_up_to_the_limit_come_back => lacks "it has no extended attributes";
    a_refused_access_list_changes_nothing => of busy(true);
    scribbled_images_are_refused_or_reported => of busy(true), 2048;
    damaged_media_give_errors => of busy(true), 4096;
    every_name_of_a_full_file_system_can_be_taken_away => of busy(true);
    a_full_file_system_loses_power_while_it_is_emptied => is {
        for capacitor in [true, false] {
            on_nvm(|| suite::a_full_file_system_loses_power_while_it_is_emptied(&busy(capacitor), 3));
        }
    };
    attributes_of_a_full_file_system_can_be_changed => of busy(true);
    a_full_file_system_loses_power_while_attributes_change => of busy(true), 3;
    reserved_blocks_read_as_zeros => of busy(true);
    reserving_too_much_changes_nothing => of busy(true);
    punched_and_zeroed_ranges_read_as_zeros => lacks "its fallocate reserves, and nothing else";
    a_refused_hole_changes_nothing => lacks "its fallocate reserves, and nothing else";
    the_largest_file_is_whole_to_its_last_byte => of busy(true);
    concurrent_calls_have_a_serial_order => of busy(true);
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system => of busy(true);
    threads_on_the_wall_clock_leave_a_sound_file_system => of busy(true);
    no_space_is_said_only_where_statfs_says_it => of Subject::default();
    what_was_fsynced_survives_power_failures => is {
        for capacitor in [true, false] {
            let all = on_nvm(|| suite::what_was_fsynced_survives_power_failures(&busy(capacitor), 2));
            assert!(all.iter().any(|r| !r.clean && r.inodes > 0), "nothing was recovered: {all:?}");
        }
    };
    a_power_failure_right_after_fsync_loses_nothing => of busy(true), |_| ();
    a_full_file_system_can_be_emptied_and_filled_again => of Subject::default();
    a_full_file_system_survives_a_crowd => of busy(true);
    a_large_directory_keeps_every_name => of busy(true), 8_000, 400_000;
    listing_survives_changes_in_between => of busy(true);
    a_large_sparse_file_keeps_every_piece => of busy(true);
    still_files_stay_while_readers_are_set_aside => of busy(true), Bytes::mib(64), 0..3, |_| ();
}
