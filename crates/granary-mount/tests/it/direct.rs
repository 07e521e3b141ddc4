//! Direct access: a program's changes through shared memory and its view through FUSE are one file system;
//! hostile and dead programs hurt nobody.
//!
//! The library that is loaded into programs is not here: these tests speak as any program might, good or bad.

use crate::rig::{Rig, eventually, possible, systems};
use granary_direct::segment::{DATA, Segment};
use granary_direct::socket::{ask_channel, connect_through, connect_to};
use granary_direct::{Command, Connection, Op, PathPlace, Refused};
use granary_mount::{Operation, Options};
use granary_sim::rng::Stream;
use rustix::fs::FallocateFlags;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const RDONLY: u32 = 0;
pub const RDWR: u32 = 2;
const APPEND: u32 = 0o2000;
const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EINVAL: i32 = 22;

pub struct Server {
    pub rig: Rig,
    pub socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Server {
    fn new(fs: &'static granary_testbed::registry::FsEntry) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let options = Options { allow_other: true, direct: Some(socket.clone()), ..Options::default() };
        Server { rig: Rig::new(fs, &options), socket, _dir: dir }
    }

    pub fn client(&self) -> Connection {
        Connection::open(&self.socket, self.rig.root()).expect("connects")
    }

    /// Opens a file that is there by its path, as the library does.
    pub fn open(&self, client: &Connection, name: &str, flags: u32) -> u32 {
        let ino = fs::metadata(self.rig.path(name)).expect("there").ino();
        client.open_file(name.as_bytes(), flags, ino).expect("opens")
    }
}

/// Runs a test on a mount of each file system, or of one.
pub fn each(only: Option<&str>, test: impl Fn(&Server)) {
    if !possible() {
        return;
    }
    for fs in systems().filter(|fs| only.is_none_or(|name| fs.name == name)) {
        let server = Server::new(fs);
        test(&server);
        server.rig.finish();
    }
}

#[test]
fn both_views_show_one_file() {
    each(None, |server| {
        let (rig, client) = (&server.rig, server.client());
        // Cached by the kernel: attributes, pages, the name.
        fs::write(rig.path("f"), vec![1; 10_000]).expect("written");
        assert_eq!(fs::read(rig.path("f")).expect("read"), vec![1; 10_000]);
        let f = server.open(&client, "f", RDWR);
        assert_eq!(client.write(f, 4096, &[2; 100]), Ok((4096, 100)), "{}", rig.fs);
        let seen = fs::read(rig.path("f")).expect("read");
        assert!(seen[4096..4196] == [2; 100] && seen[..4096] == [1; 4096], "{}: an old page", rig.fs);
        // It grows: both see the end, and what the kernel appends comes behind it.
        assert_eq!(client.write(f, 10_000, &[3; 5000]), Ok((10_000, 5000)));
        assert_eq!(fs::metadata(rig.path("f")).expect("there").len(), 15_000, "{}", rig.fs);
        let mut appends = OpenOptions::new().append(true).open(rig.path("f")).expect("opens");
        assert_eq!(client.write(f, 15_000, &[4; 1]), Ok((15_000, 1)));
        appends.write_all(&[5; 3]).expect("appended");
        assert_eq!(client.fstat(f).map(|a| a.size), Ok(15_004), "{}: appended over what was there", rig.fs);
        let mut tail = [0; 8];
        assert_eq!(client.read(f, 14_999, &mut tail), Ok(5));
        assert_eq!(tail[..5], [3, 4, 5, 5, 5]);
        // The kernel's changes are seen at once.
        let plain = OpenOptions::new().write(true).open(rig.path("f")).expect("opens");
        plain.write_all_at(b"kernel", 7).expect("written");
        let mut got = [0; 6];
        assert_eq!((client.read(f, 7, &mut got), &got), (Ok(6), b"kernel"));
        plain.set_len(9).expect("cut");
        assert_eq!(client.read(f, 0, &mut [0; 100]), Ok(9));
        assert_eq!(client.sync(f, true), Ok(()));
        assert_eq!(client.close(f), Ok(()));
        assert_eq!(client.close(f), Err(Refused::Errno(EBADF)));
        let counted = rig.mounted().operations();
        assert!(counted.of_direct(Operation::Write) >= 3 && counted.of_direct(Operation::Fdatasync) == 1);
    });
}

#[test]
fn a_new_file_has_the_owner_and_the_mode_and_the_kernel_sees_its_name() {
    each(None, |server| {
        let (rig, client) = (&server.rig, server.client());
        fs::create_dir(rig.path("d")).expect("made");
        // The kernel believes for a day that it is not there.
        assert!(fs::metadata(rig.path("d/new")).is_err());
        let mode = 0o666 | 0o027 << 16;
        let (f, attributes) = client.create(b"d/new", RDWR, mode).expect("made");
        assert_eq!(attributes.mode, 0o100_640, "{}", rig.fs);
        let seen = fs::metadata(rig.path("d/new")).expect("the kernel sees it");
        assert_eq!((seen.ino(), seen.mode()), (attributes.ino, 0o100_640), "{}", rig.fs);
        assert_eq!(client.write(f, 0, b"text"), Ok((0, 4)));
        assert_eq!(fs::read(rig.path("d/new")).expect("read"), b"text");
        assert_eq!(client.create(b"d/new", RDWR, mode), Err(Refused::Kernel), "it is there");
        assert_eq!(client.stat(b"d/none", true), Err(Refused::Errno(ENOENT)));
        assert_eq!(client.stat(b"d/new", true).map(|a| a.size), Ok(4));
    });
}

#[test]
fn mappings_and_commands_see_each_other() {
    each(None, |server| {
        let (rig, client) = (&server.rig, server.client());
        fs::write(rig.path("m"), vec![1; 8192]).expect("written");
        let f = server.open(&client, "m", RDWR);
        let file = OpenOptions::new().read(true).write(true).open(rig.path("m")).expect("opens");
        let map = crate::direct::map::Map::new(&file, 8192);
        for round in 2..6 {
            map.store(100, round);
            let mut got = [0; 2];
            assert_eq!(client.read(f, 99, &mut got), Ok(2));
            assert_eq!(got, [1, round], "{}: a store that a command does not see", rig.fs);
            assert_eq!(client.write(f, 200, &[round; 1]), Ok((200, 1)));
            assert_eq!(map.load(200), round, "{}: a write that the mapping does not see", rig.fs);
        }
        // A mapping beyond the end that the kernel knew.
        assert_eq!(client.write(f, 8192, &[9; 4096]), Ok((8192, 4096)));
        let longer = crate::direct::map::Map::new(&file, 12_288);
        assert_eq!(longer.load(12_287), 9, "{}", rig.fs);
    });
}

/// A shared mapping for these tests.
mod map {
    #![allow(unsafe_code, reason = "a mapping")]

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    pub struct Map(*mut u8, usize);

