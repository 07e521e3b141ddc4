//! The same on an NVM DIMM, which a power failure may leave with any words of what no fence covered.

use crate::common::Subject;
use granary_nova::MkfsOptions;
use granary_suite::model::Mix;
use granary_suite::suite::{self, on_nvm};

fn busy() -> Subject {
    Subject { mkfs: MkfsOptions { cpus: 3, ..MkfsOptions::default() }, ..Subject::default() }
}

#[test]
fn calls_behave_as_the_reference() {
    on_nvm(|| {
        suite::calls_behave_as_the_reference(&busy(), 600..603, suite::tiny_caches(), Mix::default(), 3_000);
    });
}

#[test]
fn concurrent_calls_have_a_serial_order() {
    on_nvm(|| suite::concurrent_calls_have_a_serial_order(&busy()));
}

#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    on_nvm(|| suite::threads_on_the_wall_clock_leave_a_sound_file_system(&busy()));
}

#[test]
fn what_was_fsynced_survives_power_failures_at_any_instant() {
    let all = on_nvm(|| suite::what_was_fsynced_survives_power_failures(&Subject::default(), 2));
    assert!(all.iter().any(|r| !r.clean && r.inodes > 0), "nothing was recovered: {all:?}");
}

#[test]
fn a_full_file_system_loses_power_while_it_is_emptied() {
    on_nvm(|| suite::a_full_file_system_loses_power_while_it_is_emptied(&Subject::default(), 3));
}

#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    on_nvm(|| suite::a_full_file_system_can_be_emptied_and_filled_again(&Subject::default()));
}

#[test]
fn a_full_file_system_loses_power_while_attributes_change() {
    on_nvm(|| suite::a_full_file_system_loses_power_while_attributes_change(&Subject::default(), 4));
}
