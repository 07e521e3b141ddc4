//! Random calls behave as on the reference model, across remounts, with short journals and under many
//! schedules.

use crate::common::{Subject, busy, migrating};
use granary_orchfs::{DataAtomicity, FullUpage, MountOptions, Partition, Reclaim};
use granary_suite::model::Mix;
use granary_suite::suite::{self, on_pair};
use granary_vfs::VfsConfig;

#[test]
fn calls_behave_as_the_reference_with_tiny_caches() {
    on_pair(|| {
        suite::calls_behave_as_the_reference(&busy(), 0..8, suite::tiny_caches(), Mix::default(), 2_500)
    });
}

#[test]
fn calls_behave_as_the_reference_with_pages_that_stay() {
    let subject =
        Subject { mount: MountOptions { reclaim: Reclaim::Artifact, ..busy().mount }, ..Subject::default() };
    on_pair(|| {
        suite::calls_behave_as_the_reference(&subject, 100..102, VfsConfig::default(), Mix::default(), 3_000)
    });
}

#[test]
fn long_sparse_files_behave_as_the_reference() {
    let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
    on_pair(|| suite::calls_behave_as_the_reference(&busy(), 300..304, suite::tiny_caches(), mix, 500));
}

#[test]
fn names_behave_as_the_reference() {
    let mix = Mix { names: 10, attrs: 2, data: 1, ..Mix::default() };
    on_pair(|| suite::calls_behave_as_the_reference(&busy(), 400..402, suite::tiny_caches(), mix, 3_000));
}

#[test]
fn attributes_behave_as_the_reference() {
    let mix = Mix { names: 2, attrs: 12, data: 2, ..Mix::default() };
    on_pair(|| suite::calls_behave_as_the_reference(&busy(), 500..502, suite::tiny_caches(), mix, 3_000));
}

/// Blocks go to the SSD all the time, under the calls: nobody sees it.
#[test]
fn calls_behave_as_the_reference_while_blocks_migrate() {
    let mix = Mix { names: 2, attrs: 1, data: 20, users: false, longest: 200_000, largest: 1_000_000 };
    on_pair(|| {
        suite::calls_behave_as_the_reference(&migrating(), 600..603, suite::tiny_caches(), mix, 1_000)
    });
}

#[test]
fn concurrent_calls_have_a_serial_order_while_blocks_migrate() {
    on_pair(|| suite::concurrent_calls_have_a_serial_order(&migrating()));
}

#[test]
fn calls_behave_as_the_reference_on_phfs() {
    let mount = MountOptions { partition: Partition::Phfs, ..MountOptions::default() };
    let mix = Mix { names: 2, attrs: 1, data: 20, users: false, longest: 200_000, largest: 1_000_000 };
    let subject = Subject { mount, ..busy() };
    on_pair(|| suite::calls_behave_as_the_reference(&subject, 700..702, suite::tiny_caches(), mix, 800));
}

#[test]
fn calls_behave_as_the_reference_with_atomic_data_and_upages_written_back() {
    let mix = Mix { names: 2, attrs: 1, data: 20, users: false, longest: 100_000, largest: 1_000_000 };
    for (seed, data_atomicity, full_upage) in [
        (800, DataAtomicity::Undo, FullUpage::Convert),
        (810, DataAtomicity::Redo, FullUpage::Convert),
        (820, DataAtomicity::None, FullUpage::Writeback),
        (830, DataAtomicity::Undo, FullUpage::Writeback),
    ] {
        let mount = MountOptions { data_atomicity, full_upage, ..migrating().mount };
        let subject = Subject { mount, ..busy() };
        on_pair(|| {
            suite::calls_behave_as_the_reference(&subject, seed..seed + 2, suite::tiny_caches(), mix, 700)
        });
    }
}
