//! P6: random calls behave as on the reference model, with files that are promoted and demoted at random
//! moments, across remounts, with small caches and under many schedules.

use crate::common::Stack;
use granary_spfs::exthash::Form;
use granary_spfs::{Consistency, MountOptions, PromotionCopy};
use granary_suite::model::Mix;
use granary_suite::suite::{self, on_nvm};
use granary_units::Bytes;
use granary_vfs::VfsConfig;

/// Mostly bytes and fsyncs.
const DATA: Mix = Mix { names: 2, attrs: 1, data: 20, users: false, longest: 60_000, largest: 400_000 };

#[test]
fn calls_behave_as_the_reference_while_files_come_and_go() {
    on_nvm(|| {
        suite::calls_behave_as_the_reference(
            &Stack::busy(Form::Carved),
            0..4,
            suite::tiny_caches(),
            DATA,
            2_500,
        );
        suite::calls_behave_as_the_reference(
            &Stack::busy(Form::Pointers),
            10..14,
            VfsConfig::default(),
            DATA,
            2_500,
        );
    });
}

#[test]
fn names_and_attributes_behave_as_the_reference() {
    on_nvm(|| {
        let stack = Stack::busy(Form::Carved);
        suite::calls_behave_as_the_reference(&stack, 20..23, suite::tiny_caches(), Mix::default(), 2_500);
        let mix = Mix { names: 2, attrs: 12, data: 4, ..Mix::default() };
        suite::calls_behave_as_the_reference(&stack, 30..32, suite::tiny_caches(), mix, 2_000);
    });
}

#[test]
fn files_that_stay_behave_as_the_reference_in_every_mode() {
    on_nvm(|| {
        for (i, (form, consistency, promotion_copy)) in (0..).zip([
            (Form::Carved, Consistency::Meta, PromotionCopy::Extent),
            (Form::Pointers, Consistency::Data, PromotionCopy::Piece),
            (Form::Pointers, Consistency::Meta, PromotionCopy::Extent),
        ]) {
            let mut stack = Stack::busy(form);
            stack.mount = MountOptions {
                consistency,
                promotion_copy,
                demotion: false,
                promote_after: 1,
                ..stack.mount
            };
            let first = 40 + 10 * i;
            suite::calls_behave_as_the_reference(&stack, first..first + 2, suite::tiny_caches(), DATA, 2_500);
        }
    });
}

#[test]
fn long_sparse_files_behave_as_the_reference() {
    on_nvm(|| {
        let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 700_000, largest: 3_000_000 };
        let config = VfsConfig { page_cache: Bytes::kib(512), ..suite::tiny_caches() };
        suite::calls_behave_as_the_reference(&Stack::busy(Form::Carved), 80..82, config, mix, 500);
    });
}
