//! Images on the command line: made, filled, listed, copied out, checked; what is wrong is said with the exit
//! code.

use assert_cmd::Command;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// stdout and stderr of a command that must end with `code`.
fn ends(args: &[&str], code: i32) -> (String, String) {
    let mut c = Command::cargo_bin("granary").expect("the binary is built");
    let out = c.args(args).assert().code(code).get_output().clone();
    (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A tree with everything that is copied: many files, a large one with a hole, modes, both kinds of links.
fn tree(at: &Path) {
    fs::create_dir_all(at.join("many/deep")).expect("directory");
    for i in 0..200 {
        fs::write(at.join(format!("many/file{i}")), format!("content of {i}\n").repeat(i)).expect("file");
    }
    let big = fs::File::create(at.join("big")).expect("file");
    big.write_all_at(&[7; 100_000], 0).expect("written");
    big.write_all_at(b"the end", 5_000_000).expect("written");
    fs::set_permissions(at.join("big"), fs::Permissions::from_mode(0o640)).expect("mode");
    fs::hard_link(at.join("big"), at.join("many/deep/same")).expect("link");
    symlink("../many/file7", at.join("many/pointer")).expect("link");
    // Where the host's file system has no attributes, both sides have none.
    for (name, path) in [("user.color", "big"), ("user.shape", "many")] {
        let _ = rustix::fs::setxattr(at.join(path), name, b"as it was", rustix::fs::XattrFlags::empty());
    }
}

/// The names of a file's extended attributes, and a value.
fn attributes(path: &Path) -> String {
    let (mut names, mut value) = ([0; 1000], [0; 1000]);
    let n = rustix::fs::lgetxattr(path, "user.color", &mut value[..]).unwrap_or(0);
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    format!("{} {}", String::from_utf8_lossy(&names[..len]), String::from_utf8_lossy(&value[..n]))
}

/// Paths, modes, sizes, times, links, contents and attributes below a directory, pipes left out.
fn describe(at: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut entries: Vec<_> =
        fs::read_dir(at).expect("directory").map(|e| e.expect("entry").path()).collect();
    entries.sort();
    for path in entries {
        let m = path.symlink_metadata().expect("metadata");
        if m.file_type().is_fifo() {
            continue;
        }
        let content = match () {
            () if m.is_symlink() => format!("{:?}", fs::read_link(&path).expect("link")),
            () if m.is_dir() => String::new(),
            () => format!("{:x}", md(&fs::read(&path).expect("read"))),
        };
        let name = path.file_name().expect("a name").to_owned();
        let size = if m.is_dir() { 0 } else { m.len() };
        let links = if m.is_dir() { 0 } else { m.nlink() };
        let (mode, mtime, attributes) = (m.mode(), m.mtime(), attributes(&path));
        out.push(format!("{name:?} {mode:o} {size} {links} {mtime} {content} {attributes}"));
        if m.is_dir() {
            out.extend(describe(&path));
        }
    }
    out
}

fn md(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |h, b| (h ^ *b as u64).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn a_tree_goes_into_an_image_and_comes_out_the_same() {
    for fs_name in ["bytefs", "ext4"] {
        let dir = tempfile::tempdir().expect("directory");
        let (img, src, out) = (dir.path().join("img"), dir.path().join("src"), dir.path().join("out"));
        tree(&src);
        ends(&["mkfs", text(&img), "--fs", fs_name, "--size", "512MiB"], 0);
        ends(&["cp-in", text(&img), text(&src), "/copy"], 0);
        let (listed, _) = ends(&["ls", "-l", text(&img), "/copy"], 0);
        assert!(listed.contains("-rw-r-----   2") && listed.contains("5000007"), "{listed}");
        let (cat, _) = ends(&["cat", text(&img), "/copy/many/pointer"], 0);
        assert_eq!(cat, "content of 7\n".repeat(7));
        ends(&["cp-out", text(&img), "/copy", text(&out)], 0);
        assert_eq!(describe(&out), describe(&src), "{fs_name}");
        let (wrong, said) = ends(&["fsck", text(&img)], 0);
        assert!(wrong.is_empty() && said.contains("clean"), "{wrong}{said}");

        let (json, _) = ends(&["stat", text(&img), "--json"], 0);
        let v: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((v["image"]["fs"].as_str(), v["clean"].as_bool()), (Some(fs_name), Some(true)));
        assert!(v["pages"].as_u64() >= Some(512 << 8) && v["space"]["free_blocks"].as_u64() > Some(100_000));
        assert!(v["counters"]["commands"]["write_pages"].as_u64() > Some(20), "{json}");
        let (shown, _) = ends(&["stat", text(&img)], 0);
        assert!(!shown.contains("not closed") && shown.contains("write amplification"), "{shown}");
    }
}

/// Copies go over copies: links, which cannot be written over, included. Times of symbolic links come along.
#[test]
fn copying_again_replaces_what_is_there() {
    let dir = tempfile::tempdir().expect("directory");
    let (img, src, out) = (dir.path().join("img"), dir.path().join("src"), dir.path().join("out"));
    tree(&src);
    let fifo = rustix::fs::mknodat(
        rustix::fs::CWD,
        src.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    );
    fifo.expect("mkfifo");
    let old = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 5 };
    let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
    let pointer = src.join("many/pointer");
    rustix::fs::utimensat(rustix::fs::CWD, &pointer, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .expect("dated");
    ends(&["mkfs", text(&img), "--size", "512MiB"], 0);
    fs::create_dir(&out).expect("directory");
    for round in 0..2 {
        ends(&["cp-in", text(&img), text(&src), "/"], 0);
        ends(&["cp-out", text(&img), "/src", text(&out)], 0);
        let fifo = out.join("src/fifo").symlink_metadata().expect("copied");
        assert!(fifo.file_type().is_fifo() && fifo.mode() & 0o7777 == 0o600);
        assert_eq!(describe(&out.join("src")), describe(&src), "round {round}");
        // A link to elsewhere in the place of a file is replaced, not written through.
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").expect("file");
        fs::remove_file(out.join("src/many/file3")).expect("there");
        symlink(&victim, out.join("src/many/file3")).expect("link");
    }
    ends(&["cp-out", text(&img), "/src", text(&out)], 0);
    assert_eq!(fs::read(dir.path().join("victim")).expect("read"), b"mine");
    assert_eq!(describe(&out.join("src")), describe(&src));
    ends(&["fsck", text(&img)], 0);
}

/// Of a special file a new one takes the place of what is there; where none can be made, that stays.
#[test]
fn a_special_file_is_made_anew_and_nothing_is_lost_where_it_cannot_be() {
    let dir = tempfile::tempdir().expect("directory");
    let (img, src, out) = (dir.path().join("img"), dir.path().join("src"), dir.path().join("out"));
    fs::create_dir(&src).expect("directory");
    let made = |name: &str, kind, device| {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            src.join(name),
            kind,
            rustix::fs::Mode::from_raw_mode(0o640),
            device,
        )
    };
    made("pipe", rustix::fs::FileType::Fifo, 0).expect("mkfifo");
    // /dev/null, where this user may make one.
    let device = made("null", rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 3)).is_ok();
    ends(&["mkfs", text(&img), "--size", "64MiB"], 0);
    ends(&["cp-in", text(&img), text(&src), "/"], 0);
    fs::create_dir(&out).expect("directory");
    fs::write(out.join("pipe"), "precious").expect("written");
    ends(&["cp-out", text(&img), "/src/pipe", text(&out)], 0);
    let m = out.join("pipe").symlink_metadata().expect("there");
    assert!(m.file_type().is_fifo() && m.mode() & 0o777 == 0o640);
    if device {
        ends(&["cp-out", text(&img), "/src/null", text(&out)], 0);
        assert_eq!(out.join("null").symlink_metadata().expect("there").rdev(), rustix::fs::makedev(1, 3));
    }
    // In the place of a directory nothing can be made.
    fs::create_dir_all(out.join("src/pipe")).expect("directory");
    fs::write(out.join("src/pipe/kept"), "precious").expect("written");
    let said = ends(&["cp-out", text(&img), "/src", text(&out)], 1).1;
    assert!(said.contains("src/pipe"), "{said}");
    assert_eq!(fs::read(out.join("src/pipe/kept")).expect("there"), b"precious");
    assert_eq!(fs::read_dir(out.join("src")).expect("there").count(), 1 + usize::from(device));
}

/// Where data is in a file, in bytes.
fn data_of(path: &Path) -> Vec<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    let file = fs::File::open(path).expect("opens");
    let (mut at, mut all) = (0, Vec::new());
    while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(start)).expect("at the latest the end");
        all.push((start, at));
    }
    all
}

