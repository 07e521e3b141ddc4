//! Names: directories, hard links, symbolic links, special files, rename with its flags.

use super::rig::{each, each_with};
use granary_fs::Caller;
use granary_mount::{Options, STATS_FILE};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, makedev, mknodat,
    renameat_with, statat, utimensat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::sync::Arc;

#[test]
fn directories_hold_what_is_put_into_them() {
    each(|rig| {
        fs::create_dir_all(rig.path("a/b/c")).expect("mkdir -p");
        let names: BTreeSet<String> = (0..2000).map(|i| format!("file with a longer name {i}")).collect();
        for n in &names {
            fs::write(rig.path("a/b/c").join(n), n).expect("write");
        }
        let list = || -> BTreeSet<String> {
            let entries = fs::read_dir(rig.path("a/b/c")).expect("readdir");
            entries.map(|e| e.expect("entry").file_name().into_string().expect("utf-8")).collect()
        };
        assert_eq!(list(), names);
        for n in names.iter().step_by(2) {
            fs::remove_file(rig.path("a/b/c").join(n)).expect("unlink");
        }
        assert_eq!(list(), names.iter().skip(1).step_by(2).cloned().collect());
        assert_eq!(
            fs::remove_dir(rig.path("a/b")).expect_err("not empty").kind(),
            ErrorKind::DirectoryNotEmpty
        );
        // Removes while it reads.
        fs::remove_dir_all(rig.path("a")).expect("rm -r");
        assert_eq!(
            fs::read_dir(rig.root()).expect("root").count(),
            usize::from(rig.path("lost+found").exists())
        );
    });
}

#[test]
fn reading_a_directory_ends_while_names_come() {
    each(|rig| {
        fs::create_dir(rig.path("d")).expect("mkdir");
        let make = |n: &str| drop(File::create(rig.path("d").join(n)).expect("create"));
        (0..300).for_each(|i| make(&format!("old{i}")));
        let (mut seen, mut steps) = (BTreeSet::new(), 0);
        for entry in fs::read_dir(rig.path("d")).expect("readdir") {
            let name = entry.expect("entry").file_name().into_string().expect("utf-8");
            make(&format!("new{steps}"));
            if name.starts_with("old") {
                assert!(seen.insert(name), "listed twice");
            }
            steps += 1;
            assert!(steps < 20_000, "{}: no end", rig.fs);
        }
        assert_eq!(seen.len(), 300);
        let again = fs::read_dir(rig.path("d")).expect("readdir").count();
        assert_eq!(again, 300 + steps, "a new reading tells everything");
        fs::remove_dir_all(rig.path("d")).expect("rm -r");
    });
}

#[test]
fn the_name_of_the_statistics_is_taken() {
    let stats: granary_mount::StatsHook = Arc::new(|_| "counted".to_owned());
    each_with(&Options { stats: Some(stats), ..Options::default() }, |rig| {
        // A real file of that name, from elsewhere: hidden.
        let new = granary_vfs::NewFile::file(0o644);
        let (node, _) = (rig.vfs)
            .create_or_get_for(&Caller::KERNEL, (0, 0), &rig.vfs.root(), STATS_FILE.as_bytes(), &new)
            .expect("makes it");
        drop(node);
        let told = || {
            assert_eq!(fs::read_to_string(rig.path(STATS_FILE)).expect("reads"), "counted");
            let names = fs::read_dir(rig.root()).expect("readdir").map(|e| e.expect("entry").file_name());
            assert!(names.into_iter().all(|n| n != STATS_FILE), "listed");
        };
        told();
        let (f, s) = (rig.path("f"), rig.path(STATS_FILE));
        File::create(&f).expect("create");
        let code = |r: std::io::Result<()>| r.expect_err("refused").raw_os_error();
        let (perm, exists) = (Some(Errno::PERM.raw_os_error()), Some(Errno::EXIST.raw_os_error()));
        assert_eq!(code(fs::rename(&f, &s)), perm);
        assert_eq!(code(fs::rename(&s, rig.path("g"))), perm);
        let swap = renameat_with(CWD, &f, CWD, &s, RenameFlags::EXCHANGE);
        assert_eq!(swap, Err(Errno::PERM));
        assert_eq!(code(fs::remove_file(&s)), perm);
        assert_eq!(code(fs::hard_link(&f, &s)), exists);
        assert_eq!(code(fs::create_dir(&s)), exists);
        assert_eq!(code(symlink("x", &s)), exists);
        let made = mknodat(CWD, &s, FileType::Fifo, Mode::RUSR, 0);
        assert_eq!(made, Err(Errno::EXIST));
        assert!(fs::write(&s, "x").is_err());
        told();
        // Elsewhere it is a name like others.
        fs::create_dir(rig.path("d")).expect("mkdir");
        fs::rename(&f, rig.path("d").join(STATS_FILE)).expect("rename");
        assert_eq!(fs::read(rig.path("d").join(STATS_FILE)).expect("reads"), b"");
    });
}

