//! Space, size and number: full file systems, large directories, large files, reservations, damaged media.

use crate::common::Subject;
use granary_suite::suite;

#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    suite::a_full_file_system_can_be_emptied_and_filled_again(&Subject::default());
}

#[test]
fn every_name_of_a_full_file_system_can_be_taken_away() {
    suite::every_name_of_a_full_file_system_can_be_taken_away(&Subject::default());
}

#[test]
fn a_full_file_system_survives_a_crowd() {
    suite::a_full_file_system_survives_a_crowd(&Subject::default());
}

#[test]
fn a_large_directory_keeps_every_name() {
    suite::a_large_directory_keeps_every_name(&Subject::default(), 8_000, 400_000);
}

#[test]
fn listing_survives_changes_in_between() {
    suite::listing_survives_changes_in_between(&Subject::default());
}

#[test]
fn a_large_sparse_file_keeps_every_piece() {
    suite::a_large_sparse_file_keeps_every_piece(&Subject::default());
}

#[test]
fn reserved_blocks_read_as_zeros() {
    suite::reserved_blocks_read_as_zeros(&Subject::default());
}

#[test]
fn reserving_too_much_changes_nothing() {
    suite::reserving_too_much_changes_nothing(&Subject::default());
}

#[test]
fn damaged_media_give_errors() {
    suite::damaged_media_give_errors(&Subject::default(), 4096);
}

#[test]
fn the_largest_file_is_whole_to_its_last_byte() {
    suite::the_largest_file_is_whole_to_its_last_byte(&Subject::default());
}

#[test]
fn attributes_of_a_full_file_system_can_be_changed() {
    suite::attributes_of_a_full_file_system_can_be_changed(&Subject::default());
}

#[test]
fn no_space_is_said_only_where_statfs_says_it() {
    suite::no_space_is_said_only_where_statfs_says_it(&Subject::default());
}
