//! Kinds of drives that power failures are tried on are what the drives' entries say of themselves.

use granary_crash::target::{by_name_on, names_on};
use granary_crash::{Effort, Explorer};
use granary_lab::registry::FILE_SYSTEMS;
use granary_mssd::cases::{FAILING, TORN};
use granary_mssd::{CACHE, DriveCase, DriveEntry, Promise};
use granary_units::Bytes;

/// A drive of one's own, with a kind of its own.
const FRAIL: DriveEntry = DriveEntry {
    name: "frail",
    load: None,
    crash: &[
        DriveCase {
            name: "tiny-cache",
            about: "a cache of 64 KiB",
            change: |c| c.firmware.cache = Bytes::kib(64),
            weakens: &[],
        },
        FAILING,
        TORN,
    ],
    ..CACHE
};

const DRIVES: &[DriveEntry] = &[FRAIL, CACHE];

#[test]
fn a_drive_of_ones_own_brings_its_kinds_to_the_explorer() {
    let names = names_on(FILE_SYSTEMS, DRIVES);
    for name in ["ext4@frail", "ext4@frail@tiny-cache", "ext4@frail@failing", "nilfs2@frail@torn"] {
        assert!(names.contains(&name.to_owned()), "{name} of {names:?}");
        let target = by_name_on(FILE_SYSTEMS, DRIVES, name).expect("a target");
        assert_eq!(target.name(), name);
        assert_eq!(
            target.pages_are_whole(),
            target_of("nilfs2@frail").pages_are_whole() && !name.ends_with("torn")
        );
    }
    // Ext4 relies on whole pages.
    assert!(!names.contains(&"ext4@frail@torn".to_owned()));
    assert!(by_name_on(FILE_SYSTEMS, DRIVES, "ext4@frail@torn").is_none());
    let cache = |name| target_of(name).configs().0.expect("an SSD").firmware.cache;
    assert_eq!((cache("ext4@frail"), cache("ext4@frail@tiny-cache")), (Bytes::kib(512), Bytes::kib(64)));
}

fn target_of(name: &str) -> std::sync::Arc<dyn granary_crash::Target> {
    by_name_on(FILE_SYSTEMS, DRIVES, name).expect("a target")
}

#[test]
fn a_kind_of_a_drive_of_ones_own_is_explored() {
    let explorer =
        Explorer::new(target_of("ext4@frail@tiny-cache"), crate::targets::load("torture").expect("a load"));
    let report = explorer.expect("sound").run(0, &Effort { in_steps: 4, ..Effort::default() });
    assert!(report.failures.is_empty() && report.points > 0, "{report}");
}

/// The names of today's targets are those of yesterday: replay lines and seeds stand in reports.
#[test]
fn kinds_of_the_built_in_drives_have_the_names_that_replay_lines_use() {
    let of = |entry: DriveEntry| entry.crash.iter().map(|case| case.name).collect::<Vec<_>>();
    assert_eq!(of(CACHE), ["volatile", "torn", "program", "failing"]);
    assert_eq!(of(granary_mssd::LOG), ["program", "failing"]);
    let torn = CACHE.crash.iter().find(|case| case.name == "torn").expect("torn");
    assert!(!torn.keeps(Promise::WholePages) && !torn.keeps(Promise::Durable));
}
