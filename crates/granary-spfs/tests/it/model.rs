//! P6: random calls behave as on the reference model, with files that are promoted and demoted at random moments, across remounts,
//! with small caches and under many schedules.

use crate::common::Stack;
use granary_spfs::exthash::Form;
use granary_spfs::{Consistency, MountOptions, PromotionCopy};
use granary_suite::model::Mix;
use granary_suite::suite::{self, on_nvm};
use granary_units::{Bytes, Nanos};
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

#[test]
fn concurrent_calls_have_a_serial_order() {
    on_nvm(|| suite::concurrent_calls_have_a_serial_order(&Stack::busy(Form::Carved)));
}

#[test]
fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system() {
    on_nvm(|| suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&Stack::busy(Form::Pointers)));
}

#[test]
fn still_files_stay_while_readers_are_set_aside() {
    on_nvm(|| {
        suite::still_files_stay_while_readers_are_set_aside(
            &Stack::busy(Form::Carved),
            Bytes::mib(64),
            0..3,
            |_| (),
        )
    });
}

#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    on_nvm(|| {
        let mut stack = Stack::busy(Form::Carved);
        stack.mount.tick = Nanos::from_millis(1);
        suite::threads_on_the_wall_clock_leave_a_sound_file_system(&stack);
    });
}

#[test]
fn listing_survives_changes_in_between() {
    on_nvm(|| suite::listing_survives_changes_in_between(&Stack::busy(Form::Carved)));
}

#[test]
fn reserved_blocks_read_as_zeros() {
    on_nvm(|| suite::reserved_blocks_read_as_zeros(&Stack::busy(Form::Carved)));
}
