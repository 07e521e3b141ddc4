//! NILFS2 keeps what is dead for a while: who is refused space by that is told so.

use crate::common::Place;
use std::fs;
use std::io::ErrorKind;

/// Fills a mount, removes the files again, and does so until there is no space; what the last write said.
fn write_over_and_over(place: &Place) -> ErrorKind {
    for round in 0..40 {
        let file = place.path("mnt/f");
        let written = fs::write(&file, vec![round; 8 << 20])
            .and_then(|()| fs::File::open(&file)?.sync_all())
            .and_then(|()| fs::remove_file(&file));
        if let Err(e) = written {
            return e.kind();
        }
    }
    panic!("it is never full");
}

#[test]
fn space_that_is_kept_for_a_while_is_told_by_mkfs_stat_and_the_log_of_a_mount() {
    let Some(place) = Place::new() else { return };
    let (_, said) = place.runs(&["mkfs", "img", "--fs", "nilfs2", "--size", "64MiB"], 0);
    assert!(said.contains("nilfs2.protection_period=0"), "{said}");
    place.runs(&["mount", "--daemon", "--log", "log", "img", "mnt"], 0);
    assert_eq!(write_over_and_over(&place), ErrorKind::StorageFull);
    let (shown, _) = place.runs(&["stat", "mnt"], 0);
    assert!(shown.contains("the protection period of 3600 s"), "{shown}");
    assert!(place.stats()["kept"].as_str().is_some_and(|s| s.contains("protection period")));
    place.runs(&["umount", "mnt"], 0);
    let log = fs::read_to_string(place.path("log")).expect("a log");
    assert!(log.contains("nilfs2 has no space") && log.contains("nilfs2.protection_period=0"), "{log}");
    let (shown, _) = place.runs(&["stat", "img"], 0);
    assert!(shown.contains("the protection period of 3600 s"), "{shown}");
    place.runs(&["mount", "--daemon", "--set", "nilfs2.protection_period=0", "img", "mnt"], 0);
    fs::write(place.path("mnt/f"), vec![1; 8 << 20]).expect("there is space");
    assert!(place.stats()["kept"].is_null());
    place.runs(&["umount", "mnt"], 0);
    place.runs(&["fsck", "img"], 0);
}
