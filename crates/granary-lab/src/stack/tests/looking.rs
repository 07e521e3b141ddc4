//! Looks and checks without a mount.

use super::*;
use crate::image::Findings;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

fn config() -> VfsConfig {
    VfsConfig { inodes: 64, page_cache: Bytes::mib(4), ..VfsConfig::default() }
}

/// Everything in two directories: bytes, and of files what the host says of them. Times of access are asked
/// for before bytes are read.
fn all(place: &Place) -> BTreeMap<PathBuf, (Vec<u8>, [i64; 4])> {
    let mut seen = BTreeMap::new();
    for dir in [&place.dir, &place.image] {
        let names: Vec<PathBuf> =
            std::fs::read_dir(dir).expect("listed").map(|e| e.expect("an entry").path()).collect();
        for path in names {
            let m = std::fs::metadata(&path).expect("there");
            seen.insert(
                path.clone(),
                (
                    std::fs::read(path).expect("read"),
                    [m.size() as i64, m.mtime_nsec(), m.ctime_nsec(), m.ino() as i64],
                ),
            );
        }
    }
    seen
}

fn look_at(place: &Place) -> Look {
    look(&place.dir, &place.image, config()).expect("opens")
}

fn refused_look(dir: &Path, image: &Path) -> String {
    look(dir, image, config()).err().expect("refused").to_string()
}

fn read(look: &Look, name: &str) -> Vec<u8> {
    let mut p = Process::new(look.vfs.clone(), Cred::ROOT);
    let fd = p.open(name, OpenFlags::RDONLY, 0).expect("open");
    let mut bytes = vec![0; 1000];
    let n = p.pread(fd, Dest::Bytes(&mut bytes), 0).expect("read");
    bytes.truncate(n);
    p.exit();
    bytes
}

fn findings(place: &Place) -> Findings {
    check(&place.dir, &place.image, config()).expect("checks")
}

#[test]
fn a_look_reads_the_newest_bytes_and_changes_nothing() {
    let place = Place::paired();
    std::fs::write(place.dir.join("plain"), "plain").expect("written");
    let before = all(&place);
    let one = look_at(&place);
    assert_eq!((read(&one, "/f"), read(&one, "/plain")), (vec![1; 100], b"plain".to_vec()));
    assert_eq!((one.fs.stats().tiered, &one.note), (1, &None));
    // The directory is locked against mounts.
    assert!(place.refused(&place.dir, &place.beside("another")).contains("unmount that first"));
    one.close().expect("closes");
    assert_eq!(findings(&place).wrong, [] as [&str; 0]);
    assert!(all(&place) == before);
    close(open(&stack(&place.dir, &place.image, &place.none)).expect("still fits"));
}

/// The copy of an image that is in use is what a kill would leave.
#[test]
fn a_look_at_what_was_killed_recovers_in_memory_alone() {
    let place = Place::paired();
    let stacked = open(&stack(&place.dir, &place.image, &toml::from_str("promote_after = 2").expect("TOML")))
        .expect("opens");
    let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
    let fd = p.open("/f", OpenFlags::RDWR, 0).expect("open");
    p.pwrite(fd, Payload::Bytes(&[2; 50]), 0).expect("write");
    p.fsync(fd).expect("fsync");
    let killed = place.beside("killed");
    copy(&place.image, &killed);
    p.exit();
    // Without what an unmount would do.
    let Stacked { vfs, lock, .. } = stacked;
    drop((vfs, lock));
    let place = Place { image: killed, ..place };
    let before = all(&place);
    let look = look_at(&place);
    assert_eq!(read(&look, "/f"), [[2; 50], [1; 50]].concat());
    look.close().expect("closes");
    let found = findings(&place);
    assert!(found.unclean && found.wrong.is_empty(), "{:?}", found.wrong);
    assert!(all(&place) == before);
    // A file that is gone is told, and is no fault: it may have been removed before the kill.
    std::fs::remove_file(place.dir.join("f")).expect("removed");
    let found = findings(&place);
    assert!(
        found.wrong.is_empty() && found.note.as_ref().is_some_and(|note| note.contains("1 files")),
        "{found:?}"
    );
    assert!(look_at(&place).note.is_some());
}

#[test]
fn a_check_names_what_is_missing_and_what_does_not_fit() {
    let place = Place::paired();
    let old = place.beside("old");
    copy(&place.image, &old);
    write(&place.dir, &place.image, "/f", 2);
    let found = check(&place.dir, &old, config()).expect("checks");
    assert!(found.wrong.len() == 1 && found.wrong[0].contains("older copy"), "{:?}", found.wrong);
    assert!(refused_look(&place.dir, &old).contains("older copy"));
    let number = std::fs::metadata(place.dir.join("f")).expect("there").ino();
    std::fs::rename(place.dir.join("f"), place.beside("moved-out")).expect("moved");
    let found = findings(&place);
    assert!(
        found.wrong.len() == 1 && found.wrong[0].contains(&format!("number {number} ")),
        "{:?}",
        found.wrong
    );
    let look = look_at(&place);
    assert!(
        look.note.as_ref().is_some_and(|note| note.contains(&format!("number {number} "))),
        "{:?}",
        look.note
    );
    look.close().expect("closes");
    // Put back, it is the same file.
    std::fs::rename(place.beside("moved-out"), place.dir.join("again")).expect("moved");
    assert_eq!(findings(&place).wrong, [] as [&str; 0]);
    let look = look_at(&place);
    assert_eq!(read(&look, "/again"), [2; 100]);
    look.close().expect("closes");
}

#[test]
fn a_mounted_image_and_one_of_another_kind_are_not_looked_at() {
    let place = Place::paired();
    let stacked = open(&stack(&place.dir, &place.image, &place.none)).expect("opens");
    assert!(refused_look(&place.dir, &place.image).contains("is mounted"));
    assert!(
        check(&place.dir, &place.image, config()).expect_err("refused").to_string().contains("is mounted")
    );
    close(stacked);
    assert!(refused_look(&place.beside("nowhere"), &place.image).contains("nowhere"));
    let other = place.beside("bytefs");
    let new = crate::image::NewImage {
        fs: "bytefs",
        size: Bytes::mib(256),
        testbed: "bytefs-emulator",
        sets: &[],
        label: "",
        force: false,
        date: granary_fs::Time(0),
        owner: (0, 0),
    };
    crate::image::make(&other, &new).expect("made");
    assert!(refused_look(&place.dir, &other).contains("leave --stack away"));
    assert!(!is_stacked(&other) && is_stacked(&place.image));
}

#[test]
fn an_image_remembers_where_its_directory_is() {
    let place = Place::paired();
    assert_eq!(directory(&place.image), Some(place.dir.canonicalize().expect("there")));
    let moved = place.beside("a b");
    std::fs::rename(&place.dir, &moved).expect("moved");
    close(open(&stack(&moved, &place.image, &place.none)).expect("opens"));
    assert_eq!(directory(&place.image), Some(moved.canonicalize().expect("there")));
    assert!(directory_shown(&place.image).starts_with('\''), "quoted for a shell");
    std::fs::remove_file(place.image.join("below")).expect("removed");
    assert_eq!(directory_shown(&place.image), "DIR");
}
