//! [`FsOptions`]: the sections `[fs.NAME]` of a testbed, one for each file system that has mount options.
//!
//! Only the file system knows the keys of its section: the registry finds the reader. Every section is there
//! and complete, so that `--set` reaches each key.

use crate::registry::{self, FILE_SYSTEMS};
use crate::section::Section;
use granary_fs::FsEntry;
use granary_fs::entry::OptionsEntry;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Mount options by section.
#[derive(Clone, Debug, PartialEq)]
pub struct FsOptions(BTreeMap<&'static str, Section>);

impl Default for FsOptions {
    fn default() -> FsOptions {
        FsOptions(sections().map(|o| (o.section, defaults(o))).collect())
    }
}

/// The sections of all file systems, each once.
pub(super) fn sections() -> impl Iterator<Item = &'static OptionsEntry> {
    let named = |fs: &'static FsEntry| fs.options.as_ref();
    FILE_SYSTEMS.iter().enumerate().filter_map(move |(n, fs)| {
        let own = named(fs)?;
        let before = FILE_SYSTEMS[..n].iter().filter_map(named);
        before.into_iter().all(|o| o.section != own.section).then_some(own)
    })
}

fn defaults(of: &OptionsEntry) -> Section {
    let nothing = toml::Deserializer::parse("").expect("an empty text is TOML");
    Section::read(of, nothing).expect("every option has a default")
}

impl FsOptions {
    /// The options of a file system; empty where it has none.
    pub fn of(&self, fs: &FsEntry) -> Table {
        let section = fs.options.as_ref().and_then(|o| self.0.get(o.section));
        section.map_or_else(Table::new, |s| s.values.clone())
    }

    /// The complete values of a section.
    pub fn section(&self, name: &str) -> Option<&Table> {
        self.0.get(name).map(|s| &s.values)
    }

    /// Puts a section that was read into its place.
    pub(super) fn put(&mut self, of: &'static OptionsEntry, section: Section) {
        self.0.insert(of.section, section);
    }

    /// Dotted paths of keys that are left out because others say what their value is.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(|(name, s)| s.left_out.iter().map(move |key| format!("fs.{name}.{key}")))
    }

    /// A value out of its range: begins with the key's whole path.
    pub(super) fn refusal(&self) -> Option<String> {
        sections().find_map(|of| {
            let (key, why) = (of.refusal)(&self.0.get(of.section)?.values)?;
            Some(format!("fs.{}.{key} {why}", of.section))
        })
    }

    /// Reads sections, as a testbed has them under `fs`.
    ///
    /// # Errors
    /// Unknown sections, unknown keys, wrong types.
    pub fn read(table: &Table) -> Result<FsOptions, String> {
        let mut all = FsOptions::default();
        for (name, value) in table {
            let of = find(name)?;
            let Value::Table(section) = value else { return Err(format!("fs.{name} is a section")) };
            let text = toml::to_string(section).map_err(|e| e.to_string())?;
            let from = toml::Deserializer::parse(&text).map_err(|e| e.message().to_owned())?;
            all.put(of, Section::read(of, from).map_err(|e| e.message)?);
        }
        Ok(all)
    }

    /// As a table of TOML.
    pub fn table(&self) -> Table {
        self.0.iter().map(|(name, s)| ((*name).to_owned(), Value::Table(s.values.clone()))).collect()
    }
}

/// The reader of this section.
///
/// # Errors
/// There is none; the message has the section that was meant.
pub(super) fn find(section: &str) -> Result<&'static OptionsEntry, String> {
    sections().find(|o| o.section == section).ok_or_else(|| {
        let known: Vec<&str> = sections().map(|o| o.section).collect();
        let meant = granary_trace::suggest::meant(section, known.iter().copied());
        match registry::find(section) {
            Ok(fs) => format!("fs.{section}: {} has no options", fs.name),
            Err(_) => format!(
                "fs.{section}: no file system has this section{meant}: there are {}",
                known.join(", ")
            ),
        }
    })
}

impl Serialize for FsOptions {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.table().serialize(to)
    }
}

impl<'de> Deserialize<'de> for FsOptions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<FsOptions, D::Error> {
        FsOptions::read(&Table::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}
