//! Properties of the page cache's arithmetic.

use super::*;

#[test]
fn lines_are_those_that_bytes_touch() {
    for from in 0..200usize {
        for to in from..300 {
            let expected = (0..64).filter(|l| from < to && l * 64 < to && (l + 1) * 64 > from);
            assert_eq!(lines(from, to), expected.fold(0, |m, l| m | 1 << l), "{from}..{to}");
        }
    }
    assert_eq!(lines(0, 4096), u64::MAX);
}

/// The budget of the design: a paper-scale run caches two million pages.
#[test]
fn a_cached_page_costs_at_most_64_bytes_beyond_the_page() {
    assert!(Slots::SLOT_SIZE - size_of::<Page>() + 2 * size_of::<(u32, u32)>() <= 64);
}