/// A TiB of holes is not read; small holes are not filled.
#[test]
fn holes_go_in_and_come_out_as_they_are() {
    const TIB: u64 = 1 << 40;
    for fs_name in ["bytefs", "ext4", "f2fs", "nova", "pmfs"] {
        let dir = tempfile::tempdir().expect("directory");
        let (img, src, out) = (dir.path().join("img"), dir.path().join("src"), dir.path().join("out"));
        let f = fs::File::create(&src).expect("file");
        let pieces =
            [(0, 4096), (8192, 4096), (1 << 20, 200_704), ((1 << 20) + (1 << 19), 8192), (TIB - 4096, 4096)];
        // Only file systems with files of a TiB get such a file.
        let pieces = if ["f2fs", "pmfs"].contains(&fs_name) { &pieces[..4] } else { &pieces[..] };
        for &(at, len) in pieces {
            f.write_all_at(&vec![at as u8 | 1; len], at).expect("written");
        }
        f.set_len(if pieces.len() == 5 { TIB + 12_345 } else { 1 << 30 }).expect("sparse");
        ends(&["mkfs", text(&img), "--fs", fs_name, "--size", "64MiB"], 0);
        ends(&["cp-in", text(&img), text(&src), "/f"], 0);
        ends(&["cp-out", text(&img), "/f", text(&out)], 0);
        assert_eq!(out.metadata().expect("there").len(), src.metadata().expect("there").len());
        assert_eq!(data_of(&out), data_of(&src), "{fs_name}");
        for &(at, len) in pieces {
            let mut read = vec![0; len];
            fs::File::open(&out).expect("opens").read_exact_at(&mut read, at).expect("read");
            assert!(read.iter().all(|&b| b == at as u8 | 1), "{fs_name} at {at}");
        }
    }
}

