//! Files in persistent memory alone: made by O_DIRECT and O_SYNC, listed and renamed beside those below, gone
//! below when they have to.

use crate::common::{Rig, Stack};
use crate::power::{devices, mount};
use granary_fs::{Call, Cred, FileKind, FsError, RenameFlags, SetXattr, Time};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, now, sleep_until};
use granary_spfs::exthash::Form;
use granary_spfs::{MkfsOptions, Mode, MountOptions, Recovery};
use granary_suite::model::Mix;
use granary_suite::suite::{self, on_nvm, run};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, SetTime, Vfs, VfsConfig};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

const SIZE: Bytes = Bytes::mib(16);
/// How a program asks for one.
const ALONE: OpenFlags =
    OpenFlags::CREAT.union(OpenFlags::RDWR).union(OpenFlags::DIRECT).union(OpenFlags::SYNC);

fn calm() -> Stack {
    let mount = MountOptions { demotion: false, ..MountOptions::default() };
    Stack::new(MkfsOptions { segment: 1, form: Form::Carved }, mount)
}

/// Whether the lower file system has the name in its root directory.
fn is_below(rig: &Rig, name: &[u8]) -> bool {
    let lower = rig.fs.lower();
    lower.lookup(&Call::offline(), &lower.root(), name).expect("looks").is_some()
}

fn names(rig: &mut Rig, dir: &str) -> Vec<String> {
    let mut all: Vec<String> = rig
        .p
        .list(dir)
        .expect("lists")
        .iter()
        .map(|e| String::from_utf8_lossy(&e.name).into_owned())
        .collect();
    all.retain(|name| name != "." && name != "..");
    all.sort();
    all
}

#[test]
fn a_file_is_alone_as_long_as_it_can_be() {
    run(|| {
        let mut rig = Rig::new(&calm(), SIZE);
        let fd = rig.p.open("/f", ALONE, 0o640).expect("created");
        rig.put(fd, 4000, 7, 10_000);
        for flags in [OpenFlags::DIRECT, OpenFlags::SYNC, OpenFlags::empty()] {
            let fd = rig.p.open("/g", OpenFlags::CREAT | OpenFlags::RDWR | flags, 0o644).expect("created");
            rig.p.close(fd).expect("close");
            rig.p.unlink("/g").expect("unlinked");
        }
        assert_eq!((rig.fs.stats().alone, is_below(&rig, b"f")), (1, false), "both flags are asked for");
        rig.p.mkdir("/d", 0o755).expect("mkdir");
        rig.p
            .rename("/f", "/d/a name of more than two hundred bytes".to_owned() + &"x".repeat(210))
            .expect("renamed");
        let long = "/d/a name of more than two hundred bytes".to_owned() + &"x".repeat(210);
        rig.p.chmod(&long, 0o604).expect("chmod");
        rig.p.chown(&long, Some(5), Some(6)).expect("chown");
        assert_eq!(rig.p.rmdir("/d"), Err(FsError::NotEmpty));
        rig.p.ftruncate(fd, 9000).expect("cut");
        rig.p.utimens(&long, SetTime::At(Time(11)), SetTime::At(Time(22))).expect("times");
        rig.p.close(fd).expect("close");
        let mut rig = rig.remounted();
        assert_eq!(rig.fs.stats().alone, 1);
        assert_eq!((names(&mut rig, "/"), names(&mut rig, "/d").len()), (vec!["d".to_owned()], 1));
        let attr = rig.p.stat(&long).expect("stat").attr;
        assert_eq!(
            (attr.kind, attr.mode, attr.uid, attr.gid, attr.size, attr.nlink, attr.atime, attr.mtime),
            (FileKind::File, 0o604, 5, 6, 9000, 1, Time(11), Time(22))
        );
        // A directory that holds it is renamed below.
        rig.p.rename("/d", "/e").expect("renamed");
        let long = long.replace("/d/", "/e/");
        let fd = rig.p.open(&long, OpenFlags::RDWR, 0).expect("there");
        let before = rig.content(fd);
        assert!(before[4000..].iter().step_by(8).all(|b| *b == 7) && before[..4000].iter().all(|b| *b == 0));
        rig.check();
        // The last name goes, the bytes stay until the file is closed.
        rig.p.unlink(&long).expect("unlinked");
        assert_eq!(names(&mut rig, "/e"), Vec::<String>::new());
        assert!(rig.content(fd) == before && rig.p.fstat(fd).expect("stat").attr.nlink == 0);
        rig.p.close(fd).expect("close");
        assert_eq!(rig.fs.stats().alone, 0);
        rig.p.rmdir("/e").expect("is empty");
        rig.check();
    });
}

