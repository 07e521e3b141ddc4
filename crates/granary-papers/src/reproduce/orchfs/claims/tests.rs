//! Tests of this module.

use super::*;

/// The slides make 119 statements; beside them are seven rows of the text's own reclaim, one of notes of the
/// paper, and four that no number of the slides stands beside.
#[test]
fn every_statement_has_a_row_and_without_runs_no_number_is_made_up() {
    let rows = claims(&Results::default());
    assert_eq!(rows.len(), 119 + 7 + 1 + 4);
    assert!(rows.iter().all(|j| j.ours.is_none()));
}
