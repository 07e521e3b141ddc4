//! Files without a name, with the power failing at every command of the work on them. A file is there under
//! the name that it was given, or nothing is left of it. Its content and its name are there once fsync has
//! returned.

use granary_crash::{Faults, Target, Trip};
use granary_device::Devices;
use granary_fs::{Call, Caller, Cred, FileSystem, FsError, StatFs};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, sleep_until};
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{NodeRef, OpenFlags, Posix, Process, Vfs};
use parking_lot::Mutex;
use std::sync::Arc;

const LEN: u64 = 40_000;
/// NILFS2 has no files without a name, nor have its variants and what stands on it.
const LACKS: &str = "nilfs2";
const NAMES: [&str; 6] = ["/a0", "/b0", "/d0", "/a1", "/b1", "/d1"];

/// Promises of the load, and the free space before it.
#[derive(Default)]
struct Told {
    promised: Vec<String>,
    free: Option<StatFs>,
}

fn mounted(target: &dyn Target, devices: &Devices) -> Result<(Arc<dyn FileSystem>, Arc<Vfs>), FsError> {
    let fs = target.mount(devices)?;
    Ok((fs.clone(), Vfs::mount(fs, target.vfs())?))
}

fn make(vfs: &Arc<Vfs>, word: u64) -> Result<NodeRef, FsError> {
    let node = vfs.create_unnamed(&Caller::KERNEL, &vfs.root(), 0o600)?;
    let file = vfs.open(&Caller::KERNEL, node.clone(), OpenFlags::RDWR, true)?;
    vfs.write(&Caller::KERNEL, &file, 0, Payload::Fill { word, len: LEN as usize })?;
    vfs.close(&Caller::KERNEL, file);
    Ok(node)
}

fn load(vfs: &Arc<Vfs>, told: &Mutex<Told>) -> Result<(), FsError> {
    let root = vfs.root();
    let promise = |name: String| told.lock().promised.push(name);
    for round in 0..2 {
        let (a, b) = (make(vfs, 1)?, make(vfs, 2)?);
        vfs.fsync(&Caller::KERNEL, &a, false)?;
        let name = format!("/a{round}");
        vfs.link(&Caller::KERNEL, &a, &root, &name.as_bytes()[1..])?;
        vfs.fsync(&Caller::KERNEL, &a, false)?;
        promise(name);
        let name = format!("/b{round}");
        vfs.link(&Caller::KERNEL, &b, &root, &name.as_bytes()[1..])?;
        drop(make(vfs, 3)?);
        vfs.reap();
        let d = make(vfs, 4)?;
        let gone = format!("d{round}");
        vfs.link(&Caller::KERNEL, &d, &root, gone.as_bytes())?;
        vfs.unlink(&Caller::KERNEL, &root, gone.as_bytes())?;
        drop(d);
        vfs.reap();
        vfs.fsync(&Caller::KERNEL, &b, false)?;
        promise(name);
        vfs.sync(&Caller::KERNEL)?;
    }
    Ok(())
}

/// Whether the file has the content that it was given, to its end.
fn is_whole(p: &mut Process, path: &str) -> Result<bool, FsError> {
    let word = if path.starts_with("/a") { 1u64 } else { 2 };
    let fd = p.open(path, OpenFlags::RDONLY, 0)?;
    let mut bytes = vec![0; LEN as usize + 8];
    let n = p.pread(fd, Dest::Bytes(&mut bytes), 0)?;
    p.close(fd)?;
    Ok(n as u64 == LEN && bytes[..n].chunks(8).all(|c| c == word.to_le_bytes()))
}

