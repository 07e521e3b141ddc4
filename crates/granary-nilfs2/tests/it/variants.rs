//! Every variant with a cleaner that never rests: each file has the content that was written.

use crate::common::{Subject, promising};
use granary_nilfs2::{MkfsOptions, MountOptions, NILFS2_FSWRITE, NILFS2_PEBBLE, NILFS2_REMAP, Nilfs2};
use granary_suite::suite::{Variant, Variants};
use granary_units::{Bytes, Nanos};

const VARIANTS: Variants<Subject> = Variants {
    subject: restless,
    drive: Bytes::mib(48),
    cleaned,
    entries: [&NILFS2_REMAP, &NILFS2_FSWRITE, &NILFS2_PEBBLE],
};

/// Nothing dead is protected, and there are never segments enough.
fn restless(variant: Variant) -> Subject {
    Subject {
        mkfs: MkfsOptions { segment_blocks: Some(64), ..MkfsOptions::default() },
        mount: MountOptions {
            remap_cleaning: variant.remaps,
            fs_write_fsync: variant.fs_writes,
            log_interval: Nanos::from_millis(1),
            super_interval: Nanos::from_millis(2),
            cleaning_interval: (Nanos::from_millis(1), Nanos::from_micros(300)),
            min_clean_segments: 95,
            max_clean_segments: 99,
            segments_per_clean: (1, 2),
            watermark: 80,
            metadata_cache: Bytes::kib(192),
            ..promising().mount
        },
    }
}

/// The cleaner moved something, in the variant's own way.
fn cleaned(fs: &Nilfs2) {
    let (stats, remaps) = (fs.stats(), fs.options().remap_cleaning);
    let moved = if remaps { stats.remapped } else { stats.copied };
    assert!(stats.cleaned > 3 && moved > 50, "{stats:?}");
}

#[test]
fn still_files_stay_while_readers_are_set_aside() {
    VARIANTS.still_files_stay_while_readers_are_set_aside();
}

#[test]
fn still_files_stay_on_the_wall_clock() {
    VARIANTS.still_files_stay_on_the_wall_clock();
}

#[test]
fn calls_behave_as_the_reference() {
    VARIANTS.calls_behave_as_the_reference();
}

#[test]
fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system() {
    VARIANTS.any_calls_of_64_tasks_end_and_leave_a_sound_file_system();
}

#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    VARIANTS.threads_on_the_wall_clock_leave_a_sound_file_system();
}

#[test]
fn settings_of_scripts_are_known_and_work() {
    VARIANTS.settings_of_scripts_are_known_and_work();
}
