//! Keys that a testbed leaves out because others say what their value is: TOML has no word for them, so that its text does
//! not show that they are there.

use super::Testbed;
use serde::Deserialize;
use serde_json::Value;
use toml::Table;

/// Dotted paths of the optional keys and sections that this testbed does not have, in the order of the alphabet.
pub fn keys(testbed: &Testbed) -> Vec<String> {
    // JSON has a word for them.
    let values = serde_json::to_value(testbed).expect("a testbed is plain values");
    let mut out = Vec::new();
    nulls(&values, "", &mut out);
    out.extend(testbed.fs.left_out());
    out.sort();
    out
}

/// Those of the testbed of this tree; none where it is no testbed.
pub fn keys_of(tree: &Table) -> Vec<String> {
    Testbed::deserialize(tree.clone()).map_or(Vec::new(), |testbed| keys(&testbed))
}

fn nulls(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Null => out.push(path.to_owned()),
        Value::Object(section) => {
            for (key, value) in section {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                nulls(value, &path, out);
            }
        }
        _ => {}
    }
}