/// A page of the drive that cannot be read is told of with the file that has it; the other files come out.
#[test]
fn fsck_names_the_file_of_an_unreadable_page() {
    let dir = tempfile::tempdir().expect("directory");
    let (img, src, out) = (dir.path().join("img"), dir.path().join("src"), dir.path().join("out"));
    fs::create_dir(&src).expect("directory");
    let marked = b"a page that will be hurt".repeat(1000);
    fs::write(src.join("hurt"), &marked).expect("file");
    fs::write(src.join("whole"), "whole").expect("file");
    ends(&["mkfs", text(&img), "--size", "64MiB", "--set", "firmware.log_region=1MiB"], 0);
    ends(&["cp-in", text(&img), text(&src), "/"], 0);
    let flash = fs::OpenOptions::new().read(true).write(true).open(img.join("flash")).expect("flash");
    let mut page = [0; 4096];
    let at = (0..).map(|n| n * 4096).find(|&at| {
        flash.read_exact_at(&mut page, at).expect("it is there");
        page == marked[..4096]
    });
    flash.write_all_at(b"X", at.expect("found") + 100).expect("written");
    let (wrong, said) = ends(&["fsck", text(&img)], 1);
    assert!(wrong.contains("/src/hurt: cannot be read from byte 0 on"), "{wrong}");
    assert!(!wrong.contains("whole") && said.contains("cp-out"), "{wrong}{said}");
    // A repair says so, too, and leaves it: zeros would look like content.
    assert!(said.contains("no repair brings back") && !said.contains("fsck --repair"), "{said}");
    let (left, said) = ends(&["fsck", text(&img), "--repair"], 1);
    assert!(left.contains("left: /src/hurt: bytes 0 to 4095 cannot be read"), "{left}{said}");
    assert!(ends(&["cp-out", text(&img), "/src", text(&out)], 1).1.contains("/src/hurt"));
    assert_eq!(fs::read(out.join("whole")).expect("read"), b"whole");
    fs::OpenOptions::new().write(true).open(img.join("dram")).expect("dram").set_len(0).expect("cut");
    let said = ends(&["fsck", text(&img)], 1).1;
    assert!(said.contains("cannot be opened") && !said.contains("cp-out"), "{said}");
}

