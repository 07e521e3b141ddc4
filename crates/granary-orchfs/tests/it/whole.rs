//! The shared suite, whole: a property that is forgotten here does not compile.

use crate::common::{Subject, busy};
use crate::space::phfs;
use granary_orchfs::{DataAtomicity, MountOptions, Partition};
use granary_suite::suite::{self, on_pair};
use granary_units::Bytes;

granary_suite::whole_suite! { suite::on_pair;
    attributes_survive_power_failures => of busy();
    attributes_up_to_the_limit_come_back => of Subject::default();
    a_refused_access_list_changes_nothing => of Subject::default();
    scribbled_images_are_refused_or_reported => is {
        // Superblock, slots, journals and the first inodes and nodes.
        on_pair(|| suite::scribbled_images_are_refused_or_reported(&Subject::default(), 400));
    };
    damaged_media_give_errors => of Subject::default(), 4096;
    every_name_of_a_full_file_system_can_be_taken_away => of Subject::default();
    a_full_file_system_loses_power_while_it_is_emptied => of busy(), 3;
    attributes_of_a_full_file_system_can_be_changed => of Subject::default();
    a_full_file_system_loses_power_while_attributes_change => of busy(), 2;
    reserved_blocks_read_as_zeros => of Subject::default();
    reserving_too_much_changes_nothing => of Subject::default();
    punched_and_zeroed_ranges_read_as_zeros => of Subject::default();
    a_refused_hole_changes_nothing => is {
        for data_atomicity in [DataAtomicity::None, DataAtomicity::Undo, DataAtomicity::Redo] {
            for partition in [Partition::Orchfs, Partition::Phfs] {
                let mount = MountOptions { data_atomicity, partition, ..MountOptions::default() };
                on_pair(|| suite::a_refused_hole_changes_nothing(&Subject { mount, ..Subject::default() }));
            }
        }
    };
    the_largest_file_is_whole_to_its_last_byte => of Subject::default();
    concurrent_calls_have_a_serial_order => of busy();
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system => of busy();
    threads_on_the_wall_clock_leave_a_sound_file_system => of busy();
    no_space_is_said_only_where_statfs_says_it => is {
        for subject in [Subject::default(), phfs()] {
            on_pair(|| suite::no_space_is_said_only_where_statfs_says_it(&subject));
        }
    };
    what_was_fsynced_survives_power_failures => is {
        let all = on_pair(|| suite::what_was_fsynced_survives_power_failures(&busy(), 1));
        assert!(all.iter().any(|r| !r.clean && r.records > 0), "nothing was recovered: {all:?}");
    };
    a_power_failure_right_after_fsync_loses_nothing => of Subject::default(), |r| assert!(!r.clean);
    a_full_file_system_can_be_emptied_and_filled_again => of Subject::default();
    a_full_file_system_survives_a_crowd => of Subject::default();
    a_large_directory_keeps_every_name => of Subject::default(), 5_000, 300_000;
    listing_survives_changes_in_between => of Subject::default();
    a_large_sparse_file_keeps_every_piece => of Subject::default();
    still_files_stay_while_readers_are_set_aside => of busy(), Bytes::mib(64), 0..1, |_| ();
}
