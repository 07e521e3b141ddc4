//! [`Testbed::load`]: a testbed from its file and the changes to it, checked; and what there is to say of
//! one.

use crate::builtin::builtins;
use crate::error::TestbedError;
use crate::set::{apply, once, read};
use crate::source::{Sources, blames};
use crate::testbed::Testbed;
use crate::{figures, hash, limits, unset};
use granary_bench::drives::DRIVES;
use granary_mssd::DriveEntry;
use toml::Table;

impl Testbed {
    /// Loads a testbed and applies `sets`, each `KEY=VALUE`.
    ///
    /// # Errors
    /// Everything that is wrong with the file or a set, with its place.
    pub fn load(name: &str, sets: &[String]) -> Result<Testbed, TestbedError> {
        let sources = Sources::collect(name)?;
        let (unchanged, keys) = sources.parse()?;
        let (mut testbed, mut changed) = (unchanged.clone(), Vec::new());
        if !sets.is_empty() {
            // Writing the testbed out first makes every key present, also those the file leaves at their
            // default.
            let mut tree = Table::try_from(&testbed).map_err(|e| sources.bad(None, &e.to_string()))?;
            for set in sets {
                changed.push(apply(&mut tree, set, name)?);
                once(sets, &changed)?;
                testbed = read(&mut tree, set)?;
            }
        }
        let Err(message) = testbed.validate() else { return Ok(testbed) };
        Err(match unchanged.set_at_fault(sets, &changed, &message) {
            Some(set) => TestbedError::BadSet { set: set.clone(), message },
            None => sources.contradiction(&keys, &message),
        })
    }

    /// The testbed with `sets`, each `KEY=VALUE`, and the whole paths of the keys that they change.
    ///
    /// # Errors
    /// The mistake in a set.
    pub fn with(self, sets: &[String]) -> Result<(Testbed, Vec<String>), TestbedError> {
        let bad = |set: &String, message: String| TestbedError::BadSet { set: set.clone(), message };
        let (unchanged, mut testbed, mut paths) = (self.clone(), self, Vec::new());
        for set in sets {
            let mut tree = Table::try_from(&testbed).map_err(|e| bad(set, e.to_string()))?;
            paths.push(apply(&mut tree, set, &unchanged.name)?);
            once(sets, &paths)?;
            testbed = read(&mut tree, set)?;
        }
        let (Err(message), Some(last)) = (testbed.validate(), sets.last()) else {
            return Ok((testbed, paths));
        };
        let at_fault = unchanged.set_at_fault(sets, &paths, &message);
        Err(bad(at_fault.unwrap_or(last), message))
    }

    /// The one of `sets`, which change `paths`, that a refusal of this testbed with them is to name: the last
    /// whose key the message blames; else one without which it would be good. `None` where it is not the
    /// sets' fault.
    fn set_at_fault<'s>(&self, sets: &'s [String], paths: &[String], message: &str) -> Option<&'s String> {
        let blamed = paths.iter().zip(sets).rev().find(|(path, _)| blames(message, path));
        if let Some((_, set)) = blamed {
            return Some(set);
        }
        self.validate().ok()?;
        let good_without = |skipped: &usize| {
            let mut testbed = self.clone();
            for (_, set) in sets.iter().enumerate().filter(|(n, _)| n != skipped) {
                let tree = Table::try_from(&testbed).ok();
                let changed = tree.and_then(|mut tree| {
                    apply(&mut tree, set, &self.name).ok()?;
                    read(&mut tree, set).ok()
                });
                let Some(changed) = changed else { return false };
                testbed = changed;
            }
            testbed.validate().is_ok()
        };
        let one = (0..sets.len()).rev().find(good_without);
        one.map(|n| &sets[n]).or(sets.last())
    }

    /// Values that contradict each other, each with the file and line of the key to look at where it stands
    /// in a file.
    ///
    /// # Errors
    /// As [`Testbed::load`].
    pub fn warnings(name: &str) -> Result<Vec<String>, TestbedError> {
        let sources = Sources::collect(name)?;
        let (testbed, keys) = sources.parse()?;
        let place = |key: &str| match keys.find(key).map(|at| sources.place(at)) {
            Some((file, line)) => format!("{file}, line {line}"),
            None => format!("{name}, {key}"),
        };
        Ok(figures::contradictions(&testbed)
            .into_iter()
            .map(|(key, text)| format!("{}: {text}", place(key)))
            .collect())
    }

    /// Every value, also those that the file leaves to its base or at their default, as a testbed file;
    /// comments at its end name the keys that are left out, where others say what their value is.
    pub fn values(&self) -> String {
        let left_out: String = unset::keys(self).iter().map(|key| format!("# {key}: left out\n")).collect();
        self.plain_values() + if left_out.is_empty() { "" } else { "\n" } + &left_out
    }

    fn plain_values(&self) -> String {
        toml::to_string(self).expect("a testbed is plain values")
    }

    /// [`crate::hash`] of all values of host and drive, changes included. Equal hashes, equal testbeds,
    /// whatever their names.
    pub fn hash(&self) -> String {
        let nameless = Testbed { name: String::new(), description: String::new(), ..self.clone() };
        hash(nameless.plain_values().as_bytes())
    }

    /// The path of the testbed `name`, unless it is a built-in one.
    pub fn file(name: &str) -> Option<String> {
        builtins().all(|(built_in, _)| built_in != name).then(|| name.to_owned())
    }

    /// Whether this one, loaded from the file `path`, has the name of a built-in one with other values: what
    /// to say of it.
    pub fn impostor(&self, path: &str) -> Option<String> {
        Testbed::file(path)?;
        let name = builtins().map(|(name, _)| name).find(|name| *name == self.name)?;
        let (own, built_in) = (Testbed::load(path, &[]).ok()?, Testbed::load(name, &[]).ok()?);
        (own.hash() != built_in.hash()).then(|| {
            format!(
                "the testbed of {path} has the name of the built-in {name} and other values: give it a name of its own"
            )
        })
    }

    /// Checks every range: of testbeds, of what mkfs makes, and of what the header of an image says. The
    /// message names the key.
    pub fn validate(&self) -> Result<(), String> {
        limits::before(self).map_or(Ok(()), Err)?;
        if let Some(ssd) = &self.drive {
            DriveEntry::of(DRIVES, ssd).map(drop).and_then(|()| ssd.validate()).map_err(|e| e.to_string())?;
        }
        if let Some(nvm) = &self.device.nvm {
            nvm.validate().map_err(|e| format!("device.nvm.{} {}", e.field, e.why))?;
        }
        let (host, vfs) = (&self.host, &self.host.vfs);
        for (wrong, message) in [
            (host.cores == 0, "host.cores must be at least 1"),
            (vfs.page_cache.0 < 1 << 20, "host.vfs.page_cache must be at least 1MiB"),
            (vfs.flushers == 0, "host.vfs.flushers must be at least 1"),
            (vfs.tick.0 == 0, "host.vfs.tick must be at least 1 ns; Linux has 4000000"),
            (vfs.dirty_limit_percent > 100, "host.vfs.dirty_limit_percent is a percentage: at most 100"),
            (
                vfs.dirty_background_percent > vfs.dirty_limit_percent,
                "host.vfs.dirty_background_percent must not be above dirty_limit_percent: writers would wait for a write-back \
                 that has not begun",
            ),
        ] {
            if wrong {
                return Err(message.to_owned());
            }
        }
        limits::refusal(self).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
