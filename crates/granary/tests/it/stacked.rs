//! `granary mount --stack` as a person uses it, mistakes included.

use crate::common::Place;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

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
    if rustix::process::geteuid().is_root() {
        // Also through another path of the directory.
        fs::create_dir(place.path("again")).expect("made");
        let run = |args: &[&std::ffi::OsStr]| {
            std::process::Command::new(args[0]).args(&args[1..]).status().is_ok_and(|status| status.success())
        };
        let (from, to) = (place.path("d"), place.path("again"));
        if run(&["mount".as_ref(), "--bind".as_ref(), from.as_ref(), to.as_ref()]) {
            let again =
                std::panic::AssertUnwindSafe(|| place.runs(&stack(&["--stack", "d", "pm", "again/mnt"]), 2));
            let told = std::panic::catch_unwind(again);
            assert!(run(&["umount".as_ref(), "-l".as_ref(), to.as_ref()]));
            let (_, said) = told.expect("refused");
            assert!(said.contains("lies within"), "{said}");
        }
    }
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

/// tar with `--sparse` takes a file without blocks for one hole.
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

/// Bytes of all files of directory and image, and of the directory's the times too, asked for before they are
/// read.
fn everything(place: &Place) -> BTreeMap<PathBuf, (Vec<u8>, [i64; 5])> {
    let mut seen = BTreeMap::new();
    for dir in ["d", "pm"] {
        let names = fs::read_dir(place.path(dir)).expect("listed").map(|e| e.expect("an entry").path());
        for path in names.filter(|p| p.is_file()) {
            let m = fs::metadata(&path).expect("there");
            let of = [m.size() as i64, m.mtime_nsec(), m.ctime_nsec(), m.ino() as i64, m.mode().into()];
            seen.insert(path.clone(), (fs::read(path).expect("read"), of));
        }
    }
    seen
}

/// A place whose `d/f` has its newest bytes in `pm`, which nobody has mounted.
fn used() -> Option<Place> {
    let place = place()?;
    place.runs(&stack(&["--stack", "d", "pm", "mnt"]), 0);
    put(&place, "mnt/f", b"!");
    put(&place, "mnt/new", b"new");
    place.runs(&["umount", "mnt"], 0);
    Some(place)
}

#[test]
fn commands_without_a_mount_show_the_newest_bytes_and_change_nothing() {
    let Some(place) = used() else { return };
    assert_ne!(
        fs::read_to_string(place.path("d/f")).expect("there"),
        "below!!!!",
        "the newest are in the image"
    );
    let before = everything(&place);
    let (listed, _) = place.runs(&["ls", "-l", "--stack", "d", "pm"], 0);
    assert!(listed.lines().any(|l| l.ends_with(" f") && l.contains(" 9 ")), "{listed}");
    assert_eq!(place.runs(&["cat", "--stack", "d", "pm", "/f", "/new"], 0).0, "below!!!!newnewnewnew");
    fs::create_dir(place.path("out")).expect("made");
    place.runs(&["cp-out", "--stack", "d", "pm", "/", "out"], 0);
    assert_eq!(fs::read_to_string(place.path("out/f")).expect("copied"), "below!!!!");
    let (shown, _) = place.runs(&["stat", "--stack", "d", "pm"], 0);
    assert!(shown.contains("d: 2 of its files have their newest bytes here"), "{shown}");
    let (json, _) = place.runs(&["stat", "--json", "--stack", "d", "pm"], 0);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["front"]["tiered"], &json["clean"]), (&2.into(), &true.into()));
    let (_, said) = place.runs(&["fsck", "--stack", "d", "pm"], 0);
    assert!(said.contains("clean"), "{said}");
    assert!(everything(&place) == before);
}

