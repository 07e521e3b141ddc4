//! Features that single file systems have of their own, on the command line.

use crate::common::Place;
use std::fs;

/// A snapshot of NILFS2 is mounted by its number, and shows what was.
#[test]
fn a_snapshot_shows_the_past() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--fs", "nilfs2", "--size", "64MiB"], 0);
    fs::write(place.path("f"), "as it was").expect("written");
    place.runs(&["cp-in", "img", "f", "/"], 0);
    let number = place.runs(&["mkcp", "img", "--snapshot"], 0).0.trim().to_owned();
    fs::write(place.path("f"), "as it is").expect("written");
    place.runs(&["cp-in", "img", "f", "/"], 0);
    let read = |set: &[&str]| {
        let how = [&["mount", "--daemon", "--read-only", "img", "mnt"], set].concat();
        place.runs(&how, 0);
        let text = fs::read_to_string(place.path("mnt/f")).expect("there");
        place.runs(&["umount", "mnt"], 0);
        text
    };
    assert_eq!(read(&[]), "as it is");
    assert_eq!(read(&["--set", &format!("fs.nilfs2.cp={number}")]), "as it was");
}

/// DevFS tells of the drive's memory by kind, and of the most that its capacitor would have had to write.
#[test]
fn stat_tells_of_the_drives_memory() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mount", "--daemon", "ram:devfs", "mnt"], 0);
    fs::write(place.path("mnt/f"), vec![1; 10_000]).expect("written");
    let memory = &place.stats()["memory"];
    assert!(memory["device.flush_set_most"].as_u64() > Some(0) && memory["device.most"].as_u64() > Some(0));
    let (shown, _) = place.runs(&["stat", "mnt"], 0);
    assert!(shown.contains("device.flush_set_most"), "{shown}");
    place.runs(&["umount", "mnt"], 0);
}