    impl Map {
        pub fn new(file: &std::fs::File, len: usize) -> Map {
            let how = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a fresh mapping.
            let at = unsafe { mmap(std::ptr::null_mut(), len, how, MapFlags::SHARED, file, 0) };
            Map(at.expect("mapped").cast(), len)
        }

        pub fn store(&self, at: usize, byte: u8) {
            assert!(at < self.1);
            // SAFETY: within the mapping.
            unsafe { self.0.add(at).write_volatile(byte) }
        }

        pub fn load(&self, at: usize) -> u8 {
            assert!(at < self.1);
            // SAFETY: within the mapping.
            unsafe { self.0.add(at).read_volatile() }
        }
    }

    impl Drop for Map {
        fn drop(&mut self) {
            // SAFETY: exactly the mapping made above.
            let _ = unsafe { munmap(self.0.cast(), self.1) };
        }
    }
}

#[test]
fn appends_of_both_views_do_not_overwrite_each_other() {
    each(Some("bytefs"), |server| {
        let (rig, client) = (&server.rig, server.client());
        fs::write(rig.path("log"), b"").expect("made");
        let f = server.open(&client, "log", RDWR | APPEND);
        let mut kernel = OpenOptions::new().append(true).open(rig.path("log")).expect("opens");
        for i in 0..200u8 {
            assert_eq!(client.write(f, 0, &[i; 37]).map(|(_, n)| n), Ok(37));
            kernel.write_all(&[i; 41]).expect("appended");
        }
        let all = fs::read(rig.path("log")).expect("read");
        let want: Vec<u8> = (0..200u8).flat_map(|i| [i; 78]).collect();
        assert_eq!(all, want);
    });
}

#[test]
fn paths_that_leave_the_mount_are_the_kernels_and_permissions_hold() {
    each(Some("ext4"), |server| {
        let (rig, client) = (&server.rig, server.client());
        fs::create_dir(rig.path("d")).expect("made");
        fs::write(rig.path("d/f"), b"x").expect("written");
        std::os::unix::fs::symlink("/etc/passwd", rig.path("out")).expect("made");
        std::os::unix::fs::symlink("d/f", rig.path("in")).expect("made");
        std::os::unix::fs::symlink("loop", rig.path("loop")).expect("made");
        let ino = fs::metadata(rig.path("d/f")).expect("there").ino();
        for path in ["out", "../x", "d/../d/f", "", ".", "d/", ".granary-stats", "/etc/passwd"] {
            assert!(
                matches!(client.stat(path.as_bytes(), true), Err(Refused::Kernel | Refused::Errno(_))),
                "{path} is told"
            );
            assert_eq!(client.open_file(path.as_bytes(), RDONLY, ino), Err(Refused::Kernel), "{path}");
        }
        assert!(client.stat(b"loop", true).is_err() && client.stat(b"loop", false).is_ok());
        assert_eq!(client.stat(b"in", true).map(|a| a.ino), Ok(ino));
        assert!(client.open_file(b"in", RDONLY, ino).is_ok(), "a link that stays inside");
        assert_eq!(client.open_file(b"d/f", RDONLY, ino + 1), Err(Refused::Kernel), "another file");
        assert!(client.open_file(b"d", RDONLY, fs::metadata(rig.path("d")).expect("there").ino()).is_err());
        let f = client.open_file(b"d/f", RDONLY, ino).expect("opens");
        assert_eq!(client.write(f, 0, b"y"), Err(Refused::Errno(EBADF)), "open for reading only");
    });
}

/// So many times, or as many as `GRANARY_HOSTILE` says.
fn many(few: u64) -> u64 {
    std::env::var("GRANARY_HOSTILE").ok().and_then(|n| n.parse().ok()).unwrap_or(few)
}

/// Words that make no sense, and some that nearly do.
fn nonsense(rng: &mut Stream) -> Command {
    let any = |rng: &mut Stream| rng.below(u64::MAX);
    let mut command = Command {
        op: rng.below(24) as u32,
        flags: any(rng) as u32,
        handle: if rng.chance(0.7) { rng.below(8) as u32 } else { any(rng) as u32 },
        len: if rng.chance(0.7) { rng.below(9000) as u32 } else { any(rng) as u32 },
        pos: if rng.chance(0.7) { rng.below(1 << 20) } else { any(rng) },
        ino: rng.below(20),
    };
    if rng.chance(0.05) {
        command.op = any(rng) as u32;
    }
    command
}

/// Commands of a hostile client: `GRANARY_HOSTILE=1000000` for more.
#[test]
fn random_commands_hurt_nobody() {
    let count = many(5_000);
    each(Some("bytefs"), |server| {
        let (rig, good, bad) = (&server.rig, server.client(), server.client());
        fs::write(rig.path("mine"), vec![7; 5000]).expect("written");
        let mine = server.open(&good, "mine", RDWR);
        let mut rng = Stream::new(11, "hostile");
        for round in 0..count {
            if round % 16 == 0 {
                let junk: Vec<u8> = (0..rng.below(300)).map(|_| rng.below(256) as u8).collect();
                match rng.below(4) {
                    0 => bad.segment().put_data(b"junk/../mine"),
                    1 => {
                        // Places, so that names are made and removed, and some that nearly are.
                        let (base, ino) = ([&b""[..], b"a", &junk][rng.below(3) as usize], rng.below(3));
                        let path = [&b"a"[..], b"a/b", b"c", b"mine/x", &junk][rng.below(5) as usize];
                        let end = PathPlace { base, ino, path }.put(bad.segment(), 0).unwrap_or(0);
                        PathPlace::at_root(b"c").put(bad.segment(), end);
                    }
                    _ => bad.segment().put_data(&junk),
                }
            }
            match bad.call(&nonsense(&mut rng)) {
                Ok(answer) => assert!(answer.result <= DATA as i64 || answer.result < 1 << 16),
                Err(Refused::Gone) => panic!("the server has ended at command {round}"),
                Err(_) => {}
            }
            if round % 64 == 0 {
                let mut got = [0; 16];
                assert_eq!(good.read(mine, 4000, &mut got), Ok(16));
                assert_eq!(got, [7; 16], "another client's file");
            }
        }
        assert_eq!(bad.call(&Command::default()), Err(Refused::Errno(EINVAL)));
    });
}

/// A client that writes what it likes into its memory while it is served, hands it back, or never takes an
/// answer.
#[test]
fn a_client_that_does_not_keep_the_rules_harms_itself_only() {
    each(Some("bytefs"), |server| {
        let good = server.client();
        fs::write(server.rig.path("mine"), vec![7; 5000]).expect("written");
        let mine = server.open(&good, "mine", RDWR);
        let socket = connect_through(&server.socket, server.rig.root()).expect("connects");
        let file = ask_channel(socket.as_fd()).expect("answers").expect("a channel");
        assert!(rustix::fs::ftruncate(&file, 0).is_err(), "its size is sealed");
        let mut rng = Stream::new(12, "rules");
        let raw = fs::File::from(file.try_clone().expect("a descriptor"));
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..rng.below(400)).map(|_| rng.below(4) as u8).collect();
            raw.write_all_at(&bytes, rng.below(600)).expect("written to its own memory");
        }
        let mut got = [0; 16];
        assert_eq!((good.read(mine, 0, &mut got), got), (Ok(16), [7; 16]));
        // Messages that are none, and a program that goes in the middle.
        for junk in [&b"x"[..], &[0; 8], &[0xff; 300]] {
            let socket = connect_to(&server.socket).expect("connects");
            rustix::net::send(&socket, junk, rustix::net::SendFlags::NOSIGNAL).expect("sent");
        }
        assert_eq!(good.read(mine, 0, &mut got), Ok(16));
        drop((socket, Segment::open(&file)));
    });
}

