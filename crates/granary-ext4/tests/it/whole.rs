//! The shared suite, whole: a property that is forgotten here does not compile.

use crate::common::Subject;
use crate::model::busy;
use crate::power::options;
use granary_ext4::{DataMode, MkfsOptions, MountOptions, Recovery};
use granary_suite::suite;
use granary_units::{Bytes, Nanos};

granary_suite::whole_suite! { suite::on_ssd;
    attributes_survive_power_failures => of Subject::default();
    attributes_up_to_the_limit_come_back => of Subject::default();
    a_refused_access_list_changes_nothing => of Subject::default();
    // Metadata of the first group, where most of it lies.
    scribbled_images_are_refused_or_reported => of Subject::default(), 700;
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
    concurrent_calls_have_a_serial_order => of busy(7);
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system => of busy(7);
    threads_on_the_wall_clock_leave_a_sound_file_system => of busy(7);
    no_space_is_said_only_where_statfs_says_it => of Subject::default();
    what_was_fsynced_survives_power_failures => is {
        for (data, rounds) in [(DataMode::Ordered, 12), (DataMode::Writeback, 6), (DataMode::Journal, 6)] {
            let mkfs = MkfsOptions { journal_size: Some(Bytes::mib(4)), ..MkfsOptions::default() };
            let subject = Subject { mkfs, mount: options(data) };
            let all = suite::what_was_fsynced_survives_power_failures(&subject, rounds);
            assert!(
                all.iter().any(|r| r.transactions > 0) && all.iter().any(|r| r.blocks > 0),
                "nothing was replayed"
            );
            assert!(all.iter().any(|r| r.orphans_freed > 0), "no orphans");
            // A data journal forgets and never revokes.
            assert_eq!(all.iter().any(|r| r.revoked > 0), data != DataMode::Journal, "{data:?}");
        }
    };
    // A journal that is never emptied by a sync is replayed whole.
    a_power_failure_right_after_fsync_loses_nothing => is {
        let looked = |r: &Recovery| assert!(!r.clean && r.transactions == 300, "{r:?}");
        suite::a_power_failure_right_after_fsync_loses_nothing(&Subject::default(), looked);
    };
    a_full_file_system_can_be_emptied_and_filled_again => of Subject::default();
    a_full_file_system_survives_a_crowd => is {
        let mount = MountOptions { commit_interval: Nanos::from_millis(5), ..MountOptions::default() };
        suite::a_full_file_system_survives_a_crowd(&Subject { mount, ..Subject::default() });
    };
    // So large that the index has two levels.
    a_large_directory_keeps_every_name => is {
        let subject = Subject {
            mkfs: MkfsOptions { inode_ratio: Bytes::kib(4), ..MkfsOptions::default() },
            ..Subject::default()
        };
        suite::a_large_directory_keeps_every_name(&subject, 100_000, 507 * 4096);
    };
    listing_survives_changes_in_between => of Subject::default();
    a_large_sparse_file_keeps_every_piece => of Subject::default();
    still_files_stay_while_readers_are_set_aside => of busy(7), Bytes::mib(64), 0..3, |_| ();
}