/// Names take the place of names, of whichever kind, and each file keeps its bytes.
#[test]
fn renames_over_and_between_the_tiers_keep_the_bytes() {
    run(|| {
        for (from, to) in [(true, false), (false, true), (true, true)] {
            for exchange in [false, true] {
                let mut rig = Rig::new(&calm(), SIZE);
                let mut made = |path: &str, alone: bool, word| {
                    let flags = if alone { ALONE } else { OpenFlags::CREAT | OpenFlags::RDWR };
                    let fd = rig.p.open(path, flags, 0o644).expect("created");
                    rig.put(fd, 0, word, 5000);
                    fd
                };
                let (a, b) = (made("/a", from, 1), made("/b", to, 2));
                let flags = RenameFlags { exchange, no_replace: false };
                rig.p.rename_with("/a", "/b", flags).expect("renamed");
                let first = |rig: &mut Rig, fd| rig.content(fd)[0];
                assert_eq!((first(&mut rig, a), first(&mut rig, b)), (1, 2), "open files");
                rig.put(a, 8, 9, 8);
                assert_eq!(names(&mut rig, "/"), if exchange { vec!["a", "b"] } else { vec!["b"] });
                let ino = rig.p.fstat(a).expect("stat").ino;
                assert_eq!(rig.p.stat("/b").expect("stat").ino, ino, "one file has one number");
                [a, b].into_iter().for_each(|fd| rig.p.close(fd).expect("close"));
                let mut rig = rig.remounted();
                let fd = rig.p.open("/b", OpenFlags::RDWR, 0).expect("there");
                assert_eq!(rig.content(fd)[..16], [1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
                rig.check();
            }
        }
    });
}

/// Links, attributes and lists need a lower file: the file becomes one, also while it is open and written.
#[test]
fn what_needs_a_lower_file_makes_one() {
    run(|| {
        let mut rig = Rig::new(&calm(), SIZE);
        for (n, path) in ["/link", "/attribute", "/reserve", "/demote"].into_iter().enumerate() {
            let fd = rig.p.open(path, ALONE, 0o600).expect("created");
            rig.put(fd, 0, 3, 20_000);
            rig.p.utimens(path, SetTime::Omit, SetTime::At(Time(5))).expect("times");
            assert_eq!(rig.fs.stats().alone, 1);
            match n {
                0 => rig.p.link(path, "/second").expect("linked"),
                1 => rig.p.setxattr(path, b"user.a", b"v", SetXattr::Any).expect("set"),
                2 => rig
                    .p
                    .fallocate(fd, granary_fs::Allocate::Reserve { keep_size: true }, 0, 50_000)
                    .expect("reserved"),
                _ => rig.fs.demote_all().expect("demoted"),
            }
            assert!(rig.fs.stats().alone == 0 && is_below(&rig, &path.as_bytes()[1..]), "{path}");
            rig.put(fd, 19_996, 4, 8);
            let attr = rig.p.fstat(fd).expect("stat").attr;
            assert_eq!((attr.size, attr.mode), (20_004, 0o600));
            rig.p.close(fd).expect("close");
            rig.check();
        }
        assert_eq!(names(&mut rig, "/"), ["attribute", "demote", "link", "reserve", "second"]);
        let mut rig = rig.remounted();
        for path in ["/second", "/attribute", "/reserve", "/demote"] {
            let fd = rig.p.open(path, OpenFlags::RDWR, 0).expect("there");
            assert_eq!((rig.content(fd).len(), rig.content(fd)[19_999]), (20_004, 0));
        }
    });
}

/// The file was made before its directory's present settings for new files, so it does not inherit them.
/// Nobody has changed the directory since, so it keeps its times.
#[test]
fn a_file_that_goes_below_inherits_nothing_and_its_directory_keeps_its_times() {
    const DEFAULT: &[u8] = b"system.posix_acl_default";
    // Owner 7, user 5 6, owning group 5, mask 7, others 1.
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, u32::MAX), (2, 6, 5), (4, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 1, u32::MAX)];
    let list: Vec<u8> = entries.iter().fold(2u32.to_le_bytes().to_vec(), |mut list, (tag, bits, id)| {
        list.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
        list
    });
    run(move || {
        let mut rig = Rig::new(&calm(), SIZE);
        rig.p.mkdir("/d", 0o755).expect("mkdir");
        let fd = rig.p.open("/d/f", ALONE, 0o640).expect("created");
        rig.put(fd, 0, 3, 5_000);
        rig.p.chmod("/d/f", 0o6711).expect("chmod");
        rig.p.utimens("/d/f", SetTime::At(Time(11)), SetTime::At(Time(22))).expect("times");
        granary_sim::sleep(Nanos::from_millis(20));
        // Behind the last name that came: the two times of the directory are not one.
        rig.p.setxattr("/d", DEFAULT, &list, SetXattr::Any).expect("a default list");
        rig.p.chown("/d", None, Some(77)).expect("chown");
        rig.p.chmod("/d", 0o2775).expect("chmod");
        let (file, dir) = (rig.p.stat("/d/f").expect("stat").attr, rig.p.stat("/d").expect("stat").attr);
        assert!(dir.mtime < dir.ctime);
        // The first try fails behind the creation of the lower file.
        rig.stack.memory().set_write_faults(true);
        assert!(rig.fs.demote_all().is_err());
        rig.stack.memory().set_write_faults(false);
        assert_eq!((rig.fs.stats().alone, rig.p.stat("/d").expect("stat").attr), (1, dir));
        rig.fs.demote_all().expect("demoted");
        assert_eq!(rig.fs.stats().alone, 0);
        rig.p.close(fd).expect("close");
        let mut rig = rig.remounted();
        let own = rig.p.listxattr("/d/f").expect("lists");
        assert!(own.is_empty(), "{own:?}");
        let now = rig.p.stat("/d/f").expect("stat").attr;
        let shown = |a: &granary_fs::Attr| (a.mode, a.uid, a.gid, a.size, a.atime, a.mtime, a.ctime);
        assert_eq!(shown(&now), shown(&file));
        assert_eq!(rig.p.stat("/d").expect("stat").attr, dir);
    });
}

