//! A firmware, and what stands beside one, is added and taken away in one place: outside its own module few
//! files name it, each for a reason, and none names one of another crate but the registry.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A personality: where it is at home, by what it is named, and who else may name it, and why. The lists may
/// only become shorter.
struct Personality {
    home: &'static [&'static str],
    words: &'static [&'static str],
    may: &'static [(&'static str, &'static str)],
}

const ENTRY: &str = "its line as an entry";
const CONFIG: &str = "a drive's options are one table for all firmwares";
const LAYOUT: &str = "the zones of an image are where they have always been";
const SIZES: &str = "says how much memory or file it takes";
const RECORD: &str = "the record of calls has a kind for each command of the papers";
const FUZZED: &str = "fuzzes drives of these kinds";
const MADE_FOR: &str = "a file system that is made for its commands";

const PERSONALITIES: [(&str, Personality); 3] = [
    (
        "the write log",
        Personality {
            home: &["granary-mssd/src/firmware/log", "granary-device/src/vendor/transactions"],
            words: &["Mode::Log", "LOG", "firmware::log", "vendor::transactions", "log_region", "txlog"],
            may: &[
                ("granary-mssd/src/entry.rs", ENTRY),
                ("granary-mssd/src/lib.rs", ENTRY),
                ("granary-bench/src/drives.rs", "the registry"),
                ("granary-mssd/src/config", CONFIG),
                ("granary-mssd/src/saved/layout.rs", LAYOUT),
                ("granary-bench/src/memory.rs", SIZES),
                ("granary-testbed/src/memory.rs", SIZES),
                ("granary-bench/src/figures.rs", SIZES),
                ("granary/src/cmd/stat.rs", SIZES),
                ("granary-bench/src/recorded.rs", RECORD),
                ("granary-bench/src/replay/carry.rs", RECORD),
                ("granary-fuzz/src/kinds/", FUZZED),
                ("granary-bytefs/src/", MADE_FOR),
                ("granary-testbed/src/devices.rs", "a file system that asks for the write log gets it"),
                ("granary-crash/src/target/chosen.rs", "a file system that asks for the write log gets it"),
                ("granary-crash/src/target.rs", "the explorer's drives are small"),
            ],
        },
    ),
    (
        "the page cache",
        Personality {
            home: &["granary-mssd/src/firmware/cache"],
            words: &["Mode::Cache", "CACHE", "firmware::cache", "cache_write_ack"],
            may: &[
                ("granary-mssd/src/entry.rs", ENTRY),
                ("granary-mssd/src/lib.rs", ENTRY),
                ("granary-bench/src/drives.rs", "the registry"),
                ("granary-mssd/src/config", CONFIG),
                ("granary-mssd/src/cases.rs", CONFIG),
                ("granary-mssd/src/saved/layout.rs", LAYOUT),
                ("granary-bench/src/figures.rs", SIZES),
                ("granary/src/cmd/stat.rs", SIZES),
                ("granary-fuzz/src/kinds/", FUZZED),
                ("granary-testbed/src/devices.rs", "what a file system gets that does not ask for another"),
                (
                    "granary-crash/src/target/chosen.rs",
                    "what a file system gets that does not ask for another",
                ),
            ],
        },
    ),
    (
        "BAM",
        Personality {
            home: &["granary-mssd/src/bam", "granary-device/src/vendor/pebble"],
            words: &[
                "crate::bam",
                "mod bam",
                "granary_mssd::BAM",
                "vendor::pebble",
                "firmware.bam",
                "f.bam",
                "BamConfig",
                "BamSpace",
                "BamFull",
                "with_bam",
            ],
            may: &[
                ("granary-mssd/src/entry.rs", ENTRY),
                ("granary-mssd/src/lib.rs", ENTRY),
                ("granary-mssd/src/config", CONFIG),
                ("granary-mssd/src/saved/layout.rs", LAYOUT),
                ("granary-bench/src/memory.rs", SIZES),
                ("granary-testbed/src/limits.rs", SIZES),
                ("granary-bench/src/recorded.rs", RECORD),
                ("granary-bench/src/replay/carry.rs", RECORD),
                ("granary-bench/src/moves.rs", "measures its commands as the paper does"),
                ("granary-fuzz/src/kinds/", FUZZED),
                ("granary-f2fs/src/", MADE_FOR),
                ("granary-nilfs2/src/", MADE_FOR),
                ("granary-device/src/devices.rs", "a file system may need second names of pages"),
                ("granary-device/src/drive.rs", "an error of its own"),
                ("granary-device/src/lib.rs", "types of its answers"),
                ("granary-crash/src/target.rs", "the explorer's tables are so small that they fill"),
            ],
        },
    ),
];