#[test]
fn commands_on_the_image_alone_say_the_command_that_names_its_directory() {
    let Some(place) = used() else { return };
    let d = place.path("d").canonicalize().expect("there").display().to_string();
    for (args, command) in [
        (&["ls", "pm"][..], "ls --stack D pm`"),
        (&["stat", "pm"], "stat --stack D pm`"),
        (&["cat", "pm", "/f"], "cat --stack D pm PATH`"),
        (&["cp-out", "pm", "/f", "out"], "cp-out --stack D pm PATH PLACE`"),
        (&["mount", "pm", "mnt"], "mount --stack D "),
        (&["cp-in", "pm", "d/f", "/"], "mount --stack D "),
    ] {
        let (_, said) = place.runs(args, 2);
        assert!(said.contains(&format!("`granary {}", command.replace('D', &d))), "{args:?}: {said}");
    }
    let (_, said) = place.runs(&["fsck", "pm"], 0);
    assert!(said.contains("the devices alone") && said.contains(&format!("fsck --stack {d} pm`")), "{said}");
    // A directory that is none of its own is refused.
    fs::create_dir(place.path("e")).expect("made");
    place.runs(&["ls", "--stack", "e", "pm"], 2);
    place.runs(&["fsck", "--stack", "e", "pm"], 1);
}

#[test]
fn commands_without_a_mount_are_refused_while_it_is_mounted() {
    let Some(place) = used() else { return };
    place.runs(&stack(&["--stack", "d", "pm", "mnt"]), 0);
    for args in [&["ls"][..], &["cat", "/f"], &["cp-out", "/f", "out"], &["stat"], &["fsck"]] {
        let args = [&args[..1], &["--stack", "d", "pm"], &args[1..]].concat();
        let (_, said) = place.runs(&args, 2);
        assert!(said.contains("is mounted"), "{args:?}: {said}");
    }
    place.runs(&["umount", "mnt"], 0);
}

#[test]
fn a_file_that_is_gone_from_the_directory_is_found_by_fsck_and_given_up_only_when_asked() {
    let Some(place) = used() else { return };
    let number = fs::metadata(place.path("d/f")).expect("there").ino();
    fs::remove_file(place.path("d/f")).expect("removed");
    let (found, said) = place.runs(&["fsck", "--stack", "d", "pm"], 1);
    assert!(found.contains(&format!("number {number} ")) && said.contains("1 findings"), "{found}{said}");
    let (_, said) = place.runs(&["ls", "--stack", "d", "pm"], 0);
    assert!(said.contains("1 files"), "{said}");
    for all in [&[][..], &["--demote-all"]] {
        let (_, said) = place.runs(&stack(&[all, &["--stack", "d", "pm", "mnt"]].concat()), 2);
        assert!(said.contains("1 files") && said.contains("--forget"), "{said}");
    }
    place.runs(&stack(&["--forget", "--stack", "d", "pm", "mnt"]), 0);
    assert_eq!(fs::read_to_string(place.path("mnt/new")).expect("there"), "newnewnewnew");
    place.runs(&["umount", "mnt"], 0);
    place.runs(&["fsck", "--stack", "d", "pm"], 0);
}

/// A file that nobody finds any more is not taken for demoted.
#[test]
fn an_unmount_that_demotes_all_fails_for_a_file_removed_beside_it() {
    let Some(place) = used() else { return };
    place.runs(&stack(&["--demote-all", "--stack", "d", "pm", "mnt"]), 0);
    put(&place, "mnt/f", b"?");
    fs::remove_file(place.path("d/f")).expect("removed");
    let (code, said) = place.ends(&["umount", "mnt"]);
    assert!(code != Some(0) && said.contains("1 files"), "{code:?} {said}");
    place.runs(&["fsck", "--stack", "d", "pm"], 1);
    assert_eq!(
        fs::read_to_string(place.path("d/new")).expect("there"),
        "newnewnewnew",
        "the others are below"
    );
}

#[test]
fn an_older_copy_of_the_image_and_a_copy_of_the_directory_are_refused() {
    let Some(place) = used() else { return };
    let copy = |from: &str, to: &str| {
        let done = std::process::Command::new("cp").args(["-a", from, to]).current_dir(place.dir()).status();
        assert!(done.expect("cp runs").success());
    };
    copy("pm", "old");
    copy("d", "e");
    place.runs(&stack(&["--stack", "d", "pm", "mnt"]), 0);
    put(&place, "mnt/f", b"?");
    place.runs(&["umount", "mnt"], 0);
    let (_, said) = place.runs(&stack(&["--stack", "d", "old", "mnt"]), 2);
    assert!(said.contains("older copy"), "{said}");
    let (_, said) = place.runs(&["cat", "--stack", "d", "old", "/f"], 2);
    assert!(said.contains("older copy"), "{said}");
    let (_, said) = place.runs(&stack(&["--stack", "e", "pm", "mnt"]), 2);
    assert!(said.contains("copy"), "{said}");
    assert_eq!(place.runs(&["cat", "--stack", "d", "pm", "/f"], 0).0, "below!!!!????");
}