fn look(target: &dyn Target, devices: &Devices, told: &Told) -> Result<(), String> {
    let say = |e: FsError| e.to_string();
    let (fs, vfs) = mounted(target, devices).map_err(say)?;
    let sound = |when: &str| {
        vfs.sync(&Caller::KERNEL).map_err(say)?;
        let bad = fs.check(&Call::offline()).map_err(say)?;
        if bad.is_empty() { Ok(()) } else { Err(format!("{when}: {}", bad.join("\n"))) }
    };
    sound("after recovery")?;
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    for name in &told.promised {
        if !is_whole(&mut p, name).map_err(|e| format!("{name}: {e}"))? {
            return Err(format!("{name} has not what was fsynced"));
        }
    }
    for name in NAMES {
        match p.stat(name) {
            Ok(found) if found.attr.nlink == 1 && found.attr.size <= LEN => p.unlink(name).map_err(say)?,
            Ok(found) => return Err(format!("{name}: {:?}", found.attr)),
            Err(FsError::NoEntry) => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    p.exit();
    sound("after all names are gone")?;
    let (now, before) = (vfs.statfs(&Caller::KERNEL).map_err(say)?, told.free.as_ref().expect("told first"));
    // Blocks by which a directory has grown stay.
    if now.free_blocks + 16 < before.free_blocks || now.free_inodes + 1 < before.free_inodes {
        return Err(format!("free now {now:?}, before {before:?}"));
    }
    vfs.unmount().map_err(say)
}

/// The power fails at `trip`. Returns how many commands the load took, where it came to its end.
fn point(target: &Arc<dyn Target>, trip: Option<Trip>) -> Option<u64> {
    let devices = target.devices(1);
    let told = Arc::new(Mutex::new(Told::default()));
    let (shared, t, d) = (told.clone(), target.clone(), devices.clone());
    let stopped = World::new(WorldConfig::default()).run(move || {
        t.mkfs(&d).expect("mkfs");
        let (faulty, faults) = Faults::around(&d);
        let (_, vfs) = mounted(&*t, &faulty).expect("mount");
        vfs.sync(&Caller::KERNEL).expect("sync");
        shared.lock().free = Some(vfs.statfs(&Caller::KERNEL).expect("statfs"));
        d.track_in_flight(true);
        let before = faults.commands();
        faults.arm(trip);
        match load(&vfs, &shared) {
            // As the kernel's NILFS2, which has no O_TMPFILE.
            Err(FsError::NotSupported) => return 0,
            done => done.expect("works"),
        }
        faults.commands() - before
    });
    let at = match stopped {
        Ok(commands) => return Some(commands),
        Err(Stop::PowerFail(at)) => at,
        Err(other) => panic!("{}, {trip:?}: {other}", target.name()),
    };
    devices.power_fail(at, &mut Stream::new(at.0, "survivors"));
    let ready = devices.power_on(at + Nanos(1)).expect("power on");
    let told = std::mem::take(&mut *told.lock());
    let t = target.clone();
    let result = World::default().run(move || {
        sleep_until(ready);
        look(&*t, &devices, &told)
    });
    let result = result.expect("ends");
    assert_eq!(result, Ok(()), "{}, {trip:?}", target.name());
    None
}

/// Points of each target, spread evenly over its commands: twelve, or `GRANARY_POINTS`.
fn points() -> u64 {
    std::env::var("GRANARY_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(12).max(1)
}

/// Fails before and after every so many commands of the load, each target from another one on.
fn explore(n: usize, name: &str, most: u64) {
    let target = crate::targets::by_name(name).expect("known");
    let commands = point(&target, None).expect("it ends");
    let step = commands.div_ceil(most).max(1);
    for at in (1 + n as u64 % step..=commands).step_by(step as usize) {
        point(&target, Some(Trip::Before(at)));
        point(&target, Some(Trip::After(at)));
    }
    assert_eq!(commands == 0, name.contains(LACKS), "{name} took {commands} commands");
}

#[test]
fn an_unnamed_file_has_its_name_whole_or_leaves_nothing() {
    let most = points();
    // tests/it/power.rs explores the losses of caches.
    let mut names = granary_crash::target::names(granary_lab::registry::FILE_SYSTEMS);
    names.retain(|name| !name.ends_with("@volatile"));
    let half = |odd: usize| {
        let mine = names.iter().enumerate().filter(|(n, _)| n % 2 == odd);
        mine.for_each(|(n, name)| explore(n, name, most));
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        half(0);
        other.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
    });
}
