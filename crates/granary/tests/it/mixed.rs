//! Images with a byte of a device changed, or with a device of another image: `granary fsck` says so, for
//! each file system and device.

use assert_cmd::Command;
use rustix::fs::{SeekFrom, seek};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// File systems of each kind of device, with a testbed that has those.
const ALL: [(&str, &str); 9] = [
    ("bytefs", "bytefs-emulator"),
    ("ext4", "bytefs-emulator"),
    ("f2fs-pebble", "pebblessd"),
    ("nilfs2", "pebblessd"),
    ("nova", "orchfs"),
    ("pmfs", "devfs"),
    ("devfs", "devfs"),
    ("orchfs", "orchfs"),
    ("spfs+ext4", "spfs"),
];
/// Files of an image with content of devices.
const MEMBERS: [&str; 3] = ["flash", "dram", "nvm"];

fn ends(args: &[&str], code: i32) -> String {
    let mut c = Command::cargo_bin("granary").expect("the binary is built");
    let out = c.args(args).assert().code(code).get_output().clone();
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// An image with one file.
fn made(dir: &Path, name: &str, (fs_name, testbed): (&str, &str), content: u8) -> String {
    let (image, file) = (dir.join(name), dir.join("file"));
    ends(&["mkfs", text(&image), "--fs", fs_name, "--testbed", testbed, "--size", "1GiB"], 0);
    // No repeated word: such pages are no bytes on an image.
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8 ^ content).collect();
    fs::write(&file, bytes).expect("written");
    ends(&["cp-in", text(&image), text(&file), "/file"], 0);
    text(&image).to_owned()
}

/// Where a file has these bytes; its holes are not read.
fn place_of(file: &fs::File, pattern: &[u8]) -> Option<u64> {
    let mut from = 0;
    while let Ok(start) = seek(file, SeekFrom::Data(from)) {
        from = seek(file, SeekFrom::Hole(start)).expect("an end");
        let mut bytes = vec![0; (from - start) as usize];
        file.read_exact_at(&mut bytes, start).expect("read");
        // Content begins at multiples of what devices align to.
        let found = (0..bytes.len()).step_by(64).find(|at| bytes[*at..].starts_with(pattern));
        if let Some(at) = found {
            return Some(start + at as u64);
        }
    }
    None
}

#[test]
fn a_changed_byte_of_a_file_is_found_wherever_it_lies() {
    let dir = tempfile::tempdir().expect("directory");
    for what in ALL {
        let image = made(dir.path(), what.0, what, 0x5a);
        let pattern: Vec<u8> = (0..2000u32).map(|i| (i % 251) as u8 ^ 0x5a).collect();
        // The first file of the image that has it. In the memory of a drive with a cache it may be alone yet:
        // then the drive cannot be opened, and no file is named.
        let changed = ["nvm", "flash", "dram"].into_iter().find(|name| {
            let Ok(file) = fs::File::options().read(true).write(true).open(Path::new(&image).join(name))
            else {
                return false;
            };
            let Some(at) = place_of(&file, &pattern) else { return false };
            let mut byte = [0];
            file.read_exact_at(&mut byte, at + 500).expect("read");
            file.write_all_at(&[byte[0] ^ 1], at + 500).expect("written");
            true
        });
        assert!(changed.is_some(), "{}: its content was not found", what.0);
        let said = ends(&["fsck", &image], 1);
        // NILFS2 cannot be mounted where its newest log is damaged: it says whose blocks that log has.
        let told = said.contains("/file") || said.contains("with blocks of inodes");
        assert!(told || changed == Some("dram"), "{}: the file is named: {said}", what.0);
    }
}

#[test]
fn a_device_of_another_image_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    for what in ALL {
        let (a, b) = (made(dir.path(), "a", what, 1), made(dir.path(), "b", what, 2));
        for member in MEMBERS {
            let (mine, other) = (Path::new(&a).join(member), Path::new(&b).join(member));
            if !mine.exists() {
                continue;
            }
            let kept = dir.path().join("kept");
            fs::rename(&mine, &kept).expect("renamed");
            // The holes of large files stay holes.
            let copied =
                std::process::Command::new("cp").args(["--sparse=always"]).arg(&other).arg(&mine).status();
            assert!(copied.expect("cp runs").success());
            for (command, code) in [("fsck", 1), ("ls", 2), ("cat", 2)] {
                let args = [command, &a, "/file"];
                let said = ends(&args[..if command == "fsck" { 2 } else { 3 }], code);
                assert!(said.contains("UUID"), "{} {member} {command}: {said}", what.0);
            }
            fs::rename(&kept, &mine).expect("renamed");
        }
        ends(&["fsck", &a], 0);
        for image in [a, b] {
            fs::remove_dir_all(image).expect("removed");
        }
    }
}