/// A client whose memory is gone while it is served: unmapped, with holes in it, or with the whole client.
#[test]
fn memory_that_goes_while_a_command_runs_hurts_its_client_only() {
    each(Some("bytefs"), |server| {
        let good = server.client();
        fs::write(server.rig.path("mine"), vec![7; 5000]).expect("written");
        let mine = server.open(&good, "mine", RDWR);
        for round in 0..8u64 {
            let socket = connect_through(&server.socket, server.rig.root()).expect("connects");
            let file = ask_channel(socket.as_fd()).expect("answers").expect("a channel");
            let segment = Segment::open(&file).expect("a channel");
            let place = PathPlace::at_root(b"mine").put(&segment, 0).expect("fits");
            let command = Command { len: place as u32, ..Command::new(Op::StatPath) };
            std::thread::scope(|s| {
                let file = &file;
                s.spawn(move || {
                    for at in 0..20 {
                        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                        let holes = rustix::fs::fallocate(file, how, at * 4096, 64 * 4096);
                        assert!(holes.is_ok() || round > 0, "holes can be made: {holes:?}");
                        assert!(rustix::fs::ftruncate(file, 0).is_err(), "its size is sealed");
                    }
                });
                // Any answer will do: the words of the channel are zero in between.
                let patience = std::sync::atomic::AtomicU32::new(0);
                let soon = || patience.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
                let _ = segment.ask(&command, 100, soon);
            });
            drop(segment);
            let mut got = [0; 16];
            assert_eq!((good.read(mine, 4000, &mut got), got), (Ok(16), [7; 16]), "round {round}");
        }
    });
}