/// Number and run fit. Whether its files would be found says nothing: a copy may have none of them in the
/// image.
#[test]
fn a_copy_of_the_directory_of_the_same_run_is_refused_as_a_copy() {
    let Some(place) = used() else { return };
    let copied = std::process::Command::new("cp").args(["-a", "d", "e"]).current_dir(place.dir()).status();
    assert!(copied.expect("cp runs").success());
    if rustix::fs::getxattr(place.path("e"), "user.granary.spfs", &mut [0_u8; 64][..]).is_err() {
        return granary_suite::skip::skipped("cp does not copy attributes here");
    }
    for args in [&stack(&["--stack", "e", "pm", "mnt"])[..], &["cat", "--stack", "e", "pm", "/f"]] {
        let (_, said) = place.runs(args, 2);
        assert!(said.contains("what is below is a copy of the directory"), "{args:?}: {said}");
    }
    assert_eq!(place.runs(&["cat", "--stack", "d", "pm", "/f"], 0).0, "below!!!!");
}

#[test]
fn an_image_within_the_directory_is_refused_and_not_made() {
    let Some(place) = place() else { return };
    let (_, said) = place.runs(&stack(&["--stack", "d", "d/pm", "mnt"]), 2);
    assert!(said.contains("outside"), "{said}");
    assert!(!place.path("d/pm").exists());
}

/// It would write over the file that it reads. A link, another mount and another name of a file lead there,
/// too.
#[test]
fn cp_out_into_what_it_copies_from_is_refused_and_changes_nothing() {
    let Some(place) = used() else { return };
    fs::create_dir_all(place.path("d/sub/deep")).expect("made");
    std::os::unix::fs::symlink("d", place.path("link")).expect("linked");
    std::os::unix::fs::symlink("d/f", place.path("linked")).expect("linked");
    let before = everything(&place);
    let into = [
        "d",
        "d/f",
        "d/none",
        "d/sub",
        "d/sub/none",
        "link",
        "link/f",
        "linked",
        "pm",
        "pm/none",
        "mnt/../d",
    ];
    for to in into {
        for from in [&["/f"][..], &["/f", "/new"], &["/"], &["/sub"]] {
            let args = [&["cp-out", "--stack", "d", "pm"], from, &[to]].concat();
            let (_, said) = place.runs(&args, 2);
            assert!(said.contains("give a place outside"), "{args:?}: {said}");
        }
    }
    assert!(everything(&place) == before);
    assert!(!place.path("d/none").exists() && !place.path("d/sub/none").exists());
    if rustix::process::geteuid().is_root() {
        let bind = |from: &str| rustix::mount::mount_bind(place.path(from), place.path("mnt"));
        for (from, code) in [("d", 2), ("d/sub", 1)] {
            if bind(from).is_err() {
                return granary_suite::skip::skipped("nothing can be mounted");
            }
            let (ended, said) = place.ends(&["cp-out", "--stack", "d", "pm", "/sub", "mnt"]);
            let _ = rustix::mount::unmount(place.path("mnt"), rustix::mount::UnmountFlags::DETACH);
            assert!(ended == Some(code) && said.contains("give a place outside"), "{from}: {ended:?} {said}");
        }
    }
    assert!(everything(&place) == before);
    assert_eq!(fs::read_dir(place.path("d/sub")).expect("listed").count(), 1, "a directory is in itself");
}

