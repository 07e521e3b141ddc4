//! [`Mode`]: which firmware a drive has.

use parking_lot::Mutex;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;

/// Longest name in a file, bytes: names are kept for the life of the program.
const LONGEST: usize = 64;

/// The firmware of a drive. In files it is a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// ByteFS: a log of 64 B lines with transactions (section 4.3).
    Log,
    /// The baselines' firmware: a write-back cache of pages (section 5.1).
    Cache,
    /// Another one, by its name in a registry ([`DriveEntry`](crate::DriveEntry)).
    Own(&'static str),
}

impl Mode {
    /// The mode of this name. Whether there is such a firmware, a registry knows.
    pub fn named(name: &str) -> Mode {
        static OWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        match name {
            "log" => Mode::Log,
            "cache" => Mode::Cache,
            own => {
                let mut known = OWN.lock();
                // A few names for the life of the program.
                let name = known.get(own).copied().unwrap_or_else(|| own.to_owned().leak());
                known.insert(name);
                Mode::Own(name)
            }
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Log => "log",
            Mode::Cache => "cache",
            Mode::Own(name) => name,
        }
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Mode, D::Error> {
        let name = String::deserialize(from)?;
        if name.len() > LONGEST {
            return Err(D::Error::custom(format!("no firmware has a name of {} bytes", name.len())));
        }
        Ok(Mode::named(&name))
    }
}
