//! Every variant with a cleaner that never rests: what is in a file is what was written there.

use crate::common::{Subject, promising};
use granary_nilfs2::{MkfsOptions, MountOptions, Nilfs2};
use granary_suite::model::Mix;
use granary_suite::suite::{self, on_bam};
use granary_units::{Bytes, Nanos};

/// REMAP cleaning, fsync by FS_WRITE: plain, `-remap`, `-fswrite`, `-pebble`.
const VARIANTS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

/// Nothing dead is protected, and there are never segments enough.
fn restless((remap_cleaning, fs_write_fsync): (bool, bool)) -> Subject {
    Subject {
        mkfs: MkfsOptions { segment_blocks: Some(64), ..MkfsOptions::default() },
        mount: MountOptions {
            remap_cleaning,
            fs_write_fsync,
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

/// The cleaner moved something, by what the variant has for it.
fn cleaned(fs: &Nilfs2) {
    let (stats, remaps) = (fs.stats(), fs.options().remap_cleaning);
    let moved = if remaps { stats.remapped } else { stats.copied };
    assert!(stats.cleaned > 3 && moved > 50, "{stats:?}");
}

#[test]
fn still_files_stay_while_readers_are_set_aside() {
    for variant in VARIANTS {
        on_bam(|| {
            suite::still_files_stay_while_readers_are_set_aside(
                &restless(variant),
                Bytes::mib(48),
                0..2,
                cleaned,
            );
        });
    }
}

#[test]
fn still_files_stay_on_the_wall_clock() {
    for variant in VARIANTS {
        on_bam(|| {
            suite::still_files_stay_on_the_wall_clock(&restless(variant), Bytes::mib(48), 2_000, cleaned);
        });
    }
}

#[test]
fn calls_behave_as_the_reference() {
    for variant in &VARIANTS[1..] {
        on_bam(|| {
            let subject = restless(*variant);
            suite::calls_behave_as_the_reference(&subject, 0..2, suite::tiny_caches(), Mix::default(), 1_500);
        });
    }
}

#[test]
fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system() {
    for variant in &VARIANTS[1..] {
        on_bam(|| suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&restless(*variant)));
    }
}

#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    for variant in &VARIANTS[1..] {
        on_bam(|| suite::threads_on_the_wall_clock_leave_a_sound_file_system(&restless(*variant)));
    }
}