/// Flips one bit in `flash` of each of these pages of an image's drive, and of what else has their content.
fn flip(img: &Path, pages: &[u64]) {
    use granary_device::{Port, Role, Structure};
    use granary_image::{Durability, Image};
    use granary_units::{Lpa, Page};
    let (image, devices) = Image::open(img, Durability::Process, false).expect("opens");
    let drive = devices.get(Role::Ssd).expect("an SSD").drive().clone();
    // Not a line of them is in the log any more.
    drive.settle(granary_sim::now()).expect("settles");
    let port = Port::new(drive);
    let content = |lba: &u64| {
        let mut page = [Page::ZERO];
        port.read(Lpa(*lba), &mut page, Structure::Data).expect("reads");
        page[0].to_bytes()
    };
    let wanted: Vec<[u8; 4096]> = pages.iter().map(content).collect();
    drop(port);
    image.close().expect("closes");
    let mut flash = fs::OpenOptions::new().read(true).write(true).open(img.join("flash")).expect("flash");
    let (mut at, mut found, mut page) = (0, 0, [0; 4096]);
    while flash.read_exact(&mut page).is_ok() {
        if wanted.contains(&page) {
            flash.write_all_at(&[page[77] ^ 4], at + 77).expect("written");
            found += 1;
        }
        at += 4096;
    }
    assert!(found >= pages.len(), "{found} of pages {pages:?} are in flash");
}

/// The contents of the files below a directory.
fn contents(dir: &Path) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("listed").path();
        if path.is_dir() { all.extend(contents(&path)) } else { all.push(fs::read(path).expect("readable")) }
    }
    all
}

/// One bit in `flash`: bitmaps are made anew, and until then files can be read. Of the inodes only those in
/// the lost page are lost. A command that fails leaves a clean image clean. Messages do not advise a command
/// that cannot help.
#[test]
fn a_lost_page_of_metadata_keeps_nothing_else() {
    let dir = tempfile::tempdir().expect("directory");
    let (img, src) = (dir.path().join("img"), dir.path().join("src"));
    let content = |n: usize| format!("{n} ").repeat(100 * n + 1).into_bytes();
    fs::create_dir_all(src.join("sub")).expect("directory");
    for n in 0..100 {
        let sub = if n % 2 == 0 { "sub" } else { "." };
        fs::write(src.join(sub).join(format!("f{n}")), content(n)).expect("file");
    }
    let is_clean = || ends(&["stat", text(&img), "--json"], 0).0.contains("\"clean\": true");
    // Inode bitmap, block bitmap, first page of the inode table.
    for page in [2, 3, 4] {
        ends(&["mkfs", text(&img), "--size", "64MiB", "--force", "--set", "firmware.log_region=1MiB"], 0);
        ends(&["cp-in", text(&img), text(&src), "/"], 0);
        flip(&img, &[page]);
        let (wrong, said) = ends(&["fsck", text(&img)], 1);
        assert!(wrong.contains("cannot be read") && said.contains("fsck --repair"), "{wrong}{said}");
        let same = |at: &str| {
            let out = dir.path().join(format!("out{page}{at}"));
            ends(&["cp-out", text(&img), "/src", text(&out)], 0);
            let all = (0..100).map(|n| format!("{}/f{n}", if n % 2 == 0 { "sub" } else { "." }));
            all.into_iter()
                .all(|f| fs::read(out.join(&f)).expect("there") == fs::read(src.join(&f)).expect("there"))
        };
        if page < 4 {
            assert!(said.contains("cp-out") && same("before") && is_clean());
            assert!(ends(&["cp-in", text(&img), text(&src), "/more"], 2).1.contains("cp-out"));
        } else {
            assert!(said.contains("cannot be reached"), "{said}");
            ends(&["cp-in", text(&img), text(&src), "/more"], 2);
        }
        let info = granary_image::Image::describe(&img).expect("an image");
        assert!(info.clean, "what could not be mounted was not changed");
        let (mended, said) = ends(&["fsck", text(&img), "--repair"], 0);
        assert!(mended.contains("anew") && said.contains("clean now"), "{mended}{said}");
        let out = dir.path().join(format!("all{page}"));
        ends(&["cp-out", text(&img), "/", text(&out)], 0);
        let there = contents(&out);
        let gone = (0..100).filter(|&n| !there.contains(&content(n))).count();
        // The root directory is one of the 32 inodes of its page.
        assert!(
            if page < 4 { same("after") && gone == 0 } else { gone < 31 },
            "{gone} gone after page {page}: {mended}"
        );
        ends(&["cp-in", text(&img), text(&src), "/more"], 0);
        assert!(ends(&["fsck", text(&img)], 0).1.contains("clean") && is_clean());
    }
    // Without any superblock nothing helps, and nothing is said to.
    let last =
        granary_image::Image::describe(&img).expect("an image").devices.ssd.expect("an SSD").pages() - 1;
    flip(&img, &[0, last]);
    let (wrong, said) = ends(&["fsck", text(&img)], 1);
    assert!(said.contains("cannot mend it") && !said.contains("on a copy"), "{wrong}{said}");
    ends(&["fsck", text(&img), "--repair"], 2);
    assert!(granary_image::Image::describe(&img).expect("an image").clean);
}

