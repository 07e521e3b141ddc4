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