/// Full persistent memory: files spill while the lower file system has room, and new ones are made there.
#[test]
fn no_room_here_is_nobodys_error() {
    run(|| {
        let stack = calm();
        let mut rig = Rig::new(&stack, Bytes::mib(2));
        let mut files = Vec::new();
        for n in 0..6u64 {
            let fd = rig.p.open(format!("/{n}"), ALONE, 0o644).expect("created");
            (0..50).for_each(|at| rig.put(fd, at * 20_000, n + 1, 20_000));
            files.push(fd);
        }
        assert!(rig.fs.stats().spilled > 0 && rig.fs.stats().alone < 6, "{:?}", rig.fs.stats());
        for (n, fd) in (1..).zip(&files) {
            let mut expected = vec![0; 1_000_000];
            Payload::Fill { word: n, len: 1_000_000 }.copy_to(0, &mut expected);
            assert!(rig.content(*fd) == expected, "file {n}");
        }
        rig.check();
        files.into_iter().for_each(|fd| rig.p.close(fd).expect("close"));
        rig.remounted().check();
    });
}

/// Which new files are alone can be chosen.
#[test]
fn modes_and_extensions_choose_the_files() {
    run(|| {
        for (mode, alone) in [(Mode::Pm, 3), (Mode::Disk, 0), (Mode::Tiering, 2)] {
            let mut stack = calm();
            stack.mount = MountOptions { mode, extensions: vec!["wal".to_owned()], ..stack.mount };
            let mut rig = Rig::new(&stack, SIZE);
            for (name, flags) in [
                ("/a.wal", OpenFlags::CREAT | OpenFlags::RDWR),
                ("/b", OpenFlags::CREAT | OpenFlags::RDWR),
                ("/c", ALONE),
            ] {
                rig.p.open(name, flags, 0o644).expect("created");
            }
            assert_eq!(rig.fs.stats().alone, alone, "{mode:?}");
        }
        let wrong = MountOptions { extensions: vec!["far too long".to_owned()], ..MountOptions::default() };
        assert_eq!(wrong.refusal().map(|(key, _)| key), Some("extensions"));
    });
}

