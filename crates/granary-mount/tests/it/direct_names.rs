//! Names and attributes by direct access: each view sees the other's changes at once, even if the kernel has
//! cached the names.

use crate::direct::{RDWR, each};
use crate::rig::eventually;
use granary_direct::socket::{ask_versions, connect_through};
use granary_direct::versions::{Versions, Watched};
use granary_direct::wire::{FOLLOW, MTIME_OMIT};
use granary_direct::{Answer, Command, Connection, Op, PathPlace, Refused};
use granary_mount::Operation;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTEMPTY: i32 = 39;

fn at(path: &str) -> PathPlace<'_> {
    PathPlace::at_root(path.as_bytes())
}

fn one(client: &Connection, op: Op, path: &str) -> Result<(), Refused> {
    client.at(&Command::new(op), at(path), None).map(drop)
}

fn mkdir(client: &Connection, path: &str) -> Result<(), Refused> {
    let pos = 0o777 | 0o022 << 16;
    client.at(&Command { pos, ..Command::new(Op::Mkdir) }, at(path), None).map(drop)
}

fn two(client: &Connection, op: Op, from: &str, to: &str, flags: u32) -> Result<(), Refused> {
    client.at(&Command { flags, ..Command::new(op) }, at(from), Some(at(to))).map(drop)
}

