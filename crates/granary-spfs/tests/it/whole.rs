//! The shared suite, whole: a property that is forgotten here does not compile.

use crate::common::Stack;
use granary_spfs::exthash::Form;
use granary_suite::suite;
use granary_units::{Bytes, Nanos};

fn busy() -> Stack {
    Stack::busy(Form::Carved)
}

/// Over a file system that can be full of data.
fn ends() -> Stack {
    let mut stack = busy();
    stack.ends = true;
    stack
}

granary_suite::whole_suite! { suite::on_nvm;
    attributes_survive_power_failures => of busy();
    attributes_up_to_the_limit_come_back => lacks "attributes are kept below, in memory, where any number of them fits";
    a_refused_access_list_changes_nothing => lacks "attributes are kept below, in memory, where any number of them fits";
    scribbled_images_are_refused_or_reported => of busy(), 2048;
    damaged_media_give_errors => of busy(), 4096;
    every_name_of_a_full_file_system_can_be_taken_away => lacks "names are kept below, in memory, where they take no space; full.rs fills both";
    a_full_file_system_loses_power_while_it_is_emptied => lacks "names are kept below, in memory, where they take no space; full.rs fills both";
    attributes_of_a_full_file_system_can_be_changed => lacks "names are kept below, in memory, where they take no space; full.rs fills both";
    a_full_file_system_loses_power_while_attributes_change => lacks "names are kept below, in memory, where they take no space; full.rs fills both";
    reserved_blocks_read_as_zeros => of busy();
    reserving_too_much_changes_nothing => of ends();
    punched_and_zeroed_ranges_read_as_zeros => of busy();
    a_refused_hole_changes_nothing => of ends();
    the_largest_file_is_whole_to_its_last_byte => of busy();
    concurrent_calls_have_a_serial_order => of busy();
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system => of Stack::busy(Form::Pointers);
    threads_on_the_wall_clock_leave_a_sound_file_system => is {
        let mut stack = busy();
        stack.mount.tick = Nanos::from_millis(1);
        suite::threads_on_the_wall_clock_leave_a_sound_file_system(&stack);
    };
    no_space_is_said_only_where_statfs_says_it => lacks "names are kept below, in memory, where they take no space; full.rs fills both";
    what_was_fsynced_survives_power_failures => lacks "the file system below is in memory and recovers nothing; power.rs has ext4 there";
    a_power_failure_right_after_fsync_loses_nothing => of busy(), |_| ();
    a_full_file_system_can_be_emptied_and_filled_again => lacks "names are kept below, in memory, where they take no space; full.rs fills both";
    a_full_file_system_survives_a_crowd => of ends();
    a_large_directory_keeps_every_name => of busy(), 5_000, 0;
    listing_survives_changes_in_between => of busy();
    a_large_sparse_file_keeps_every_piece => of busy();
    still_files_stay_while_readers_are_set_aside => of busy(), Bytes::mib(64), 0..3, |_| ();
}