fn everything_alone(form: Form) -> Stack {
    let mut stack = Stack::busy(form);
    stack.mount.mode = Mode::Pm;
    stack
}

#[test]
fn calls_behave_as_the_reference_where_new_files_are_alone() {
    on_nvm(|| {
        let data = Mix { names: 4, attrs: 2, data: 14, users: false, longest: 60_000, largest: 400_000 };
        let stack = everything_alone(Form::Carved);
        suite::calls_behave_as_the_reference(&stack, 0..2, suite::tiny_caches(), data, 2_000);
        suite::calls_behave_as_the_reference(&stack, 10..12, suite::tiny_caches(), Mix::default(), 2_000);
        let mut stays = everything_alone(Form::Pointers);
        stays.mount.demotion = false;
        let names = Mix { names: 14, attrs: 6, data: 4, ..Mix::default() };
        suite::calls_behave_as_the_reference(&stays, 20..23, VfsConfig::default(), names, 2_000);
    });
}

#[test]
fn concurrent_calls_on_files_alone_have_a_serial_order() {
    on_nvm(|| suite::concurrent_calls_have_a_serial_order(&everything_alone(Form::Carved)));
}

#[test]
fn any_calls_of_64_tasks_on_files_alone_leave_a_sound_file_system() {
    on_nvm(|| {
        suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&everything_alone(Form::Pointers))
    });
}

type Files = BTreeMap<String, Vec<u8>>;

/// The files when a call had returned last, and when the one under way will have.
#[derive(Clone, Default)]
struct Known {
    old: Files,
    new: Files,
}

/// Makes, writes, renames and removes files in persistent memory alone over ext4 for ever; each step is
/// durable when it is done.
fn work(p: &mut Process, seed: u64, ledger: &Mutex<Known>, demote: &dyn Fn()) {
    let mut rng = Stream::new(seed, "names");
    let sync = |p: &mut Process| {
        let dir = p.open("/", OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).expect("the root");
        p.fsync(dir).expect("fsync");
        p.close(dir).expect("close");
    };
    for word in 1u64.. {
        let mut after = ledger.lock().old.clone();
        let (a, b) = (format!("/{}", rng.below(5)), format!("/{}", rng.below(5)));
        match rng.below(9) {
            0..=3 => {
                let (pos, len) = (rng.below(20_000), 1 + rng.below(9_000) as usize);
                let file = after.entry(a.clone()).or_default();
                file.resize(file.len().max(pos as usize + len), 0);
                Payload::Fill { word, len }.copy_to(pos, &mut file[pos as usize..pos as usize + len]);
                ledger.lock().new = after;
                let fd = p.open(&a, ALONE, 0o644).expect("open");
                p.pwrite(fd, Payload::Fill { word, len }, pos).expect("write");
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
            }
            4 | 5 => {
                let Some(file) = after.remove(&a) else { continue };
                after.insert(b.clone(), file);
                ledger.lock().new = after;
                p.rename(&a, &b).expect("renamed");
                sync(p);
            }
            6 | 7 => {
                if after.remove(&a).is_none() {
                    continue;
                }
                ledger.lock().new = after;
                p.unlink(&a).expect("unlinked");
                sync(p);
            }
            _ => demote(),
        }
        let mut known = ledger.lock();
        known.old = known.new.clone();
    }
}

