//! A program of another user that keeps no rule of the library's: calls that it may not make through the
//! kernel it may not make directly.
//!
//! The program is this very test binary, copied to where others may read it, run as nobody: [`the_program`].

#![allow(clippy::disallowed_methods)] // the client is this program again: it tells what it got on its standard output

use super::rig::{possible, systems, vfs};
use granary_direct::socket::{ask_channel, ask_versions, connect_through, connect_to, greet};
use granary_direct::{Command as Ask, Connection, Op, PathPlace, Refused};
use granary_mount::{Mounted, Options};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const USER: u32 = 65_534;
const RDWR: u32 = 2;
const WHAT: &str = "GRANARY_TEST_HOSTILE";

struct Locked {
    dir: tempfile::TempDir,
    program: PathBuf,
    mounted: Option<Mounted>,
    _devices: granary_device::Devices,
}

impl Locked {
    /// A mount in a directory that nobody but root may enter, with a file that everybody may write to.
    /// `None`: not here.
    fn new() -> Option<Locked> {
        if !possible() || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can become another user");
            return None;
        }
        let (vfs, devices) = vfs(systems().next().expect("one"));
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("set");
        let program = dir.path().join("program");
        fs::copy(std::env::current_exe().expect("a path"), &program).expect("copied");
        fs::create_dir_all(dir.path().join("locked/mnt")).expect("made");
        let direct = Some(dir.path().join("socket"));
        let options = Options { allow_other: true, direct, ..Options::default() };
        let mounted = granary_mount::mount(vfs, &dir.path().join("locked/mnt"), &options).expect("mounts");
        let place = Locked { dir, program, mounted: Some(mounted), _devices: devices };
        fs::set_permissions(place.mnt(), Permissions::from_mode(0o777)).expect("set");
        fs::write(place.mnt().join("file"), b"secret").expect("written");
        fs::set_permissions(place.mnt().join("file"), Permissions::from_mode(0o666)).expect("set");
        place.lock(0o700);
        Some(place)
    }

    fn mnt(&self) -> PathBuf {
        self.dir.path().join("locked/mnt")
    }

    fn lock(&self, mode: u32) {
        fs::set_permissions(self.dir.path().join("locked"), Permissions::from_mode(mode)).expect("set");
    }

    /// The program, by another one perhaps; `dir`: where it looks for the mount.
    fn command(&self, before: &[&str], what: &str, dir: &Path) -> Command {
        let mut words = before.iter().map(PathBuf::from).chain([self.program.clone()]);
        let mut command = Command::new(words.next().expect("one"));
        command.args(words).args(["--exact", "hostile::the_program", "--nocapture"]);
        command.env(WHAT, what).env("DIR", dir).env("SOCKET", self.dir.path().join("socket"));
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn nobody(&self, what: &str, dir: &Path) -> Child {
        self.command(&[], what, dir).uid(USER).gid(USER).spawn().expect("starts")
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            if std::thread::panicking() {
                let _ = mounted.unmounter().unmount(true);
                return std::mem::forget(mounted);
            }
            super::rig::unmount(mounted);
        }
    }
}

/// It has found everything as it should be.
fn ends(mut child: Child) {
    drop(child.stdin.take());
    let out = child.wait_with_output().expect("ends");
    let told = [&out.stdout[..], &out.stderr].map(String::from_utf8_lossy).concat();
    assert!(out.status.success() && !told.contains("panicked"), "{told}");
}

/// It has come to where it waits for somebody to do something.
fn is_ready(child: &mut Child) {
    let mut said = BufReader::new(child.stdout.as_mut().expect("piped"));
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        if said.read_line(&mut line).expect("read") == 0 {
            let mut why = String::new();
            let _ = child.stderr.as_mut().expect("piped").read_to_string(&mut why);
            panic!("it has ended: {why}");
        }
    }
}

fn mount(args: &[&str], paths: &[&Path]) {
    // Without the helper of the fuse3 package, which would start a server.
    assert!(Command::new("mount").arg("-i").args(args).args(paths).status().expect("starts").success());
}

