//! [`Section`]: a file system's options as a complete table of TOML.
//!
//! The file system reads them through an interface that knows no TOML, and that hands back text where something is
//! wrong. The place in the file is kept beside it.

use granary_fs::entry::OptionsEntry;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use std::cell::Cell;
use toml::Table;
use toml::de::Error;

/// A complete section of options.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Section {
    /// Every key with its value.
    pub values: Table,
    /// Keys that are left out because others say what their value is.
    pub left_out: Vec<String>,
}

impl Section {
    /// Reads a section, which may be incomplete.
    ///
    /// # Errors
    /// Unknown keys and wrong types, with their place in the text.
    pub fn read(of: &OptionsEntry, from: toml::Deserializer<'_>) -> Result<Section, Error> {
        let wrong = Cell::new(None);
        let keeping = Keeping { inner: from, wrong: &wrong };
        let complete = (of.read)(&mut <dyn erased_serde::Deserializer<'_>>::erase(keeping))
            .map_err(|e| wrong.take().unwrap_or_else(|| Error::custom(e)))?;
        let values = Table::try_from(&*complete).map_err(Error::custom)?;
        // JSON has a word for what is left out.
        let json = serde_json::to_value(&*complete).map_err(Error::custom)?;
        let keys = json.as_object().into_iter().flatten();
        let left_out = keys.filter(|(_, value)| value.is_null()).map(|(key, _)| key.clone()).collect();
        Ok(Section { values, left_out })
    }
}

/// A deserializer that leaves its error, with its place, where it can be found.
struct Keeping<'a, D> {
    inner: D,
    wrong: &'a Cell<Option<Error>>,
}

impl<'de, D: Deserializer<'de, Error = Error>> Keeping<'_, D> {
    fn keep<T>(self, read: impl FnOnce(D) -> Result<T, Error>) -> Result<T, Error> {
        read(self.inner).inspect_err(|e| self.wrong.set(Some(e.clone())))
    }
}

impl<'de, D: Deserializer<'de, Error = Error>> Deserializer<'de> for Keeping<'_, D> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(|inner| inner.deserialize_any(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.keep(|inner| inner.deserialize_struct(name, fields, visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
