//! Random calls behave as on the reference model, across remounts, with small caches and under many
//! schedules.

use crate::common::Subject;
use granary_ext4::{DataMode, MkfsOptions, MountOptions};
use granary_suite::model::Mix;
use granary_suite::suite;
use granary_units::{Bytes, Nanos};
use granary_vfs::VfsConfig;

/// A journal that is full all the time, and timers that go off all the time.
pub fn busy(seed: u64) -> Subject {
    Subject {
        mkfs: MkfsOptions { journal_size: Some(Bytes::mib(4)), hash_seed: seed, ..MkfsOptions::default() },
        mount: MountOptions {
            commit_interval: Nanos::from_millis(2),
            dirty_expire: Nanos::from_millis(3),
            writeback_interval: Nanos::from_millis(1),
            metadata_cache: Bytes::kib(64),
            cpus: 3,
            ..MountOptions::default()
        },
    }
}

/// The same in another mode.
fn mode(seed: u64, data: DataMode) -> Subject {
    let subject = busy(seed);
    Subject { mount: MountOptions { data, ..subject.mount }, ..subject }
}

#[test]
fn calls_behave_as_the_reference_in_every_mode() {
    for data in [DataMode::Writeback, DataMode::Journal] {
        let many = Mix::default();
        suite::calls_behave_as_the_reference(&mode(9, data), 10..14, suite::tiny_caches(), many, 3_000);
        let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
        let config = VfsConfig { page_cache: Bytes::kib(512), ..suite::tiny_caches() };
        suite::calls_behave_as_the_reference(&mode(7, data), 310..311, config, mix, 600);
    }
}

#[test]
fn concurrent_calls_have_a_serial_order_in_every_mode() {
    suite::concurrent_calls_have_a_serial_order(&mode(7, DataMode::Writeback));
    suite::concurrent_calls_have_a_serial_order(&mode(7, DataMode::Journal));
}

#[test]
fn any_calls_of_64_tasks_end_in_every_mode() {
    suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&mode(7, DataMode::Writeback));
    suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&mode(7, DataMode::Journal));
}

#[test]
fn calls_behave_as_the_reference_with_tiny_caches() {
    suite::calls_behave_as_the_reference(&busy(7), 0..6, suite::tiny_caches(), Mix::default(), 3_000);
}

#[test]
fn calls_behave_as_the_reference_with_large_caches() {
    let subject = Subject { mount: MountOptions::default(), ..busy(8) };
    suite::calls_behave_as_the_reference(&subject, 100..104, VfsConfig::default(), Mix::default(), 4_000);
}

#[test]
fn long_sparse_files_behave_as_the_reference() {
    let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
    let config = VfsConfig { page_cache: Bytes::kib(512), ..suite::tiny_caches() };
    suite::calls_behave_as_the_reference(&busy(7), 300..302, config, mix, 600);
}

#[test]
fn names_behave_as_the_reference() {
    let mix = Mix { names: 10, attrs: 2, data: 1, ..Mix::default() };
    suite::calls_behave_as_the_reference(&busy(7), 400..404, suite::tiny_caches(), mix, 4_000);
}

#[test]
fn attributes_behave_as_the_reference() {
    let mix = Mix { names: 2, attrs: 12, data: 2, ..Mix::default() };
    suite::calls_behave_as_the_reference(&busy(7), 500..503, suite::tiny_caches(), mix, 4_000);
}