#[test]
fn who_does_not_reach_the_mount_reaches_nothing() {
    let Some(place) = Locked::new() else { return };
    ends(place.nobody("locked", &place.mnt()));
    place.lock(0o711);
    ends(place.nobody("reaches", &place.mnt()));
    assert_eq!(fs::read(place.mnt().join("file")).expect("read"), b"SECRET");
}

#[test]
fn a_mount_that_becomes_read_only_is_changed_by_nobody() {
    let Some(place) = Locked::new() else { return };
    place.lock(0o711);
    let other = place.dir.path().join("other");
    fs::create_dir(&other).expect("made");
    mount(&["--bind"], &[&place.mnt(), &other]);
    mount(&["-o", "remount,bind,ro"], &[&other]);
    ends(place.nobody("read-only", &other));
    mount(&["-o", "remount,bind,rw"], &[&other]);
    let mut through =
        [place.nobody("becomes read-only", &other), place.nobody("becomes read-only", &place.mnt())];
    through.iter_mut().for_each(is_ready);
    mount(&["-o", "remount,ro"], &[&place.mnt()]);
    mount(&["-o", "remount,bind,ro"], &[&other]);
    through.into_iter().for_each(ends);
    let mut names: Vec<_> =
        fs::read_dir(place.mnt()).expect("read").map(|e| e.expect("read").file_name()).collect();
    names.sort();
    assert_eq!(names, ["file"], "what is there");
    assert_eq!(fs::read(place.mnt().join("file")).expect("read"), b"secret");
    assert!(Command::new("umount").arg(&other).status().expect("starts").success());
    mount(&["-o", "remount,rw"], &[&place.mnt()]);
    let mut again = place.nobody("reaches", &place.mnt());
    drop(again.stdin.take());
    ends(again);
}

#[test]
fn one_user_takes_no_more_than_its_share() {
    let Some(place) = Locked::new() else { return };
    place.lock(0o711);
    let mut child = place.nobody("takes all", &place.mnt());
    is_ready(&mut child);
    let (socket, mnt) = (place.dir.path().join("socket"), place.mnt());
    let root = Connection::open(&socket, &mnt).expect("others connect");
    let ino = fs::metadata(mnt.join("file")).expect("there").ino();
    assert!(root.open_file(b"file", RDWR, ino).is_ok());
    drop(root);
    ends(child);
    // It has gone: its share is free for the next one.
    let found = super::rig::eventually(|| {
        let out = place.nobody("reaches", &place.mnt()).wait_with_output().expect("ends");
        out.status.success()
    });
    assert!(found);
}

#[test]
fn another_namespace_is_refused_with_the_reason() {
    let Some(place) = Locked::new() else { return };
    place.lock(0o711);
    for (before, what) in [
        (&["unshare", "--pid", "--fork"][..], "other processes"),
        (&["unshare", "--user"][..], "other users"),
    ] {
        if !Command::new(before[0]).args(&before[1..]).arg("true").status().is_ok_and(|s| s.success()) {
            eprintln!("skipped: {before:?} is not to be had");
            continue;
        }
        ends(place.command(before, what, &place.mnt()).spawn().expect("starts"));
    }
}

