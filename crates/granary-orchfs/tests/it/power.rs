//! Power failures at random instants on both devices: what fsync promised is there, everything is sound, work goes on. The large
//! counts are the crash explorer's.

use crate::common::{Subject, busy, migrating};
use granary_suite::suite::{self, on_pair};

#[test]
fn what_was_fsynced_survives_power_failures_at_any_instant() {
    let all = on_pair(|| suite::what_was_fsynced_survives_power_failures(&busy(), 1));
    assert!(all.iter().any(|r| !r.clean && r.records > 0), "nothing was recovered: {all:?}");
}

#[test]
fn a_power_failure_right_after_fsync_loses_nothing() {
    on_pair(|| {
        suite::a_power_failure_right_after_fsync_loses_nothing(&Subject::default(), |r| assert!(!r.clean))
    });
}

#[test]
fn attributes_survive_power_failures() {
    on_pair(|| suite::attributes_survive_power_failures(&busy()));
}

#[test]
fn a_full_file_system_loses_power_while_attributes_change() {
    on_pair(|| suite::a_full_file_system_loses_power_while_attributes_change(&busy(), 2));
}

#[test]
fn a_full_file_system_loses_power_while_it_is_emptied() {
    on_pair(|| suite::a_full_file_system_loses_power_while_it_is_emptied(&busy(), 3));
}

#[test]
fn what_was_fsynced_survives_power_failures_while_blocks_migrate() {
    let all = on_pair(|| suite::what_was_fsynced_survives_power_failures(&migrating(), 1));
    assert!(all.iter().any(|r| !r.clean && r.records > 0), "nothing was recovered: {all:?}");
}
