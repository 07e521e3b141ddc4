//! Random calls behave as on the reference model, across remounts, with small caches and under many
//! schedules.

use crate::common::Subject;
use granary_f2fs::{MkfsOptions, MountOptions};
use granary_suite::model::Mix;
use granary_suite::suite;
use granary_units::{Bytes, Nanos};
use granary_vfs::VfsConfig;

/// Segments of 64 KiB, timers that go off all the time, next to no memory for metadata, and a checkpoint
/// every few dozen nodes.
pub fn busy() -> Subject {
    Subject {
        mkfs: MkfsOptions { segment_blocks: Some(16), ..MkfsOptions::default() },
        mount: MountOptions {
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

#[test]
fn calls_behave_as_the_reference_with_tiny_caches() {
    suite::calls_behave_as_the_reference(&busy(), 0..6, suite::tiny_caches(), Mix::default(), 3_000);
}

#[test]
fn calls_behave_as_the_reference_with_large_caches() {
    let subject = Subject { mount: MountOptions::default(), ..busy() };
    suite::calls_behave_as_the_reference(&subject, 100..104, VfsConfig::default(), Mix::default(), 4_000);
}

#[test]
fn long_sparse_files_behave_as_the_reference() {
    let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
    let config = VfsConfig { page_cache: Bytes::kib(512), ..suite::tiny_caches() };
    suite::calls_behave_as_the_reference(&busy(), 300..302, config, mix, 600);
}

#[test]
fn names_behave_as_the_reference() {
    let mix = Mix { names: 10, attrs: 2, data: 1, ..Mix::default() };
    suite::calls_behave_as_the_reference(&busy(), 400..404, suite::tiny_caches(), mix, 4_000);
}

#[test]
fn attributes_behave_as_the_reference() {
    let mix = Mix { names: 2, attrs: 12, data: 2, ..Mix::default() };
    suite::calls_behave_as_the_reference(&busy(), 500..503, suite::tiny_caches(), mix, 4_000);
}