fn look(vfs: &Arc<Vfs>, seed: u64, known: &Known) {
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    let mut found = Files::new();
    for entry in p.list("/").expect("lists") {
        let path = format!("/{}", String::from_utf8_lossy(&entry.name));
        if entry.kind != FileKind::File {
            continue;
        }
        let fd = p.open(&path, OpenFlags::RDONLY, 0).expect("open");
        let mut bytes = vec![0; p.fstat(fd).expect("stat").attr.size as usize];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut bytes), 0), Ok(bytes.len()), "seed {seed}");
        p.close(fd).expect("close");
        found.insert(path, bytes);
    }
    p.exit();
    let sides = [&known.old, &known.new];
    assert!(
        sides.iter().any(|side| side.keys().eq(found.keys()))
            // A file that is being made may have its name before its bytes.
            || found.keys().eq(known.new.keys()),
        "seed {seed}: {:?}, of {:?} or {:?}",
        found.keys(),
        known.old.keys(),
        known.new.keys()
    );
    for (path, bytes) in &found {
        for (i, byte) in bytes.iter().enumerate() {
            let may = |side: &&Files| side.get(path).and_then(|f| f.get(i)).copied().unwrap_or(0) == *byte;
            assert!(sides.iter().any(may), "seed {seed}: byte {i} of {path} is {byte}");
        }
        let sizes = sides.map(|side| side.get(path).map_or(0, Vec::len));
        assert!(sizes.contains(&bytes.len()), "seed {seed}: {path} has {} bytes of {sizes:?}", bytes.len());
    }
}

fn fail(seed: u64) -> Recovery {
    let options =
        MountOptions { demotion: false, purge_after: Nanos::from_millis(2), ..MountOptions::default() };
    let (devices, ledger) = (devices(), Arc::new(Mutex::new(Known::default())));
    let at = Nanos(3_000_000 + Stream::new(seed, "at").below(40_000_000));
    let (theirs, known, own) = (devices.clone(), ledger.clone(), options.clone());
    let world = World::new(WorldConfig { power_fail_at: Some(at), seed, ..WorldConfig::default() });
    let stopped = world.run(move || {
        crate::power::STACK.make(&theirs, &granary_fs::entry::defaults).expect("mkfs");
        theirs.track_in_flight(true);
        let (fs, vfs) = mount(&theirs, &own);
        work(&mut Process::new(vfs, Cred::ROOT), seed, &known, &|| fs.demote_all().expect("demotes"));
    });
    let t = match stopped {
        Err(Stop::PowerFail(t)) => t,
        other => panic!("seed {seed}: {other:?}"),
    };
    devices.power_fail(t, &mut Stream::new(seed, "power"));
    let known = ledger.lock().clone();
    run(move || {
        sleep_until(t);
        sleep_until(devices.power_on(now()).expect("on"));
        let (fs, vfs) = mount(&devices, &options);
        let recovery = fs.recovery();
        drop(fs);
        vfs.sync(&granary_fs::Caller::KERNEL).expect("sync");
        let wrong = vfs.check().expect("checks");
        assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
        look(&vfs, seed, &known);
        vfs.unmount().expect("unmounts");
        let (fs, vfs) = mount(&devices, &options);
        assert!(fs.recovery().clean, "seed {seed}");
        look(&vfs, seed, &known);
        recovery
    })
}

/// The power of both devices fails within calls on names: each file has one name, the old or the new one, and
/// its bytes.
#[test]
fn names_of_files_alone_survive_power_failures() {
    let all: Vec<Recovery> = (0..28).map(fail).collect();
    let sum = |of: fn(&Recovery) -> u64| all.iter().map(of).sum::<u64>();
    assert_eq!(sum(|r| r.found), 0, "no directory was lost");
    assert!(sum(|r| r.files) > 10, "hardly any file was there");
}

