//! Random calls behave as on the reference model, across remounts, with small caches and under many
//! schedules.

use crate::common::{Subject, promising};
use granary_nilfs2::{MkfsOptions, MountOptions};
use granary_suite::model::Mix;
use granary_suite::suite;
use granary_units::{Bytes, Nanos};
use granary_vfs::VfsConfig;

/// Segments of 256 KiB, timers that go off all the time, next to no memory for metadata, a log every few
/// dozen blocks, and a cleaner that is never content.
pub fn busy() -> Subject {
    Subject {
        mkfs: MkfsOptions { segment_blocks: Some(64), ..MkfsOptions::default() },
        mount: MountOptions {
            log_interval: Nanos::from_millis(1),
            super_interval: Nanos::from_millis(2),
            cleaning_interval: (Nanos::from_millis(1), Nanos::from_micros(300)),
            min_clean_segments: 90,
            max_clean_segments: 95,
            watermark: 80,
            metadata_cache: Bytes::kib(192),
            ..promising().mount
        },
    }
}

#[test]
fn calls_behave_as_the_reference_with_tiny_caches() {
    suite::calls_behave_as_the_reference(&busy(), 0..4, suite::tiny_caches(), Mix::default(), 1_500);
}

#[test]
fn calls_behave_as_the_reference_with_large_caches() {
    let subject = Subject { mount: promising().mount, ..busy() };
    suite::calls_behave_as_the_reference(&subject, 100..104, VfsConfig::default(), Mix::default(), 3_000);
}

#[test]
fn long_sparse_files_behave_as_the_reference() {
    let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
    let config = VfsConfig { page_cache: Bytes::kib(512), ..suite::tiny_caches() };
    suite::calls_behave_as_the_reference(&busy(), 300..302, config, mix, 400);
}

#[test]
fn names_behave_as_the_reference() {
    let mix = Mix { names: 10, attrs: 2, data: 1, ..Mix::default() };
    suite::calls_behave_as_the_reference(&busy(), 400..403, suite::tiny_caches(), mix, 2_000);
}
