//! Media that somebody scribbled over: refused, reported or read as errors, never a panic.

use crate::common::Subject;
use granary_suite::suite::{self, on_pair};

#[test]
fn scribbled_images_are_refused_or_reported() {
    // Superblock, slots, journals and the first inodes and nodes.
    on_pair(|| suite::scribbled_images_are_refused_or_reported(&Subject::default(), 400));
}

#[test]
fn damaged_media_give_errors() {
    on_pair(|| suite::damaged_media_give_errors(&Subject::default(), 4096));
}