/// One file that cannot be copied is told of, and the others are copied.
#[test]
fn what_cannot_be_copied_keeps_nothing_else() {
    let dir = tempfile::tempdir().expect("directory");
    let (img, src, out) = (dir.path().join("img"), dir.path().join("src"), dir.path().join("out"));
    tree(&src);
    ends(&["mkfs", text(&img), "--size", "512MiB"], 0);
    // A name that is a directory on the other side.
    ends(&["cp-in", text(&img), text(&src), "/copy"], 0);
    fs::create_dir_all(out.join("many/file5")).expect("directory");
    let said = ends(&["cp-out", text(&img), "/copy/big", "/copy/absent", "/copy/many", text(&out)], 1).1;
    assert!(said.contains("file5") && said.contains("/copy/absent"), "{said}");
    assert_eq!(
        fs::read(out.join("many/file199")).expect("read"),
        fs::read(src.join("many/file199")).expect("read")
    );
    assert_eq!(fs::read(out.join("big")).expect("read"), fs::read(src.join("big")).expect("read"));
    fs::remove_file(src.join("many/file6")).expect("there");
    fs::create_dir(src.join("many/file6")).expect("directory");
    fs::write(src.join("many/file7"), "new").expect("file");
    let said = ends(&["cp-in", text(&img), text(&src.join("many")), "/copy"], 1).1;
    assert!(said.contains("file6"), "{said}");
    assert_eq!(ends(&["cat", text(&img), "/copy/many/file7"], 0).0, "new");
    ends(&["fsck", text(&img)], 0);
}

#[test]
fn what_cannot_be_looked_at_is_not_called_absent() {
    let dir = tempfile::tempdir().expect("directory");
    let img = dir.path().join("img");
    ends(&["mkfs", text(&img), "--size", "64MiB"], 0);
    // A link to itself: like a directory that one may not enter, nothing can be said of it.
    let (header, moved) = (img.join("image.toml"), dir.path().join("header"));
    fs::rename(&header, &moved).expect("moved");
    symlink("image.toml", &header).expect("link");
    let said = ends(&["ls", text(&img)], 2).1;
    assert!(!said.contains("no Granary image") && said.contains("image.toml"), "{said}");
    fs::remove_file(&header).expect("removed");
    assert!(ends(&["ls", text(&img)], 2).1.contains("it has no image.toml"));
    assert!(ends(&["ls", text(&moved)], 2).1.contains("an image is a directory"));
}

/// A file that may not become as large as it should stands for a full disk.
#[test]
fn an_image_that_finds_no_space_is_not_said_to_have_lost_nothing() {
    let dir = tempfile::tempdir().expect("directory");
    // In units of 512 bytes, or of 1 KiB: the header fits, the drive does not.
    let limited = "trap '' XFSZ; ulimit -f 100; exec \"$0\" mkfs img --size 64MiB";
    let mut c = std::process::Command::new("sh");
    c.args(["-c", limited, env!("CARGO_BIN_EXE_granary")]).current_dir(dir.path());
    let out = c.output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("there is no image yet") && !said.contains("lost nothing"), "{said}");
}

