//! Memories that shrink with a workload: with a hundredth of the files, a cache of the paper's size holds all
//! of them.

use crate::testbed::Testbed;
use granary_units::Bytes;

/// The least of each: pages enough for every thread of a workload, and a drive that validates.
const LEAST_PAGE_CACHE: u64 = 4 << 20;
const LEAST_DRIVE: u64 = 256 << 10;

impl Testbed {
    /// Page cache, drive cache and log region times `factor`, as changes (`KEY=VALUE`) of this testbed, so
    /// that a record says them and a run with `--set` repeats them. Keys in `sets` keep their values. Never
    /// less than 4 MiB of page cache and 256 KiB in the drive.
    pub fn memory_sets(&self, factor: f64, sets: &[String]) -> Vec<String> {
        let of = |key: &str, size: Bytes, least: u64| {
            let scaled = (size.0 as f64 * factor) as u64 / 8192 * 8192;
            format!("{key}={}KiB", scaled.max(least.min(size.0)) / 1024)
        };
        let said = |key: &str| {
            let mut keys = sets.iter().filter_map(|set| Some(set.split_once('=')?.0.trim()));
            keys.any(|k| key == k || key.ends_with(&format!(".{k}")))
        };
        let mut all = vec![("host.vfs.page_cache", self.host.vfs.page_cache, LEAST_PAGE_CACHE)];
        if let Some(ssd) = &self.drive {
            all.push(("drive.firmware.cache", ssd.firmware.cache, LEAST_DRIVE));
            all.push(("drive.firmware.log_region", ssd.firmware.log_region, LEAST_DRIVE));
        }
        all.into_iter()
            .filter(|(key, ..)| !said(key))
            .map(|(key, size, least)| of(key, size, least))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_testbed_can_have_its_memories_scaled() {
        for (name, _) in crate::builtin::builtins() {
            let whole = Testbed::load(name, &[]).expect("valid");
            for factor in [1.0, 0.1, 0.02, 0.0001] {
                let scaled = Testbed::load(name, &whole.memory_sets(factor, &[])).expect("valid");
                let log = |t: &Testbed| t.drive.as_ref().map(|ssd| ssd.firmware.log_region.0);
                let cache = scaled.host.vfs.page_cache.0;
                let share = cache as f64 / whole.host.vfs.page_cache.0 as f64;
                assert!(
                    (share - factor).abs() < 0.01 || cache == LEAST_PAGE_CACHE,
                    "{name} {factor}: {cache}"
                );
                let own = whole.memory_sets(factor, &["vfs.page_cache=1GiB".to_owned()]);
                let of_ssd = if whole.drive.is_some() { 2 } else { 0 };
                assert!(own.len() == of_ssd && own.iter().all(|set| !set.contains("page_cache")), "{own:?}");
                let (now, before) = (log(&scaled), log(&whole));
                assert!(now <= before && now.is_none_or(|n| n >= LEAST_DRIVE), "{name}: {now:?}");
            }
        }
    }
}
