//! Random calls behave as on the reference model, across remounts, with small caches and under many
//! schedules.

use crate::common::Subject;
use granary_pmfs::MkfsOptions;
use granary_suite::model::Mix;
use granary_suite::suite;
use granary_units::Bytes;
use granary_vfs::VfsConfig;

/// A journal that wraps all the time.
pub fn busy() -> Subject {
    Subject {
        mkfs: MkfsOptions { journal: Some(Bytes::kib(64)), ..MkfsOptions::default() },
        ..Subject::default()
    }
}

#[test]
fn calls_behave_as_the_reference_with_tiny_caches() {
    suite::calls_behave_as_the_reference(&busy(), 0..6, suite::tiny_caches(), Mix::default(), 3_000);
}

#[test]
fn calls_behave_as_the_reference_with_large_caches() {
    let subject = busy();
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
