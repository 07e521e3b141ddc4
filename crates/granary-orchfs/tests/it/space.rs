//! Space, size and number: full file systems, large directories, large files, reservations, extended attributes.

use crate::common::Subject;
use granary_suite::suite::{self, on_pair};

#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    on_pair(|| suite::a_full_file_system_can_be_emptied_and_filled_again(&Subject::default()));
}

#[test]
fn a_full_file_system_survives_a_crowd() {
    on_pair(|| suite::a_full_file_system_survives_a_crowd(&Subject::default()));
}

#[test]
fn every_name_of_a_full_file_system_can_be_taken_away() {
    on_pair(|| suite::every_name_of_a_full_file_system_can_be_taken_away(&Subject::default()));
}

#[test]
fn attributes_of_a_full_file_system_can_be_changed() {
    on_pair(|| suite::attributes_of_a_full_file_system_can_be_changed(&Subject::default()));
}

#[test]
fn a_large_directory_keeps_every_name() {
    on_pair(|| suite::a_large_directory_keeps_every_name(&Subject::default(), 5_000, 300_000));
}

#[test]
fn listing_survives_changes_in_between() {
    on_pair(|| suite::listing_survives_changes_in_between(&Subject::default()));
}

#[test]
fn a_large_sparse_file_keeps_every_piece() {
    on_pair(|| suite::a_large_sparse_file_keeps_every_piece(&Subject::default()));
}

#[test]
fn the_largest_file_is_whole_to_its_last_byte() {
    on_pair(|| suite::the_largest_file_is_whole_to_its_last_byte(&Subject::default()));
}

#[test]
fn reserved_blocks_read_as_zeros() {
    on_pair(|| suite::reserved_blocks_read_as_zeros(&Subject::default()));
}

#[test]
fn reserving_too_much_changes_nothing() {
    on_pair(|| suite::reserving_too_much_changes_nothing(&Subject::default()));
}

#[test]
fn punched_and_zeroed_ranges_read_as_zeros() {
    on_pair(|| suite::punched_and_zeroed_ranges_read_as_zeros(&Subject::default()));
}

#[test]
fn attributes_up_to_the_limit_come_back() {
    on_pair(|| suite::attributes_up_to_the_limit_come_back(&Subject::default()));
}
