//! Keys that the text of a testbed does not show: those that others say the value of, for TOML has no word
//! for "none"; and those that are written down only where they have not their usual value.

use crate::testbed::Testbed;
use serde::Deserialize;
use serde_json::Value;
use toml::Table;

/// Sections, by their last name, and keys of them that are left out at their usual value: images and testbeds
/// of before such a key was there stay the same text.
const USUAL: [(&str, &str); 13] = [
    ("bam", "names"),
    ("costs", "admission"),
    ("costs", "command_build"),
    ("costs", "completion"),
    ("costs", "doorbell"),
    ("costs", "library_call"),
    ("drive", "window"),
    ("firmware", "flush_cost"),
    ("firmware", "tears_pages"),
    ("firmware", "volatile_cache"),
    ("flash", "mapping_unit"),
    ("link", "half_duplex"),
    ("nvme", "queue_depth"),
];

/// Dotted paths of the optional keys and sections that this testbed does not have, in the order of the
/// alphabet.
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
            let name = path.rsplit('.').next().unwrap_or(path);
            let usual = USUAL.iter().filter(|(of, key)| *of == name && !section.contains_key(*key));
            out.extend(usual.map(|(_, key)| format!("{path}.{key}")));
            for (key, value) in section {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                nulls(value, &path, out);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of the list that no section has would be refused as unknown.
    #[test]
    fn keys_that_are_left_out_at_their_usual_value_can_be_set() {
        let testbed = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
            Testbed::load("pebblessd", &sets)
        };
        let plain = testbed(&[]).expect("a testbed");
        for (section, key) in USUAL {
            let path = keys(&plain).into_iter().find(|k| k.ends_with(&format!("{section}.{key}")));
            let Some(path) = path else { continue };
            let value = if ["window", "volatile_cache", "tears_pages", "half_duplex"].contains(&key) {
                "false"
            } else {
                "0"
            };
            testbed(&[&format!("{path}={value}")]).map(drop).unwrap_or_else(|e| {
                assert!(!e.to_string().contains("no key"), "{e}");
            });
        }
        let volatile = Testbed::load(
            "bytefs-emulator",
            &["drive.firmware.mode=cache".to_owned(), "volatile_cache=true".to_owned()],
        );
        assert!(volatile.expect("can be set").ssd().expect("a drive").firmware.volatile_cache);
    }
}
