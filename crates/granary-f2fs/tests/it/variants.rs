//! Every variant on a drive so small that there is cleaning all the time: what is in a file is what was written there.

use crate::common::Subject;
use granary_f2fs::{F2fs, InPlace, MkfsOptions, MountOptions};
use granary_suite::model::Mix;
use granary_suite::suite::{self, on_bam};
use granary_units::{Bytes, Nanos};

/// REMAP cleaning, fsync by FS_WRITE: plain, `-remap`, `-fswrite`, `-pebble`.
const VARIANTS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];
/// Of the file system: half of it is in use.
const SIZE: Bytes = Bytes::mib(14);

/// Nothing is written in place, segments are small, and daemons hardly rest.
fn restless((remap_cleaning, fs_write_fsync): (bool, bool), size: Option<Bytes>) -> Subject {
    Subject {
        mkfs: MkfsOptions { segment_blocks: Some(16), size, ..MkfsOptions::default() },
        mount: MountOptions {
            remap_cleaning,
            fs_write_fsync,
            in_place: InPlace::Never,
            checkpoint_interval: Nanos::from_millis(3),
            idle_interval: Nanos::from_micros(500),
            gc_sleep: (Nanos::from_millis(1), Nanos::from_millis(2), Nanos::from_millis(5)),
            discard_sleep: (Nanos::from_micros(300), Nanos::from_micros(500), Nanos::from_millis(1)),
            dirty_nodes: 40,
            metadata_cache: Bytes::kib(192),
            ..MountOptions::default()
        },
    }
}

/// Blocks were moved, by what the variant has for it.
fn cleaned(fs: &F2fs) {
    let (stats, remaps) = (fs.stats(), fs.options().remap_cleaning);
    let segments = stats.cleaned + stats.cleaned_background;
    assert!(segments > 3 && if remaps { stats.remapped } else { stats.moved } > 50, "{stats:?}");
}

#[test]
fn still_files_stay_while_readers_are_set_aside() {
    for variant in VARIANTS {
        on_bam(|| {
            suite::still_files_stay_while_readers_are_set_aside(
                &restless(variant, Some(SIZE)),
                Bytes::mib(24),
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
            let subject = restless(variant, Some(SIZE));
            suite::still_files_stay_on_the_wall_clock(&subject, Bytes::mib(24), 2_000, cleaned);
        });
    }
}

#[test]
fn calls_behave_as_the_reference() {
    for variant in &VARIANTS[1..] {
        on_bam(|| {
            let subject = restless(*variant, None);
            suite::calls_behave_as_the_reference(&subject, 0..2, suite::tiny_caches(), Mix::default(), 2_000);
        });
    }
}

#[test]
fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system() {
    for variant in &VARIANTS[1..] {
        on_bam(|| suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&restless(*variant, None)));
    }
}

#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    for variant in &VARIANTS[1..] {
        on_bam(|| suite::threads_on_the_wall_clock_leave_a_sound_file_system(&restless(*variant, None)));
    }
}
