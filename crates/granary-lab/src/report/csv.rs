//! CSV: one row per run, one column per number or word of the record; for spreadsheets, R and pandas.
//!
//! ```text
//!   {"fs":"ext4","host":{"block":{"write_bytes":{"inode":4096}}}}   ──►   fs,host.block.write_bytes.inode
//!                                                                       ext4,4096
//! ```
//!
//! The columns are the paths of the fields that `--json` prints, those of all runs together. Where another
//! run has traffic of a kind and this one has none, the cell is 0, as the record means it; any other field
//! that a run does not have is empty. Lists of words are joined by `; `, other lists (`periods`, histograms)
//! are JSON.

use crate::record::Record;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The columns that stand first, in this order; the others follow by name.
const FIRST: [&str; 14] = [
    "workload",
    "fs",
    "testbed",
    "scale",
    "threads",
    "seed",
    "virtual_s",
    "ended_by",
    "ops.total",
    "ops.per_s",
    "app.read_bytes",
    "app.write_bytes",
    "amplification.read",
    "amplification.write",
];
/// Below these, what is not in a record is 0: entries without traffic are left out.
const TRAFFIC: [&str; 5] = ["host.", "flash.", "firmware.", "setup.", "drain."];

/// The records as CSV (RFC 4180, with `\n`), the header first.
pub fn csv(records: &[Record]) -> String {
    let rows: Vec<BTreeMap<String, String>> = records
        .iter()
        .map(|record| {
            let mut row = BTreeMap::new();
            let value =
                serde_json::to_value(record).expect("a record has only string keys and finite numbers");
            flatten(&value, String::new(), &mut row);
            row
        })
        .collect();
    let all: BTreeSet<&str> = rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    let first = FIRST.into_iter().filter(|name| all.contains(name));
    let columns: Vec<&str> = first.chain(all.iter().copied().filter(|name| !FIRST.contains(name))).collect();
    let mut out = ::csv::Writer::from_writer(Vec::new());
    out.write_record(&columns).expect("memory takes it");
    for row in &rows {
        let cells = columns.iter().map(|name| row.get(*name).map_or_else(|| missing(name), String::as_str));
        out.write_record(cells).expect("all rows have the columns");
    }
    let bytes = out.into_inner().expect("memory takes it");
    String::from_utf8(bytes).expect("made of text")
}

fn missing(column: &str) -> &'static str {
    if TRAFFIC.iter().any(|prefix| column.starts_with(prefix)) { "0" } else { "" }
}

fn flatten(value: &Value, path: String, row: &mut BTreeMap<String, String>) {
    let cell = match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(value, format!("{path}{dot}{name}"), row);
            }
            return;
        }
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            words.map_or_else(|| value.to_string(), |words| words.join("; "))
        }
        other => other.to_string(),
    };
    row.insert(path, cell);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(text: &str) -> Vec<BTreeMap<String, String>> {
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().expect("a header").clone();
        let row = |r: ::csv::StringRecord| {
            names.iter().zip(r.iter()).map(|(n, c)| (n.to_owned(), c.to_owned())).collect()
        };
        reader.records().map(|r| row(r.expect("a row"))).collect()
    }

    #[test]
    fn a_row_has_what_the_record_has_and_0_where_it_moved_nothing() {
        let mut a =
            Record { workload: "my, \"own\".f".to_owned(), fs: "bytefs".to_owned(), ..Record::default() };
        a.vars = vec!["n=1".to_owned(), "m=2".to_owned()];
        a.host.byte.write_bytes.insert("inode".to_owned(), 64);
        a.workload_hash = Some("crc32c:0".to_owned());
        a.ops.per_s = 1.5;
        let mut b = Record { fs: "ext4".to_owned(), ..Record::default() };
        b.host.block.write_bytes.insert("journal".to_owned(), 4096);
        b.warnings = vec!["one\ntwo".to_owned()];
        let text = csv(&[a, b]);
        assert!(text.starts_with("workload,fs,testbed,scale,"), "{text}");
        let rows = cells(&text);
        let cell = |row: usize, name: &str| rows[row][name].clone();
        assert_eq!(cell(0, "workload"), "my, \"own\".f");
        assert_eq!((cell(0, "vars"), cell(0, "ops.per_s")), ("n=1; m=2".to_owned(), "1.5".to_owned()));
        for (column, values) in
            [("host.byte.write_bytes.inode", ["64", "0"]), ("host.block.write_bytes.journal", ["0", "4096"])]
        {
            assert_eq!([cell(0, column), cell(1, column)], values, "{column}");
        }
        assert_eq!([cell(0, "workload_hash"), cell(1, "workload_hash")], ["crc32c:0", ""]);
        assert_eq!(cell(1, "warnings"), "one\ntwo");
        assert_eq!(cell(1, "amplification.read"), "", "no application bytes, no amplification");
    }
}
