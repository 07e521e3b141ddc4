//! `granary mount --stack` as a person uses it, mistakes included.

use crate::common::Place;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

/// Each write of a file is small and synchronous, so it goes to persistent memory.
const EAGER: [&str; 2] = ["--set", "fs.spfs.promote_after=2"];

fn stack<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["mount", "--daemon", "--size", "64MiB"][..], &EAGER, more].concat()
}

/// A directory below, `d`, with a file.
fn place() -> Option<Place> {
    let place = Place::new()?;
    fs::create_dir(place.path("d")).expect("made");
    fs::write(place.path("d/f"), "below").expect("written");
    Some(place)
}

fn put(place: &Place, name: &str, bytes: &[u8]) {
    let mut file = fs::File::options().append(true).create(true).open(place.path(name)).expect("opens");
    for _ in 0..4 {
        file.write_all(bytes).and_then(|()| file.sync_all()).expect("written");
    }
}

#[test]
fn a_mount_over_the_directory_itself_shows_and_keeps_its_files() {
    let Some(place) = place() else { return };
    place.runs(&stack(&["--stack", "d", "pm", "d"]), 0);
    assert_eq!(fs::read_to_string(place.path("d/f")).expect("there"), "below");
    put(&place, "d/f", b"!");
    put(&place, "d/new", b"new");
    place.runs(&["umount", "d"], 0);
    place.runs(&stack(&["--demote-all", "--stack", "d", "pm", "d"]), 0);
    assert_eq!(fs::read_to_string(place.path("d/f")).expect("there"), "below!!!!");
    place.runs(&["umount", "d"], 0);
    assert_eq!(fs::read_to_string(place.path("d/f")).expect("there"), "below!!!!");
    assert_eq!(fs::read_to_string(place.path("d/new")).expect("there"), "newnewnewnew");
}

#[test]
fn a_mount_point_within_the_directory_is_refused() {
    let Some(place) = place() else { return };
    fs::create_dir(place.path("d/mnt")).expect("made");
    let (_, said) = place.runs(&stack(&["--stack", "d", "pm", "d/mnt"]), 2);
    assert!(said.contains("lies within"), "{said}");
    assert!(!place.path("pm").exists());
}

#[test]
fn a_second_image_is_refused_while_one_is_mounted_and_afterwards() {
    let Some(place) = place() else { return };
    fs::create_dir(place.path("mnt2")).expect("made");
    place.runs(&stack(&["--stack", "d", "pm", "mnt"]), 0);
    put(&place, "mnt/f", b"!");
    let (_, said) = place.runs(&stack(&["--stack", "d", "pm2", "mnt2"]), 2);
    assert!(said.contains("unmount that first"), "{said}");
    place.runs(&["umount", "mnt"], 0);
    let (_, said) = place.runs(&stack(&["--stack", "d", "pm2", "mnt2"]), 2);
    assert!(said.contains("another persistent memory") && said.contains("--forget"), "{said}");
    place.runs(&stack(&["--stack", "d", "pm", "mnt"]), 0);
    assert_eq!(fs::read_to_string(place.path("mnt/f")).expect("there"), "below!!!!");
    place.runs(&["umount", "mnt"], 0);
}

/// What tar does with `--sparse`: a file without blocks is one hole.
#[test]
fn a_file_in_persistent_memory_has_blocks() {
    let Some(place) = place() else { return };
    place.runs(&stack(&["--stack", "d", "pm", "mnt"]), 0);
    put(&place, "mnt/new", b"bytes");
    assert!(fs::metadata(place.path("mnt/new")).expect("there").blocks() > 0);
    let tar = std::process::Command::new("tar")
        .args(["-cSf", "t.tar", "-C", "mnt", "new"])
        .current_dir(place.dir())
        .status();
    assert!(tar.expect("tar runs").success());
    let tar = std::process::Command::new("tar").args(["-xOf", "t.tar"]).current_dir(place.dir()).output();
    assert_eq!(tar.expect("tar runs").stdout, b"bytesbytesbytesbytes");
    place.runs(&["umount", "mnt"], 0);
}

#[test]
fn commands_on_the_image_alone_say_where_its_files_are() {
    let Some(place) = place() else { return };
    place.runs(&stack(&["--stack", "d", "pm", "mnt"]), 0);
    put(&place, "mnt/f", b"!");
    place.runs(&["umount", "mnt"], 0);
    for args in [
        &["ls", "pm"][..],
        &["stat", "pm"],
        &["cat", "pm", "/f"],
        &["cp-out", "pm", "/f", "out"],
        &["mount", "pm", "mnt"],
    ] {
        let (_, said) = place.runs(args, 2);
        assert!(said.contains("granary mount --stack DIR"), "{args:?}: {said}");
    }
    place.runs(&["fsck", "pm"], 0);
}