/// Two sizes of which one is to be told from the other.
#[test]
fn a_capacity_that_is_not_the_wanted_one_is_told_to_the_byte() {
    let dir = tempfile::tempdir().expect("directory");
    let said = ends(&["mkfs", text(&dir.path().join("img")), "--fs", "none", "--size", "1TiB"], 0).1;
    let line = said.lines().find(|l| l.contains("instead of 1TiB")).expect("told");
    assert!(!line.contains("1TiB instead"), "{line}");
}

#[test]
fn what_is_wrong_with_an_image_is_told_with_the_exit_code() {
    let dir = tempfile::tempdir().expect("directory");
    let img = dir.path().join("img");
    assert!(ends(&["fsck", text(&img)], 2).1.contains("granary mkfs"));
    assert!(ends(&["mkfs", text(&img), "--size", "much"], 2).1.contains("--size much"));
    assert!(ends(&["mkfs", text(&img), "--fs", "fat"], 2).1.contains("bytefs"));
    assert!(ends(&["mkfs", text(&img), "--size", "0"], 2).1.contains("the smallest drive"));
    assert!(ends(&["mkfs", text(&img), "--size", "1000000"], 0).1.contains("instead of"));
    assert!(ends(&["mkfs", text(&img)], 2).1.contains("--force"));
    // A making that was interrupted before the file system was complete.
    {
        use granary_image::{Image, ImageMeta};
        let devices = Image::describe(&img).expect("an image").devices;
        let meta = ImageMeta { fs: "bytefs".into(), unfinished: true, ..ImageMeta::default() };
        Image::create(&img, &devices, meta, true).expect("made");
        assert!(ends(&["ls", text(&img)], 2).1.contains("granary mkfs --force"));
        assert!(ends(&["fsck", text(&img)], 2).1.contains("interrupted"));
    }
    ends(&["mkfs", text(&img), "--size", "400MiB", "--force"], 0);
    ends(&["mkfs", text(&img), "--size", "400MiB", "--force", "--set", "firmware.log_region=1MiB"], 0);
    fs::write(dir.path().join(".granary-stats"), "mine").expect("written");
    let refused = ends(&["cp-in", text(&img), text(&dir.path().join(".granary-stats")), "/"], 1);
    assert!(refused.1.contains(".granary-stats in the root directory"), "{}", refused.1);
    assert!(ends(&["cat", text(&img), "/nothing"], 1).1.contains("/nothing: no such file"));
    // Paths that exist are printed all the same; names are bytes.
    let strange = std::ffi::OsStr::from_bytes(b"\xff\n");
    fs::write(dir.path().join(strange), "kept").expect("written");
    let mut copy = Command::cargo_bin("granary").expect("built");
    copy.arg("cp-in").arg(&img).arg(dir.path().join(strange)).arg("/").assert().success();
    for (what, code) in [("ls", 1), ("cat", 1)] {
        let mut both = Command::cargo_bin("granary").expect("built");
        let paths = [std::path::Path::new("/nothing"), &std::path::Path::new("/").join(strange)];
        let out = both.arg(what).arg(&img).args(paths).output().expect("runs");
        assert_eq!(out.status.code(), Some(code), "{what}");
        let wanted: &[u8] = if what == "ls" { b"/\xff\n\n" } else { b"kept" };
        assert_eq!(out.stdout, wanted, "{what}");
    }

    // The first block of the drive's memory that is in use.
    let dram = fs::OpenOptions::new().read(true).write(true).open(img.join("dram")).expect("dram");
    let mut block = [0; 4096];
    let at = (0..).map(|b| b * 4096).find(|&at| {
        dram.read_exact_at(&mut block, at).expect("read");
        block != [0; 4096]
    });
    let at = at.expect("something is in use");
    block[9] ^= 1;
    dram.write_all_at(&block, at).expect("written");
    let (wrong, said) = ends(&["fsck", text(&img)], 1);
    assert!(wrong.contains("checksum") && said.contains("1 findings"), "{wrong}{said}");
    assert!(ends(&["ls", text(&img)], 2).1.contains("damaged"));
    dram.set_len(4096).expect("cut");
    assert!(ends(&["fsck", text(&img)], 1).0.contains("4096 bytes long"));

    let home = dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    assert!(ends(&["stat", text(&home)], 2).1.contains("no Granary image"));
}