#[test]
fn names_that_cannot_be_are_refused() {
    each(|rig| {
        let long = "n".repeat(255);
        File::create(rig.path(&long)).expect("255 bytes fit");
        let e = File::create(rig.path(&(long.clone() + "x"))).expect_err("256 do not");
        assert_eq!(e.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
        assert_eq!(fs::metadata(rig.path("absent")).expect_err("absent").kind(), ErrorKind::NotFound);
        assert_eq!(fs::metadata(rig.path("absent")).expect_err("still").kind(), ErrorKind::NotFound);
        File::create(rig.path("absent")).expect("a name that was looked up in vain can be made");
        assert!(rig.path("absent").exists());
        let below = fs::metadata(rig.path("absent").join("x")).expect_err("a file has no entries");
        assert_eq!(below.kind(), ErrorKind::NotADirectory);
    });
}

#[test]
fn hard_links_are_one_file() {
    each(|rig| {
        fs::write(rig.path("one"), b"first").expect("write");
        fs::hard_link(rig.path("one"), rig.path("two")).expect("link");
        fs::write(rig.path("two"), b"second").expect("write");
        assert_eq!(fs::read(rig.path("one")).expect("read"), b"second");
        let (a, b) =
            (fs::metadata(rig.path("one")).expect("stat"), fs::metadata(rig.path("two")).expect("stat"));
        assert_eq!((a.ino(), a.nlink(), b.nlink()), (b.ino(), 2, 2));
        fs::remove_file(rig.path("one")).expect("unlink");
        assert_eq!(fs::metadata(rig.path("two")).expect("stat").nlink(), 1);
        fs::create_dir(rig.path("dir")).expect("mkdir");
        let e = fs::hard_link(rig.path("dir"), rig.path("dir2")).expect_err("directories have one name");
        assert_eq!(e.kind(), ErrorKind::PermissionDenied);
    });
}

#[test]
fn symbolic_links_lead_on() {
    each(|rig| {
        fs::create_dir(rig.path("dir")).expect("mkdir");
        fs::write(rig.path("dir/file"), b"there").expect("write");
        symlink("dir/file", rig.path("link")).expect("symlink");
        assert_eq!(fs::read(rig.path("link")).expect("through the link"), b"there");
        assert_eq!(fs::read_link(rig.path("link")).expect("readlink").to_str(), Some("dir/file"));
        assert!(fs::symlink_metadata(rig.path("link")).expect("lstat").is_symlink());
        let long = "x/".repeat(2000);
        symlink(&long, rig.path("long")).expect("long targets");
        assert_eq!(fs::read_link(rig.path("long")).expect("readlink").to_str(), Some(long.as_str()));
        symlink("loop", rig.path("loop")).expect("symlink");
        let e = fs::read(rig.path("loop")).expect_err("a circle");
        assert_eq!(e.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    });
}

#[test]
fn special_files_keep_their_kind_and_number() {
    each(|rig| {
        for (name, kind, dev) in [
            ("fifo", FileType::Fifo, 0),
            ("socket", FileType::Socket, 0),
            ("char", FileType::CharacterDevice, makedev(1, 3)),
            ("block", FileType::BlockDevice, makedev(259, 70_000)),
        ] {
            mknodat(CWD, rig.path(name), kind, Mode::from_raw_mode(0o640), dev).expect(name);
            let st = statat(CWD, rig.path(name), AtFlags::SYMLINK_NOFOLLOW).expect("stat");
            assert_eq!(FileType::from_raw_mode(st.st_mode), kind);
            assert_eq!(st.st_rdev, dev, "{name}");
        }
        assert!(fs::metadata(rig.path("fifo")).expect("stat").file_type().is_fifo());
    });
}

#[test]
fn rename_replaces_refuses_or_exchanges_as_told() {
    each(|rig| {
        let rename = |a: &str, b: &str, flags| renameat_with(CWD, rig.path(a), CWD, rig.path(b), flags);
        let content = |name: &str| fs::read_to_string(rig.path(name)).expect(name);
        fs::create_dir_all(rig.path("d/sub")).expect("mkdir");
        fs::write(rig.path("a"), "A").expect("write");
        fs::write(rig.path("d/b"), "B").expect("write");
        assert_eq!(rename("a", "d/b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
        rename("a", "d/b", RenameFlags::EXCHANGE).expect("exchange");
        assert_eq!((content("a"), content("d/b")), ("B".to_owned(), "A".to_owned()));
        rename("a", "d/b", RenameFlags::empty()).expect("replace");
        assert_eq!(content("d/b"), "B");
        assert!(!rig.path("a").exists());
        assert_eq!(rename("a", "x", RenameFlags::EXCHANGE), Err(Errno::NOENT));
        assert_eq!(rename("d", "d/sub/x", RenameFlags::empty()), Err(Errno::INVAL));
        rename("d/sub", "sub", RenameFlags::NOREPLACE).expect("a directory moves");
        let up = fs::metadata(rig.path("sub/..")).expect("stat").ino();
        assert_eq!(up, fs::metadata(rig.root()).expect("stat").ino());
        assert_eq!(fs::metadata(rig.path("d")).expect("stat").nlink(), 2);
    });
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    each(|rig| {
        fs::write(rig.path("f"), "x").expect("write");
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() as i64;
        let made = fs::metadata(rig.path("f")).expect("stat").mtime();
        assert!((now - made).abs() <= 2, "made at {made}, now is {now}");
        let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let set = |last_access, last_modification| {
            let times = Timestamps { last_access, last_modification };
            utimensat(CWD, rig.path("f"), &times, AtFlags::empty()).expect("utimensat");
            let m = fs::metadata(rig.path("f")).expect("stat");
            ((m.atime(), m.atime_nsec()), (m.mtime(), m.mtime_nsec()))
        };
        let times = set(at(1_000_000_000, 123_456_789), at(1, 1));
        assert_eq!(times, ((1_000_000_000, 123_456_789), (1, 1)));
        let times = set(at(-2, 800_000_000), at(0, UTIME_OMIT as _));
        assert_eq!(times, ((-2, 800_000_000), (1, 1)), "before 1970, and left alone");
        let times = set(at(0, UTIME_OMIT as _), at(0, UTIME_NOW as _));
        assert_eq!(times.0, (-2, 800_000_000));
        assert!((times.1.0 - now).abs() <= 5);
    });
}
