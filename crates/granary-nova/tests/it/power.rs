//! Power failures at random instants: what fsync promised is there, everything is sound, work goes on. The large counts
//! are the crash explorer's.

use crate::common::Subject;
use granary_suite::suite;

#[test]
fn what_was_fsynced_survives_power_failures_at_any_instant() {
    let all = suite::what_was_fsynced_survives_power_failures(&Subject::default(), 4);
    assert!(all.iter().any(|r| !r.clean && r.inodes > 0), "nothing was recovered: {all:?}");
}

#[test]
fn a_full_file_system_loses_power_while_attributes_change() {
    suite::a_full_file_system_loses_power_while_attributes_change(&Subject::default(), 40);
}

#[test]
fn a_full_file_system_loses_power_while_it_is_emptied() {
    suite::a_full_file_system_loses_power_while_it_is_emptied(&Subject::default(), 8);
}