#[test]
fn a_damaged_file_system_is_mended_and_what_was_whole_stays_whole() {
    let dir = tempfile::tempdir().expect("directory");
    let (img, src, out) = (dir.path().join("img"), dir.path().join("src"), dir.path().join("out"));
    fs::create_dir_all(src.join("sub")).expect("made");
    fs::write(src.join("sub/file"), "content of a file\n").expect("written");
    ends(&["mkfs", text(&img), "--size", "400MiB", "--set", "firmware.log_region=1MiB"], 0);
    ends(&["cp-in", text(&img), text(&src), "/copy"], 0);
    assert!(ends(&["fsck", text(&img), "--repair"], 0).1.contains("clean"));
    {
        use granary_device::{Port, Role, Structure};
        use granary_image::{Durability, Image};
        use granary_units::{Lpa, Page};
        let (image, devices) = Image::open(&img, Durability::Process, false).expect("opens");
        let drive = devices.get(Role::Ssd).expect("an SSD").drive().clone();
        let port = Port::new(drive);
        let mut page = [Page::ZERO];
        port.read(Lpa(0), &mut page, Structure::Superblock).expect("reads");
        let bitmap = u64::from_le_bytes(page[0].to_bytes()[64..72].try_into().expect("eight"));
        port.read(Lpa(bitmap), &mut page, Structure::Bitmap).expect("reads");
        let mut bytes = page[0].to_bytes();
        bytes[30] ^= 0x10;
        port.write(Lpa(bitmap), &[Page::from_bytes(&bytes)], Structure::Bitmap).expect("writes");
        drop(port);
        image.close().expect("closes");
    }
    assert!(ends(&["fsck", text(&img)], 1).0.contains("wrong checksum"));
    let (mended, said) = ends(&["fsck", text(&img), "--repair"], 0);
    assert!(mended.contains("mended: block bitmap") && said.contains("clean now"), "{mended}{said}");
    assert!(ends(&["fsck", text(&img)], 0).0.is_empty());
    ends(&["cp-out", text(&img), "/copy", text(&out)], 0);
    assert_eq!(fs::read(out.join("sub/file")).expect("there"), b"content of a file\n");

    let other = dir.path().join("other");
    ends(&["mkfs", text(&other), "--fs", "ext4", "--size", "400MiB"], 0);
    assert!(ends(&["fsck", text(&other), "--repair"], 0).1.contains("clean"));
}

#[test]
fn an_image_grows_with_its_file_system_and_does_not_shrink() {
    let dir = tempfile::tempdir().expect("directory");
    let (image, from) = (dir.path().join("img"), dir.path().join("from"));
    fs::create_dir(&from).expect("directory");
    fs::write(from.join("first"), vec![1; 20 << 20]).expect("file");
    fs::write(from.join("second"), vec![2; 60 << 20]).expect("file");
    let at = text(&image);
    let (first, second) = (from.join("first"), from.join("second"));
    ends(&["mkfs", at, "--size", "48MiB"], 0);
    ends(&["cp-in", at, text(&first), "/"], 0);
    ends(&["cp-in", at, text(&second), "/"], 1);
    let told = ends(&["grow", at, "--size", "32MiB"], 2).1;
    assert!(told.contains("do not shrink") && told.contains("cp-out"), "{told}");
    let told = ends(&["grow", at, "--size", "128MiB"], 0).1;
    assert!(told.contains("now, was"), "{told}");
    let (json, _) = ends(&["stat", at, "--json"], 0);
    let v: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(
        v["pages"].as_u64() >= Some(128 << 8) && v["space"]["free_blocks"].as_u64() > Some(16_000),
        "{v}"
    );
    assert!(v["space"]["available_blocks"].as_u64() < v["space"]["free_blocks"].as_u64(), "{v}");
    ends(&["cp-in", at, text(&second), "/"], 0);
    ends(&["fsck", at], 0);
    let out = dir.path().join("out");
    fs::create_dir(&out).expect("directory");
    ends(&["cp-out", at, "/first", "/second", text(&out)], 0);
    for name in ["first", "second"] {
        assert!(
            fs::read(out.join(name)).expect("there") == fs::read(from.join(name)).expect("there"),
            "{name}"
        );
    }
    let other = dir.path().join("ext4");
    ends(&["mkfs", text(&other), "--fs", "ext4", "--size", "64MiB"], 0);
    let told = ends(&["grow", text(&other), "--size", "128MiB"], 2).1;
    assert!(told.contains("ext4 cannot grow"), "{told}");
    ends(&["fsck", text(&other)], 0);
}

