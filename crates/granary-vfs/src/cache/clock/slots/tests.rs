//! Tests of this module.

use super::*;

/// The budget of the design: a paper-scale run caches two million pages.
#[test]
fn a_cached_page_costs_at_most_64_bytes_beyond_the_page() {
    assert!(size_of::<Slot>() - size_of::<Page>() + 2 * size_of::<(u32, u32)>() <= 64);
}
