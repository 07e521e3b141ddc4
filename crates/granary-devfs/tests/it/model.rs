//! Random calls behave as on the reference model, with and without a capacitor, on DIMMs.

use crate::common::Subject;
use granary_devfs::{MkfsOptions, MountOptions};
use granary_suite::model::Mix;
use granary_suite::suite::{self, on_nvm};
use granary_units::Bytes;

/// A small log: what is committed waits for what goes home all the time.
pub fn busy(capacitor: bool) -> Subject {
    Subject {
        mkfs: MkfsOptions { journal: Some(Bytes::kib(320)), ..MkfsOptions::default() },
        mount: MountOptions { capacitor, capacitor_bytes: Bytes::kib(64), ..MountOptions::default() },
    }
}

#[test]
fn calls_behave_as_the_reference() {
    for (capacitor, seeds) in [(true, 0..4), (false, 100..102)] {
        on_nvm(|| {
            let subject = busy(capacitor);
            suite::calls_behave_as_the_reference(
                &subject,
                seeds,
                suite::tiny_caches(),
                Mix::default(),
                3_000,
            );
        });
    }
}

#[test]
fn names_behave_as_the_reference() {
    let mix = Mix { names: 10, attrs: 2, data: 1, ..Mix::default() };
    on_nvm(|| {
        suite::calls_behave_as_the_reference(&busy(true), 400..402, suite::tiny_caches(), mix, 3_000);
    });
}

#[test]
fn concurrent_calls_have_a_serial_order() {
    on_nvm(|| suite::concurrent_calls_have_a_serial_order(&busy(true)));
}

#[test]
fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system() {
    on_nvm(|| suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&busy(true)));
}

#[test]
fn still_files_stay_while_readers_are_set_aside() {
    on_nvm(|| suite::still_files_stay_while_readers_are_set_aside(&busy(true), Bytes::mib(64), 0..3, |_| ()));
}

#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    on_nvm(|| suite::threads_on_the_wall_clock_leave_a_sound_file_system(&busy(true)));
}

#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    on_nvm(|| suite::a_full_file_system_can_be_emptied_and_filled_again(&Subject::default()));
}

#[test]
fn no_space_is_said_only_where_statfs_says_it() {
    on_nvm(|| suite::no_space_is_said_only_where_statfs_says_it(&Subject::default()));
}

#[test]
fn a_refused_access_list_changes_nothing() {
    on_nvm(|| suite::a_refused_access_list_changes_nothing(&busy(true)));
}