#[test]
fn cp_out_onto_another_name_of_a_file_below_leaves_that_file_as_it_is() {
    let Some(place) = used() else { return };
    fs::create_dir(place.path("out")).expect("made");
    fs::hard_link(place.path("d/f"), place.path("out/f")).expect("linked");
    fs::hard_link(place.path("d/new"), place.path("out/g")).expect("linked");
    let before = everything(&place);
    let (_, said) = place.runs(&["cp-out", "--stack", "d", "pm", "/f", "out"], 1);
    assert!(said.contains("give a place outside"), "{said}");
    assert!(everything(&place) == before);
    // Another file of the directory is not written over, either.
    place.runs(&["cp-out", "--stack", "d", "pm", "/f", "out/g"], 0);
    assert_eq!(fs::read_to_string(place.path("out/g")).expect("copied"), "below!!!!");
    assert_eq!(place.runs(&["cat", "--stack", "d", "pm", "/f", "/new"], 0).0, "below!!!!newnewnewnew");
}

#[test]
fn cp_out_of_an_image_into_its_own_directory_is_refused() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    fs::write(place.path("letter"), "dear").expect("written");
    place.runs(&["cp-in", "img", "letter", "/"], 0);
    let names = || fs::read_dir(place.path("img")).expect("listed").count();
    let before = names();
    for to in ["img", "img/letter", "mnt/../img"] {
        let (_, said) = place.runs(&["cp-out", "img", "/letter", to], 2);
        assert!(said.contains("give a place outside"), "{said}");
    }
    assert_eq!(names(), before);
}

/// Two images would have different newest bytes of one file.
#[test]
fn stacks_over_directories_that_share_files_are_refused_live_and_paired() {
    let Some(place) = Place::new() else { return };
    fs::create_dir_all(place.path("top/d/sub/deep")).expect("made");
    fs::write(place.path("top/d/f"), "below").expect("written");
    fs::create_dir(place.path("mnt2")).expect("made");
    std::os::unix::fs::symlink("top/d/sub", place.path("link")).expect("linked");
    let others = ["top", "top/d/sub", "top/d/sub/deep", "link"];
    place.runs(&stack(&["--stack", "top/d", "pm", "mnt"]), 0);
    for other in others {
        let (_, said) = place.runs(&stack(&["--stack", other, "pm2", "mnt2"]), 2);
        assert!(said.contains("unmount that first"), "{other}: {said}");
    }
    put(&place, "mnt/f", b"!");
    place.runs(&["umount", "mnt"], 0);
    for other in others {
        let (_, said) = place.runs(&stack(&["--stack", other, "pm2", "mnt2"]), 2);
        let wanted = ["shares files", "--demote-all", "--forget", "/pm2 MNT", "top/d"];
        assert!(wanted.iter().all(|w| said.contains(w)), "{other}: {said}");
        assert!(!place.path("pm2").exists());
    }
    // A directory beside it is another matter.
    fs::create_dir(place.path("top/e")).expect("made");
    place.runs(&stack(&["--stack", "top/e", "pm2", "mnt2"]), 0);
    place.runs(&stack(&["--stack", "top/d", "pm", "mnt"]), 0);
    assert_eq!(fs::read_to_string(place.path("mnt/f")).expect("there"), "below!!!!");
    place.runs(&["umount", "mnt"], 0);
    place.runs(&["umount", "mnt2"], 0);
    // Given up as asked: the first image knows it from then on.
    for (n, other) in ["top", "top/d/sub"].into_iter().enumerate() {
        place.runs(&stack(&["--stack", "top/d", "--forget", "pm", "mnt"]), 0);
        put(&place, "mnt/f", b"!");
        place.runs(&["umount", "mnt"], 0);
        fs::write(place.path("letter"), "dear").expect("written");
        // A typing error in the image's path gives up nothing.
        place.runs(&stack(&["--forget", "--stack", other, "letter/pm", "mnt2"]), 2);
        place.runs(&stack(&["--stack", "top/d", "pm", "mnt"]), 0);
        place.runs(&["umount", "mnt"], 0);
        let image = format!("other{n}");
        place.runs(&stack(&["--forget", "--stack", other, &image, "mnt2"]), 0);
        place.runs(&["umount", "mnt2"], 0);
        let (_, said) = place.runs(&stack(&["--stack", "top/d", "pm", "mnt"]), 2);
        assert!(said.contains("knows of none"), "{said}");
    }
}

