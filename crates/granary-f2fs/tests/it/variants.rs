//! Every variant on a drive so small that there is cleaning all the time: what is in a file is what was
//! written there.

use crate::common::Subject;
use granary_f2fs::{F2FS_FS_WRITE, F2FS_PEBBLE, F2FS_REMAP, F2fs, InPlace, MkfsOptions, MountOptions};
use granary_suite::suite::{Variant, Variants};
use granary_units::{Bytes, Nanos};

const VARIANTS: Variants<Subject> = Variants {
    subject: restless,
    drive: Bytes::mib(24),
    cleaned,
    entries: [&F2FS_REMAP, &F2FS_FS_WRITE, &F2FS_PEBBLE],
};
/// Of a file system of which half is in use.
const SIZE: Bytes = Bytes::mib(14);

/// Nothing is written in place, segments are small, and daemons hardly rest.
fn restless(variant: Variant) -> Subject {
    let size = variant.is_full.then_some(SIZE);
    Subject {
        mkfs: MkfsOptions { segment_blocks: Some(16), size, ..MkfsOptions::default() },
        mount: MountOptions {
            remap_cleaning: variant.remaps,
            fs_write_fsync: variant.fs_writes,
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

/// Blocks were moved, in the variant's own way.
fn cleaned(fs: &F2fs) {
    let (stats, remaps) = (fs.stats(), fs.options().remap_cleaning);
    let segments = stats.cleaned + stats.cleaned_background;
    assert!(segments > 3 && if remaps { stats.remapped } else { stats.moved } > 50, "{stats:?}");
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
