//! [`Options`]: a file system's options, in any form that the caller has them.
//!
//! ```text
//!   testbed, image, crash case: a TOML table ──┐
//!   a program: any serde deserializer          ├─ dyn Options ── read::<MountOptions>() ── the file system
//!   none: Defaults                             ┘
//! ```

use crate::error::{FsError, Result};
use erased_serde::Deserializer as AnyDeserializer;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer};

/// Options of a `mkfs` or of a mount. Every cloneable deserializer is some, a `toml::Table` among them.
pub trait Options {
    /// Hands them to `read`.
    ///
    /// # Errors
    /// Those of `read`.
    fn with(
        &self,
        read: &mut dyn FnMut(&mut dyn AnyDeserializer<'_>) -> erased_serde::Result<()>,
    ) -> erased_serde::Result<()>;
}

impl<T: Clone + for<'de> Deserializer<'de>> Options for T {
    fn with(
        &self,
        read: &mut dyn FnMut(&mut dyn AnyDeserializer<'_>) -> erased_serde::Result<()>,
    ) -> erased_serde::Result<()> {
        read(&mut <dyn AnyDeserializer<'_>>::erase(self.clone()))
    }
}

impl dyn Options + '_ {
    /// The options as the file system's own type; a key that is not there has its default.
    ///
    /// # Errors
    /// `Corrupt` where they are of something else: nobody can have read them.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let mut found = None;
        let done = self.with(&mut |from| {
            found = Some(erased_serde::deserialize(from)?);
            Ok(())
        });
        let wrong = |what: String| FsError::Corrupt(format!("its options: {what}"));
        done.map_err(|e| wrong(e.to_string()))?;
        found.ok_or_else(|| wrong("there are none".to_owned()))
    }
}

/// No options: all have their defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults;

impl Options for Defaults {
    fn with(
        &self,
        read: &mut dyn FnMut(&mut dyn AnyDeserializer<'_>) -> erased_serde::Result<()>,
    ) -> erased_serde::Result<()> {
        let nothing = MapDeserializer::<_, Error>::new(std::iter::empty::<(&str, &str)>());
        read(&mut <dyn AnyDeserializer<'_>>::erase(nothing))
    }
}