/// One call on a file alone, `/a`, and the power fails at an instant of it; what is below is never lost.
/// Gives what was recovered.
fn cut_short(after: Nanos, len: usize, call: fn(&mut Rig)) -> Recovery {
    let stack = calm();
    let drive = crate::common::dimm(Bytes::mib(4));
    let (own, device) = (stack.clone(), drive.clone());
    let stopped = World::default().run(move || {
        suite::Subject::mkfs(&own, &granary_device::Port::new(device.clone())).expect("mkfs");
        let mut rig = Rig::again(&own, device.clone());
        let fd = rig.p.open("/a", ALONE, 0o644).expect("created");
        rig.put(fd, 0, 7, len);
        rig.p.close(fd).expect("close");
        device.track_in_flight(true);
        let at = Nanos(now().0 + after.0);
        granary_sim::spawn("power", move || {
            sleep_until(at);
            granary_sim::power_fail()
        });
        call(&mut rig);
        granary_sim::sleep(Nanos::from_millis(1));
    });
    let t = match stopped {
        Err(Stop::PowerFail(t)) => t,
        other => panic!("{after:?}: {other:?}"),
    };
    drive.power_fail(t, &mut Stream::new(after.0, "power"));
    run(move || {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("on"));
        let mut rig = Rig::again(&stack, drive);
        let recovery = rig.fs.recovery();
        let all = names(&mut rig, "/");
        assert!(all == ["a"] || all == ["b"], "{after:?}: {all:?}");
        let fd = rig.p.open(format!("/{}", all[0]), OpenFlags::RDONLY, 0).expect("open");
        let content = rig.content(fd);
        assert!(content.len() == len && content.iter().step_by(8).all(|b| *b == 7), "{after:?}");
        rig.check();
        recovery
    })
}

/// The power fails at every instant of a rename within persistent memory, and of a move below.
#[test]
fn a_rename_or_a_move_that_is_cut_short_is_finished_or_taken_back() {
    // A call of the lower file system takes 1 us; steps are shorter than a store takes.
    let all = |step: u64, n: u64, len: usize, call: fn(&mut Rig)| -> Vec<Recovery> {
        (0..n).map(|i| cut_short(Nanos(i * step), len, call)).collect()
    };
    let renames = all(50, 200, 5000, |rig| rig.p.rename("/a", "/b").expect("renamed"));
    let finished: u64 = renames.iter().map(|r| r.renamed).sum();
    assert!(finished > 0, "no rename was cut short behind its commit");
    // Of no bytes: the file system below is one in memory, which must not fail within a write. Over ext4 they
    // are tested above.
    let moves = all(100, 150, 0, |rig| rig.fs.demote_all().expect("demoted"));
    let begun: u64 = moves.iter().map(|r| r.unmoved).sum();
    assert!(begun > 0 && moves.iter().any(|r| r.files == 0), "{begun} moves were cut short, none was done");
}

/// No crash of the lower file system removes the directory of such a file, but a change behind our back may.
/// A file whose directory is gone is found in the root directory, with its bytes.
#[test]
fn a_file_whose_directory_is_gone_is_found_in_the_root() {
    run(|| {
        let stack = calm();
        let mut rig = Rig::new(&stack, SIZE);
        rig.p.mkdir("/d", 0o755).expect("mkdir");
        let fd = rig.p.open("/d/f", ALONE, 0o644).expect("created");
        rig.put(fd, 0, 7, 5000);
        // No unmount: the next mount recovers.
        let memory = rig.drive.clone();
        let lower = rig.fs.lower().clone();
        drop((rig.p, rig.vfs, rig.fs));
        lower.rmdir(&Call::offline(), &lower.root(), b"d").expect("removed");
        lower.sync(&Call::offline()).expect("sync");
        let mut rig = Rig::again(&stack, memory);
        assert_eq!(rig.fs.recovery().found, 1);
        let all = names(&mut rig, "/");
        assert!(all.len() == 1 && all[0].starts_with("spfs-"), "{all:?}");
        let fd = rig.p.open(format!("/{}", all[0]), OpenFlags::RDWR, 0).expect("open");
        assert_eq!((rig.content(fd).len(), rig.content(fd)[0]), (5000, 7));
        rig.check();
    });
}