/// Whenever the growing process dies, the image has the old size or the new one, and growing it once more
/// does the rest.
#[test]
fn a_growth_that_is_killed_leaves_the_old_size_or_the_new_one() {
    let dir = tempfile::tempdir().expect("directory");
    let (image, file) = (dir.path().join("img"), dir.path().join("file"));
    fs::write(&file, vec![3; 10 << 20]).expect("file");
    let at = text(&image);
    ends(&["mkfs", at, "--size", "48MiB"], 0);
    ends(&["cp-in", at, text(&file), "/"], 0);
    for n in 1..=8u64 {
        let size = format!("{}MiB", 48 + n * 16);
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("granary"))
            .args(["grow", at, "--size", &size])
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("started");
        #[allow(clippy::disallowed_methods, reason = "a process is killed at some moment")]
        std::thread::sleep(std::time::Duration::from_millis(n * n * 3));
        let _ = child.kill();
        child.wait().expect("ended");
        ends(&["fsck", at], 0);
    }
    ends(&["grow", at, "--size", "192MiB"], 0);
    ends(&["fsck", at], 0);
    let out = dir.path().join("out");
    fs::create_dir(&out).expect("directory");
    ends(&["cp-out", at, "/file", text(&out)], 0);
    assert!(fs::read(out.join("file")).expect("there") == fs::read(&file).expect("there"));
}

/// A snapshot is kept, a checkpoint ends, and what cannot be is said.
#[test]
fn checkpoints_are_listed_made_kept_and_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let (img, other) = (dir.path().join("img"), dir.path().join("other"));
    ends(&["mkfs", text(&img), "--fs", "nilfs2", "--size", "64MiB"], 0);
    fs::write(dir.path().join("f"), "first").expect("written");
    ends(&["cp-in", text(&img), text(&dir.path().join("f")), "/"], 0);
    let number = |out: String| out.trim().parse::<u64>().expect("a number").to_string();
    let (kept, plain) =
        (number(ends(&["mkcp", text(&img), "--snapshot"], 0).0), number(ends(&["mkcp", text(&img)], 0).0));
    assert_ne!(kept, plain);
    let snapshots = || {
        let json = ends(&["lscp", text(&img), "-s", "--json"], 0).0;
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json).expect("JSON");
        rows.iter().map(|row| row["checkpoint"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(snapshots(), [kept.as_str()]);
    let (table, _) = ends(&["lscp", text(&img)], 0);
    let line = table.lines().find(|l| l.trim_start().starts_with(&kept)).expect("listed");
    assert!(line.contains("ss"), "{table}");
    assert!(ends(&["rmcp", text(&img), &kept], 2).1.contains("granary chcp cp"));
    ends(&["chcp", "ss", text(&img), &plain], 0);
    assert_eq!(snapshots(), [kept.as_str(), plain.as_str()]);
    ends(&["chcp", "cp", text(&img), &kept, &plain], 0);
    assert_eq!(snapshots(), [""; 0]);
    ends(&["rmcp", text(&img), &kept], 0);
    assert!(ends(&["rmcp", text(&img), &kept], 2).1.contains("granary lscp"));
    let (table, _) = ends(&["lscp", text(&img)], 0);
    assert!(!table.lines().any(|l| l.split_whitespace().next() == Some(&kept)), "{table}");
    assert!(ends(&["fsck", text(&img)], 0).1.contains("clean"));
    ends(&["mkfs", text(&other), "--fs", "ext4", "--size", "64MiB"], 0);
    assert!(ends(&["lscp", text(&other)], 2).1.contains("has no checkpoints"));
}