/// More programs than are served at once, and more than there are channels, one after the other, each gone
/// without a word with a file open: `GRANARY_HOSTILE=5000` for more.
#[test]
fn thousands_of_programs_come_and_go() {
    each(Some("bytefs"), |server| {
        let rig = &server.rig;
        fs::write(rig.path("mine"), b"text").expect("written");
        let ino = fs::metadata(rig.path("mine")).expect("there").ino();
        let gone = many(1200);
        for round in 0..gone {
            let mut client = Connection::open(&server.socket, server.rig.root());
            // The server lets go of those before a little later.
            eventually(|| {
                client.is_ok() || {
                    client = Connection::open(&server.socket, server.rig.root());
                    client.is_ok()
                }
            });
            let client = client.expect("one is free");
            assert!(client.open_file(b"mine", RDWR, ino).is_ok(), "program {round}");
        }
        // Nobody holds the file: it goes with its name.
        let free = || rig.vfs.statfs(&granary_fs::Caller::KERNEL).expect("asked").free_inodes;
        let before = free();
        fs::remove_file(rig.path("mine")).expect("removed");
        assert!(
            eventually(|| {
                rig.vfs.reap();
                free() > before
            }),
            "somebody has it open"
        );
        assert_eq!(rig.mounted().operations().of_direct(Operation::Open), gone);
    });
}