/// The kernel looks, and believes what it has seen for a day.
fn looks(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn what_a_command_does_to_names_the_kernel_sees_at_once() {
    each(None, |server| {
        let (rig, client) = (&server.rig, server.client());
        let path = |name: &str| rig.path(name);
        for name in ["new", "f2", "g", "h", "s"] {
            assert!(!looks(&path(name)));
        }
        fs::write(path("f"), b"text").expect("written");
        let links = || fs::metadata(path("")).expect("there").nlink();
        let before = links();
        assert_eq!(mkdir(&client, "new"), Ok(()));
        assert!(path("new").is_dir(), "{}: a name that was not there", rig.fs);
        assert_eq!(fs::metadata(path("new")).expect("there").mode(), 0o40755);
        assert_eq!(links(), before + 1, "{}: links of the directory", rig.fs);
        assert_eq!(mkdir(&client, "new"), Err(Refused::Errno(EEXIST)));
        assert_eq!(two(&client, Op::Link, "f", "g", 0), Ok(()));
        assert_eq!(fs::metadata(path("f")).expect("there").nlink(), 2, "{}", rig.fs);
        assert_eq!(two(&client, Op::Rename, "f", "f2", 0), Ok(()));
        assert!(!looks(&path("f")) && fs::read(path("f2")).expect("read") == b"text", "{}", rig.fs);
        assert_eq!(one(&client, Op::Unlink, "g"), Ok(()));
        assert!(!looks(&path("g")) && fs::metadata(path("f2")).expect("there").nlink() == 1, "{}", rig.fs);
        // Onto a file that the kernel has open: that one stays what it was.
        fs::write(path("h"), b"old").expect("written");
        let open = fs::File::open(path("h")).expect("opens");
        assert_eq!(two(&client, Op::Rename, "f2", "h", 0), Ok(()));
        assert_eq!(fs::read(path("h")).expect("read"), b"text");
        assert_eq!(open.metadata().expect("told").nlink(), 0, "{}", rig.fs);
        assert_eq!(std::io::read_to_string(&open).expect("read"), "old", "{}", rig.fs);
        drop(open);
        assert_eq!(client.symlink(b"h", at("s")), Ok(()));
        assert_eq!(fs::read_link(path("s")).expect("read"), Path::new("h"));
        // Attributes that the kernel knows.
        let command = Command { pos: 0o4711, flags: FOLLOW, ..Command::new(Op::Chmod) };
        assert!(client.at(&command, at("s"), None).is_ok());
        assert_eq!(fs::metadata(path("h")).expect("there").mode(), 0o104_711, "{}", rig.fs);
        let command = Command { pos: 5_000_000_007, flags: MTIME_OMIT, ..Command::new(Op::Utimens) };
        assert!(client.at(&command, at("h"), None).is_ok());
        let seen = fs::metadata(path("h")).expect("there");
        assert_eq!((seen.atime(), seen.atime_nsec()), (5, 7), "{}", rig.fs);
        let command = Command { pos: 12 | 34 << 32, ..Command::new(Op::Chown) };
        assert!(client.at(&command, at("h"), None).is_ok());
        let seen = fs::metadata(path("h")).expect("there");
        assert_eq!((seen.uid(), seen.gid(), seen.mode()), (12, 34, 0o100_711), "{}: no set-user-ID", rig.fs);
    });
}

#[test]
fn what_the_kernel_does_to_names_a_command_sees_at_once() {
    each(None, |server| {
        let (rig, client) = (&server.rig, server.client());
        let path = |name: &str| rig.path(name);
        let kind = |name: &str| client.stat(name.as_bytes(), false).map(|a| a.mode >> 12);
        for name in ["d", "d/f", "d/g"] {
            assert_eq!(kind(name), Err(Refused::Errno(ENOENT)), "{}", rig.fs);
        }
        fs::create_dir(path("d")).expect("made");
        fs::write(path("d/f"), b"12345").expect("written");
        assert_eq!((kind("d"), kind("d/f")), (Ok(4), Ok(8)), "{}", rig.fs);
        fs::rename(path("d/f"), path("d/g")).expect("renamed");
        assert_eq!((kind("d/f"), kind("d/g")), (Err(Refused::Errno(ENOENT)), Ok(8)), "{}", rig.fs);
        fs::set_permissions(path("d/g"), fs::Permissions::from_mode(0o601)).expect("set");
        fs::File::options().write(true).open(path("d/g")).expect("opens").set_len(3).expect("cut");
        let told = client.stat(b"d/g", true).expect("told");
        assert_eq!((told.mode, told.size), (0o100_601, 3), "{}", rig.fs);
        symlink("g", path("d/s")).expect("made");
        assert_eq!(client.readlink(at("d/s")), Ok(b"g".to_vec()), "{}", rig.fs);
        assert_eq!(one(&client, Op::Unlink, "d/s"), Ok(()));
        // The kernel knows this directory: it may be somebody's working directory, and is removed and renamed
        // by it.
        assert_eq!(one(&client, Op::Rmdir, "d"), Err(Refused::Kernel), "{}", rig.fs);
        assert_eq!(two(&client, Op::Rename, "d", "e", 0), Err(Refused::Kernel), "{}", rig.fs);
        assert_eq!(mkdir(&client, "own"), Ok(()));
        assert_eq!(mkdir(&client, "own/inner"), Ok(()));
        assert_eq!(one(&client, Op::Rmdir, "own"), Err(Refused::Errno(ENOTEMPTY)), "{}", rig.fs);
        fs::remove_file(path("d/g")).expect("removed");
        assert_eq!(kind("d/g"), Err(Refused::Errno(ENOENT)), "{}", rig.fs);
    });
}

/// A relative path begins at a directory that has a number, and at no other one.
#[test]
fn a_directory_that_was_moved_is_not_mistaken_for_the_one_in_its_place() {
    each(Some("ext4"), |server| {
        let (rig, client) = (&server.rig, server.client());
        fs::create_dir(rig.path("work")).expect("made");
        let ino = fs::metadata(rig.path("work")).expect("there").ino();
        let place = PathPlace { base: b"work", ino, path: b"f" };
        assert!(client.at(&Command { pos: 0o755, ..Command::new(Op::Mkdir) }, place, None).is_ok());
        fs::rename(rig.path("work"), rig.path("moved")).expect("renamed");
        fs::create_dir(rig.path("work")).expect("made");
        fs::write(rig.path("work/f"), b"another one").expect("written");
        assert_eq!(client.at(&Command::new(Op::Unlink), place, None), Err(Refused::Kernel));
        assert_eq!(client.at(&Command::new(Op::StatPath), place, None), Err(Refused::Kernel));
        assert!(rig.path("work/f").exists() && rig.path("moved/f").is_dir());
        // Nor does a number open a file that the path does not lead to.
        let hidden = fs::metadata(rig.path("moved")).expect("there").ino();
        let guess = PathPlace { base: b"", ino: hidden, path: b"f" };
        assert_eq!(client.at(&Command::new(Op::StatPath), guess, None), Err(Refused::Kernel));
        // Words that are no place.
        let junk = Command { len: 9, ..Command::new(Op::Unlink) };
        assert_eq!(client.call(&junk), Err(Refused::Kernel));
    });
}

/// Both views change the names of one directory at the same time; afterwards they agree, and nothing was done
/// twice.
#[test]
fn two_views_at_once_agree_on_every_name() {
    each(Some("bytefs"), |server| {
        let rig = &server.rig;
        fs::create_dir(rig.path("both")).expect("made");
        let made = std::thread::scope(|s| {
            let direct = s.spawn(|| {
                let client = server.client();
                (0..400u32)
                    .filter(|i| {
                        let name = format!("both/{}", i % 20);
                        match i % 3 {
                            0 => one(&client, Op::Unlink, &name).is_ok(),
                            1 => {
                                client.create(name.as_bytes(), RDWR, 0o600).map(|f| client.close(f.0)).is_ok()
                            }
                            _ => {
                                two(&client, Op::Rename, &name, &format!("both/{}", (i + 7) % 20), 0).is_ok()
                            }
                        }
                    })
                    .count()
            });
            for i in 0..400u32 {
                let name = rig.path(&format!("both/{}", (i * 7) % 20));
                let _ = match i % 3 {
                    0 => fs::remove_file(&name),
                    1 => fs::write(&name, b"kernel"),
                    _ => fs::rename(&name, rig.path(&format!("both/{}", (i * 7 + 3) % 20))),
                };
            }
            direct.join().expect("no panics")
        });
        assert!(made > 100, "{made} commands");
        let client = server.client();
        let listed: Vec<String> = fs::read_dir(rig.path("both"))
            .expect("read")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        for i in 0..20 {
            let name = i.to_string();
            let (there, path) = (listed.contains(&name), format!("both/{name}"));
            assert_eq!(looks(&rig.path(&path)), there, "{name}: what the kernel believes");
            assert_eq!(client.stat(path.as_bytes(), false).is_ok(), there, "{name}: what a command sees");
        }
        assert!(rig.mounted().operations().of_direct(Operation::Rename) > 100);
    });
}

/// Each change through the kernel ends what programs remember of that, and looking does not.
#[test]
fn every_change_counts() {
    each(None, |server| {
        let (rig, client) = (&server.rig, server.client());
        let socket = connect_through(&server.socket, server.rig.root()).expect("connects");
        let file = ask_versions(socket.as_fd()).expect("answers").expect("versions");
        let versions = Versions::open(&file).expect("versions");
        fs::create_dir(rig.path("d")).expect("made");
        fs::write(rig.path("d/f"), vec![1; 5000]).expect("written");
        let f = server.open(&client, "d/f", RDWR);
        let look = || client.at(&Command { flags: FOLLOW, ..Command::new(Op::StatPath) }, at("d/f"), None);
        let read = || client.call(&Command { handle: f, len: 100, ..Command::new(Op::Read) });
        let (mut told, mut content) = (look().expect("told"), read().expect("read"));
        // A first look may bring something into memory, and the first read moves the access time; other tests
        // have slots here, too.
        let settled = eventually(|| {
            (told, content) = (look().expect("told"), read().expect("read"));
            told = look().expect("told");
            told.names != 0 && told.version != 0 && content.version != 0
        });
        assert!(settled, "{}: nothing may ever be remembered", rig.fs);
        let path = rig.path("d/f");
        let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        let open = || fs::File::options().write(true).open(&path).expect("opens");
        let names = |told: &Answer| versions.is_current(Watched::Names, told.names);
        let attributes = |told: &Answer| versions.is_current(Watched::Attributes(told.slot), told.version);
        let contents = |read: &Answer| versions.is_current(Watched::Contents(read.slot), read.version);
        // The copies that each change ends: names, attributes, content.
        type Change<'a> = &'a dyn Fn();
        let changes: [(&str, Change<'_>, [bool; 3]); 8] = [
            (
                "chmod",
                &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set"),
                [true, true, false],
            ),
            ("chown", &|| std::os::unix::fs::chown(&path, Some(7), None).expect("set"), [true, true, false]),
            ("utimens", &|| open().set_times(times).expect("set"), [false, true, false]),
            ("write", &|| open().write_all_at(b"new", 4000).expect("written"), [false, true, true]),
            ("truncate", &|| open().set_len(4500).expect("cut"), [false, true, true]),
            ("read by the kernel", &|| drop(fs::read(&path).expect("read")), [false, false, true]),
            ("mkdir", &|| fs::create_dir(rig.path("d/new")).expect("made"), [true, false, false]),
            ("rename", &|| fs::rename(rig.path("d"), rig.path("e")).expect("renamed"), [true, false, false]),
        ];
        for (what, change, [of_names, of_attributes, of_contents]) in changes {
            (told, content) = (look().expect("told"), read().expect("read"));
            change();
            assert!(!of_names || !names(&told), "{}: {what}: names", rig.fs);
            assert!(!of_attributes || !attributes(&told), "{}: {what}: attributes", rig.fs);
            assert!(!of_contents || !contents(&content), "{}: {what}: content", rig.fs);
        }
    });
}
