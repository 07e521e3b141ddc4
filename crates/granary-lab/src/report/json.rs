//! JSON: one object per line and run, documented in docs/RESULTS.md.

use crate::record::Record;

/// The record as one line of JSON, without the line's end.
pub fn json_line(record: &Record) -> String {
    serde_json::to_string(record).expect("a record has only string keys and finite numbers")
}