/// An image that was paired before another directory was is not mounted, either.
#[test]
fn a_paired_directory_is_refused_once_one_within_it_was_moved_there() {
    let Some(place) = used() else { return };
    fs::create_dir(place.path("e")).expect("made");
    place.runs(&stack(&["--stack", "e", "pm2", "mnt"]), 0);
    put(&place, "mnt/g", b"e");
    place.runs(&["umount", "mnt"], 0);
    fs::rename(place.path("e"), place.path("d/e")).expect("moved");
    for (dir, image, other) in [("d", "pm", "d/e"), ("d/e", "pm2", "d")] {
        let (_, said) = place.runs(&stack(&["--stack", dir, image, "mnt"]), 2);
        assert!(said.contains("shares files") && said.contains(other), "{said}");
    }
    fs::rename(place.path("d/e"), place.path("e")).expect("moved back");
    for (dir, image) in [("d", "pm"), ("e", "pm2")] {
        place.runs(&stack(&["--stack", dir, image, "mnt"]), 0);
        place.runs(&["umount", "mnt"], 0);
    }
}

#[test]
fn a_mount_of_ours_is_no_directory_to_stack_on() {
    let Some(place) = place() else { return };
    fs::create_dir(place.path("d/sub")).expect("made");
    place.runs(&stack(&["--stack", "d", "pm", "d"]), 0);
    for dir in ["d", "d/sub"] {
        let (_, said) = place.runs(&stack(&["--stack", dir, "pm2", "mnt"]), 2);
        assert!(said.contains("give the directory that is below it"), "{said}");
    }
    place.runs(&["umount", "d"], 0);
    place.runs(&["mount", "--daemon", "ram:bytefs", "mnt"], 0);
    fs::create_dir(place.path("mnt2")).expect("made");
    let (_, said) = place.runs(&stack(&["--stack", "mnt", "pm2", "mnt2"]), 2);
    assert!(said.contains("give the directory that is below it"), "{said}");
    place.runs(&["umount", "mnt"], 0);
    assert!(!place.path("pm2").exists());
}

#[test]
fn a_mount_for_reading_names_the_commands_that_read_without_one() {
    let Some(place) = used() else { return };
    let (_, said) = place.runs(&stack(&["--read-only", "--stack", "d", "pm", "mnt"]), 2);
    let d = place.path("d").canonicalize().expect("there").display().to_string();
    for command in ["ls --stack D PM`", "cat --stack D PM PATH`", "cp-out --stack D PM / PLACE`"] {
        let pm = place.path("pm").canonicalize().expect("there").display().to_string();
        let command = format!("`granary {}", command.replace('D', &d).replace("PM", &pm));
        assert!(said.contains(&command), "{command}: {said}");
    }
}

#[test]
fn a_directory_that_is_not_there_or_cannot_be_written_is_named() {
    let Some(place) = used() else { return };
    for (dir, why) in [("nodir", "no such directory"), ("d/f", "no directory")] {
        for args in [&stack(&["--stack", dir, "pm", "mnt"])[..], &["ls", "--stack", dir, "pm"]] {
            let (_, said) = place.runs(args, 2);
            assert!(said.contains(why) && said.contains(dir), "{args:?}: {said}");
        }
    }
    fs::create_dir(place.path("ro")).expect("made");
    let at = place.path("ro");
    if !rustix::process::geteuid().is_root() || rustix::mount::mount_bind(place.path("d"), &at).is_err() {
        return granary_suite::skip::skipped("nothing can be mounted");
    }
    let flags = rustix::mount::MountFlags::BIND | rustix::mount::MountFlags::RDONLY;
    let read_only = rustix::mount::mount_remount(&at, flags, "");
    let refused = place.ends(&stack(&["--stack", "ro", "pm", "mnt"]));
    let read = place.ends(&["cat", "--stack", "ro", "pm", "/f"]);
    let _ = rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH);
    read_only.expect("remounted");
    assert!(refused.0 == Some(2) && refused.1.contains("read-only mount"), "{refused:?}");
    assert_eq!(read.0, Some(0), "{read:?}");
}
