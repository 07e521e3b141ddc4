//! A directory with persistent memory in front of it: whole again after each mount; what does not fit is
//! refused.

use super::*;
use granary_fs::Cred;
use granary_units::{Dest, Payload};
use granary_vfs::{OpenFlags, Posix, Process};

mod looking;

fn stack<'a>(dir: &'a Path, image: &'a Path, options: &'a toml::Table) -> Stack<'a> {
    let vfs = VfsConfig { inodes: 64, page_cache: Bytes::mib(4), ..VfsConfig::default() };
    Stack { dir, image, size: Bytes::mib(16), durability: Durability::Process, forget: false, vfs, options }
}

/// Data written through the stack is there again after an unmount, also where the file was renamed beside it.
/// All of it is in the directory after an unmount that demotes.
#[test]
fn a_directory_keeps_its_files_and_gets_them_back_whole() {
    let place = tempfile::tempdir().expect("a directory");
    let (dir, image) = (place.path().join("dir"), place.path().join("pm"));
    std::fs::create_dir_all(dir.join("sub")).expect("made");
    std::fs::write(dir.join("sub/f"), vec![1; 10_000]).expect("written");
    let eager = toml::from_str("promote_after = 2").expect("TOML");
    {
        let stacked = open(&stack(&dir, &image, &eager)).expect("opens");
        let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
        let fd = p.open("/sub/f", OpenFlags::RDWR, 0).expect("open");
        for n in 0..4u64 {
            p.pwrite(fd, Payload::Fill { word: 0x0202_0202_0202_0202, len: 100 }, 100 * n).expect("write");
            p.fsync(fd).expect("fsync");
        }
        p.pwrite(fd, Payload::Fill { word: 0x0303_0303_0303_0303, len: 5 }, 10_000).expect("write");
        p.exit();
        stacked.vfs.unmount().expect("unmounts");
        drop((stacked.vfs, stacked.devices));
        stacked.image.close().expect("closes");
    }
    assert_eq!(
        std::fs::metadata(dir.join("sub/f")).expect("there").len(),
        10_000,
        "the newest is in the image"
    );
    std::fs::rename(dir.join("sub/f"), dir.join("g")).expect("renamed");
    let leaving = toml::from_str("demote_at_unmount = true").expect("TOML");
    let stacked = open(&stack(&dir, &image, &leaving)).expect("opens");
    let mut expected = vec![1; 10_005];
    expected[..400].fill(2);
    expected[10_000..].fill(3);
    let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
    let fd = p.open("/g", OpenFlags::RDONLY, 0).expect("open");
    let mut content = vec![0; 20_000];
    assert_eq!(p.read(fd, Dest::Bytes(&mut content)), Ok(10_005));
    assert!(content[..10_005] == expected);
    p.exit();
    stacked.vfs.unmount().expect("unmounts");
    drop((stacked.vfs, stacked.devices));
    stacked.image.close().expect("closes");
    assert!(std::fs::read(dir.join("g")).expect("there") == expected, "the directory has all");
}

