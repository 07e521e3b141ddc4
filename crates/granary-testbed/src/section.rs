//! [`Section`]: a file system's options as a complete table of TOML.
//!
//! The file system reads them through an interface that knows no TOML; an error of it is text alone. The key
//! that is wrong is kept beside it, and the caller knows its line.

use granary_fs::entry::OptionsEntry;
use serde_path_to_error::{Deserializer, Track};
use toml::Table;

/// A complete section of options.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Section {
    /// Every key with its value.
    pub values: Table,
    /// Keys that are left out because others say what their value is.
    pub left_out: Vec<String>,
}

/// Why a section cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The key, dotted, below the section; `.`: the section itself.
    pub key: String,
    /// The mistake.
    pub message: String,
}

impl Section {
    /// Reads a section, which may be incomplete.
    ///
    /// # Errors
    /// Unknown keys and wrong types.
    pub fn read(of: &OptionsEntry, from: toml::Deserializer<'_>) -> Result<Section, Wrong> {
        let mut track = Track::new();
        let tracked = Deserializer::new(from, &mut track);
        let complete = (of.read)(&mut <dyn erased_serde::Deserializer<'_>>::erase(tracked));
        let complete =
            complete.map_err(|e| Wrong { key: track.path().to_string(), message: said(&e.to_string()) })?;
        let unwritable = |message: String| Wrong { key: ".".to_owned(), message };
        let values = Table::try_from(&*complete).map_err(|e| unwritable(e.to_string()))?;
        // JSON has a word for what is left out.
        let json = serde_json::to_value(&*complete).map_err(|e| unwritable(e.to_string()))?;
        let keys = json.as_object().into_iter().flatten();
        let left_out = keys.filter(|(_, value)| value.is_null()).map(|(key, _)| key.clone()).collect();
        Ok(Section { values, left_out })
    }
}

/// The sentence in a text of toml, which has a picture of the line before it, and the key behind it.
fn said(text: &str) -> String {
    let (_, said) = text.rsplit_once("^\n").unwrap_or(("", text));
    said.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_is_told_in_a_line_with_its_key() {
        let ext4 = crate::registry::find("ext4").expect("registered").options.expect("options");
        let from = toml::Deserializer::parse("commit_interval = 1\ndata = 'three'").expect("TOML");
        let wrong = Section::read(&ext4, from).expect_err("three");
        assert_eq!(wrong.key, "data");
        assert!(wrong.message.starts_with("unknown variant `three`, expected one of"), "{}", wrong.message);
        assert!(!wrong.message.contains('\n'), "{}", wrong.message);
    }
}