/// The program itself; without its variable it is none.
#[test]
fn the_program() {
    let Ok(what) = std::env::var(WHAT) else { return };
    let [socket, dir] = ["SOCKET", "DIR"].map(|name| PathBuf::from(std::env::var_os(name).expect("told")));
    let open = || Connection::open(&socket, &dir);
    let ino = || fs::metadata(dir.join("file")).expect("there").ino();
    let refused = |said: std::io::Result<Connection>, why: &str| {
        let said = said.err().expect("refused").to_string();
        assert!(said.contains(why), "{said}");
    };
    match what.as_str() {
        "locked" => {
            assert!(fs::read(dir.join("file")).is_err() && open().is_err());
            let raw = connect_to(&socket).expect("the socket itself is open to all");
            let how = OFlags::PATH | OFlags::CLOEXEC;
            for _ in 0..2 {
                assert_eq!(ask_channel(raw.as_fd()).expect("answers").err(), Some(libc::EXDEV));
                assert_eq!(ask_versions(raw.as_fd()).expect("answers").err(), Some(libc::EXDEV));
                for other in ["/", "/proc/self/exe", "/dev/null"] {
                    let other = rustix::fs::open(other, how, Mode::empty()).expect("opens");
                    assert_eq!(greet(raw.as_fd(), other.as_fd()).expect("answers"), Err(libc::EXDEV));
                }
            }
        }
        "reaches" => {
            let client = open().expect("it reaches the mount");
            let file = client.open_file(b"file", RDWR, ino()).expect("opens");
            assert_eq!(client.write(file, 0, b"SECRET"), Ok((0, 6)));
            // When what changes is not told, nor how much.
            let answer = client.at(&Ask::new(Op::StatPath), PathPlace::at_root(b"file"), None).expect("told");
            assert_eq!((answer.names, answer.version, answer.slot), (0, 0, 0));
            let missing = Ask { handle: file, len: 6, ..Ask::new(Op::Read) };
            let answer = client.call(&missing).expect("read");
            assert_eq!((answer.names, answer.version, answer.slot), (0, 0, 0));
            let raw = connect_through(&socket, &dir).expect("connects");
            assert_eq!(ask_versions(raw.as_fd()).expect("answers").err(), Some(libc::EACCES));
            // A directory of the mount is not its root.
            let inner = dir.join("inner");
            if fs::create_dir(&inner).is_ok() {
                assert!(connect_through(&socket, &inner).is_err());
                fs::remove_dir(&inner).expect("removed");
            }
        }
        "read-only" | "becomes read-only" => {
            let client = open().expect("it reaches the mount");
            let file = client.open_file(b"file", RDWR, ino());
            if what == "read-only" {
                assert_eq!(file, Err(Refused::Kernel));
            } else {
                assert!(file.is_ok());
                println!("\nready");
                let _ = std::io::stdin().read_line(&mut String::new());
            }
            let at = PathPlace::at_root(b"file");
            let new = PathPlace::at_root(b"new");
            let one = |op| client.at(&Ask::new(op), at, None);
            assert_eq!(client.create(b"new", RDWR, 0o666).err(), Some(Refused::Kernel));
            assert_eq!(client.symlink(b"x", new), Err(Refused::Kernel));
            for op in [Op::Unlink, Op::Chmod, Op::Utimens, Op::Truncate] {
                assert_eq!(one(op).err(), Some(Refused::Kernel), "{op:?}");
            }
            assert_eq!(client.at(&Ask::new(Op::Mkdir), new, None).err(), Some(Refused::Kernel));
            for op in [Op::Rename, Op::Link] {
                assert_eq!(client.at(&Ask::new(op), at, Some(new)).err(), Some(Refused::Kernel), "{op:?}");
            }
            if let Ok(file) = file {
                assert_eq!(client.write(file, 0, b"x"), Err(Refused::Kernel));
            }
            assert_eq!(client.open_file(b"file", RDWR, ino()), Err(Refused::Kernel));
            assert!(client.stat(b"file", true).is_ok() && client.open_file(b"file", 0, ino()).is_ok());
        }
        "takes all" => {
            let mut clients: Vec<Connection> = (0..128).map(|_| open().expect("one of its share")).collect();
            for _ in 0..20 {
                refused(open(), "as many connections or channels as one user may have");
            }
            let ino = ino();
            let mut files = 0;
            for client in clients.iter().take(3) {
                files += (0..70_000).take_while(|_| client.open_file(b"file", 0, ino).is_ok()).count();
            }
            assert_eq!(files, 1 << 16, "of all its connections");
            let raw = connect_to(&socket);
            assert!(raw.is_ok_and(|raw| ask_channel(raw.as_fd()).is_ok_and(|said| said.is_err())));
            println!("\nready");
            let _ = std::io::stdin().read_line(&mut String::new());
            clients.clear();
        }
        "other processes" => refused(open(), "another process namespace"),
        "other users" => refused(open(), "another user namespace"),
        other => panic!("{other}"),
    }
}