/// Parts of paths that are not counted: tests, benches and examples may take any drive they like;
/// granary-papers reproduces papers of particular drives, and granary-suite is support of tests.
const NOT_COUNTED: [&str; 5] = ["tests", "benches", "examples", "granary-papers", "granary-suite"];

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if NOT_COUNTED.contains(&name) || name == "tests.rs" || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// The text in front of a file's own tests, without comments.
fn counted(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |all, line| all + line + "\n")
}

/// Whether `text` has the word, and not only as a part of a longer one.
fn has(text: &str, word: &str) -> bool {
    let longer = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !longer(text[..at].chars().next_back()) && !longer(text[at + word.len()..].chars().next())
    })
}

#[test]
fn few_files_name_a_firmware_and_each_has_a_reason() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    let mut files = Vec::new();
    collect(crates, &mut files);
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(crates).expect("below it").display().to_string();
        (name, counted(&fs::read_to_string(path).expect("readable")))
    };
    let files: Vec<(String, String)> = files.iter().map(read).collect();
    for (name, it) in PERSONALITIES {
        let at_home = |file: &str| it.home.iter().any(|home| file.starts_with(home));
        let naming =
            files.iter().filter(|(file, text)| !at_home(file) && it.words.iter().any(|word| has(text, word)));
        let may =
            |file: &str| it.may.iter().find(|(place, _)| file.starts_with(place)).map(|(place, _)| *place);
        let (mut used, mut wrong) = (BTreeSet::new(), Vec::new());
        for (file, _) in naming {
            match may(file) {
                Some(place) => drop(used.insert(place)),
                None => wrong.push(file),
            }
        }
        assert!(wrong.is_empty(), "{wrong:?} name {name}: ask the firmware, or say here why they must");
        let idle: Vec<_> = it.may.iter().filter(|(place, _)| !used.contains(place)).collect();
        assert!(idle.is_empty(), "{idle:?} need not name {name} any more: take them off the list");
    }
}

#[test]
fn words_are_told_from_longer_ones() {
    assert!(has("use granary_mssd::{CACHE, LOG};", "LOG") && has("c.firmware.bam {", "firmware.bam"));
    assert!(!has("LOGS SMALLEST_LOG", "LOG") && !has("firmware.bamboo", "firmware.bam"));
    assert_eq!(counted("a\n  // LOG\n#[cfg(test)]\nmod tests {\nLOG"), "a\n");
}

#[test]
fn every_firmware_of_the_registry_has_its_own_name_and_makes_a_drive() {
    let mut names = std::collections::BTreeSet::new();
    for entry in granary_bench::drives::DRIVES {
        assert!(names.insert(entry.name), "{} twice", entry.name);
        let config = granary_mssd::DriveConfig::tiny(granary_mssd::Mode::named(entry.name));
        granary_bench::drives::make(&config, true).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
    }
    let other = granary_mssd::DriveConfig::tiny(granary_mssd::Mode::named("none-of-these"));
    let refused = granary_bench::drives::make(&other, true).map(drop).expect_err("no such firmware");
    assert!(refused.to_string().contains("mode is one of log, cache"), "{refused}");
}
