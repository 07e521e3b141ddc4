//! [`whole_suite!`](crate::whole_suite): all properties of the suite for one file system, none forgotten.

/// The properties, a field for each: a table that forgets one does not compile.
macro_rules! properties {
    ($($name:ident),+ $(,)?) => {
        /// How a file system has each property of the suite: `of`, `is` or `lacks`.
        #[derive(Clone, Copy, Debug)]
        pub struct Whole {
            $(
                #[doc = concat!("See [`", stringify!($name), "`](super::", stringify!($name), ").")]
                pub $name: &'static str,
            )+
        }
    };
}

properties!(
    attributes_survive_power_failures,
    attributes_up_to_the_limit_come_back,
    a_refused_access_list_changes_nothing,
    scribbled_images_are_refused_or_reported,
    damaged_media_give_errors,
    every_name_of_a_full_file_system_can_be_taken_away,
    a_full_file_system_loses_power_while_it_is_emptied,
    attributes_of_a_full_file_system_can_be_changed,
    a_full_file_system_loses_power_while_attributes_change,
    reserved_blocks_read_as_zeros,
    reserving_too_much_changes_nothing,
    punched_and_zeroed_ranges_read_as_zeros,
    a_refused_hole_changes_nothing,
    the_largest_file_is_whole_to_its_last_byte,
    concurrent_calls_have_a_serial_order,
    any_calls_of_64_tasks_end_and_leave_a_sound_file_system,
    threads_on_the_wall_clock_leave_a_sound_file_system,
    no_space_is_said_only_where_statfs_says_it,
    what_was_fsynced_survives_power_failures,
    a_power_failure_right_after_fsync_loses_nothing,
    a_full_file_system_can_be_emptied_and_filled_again,
    a_full_file_system_survives_a_crowd,
    a_large_directory_keeps_every_name,
    listing_survives_changes_in_between,
    a_large_sparse_file_keeps_every_piece,
    still_files_stay_while_readers_are_set_aside,
);

/// Makes a test of each property of the suite for one file system. First what its devices are
/// (`suite::on_ssd`, `on_nvm`, `on_pair`), then for every property one of
///
/// ```text
///   PROPERTY => of SUBJECT, MORE ARGUMENTS;     the suite's function, called with these
///   PROPERTY => is { ... };                     more than one call of it, or a look at what it returns
///   PROPERTY => lacks "why";                    no test
/// ```
#[macro_export]
macro_rules! whole_suite {
    ($devices:path; $($name:ident => $how:ident $($what:expr),+;)+) => {
        $($crate::whole_suite_test!($devices; $name $how $($what),+);)+

        const _: $crate::suite::Whole = $crate::suite::Whole { $($name: stringify!($how)),+ };
    };
}

/// One test of [`whole_suite!`](crate::whole_suite).
#[doc(hidden)]
#[macro_export]
macro_rules! whole_suite_test {
    ($devices:path; $name:ident of $subject:expr $(, $more:expr)*) => {
        #[test]
        fn $name() {
            let _ = $devices(|| $crate::suite::$name(&$subject $(, $more)*));
        }
    };
    ($devices:path; $name:ident is $body:expr) => {
        #[test]
        fn $name() {
            $devices(|| $body);
        }
    };
    ($devices:path; $name:ident lacks $why:literal) => {};
}