/// Mounts, has a file's first 100 bytes written and fsynced often enough for it to move to the image, and
/// unmounts.
fn write(dir: &Path, image: &Path, name: &str, byte: u8) {
    let eager = toml::from_str("promote_after = 2").expect("TOML");
    let stacked = open(&stack(dir, image, &eager)).expect("opens");
    let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
    let fd = p.open(name, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("open");
    for _ in 0..4 {
        p.pwrite(fd, Payload::Bytes(&[byte; 100]), 0).expect("write");
        p.fsync(fd).expect("fsync");
    }
    p.exit();
    close(stacked);
}

fn close(stacked: Stacked) {
    let Stacked { vfs, image, devices, .. } = stacked;
    vfs.unmount().expect("unmounts");
    drop((vfs, devices));
    image.close().expect("closes");
}

fn first_byte(stacked: &Stacked, name: &str) -> u8 {
    let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
    let fd = p.open(name, OpenFlags::RDONLY, 0).expect("open");
    let mut byte = [0];
    p.pread(fd, Dest::Bytes(&mut byte), 0).expect("read");
    p.exit();
    byte[0]
}

struct Place {
    _all: tempfile::TempDir,
    dir: std::path::PathBuf,
    image: std::path::PathBuf,
    none: toml::Table,
}

impl Place {
    /// A directory with a file whose newest bytes are in an image.
    fn paired() -> Place {
        let all = tempfile::tempdir().expect("a directory");
        let (dir, image) = (all.path().join("dir"), all.path().join("pm"));
        std::fs::create_dir(&dir).expect("made");
        write(&dir, &image, "/f", 1);
        Place { _all: all, dir, image, none: toml::Table::new() }
    }

    fn beside(&self, name: &str) -> std::path::PathBuf {
        self._all.path().join(name)
    }

    fn refused(&self, dir: &Path, image: &Path) -> String {
        match open(&stack(dir, image, &self.none)) {
            Err(e) => e.to_string(),
            Ok(_) => panic!("it was taken"),
        }
    }

    /// With `forget`, what does not fit is given up, and that is told.
    fn forgetting(&self, dir: &Path, image: &Path) -> Stacked {
        let how = Stack { forget: true, ..stack(dir, image, &self.none) };
        let stacked = open(&how).expect("opens");
        assert!(stacked.lost.as_ref().is_some_and(|lost| lost.contains("given up")), "{:?}", stacked.lost);
        stacked
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(done.expect("cp runs").success());
}

#[test]
fn a_new_image_over_a_directory_that_has_one_is_refused_and_nothing_is_made() {
    let place = Place::paired();
    let other = place.beside("typing-error");
    assert!(place.refused(&place.dir, &other).contains("another persistent memory"));
    assert!(!other.exists(), "the next try would find it");
    // The right one is as before.
    let stacked = open(&stack(&place.dir, &place.image, &place.none)).expect("opens");
    assert_eq!(first_byte(&stacked, "/f"), 1);
    close(stacked);
    close(place.forgetting(&place.dir, &other));
}

#[test]
fn an_older_copy_of_the_image_is_refused() {
    let place = Place::paired();
    let old = place.beside("old");
    copy(&place.image, &old);
    write(&place.dir, &place.image, "/f", 2);
    assert!(place.refused(&place.dir, &old).contains("older copy"));
    let stacked = open(&stack(&place.dir, &place.image, &place.none)).expect("opens");
    assert_eq!(first_byte(&stacked, "/f"), 2);
    close(stacked);
}

#[test]
fn an_image_whose_files_have_all_gone_below_is_paired_with_nothing() {
    let place = Place::paired();
    let old = place.beside("old");
    copy(&place.image, &old);
    let leaving = toml::from_str("demote_at_unmount = true").expect("TOML");
    close(open(&stack(&place.dir, &place.image, &leaving)).expect("opens"));
    std::fs::write(place.dir.join("f"), [9; 100]).expect("the directory alone is the file now");
    assert!(place.refused(&place.dir, &old).contains("knows of none"), "old bytes would come back");
    // Any image may come now.
    let stacked = open(&stack(&place.dir, &place.beside("new"), &place.none)).expect("opens");
    assert_eq!(first_byte(&stacked, "/f"), 9);
    close(stacked);
}

#[test]
fn a_copy_of_the_directory_is_refused() {
    let place = Place::paired();
    let other = place.beside("other");
    copy(&place.dir, &other);
    let why = place.refused(&other, &place.image);
    assert!(why.contains("what is below is a copy of the directory"), "{why}");
    close(place.forgetting(&other, &place.image));
}

#[test]
fn files_that_are_gone_from_the_directory_are_given_up_only_when_asked() {
    let place = Place::paired();
    // The same name and bytes, another file.
    let f = place.dir.join("f");
    let bytes = std::fs::read(&f).expect("there");
    std::fs::write(place.dir.join("g"), bytes).expect("written");
    std::fs::rename(place.dir.join("g"), &f).expect("renamed");
    for _ in 0..2 {
        assert!(place.refused(&place.dir, &place.image).contains("1 files"));
    }
    close(place.forgetting(&place.dir, &place.image));
    close(open(&stack(&place.dir, &place.image, &place.none)).expect("it fits again"));
}

#[test]
fn a_directory_has_one_stack_at_a_time() {
    let place = Place::paired();
    let first = open(&stack(&place.dir, &place.image, &place.none)).expect("opens");
    assert!(place.refused(&place.dir, &place.beside("second")).contains("unmount that first"));
    close(first);
    close(open(&stack(&place.dir, &place.image, &place.none)).expect("it is free"));
}

#[test]
fn an_image_within_the_directory_is_refused() {
    let place = Place::paired();
    assert!(place.refused(&place.dir, &place.dir.join("pm")).contains("outside"));
    assert!(!place.dir.join("pm").exists());
}

/// A file of which the directory has no block is none of holes: tar would archive zeros.
#[test]
fn blocks_in_persistent_memory_count() {
    let place = Place::paired();
    std::fs::OpenOptions::new()
        .write(true)
        .open(place.dir.join("f"))
        .expect("opens")
        .set_len(0)
        .expect("cut");
    let stacked = open(&stack(&place.dir, &place.image, &place.none)).expect("opens");
    let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
    assert!(p.stat("/f").expect("stat").attr.blocks > 0);
    p.exit();
    close(stacked);
}

/// A refused mount demotes nothing, whatever its unmount was to do; nor does it count as an unclean end.
#[test]
fn a_mount_that_was_to_demote_all_is_refused_like_any() {
    let place = Place::paired();
    write(&place.dir, &place.image, "/g", 3);
    write(&place.dir, &place.image, "/g", 4);
    std::fs::remove_file(place.dir.join("f")).expect("removed");
    let before = std::fs::read(place.dir.join("g")).expect("there");
    assert_eq!(before, [3; 100], "the newest bytes are in the image");
    let leaving = toml::from_str("demote_at_unmount = true").expect("TOML");
    for _ in 0..2 {
        let refused = open(&stack(&place.dir, &place.image, &leaving)).err().expect("refused");
        assert!(refused.to_string().contains("1 files"), "{refused}");
    }
    assert_eq!(std::fs::read(place.dir.join("g")).expect("there"), before);
}

/// A file removed beside a mount is not taken for demoted: its newest bytes would be in a file without a
/// name.
#[test]
fn a_file_removed_beside_the_mount_fails_a_demotion_of_all_and_keeps_its_bytes() {
    for open_at_the_end in [false, true] {
        let place = Place::paired();
        let leaving = toml::from_str("demote_at_unmount = true\ndemotion = false").expect("TOML");
        let Stacked { vfs, image, devices, .. } =
            open(&stack(&place.dir, &place.image, &leaving)).expect("opens");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDWR, 0).expect("open");
        p.pwrite(fd, Payload::Bytes(&[5; 10]), 0).expect("write");
        p.fsync(fd).expect("fsync");
        if !open_at_the_end {
            p.close(fd).expect("close");
        }
        std::fs::remove_file(place.dir.join("f")).expect("removed");
        p.exit();
        let failed = vfs.unmount().expect_err("its bytes cannot go below");
        assert!(failed.to_string().contains("1 files"), "{failed}");
        drop((vfs, devices));
        image.close().expect("closes");
        assert!(place.refused(&place.dir, &place.image).contains("1 files"));
    }
}

/// One removed through the mount is no such file.
#[test]
fn a_file_removed_through_the_mount_is_gone() {
    let place = Place::paired();
    let leaving = toml::from_str("demote_at_unmount = true").expect("TOML");
    let stacked = open(&stack(&place.dir, &place.image, &leaving)).expect("opens");
    let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
    let fd = p.open("/f", OpenFlags::RDWR, 0).expect("open");
    p.unlink("/f").expect("removed");
    p.pwrite(fd, Payload::Bytes(&[5; 10]), 0).expect("write");
    p.exit();
    close(stacked);
    close(open(&stack(&place.dir, &place.image, &place.none)).expect("opens"));
}