/// Clients by the hundred, each gone with a file open that has no name any more; all of it is given back.
#[test]
fn what_clients_held_is_given_back_when_they_are_gone() {
    each(Some("ext4"), |server| {
        let rig = &server.rig;
        let free = || rig.vfs.statfs(&granary_fs::Caller::KERNEL).expect("asked").free_inodes;
        let before = free();
        for round in 0..150 {
            let client = server.client();
            let name = format!("f{round}");
            let (f, _) = client.create(name.as_bytes(), RDWR, 0o600).expect("made");
            client.write(f, 0, &[1; 100]).expect("written");
            fs::remove_file(rig.path(&name)).expect("removed");
            assert_eq!(client.read(f, 0, &mut [0; 100]), Ok(100), "open files stay");
        }
        eventually(|| {
            rig.vfs.reap();
            free() == before
        });
        assert_eq!(free(), before, "removed files of programs that are gone");
        // Far more at once than it serves: those beyond are told, the others go on.
        let many: Vec<_> = (0..600).map(|_| Connection::open(&server.socket, server.rig.root())).collect();
        let served = many.iter().filter(|c| c.is_ok()).count();
        assert!((100..600).contains(&served), "{served} of 600");
        let first = many.iter().flatten().next().expect("one");
        assert_eq!(first.stat(b"none", true), Err(Refused::Errno(ENOENT)));
        drop(many);
        eventually(|| Connection::open(&server.socket, server.rig.root()).is_ok());
        assert_eq!(server.client().stat(b"none", true), Err(Refused::Errno(ENOENT)));
    });
}

#[test]
fn the_end_of_the_mount_is_the_end_of_its_clients() {
    if !possible() {
        return;
    }
    let server = Server::new(systems().find(|fs| fs.name == "bytefs").expect("there"));
    let client = server.client();
    let (f, _) = client.create(b"f", RDWR, 0o600).expect("made");
    assert_eq!(client.write(f, 0, b"kept"), Ok((0, 4)));
    let socket = server.socket.clone();
    server.rig.finish();
    assert_eq!(client.read(f, 0, &mut [0; 4]), Err(Refused::Gone));
    assert!(connect_to(&socket).is_err() && !Path::new(&socket).exists());
    let mut nothing = String::new();
    assert!(fs::File::open(&socket).and_then(|mut f| f.read_to_string(&mut nothing)).is_err());
}
