//! The directory of a mounted image is renamed, another image takes its place, something is mounted over it:
//! the mount goes on with its own image, and nothing else is touched.

use crate::common::Place;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn write_synced(path: &Path, content: &[u8]) {
    fs::write(path, content).expect("written");
    fs::File::open(path).expect("open").sync_all().expect("fsync");
}

/// The files of an image and what they hold.
fn files(image: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(image).expect("a directory").map(|e| e.expect("listed"));
    entries.map(|e| (e.file_name().into_string().expect("text"), fs::read(e.path()).expect("read"))).collect()
}

fn pages(place: &Place, image: &str) -> u64 {
    let told = place.runs(&["stat", "--json", image], 0).0;
    serde_json::from_str::<serde_json::Value>(&told).expect("JSON")["pages"].as_u64().expect("a number")
}

/// Mounts A, renames it to B, and makes another image A with a file of its own.
fn replaced(place: &Place, durability: &str) {
    place.runs(&["mkfs", "A", "--size", "64MiB"], 0);
    place.runs(&["mount", "--daemon", "--durability", durability, "A", "mnt"], 0);
    write_synced(&place.path("mnt/s"), b"before");
    fs::rename(place.path("A"), place.path("B")).expect("renamed");
    place.runs(&["mkfs", "A", "--size", "64MiB"], 0);
    fs::write(place.path("other"), "another").expect("written");
    place.runs(&["cp-in", "A", "other", "/"], 0);
}

#[test]
fn an_image_whose_place_another_one_has_taken_grows_by_its_new_path_and_the_other_is_not_touched() {
    let Some(place) = Place::new() else { return };
    for durability in ["process", "machine"] {
        replaced(&place, durability);
        let other = files(&place.path("A"));
        let (_, told) = place.runs(&["grow", "B", "--size", "256MiB"], 0);
        assert!(told.contains("now, was"), "{told}");
        write_synced(&place.path("mnt/v"), b"after");
        place.runs(&["umount", "mnt"], 0);
        assert!(files(&place.path("A")) == other, "the image that is now at the path has changed");
        assert!(!place.path("B/control").exists());
        for (image, file, content) in
            [("B", "/s", "before"), ("B", "/v", "after"), ("A", "/other", "another")]
        {
            place.runs(&["fsck", image], 0);
            assert_eq!(place.runs(&["cat", image, file], 0).0, content);
        }
        assert!(pages(&place, "B") > 60_000 && pages(&place, "A") < 20_000);
        ["A", "B"].iter().for_each(|image| fs::remove_dir_all(place.path(image)).expect("removed"));
    }
}

#[test]
fn a_growth_by_the_mount_reaches_its_own_image() {
    let Some(place) = Place::new() else { return };
    replaced(&place, "process");
    let other = files(&place.path("A"));
    place.runs(&["grow", "mnt", "--size", "256MiB"], 0);
    assert!(rustix::fs::statvfs(place.path("mnt")).expect("statvfs").f_blocks > 60_000);
    assert!(files(&place.path("A")) == other, "the image that is now at the path has changed");
    // The other one is grown by its own path.
    place.runs(&["grow", "A", "--size", "128MiB"], 0);
    place.runs(&["umount", "mnt"], 0);
    assert!(pages(&place, "B") > 60_000 && pages(&place, "A") < 40_000);
    place.runs(&["fsck", "A"], 0);
    place.runs(&["fsck", "B"], 0);
}

#[test]
fn a_renamed_image_is_closed_cleanly() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "A", "--size", "64MiB"], 0);
    place.runs(&["mount", "--daemon", "A", "mnt"], 0);
    fs::rename(place.path("A"), place.path("B")).expect("renamed");
    for path in ["B", "mnt"] {
        let size = if path == "B" { "128MiB" } else { "192MiB" };
        place.runs(&["grow", path, "--size", size], 0);
    }
    write_synced(&place.path("mnt/f"), b"kept");
    place.runs(&["umount", "mnt"], 0);
    assert!(!place.path("A").exists() && !place.path("B/control").exists());
    assert!(!place.runs(&["stat", "B"], 0).0.contains("not closed"));
    assert_eq!(place.runs(&["cat", "B", "/f"], 0).0, "kept");
}

#[test]
fn what_is_mounted_over_an_image_stays_empty() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "A", "--size", "64MiB"], 0);
    place.runs(&["mount", "--daemon", "A", "mnt"], 0);
    let over = place.path("A");
    mount("none", &over, "tmpfs", MountFlags::empty(), None).expect("mounted over it");
    place.runs(&["grow", "mnt", "--size", "128MiB"], 0);
    write_synced(&place.path("mnt/f"), b"kept");
    place.runs(&["umount", "mnt"], 0);
    let found = files(&over);
    unmount(&over, UnmountFlags::empty()).expect("unmounted");
    assert!(found.is_empty(), "{:?}", found.keys());
    place.runs(&["fsck", "A"], 0);
    assert_eq!(place.runs(&["cat", "A", "/f"], 0).0, "kept");
}

/// The image that is at the path may be another one: nobody can tell.
#[test]
fn a_mount_whose_process_died_grows_nothing() {
    let Some(place) = Place::new() else { return };
    replaced(&place, "process");
    let other = files(&place.path("A"));
    place.kill_server();
    let (_, told) = place.runs(&["grow", "mnt", "--size", "256MiB"], 2);
    assert!(told.contains("dead") && told.contains("granary umount"), "{told}");
    assert!(files(&place.path("A")) == other, "the image that is now at the path has changed");
    place.runs(&["umount", "mnt"], 1);
    place.runs(&["grow", "B", "--size", "256MiB"], 0);
    assert_eq!(place.runs(&["cat", "B", "/s"], 0).0, "before");
}
