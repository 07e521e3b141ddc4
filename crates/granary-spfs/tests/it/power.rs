//! P7: the power of both devices fails at any instant, over ext4. All acknowledged content of a tiered file
//! is there, whatever the lower file system has forgotten. No byte that was cut off or removed comes back.
//! Nothing leaks (P8, by the check).

use crate::common::{Rig, Stack, dimm};
use granary_device::{Devices, Port, Role};
use granary_fs::entry::Mount;
use granary_fs::{Allocate, Caller, Cred, FsEntry, FsError};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, now, sleep_until};
use granary_spfs::exthash::Form;
use granary_spfs::{Consistency, MountOptions, Recovery, Spfs};
use granary_suite::suite::{Subject, run};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use parking_lot::Mutex;
use std::sync::Arc;

pub const STACK: FsEntry = granary_spfs::over(&granary_ext4::EXT4, "spfs+ext4", &[]);

/// A drive and a DIMM.
pub fn devices() -> Devices {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    config.flash = config.flash.with_capacity(Bytes::mib(64));
    let ssd = Arc::new(Mssd::new(&config).expect("a drive"));
    Devices::ssd(ssd).with(Role::Nvm, dimm(Bytes::mib(8)))
}

/// The stack over ext4, mounted.
pub fn mount(devices: &Devices, options: &MountOptions) -> (Arc<Spfs>, Arc<Vfs>) {
    mount_over(&granary_ext4::EXT4, devices, options)
}

/// The stack over this file system, mounted.
pub fn mount_over(lower: &FsEntry, devices: &Devices, options: &MountOptions) -> (Arc<Spfs>, Arc<Vfs>) {
    let none = toml::Table::new();
    let metadata_cache = Bytes::mib(4);
    let how = Mount { options: &none, metadata_cache, read_only: false, lower: None, inside: None };
    let vfs = VfsConfig { tick: Nanos(1), ..VfsConfig::default() };
    let below = (lower.mount)(devices, &how).expect("the lower file system mounts");
    let dimm = devices.get(Role::Nvm).expect("a DIMM").clone();
    let fs = granary_spfs::mount(dimm, Vfs::mount(below, vfs).expect("vfs"), options).expect("mounts");
    (fs.clone(), Vfs::mount(fs, vfs).expect("vfs"))
}

/// Content of the file when the last call had returned, and when the one under way will return. `None`: no
/// file.
#[derive(Clone, Default)]
struct Known {
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

impl Known {
    fn done(&mut self) {
        self.old.clone_from(&self.new);
    }
}

type Ledger = Arc<Mutex<Known>>;

const PATH: &str = "/f";

/// Changes one file for ever. Each call is durable when it returns: where the file is not tiered an fsync or
/// a sync follows.
fn work(p: &mut Process, seed: u64, ledger: &Ledger, demote: &dyn Fn(), punches: bool) {
    let mut rng = Stream::new(seed, "work");
    for word in 1u64.. {
        let Ok(fd) = p.open(PATH, OpenFlags::RDWR, 0) else {
            ledger.lock().new = Some(Vec::new());
            let fd = p.open(PATH, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("created");
            // Enough for the profiler.
            for n in 0..3u64 {
                ledger.lock().new = Some(n.to_le_bytes().to_vec());
                p.pwrite(fd, Payload::Fill { word: n, len: 8 }, 0).expect("write");
                p.fsync(fd).expect("fsync");
                ledger.lock().done();
            }
            p.close(fd).expect("close");
            continue;
        };
        let before = ledger.lock().old.clone().unwrap_or_default();
        let (pos, len) = (rng.below(60_000), 1 + rng.below(30_000) as usize);
        match rng.below(if punches { 15 } else { 12 }) {
            12.. => {
                // Its effect below is durable by the fsync only.
                let mut after = before.clone();
                let (from, to) = ((pos as usize).min(after.len()), (pos as usize + len).min(after.len()));
                after[from..to].fill(0);
                ledger.lock().new = Some(after);
                p.fallocate(fd, Allocate::PunchHole, pos, len as u64).expect("punched");
                p.fsync(fd).expect("fsync");
            }
            0..=6 => {
                let mut after = before;
                after.resize(after.len().max(pos as usize + len), 0);
                let data = Payload::Fill { word: word.wrapping_mul(0x0101_0101_0101_0101), len };
                data.copy_to(pos, &mut after[pos as usize..pos as usize + len]);
                ledger.lock().new = Some(after);
                p.pwrite(fd, data, pos).expect("write");
            }
            7 | 8 => {
                let mut after = before;
                after.resize(pos as usize, 0);
                ledger.lock().new = Some(after);
                p.ftruncate(fd, pos).expect("truncate");
            }
            9 => {
                demote();
                for _ in 0..2 {
                    p.pwrite(fd, Payload::Bytes(&before[..before.len().min(8)]), 0).expect("write");
                    p.fsync(fd).expect("fsync");
                }
            }
            10 => {
                p.rename(PATH, "/g").expect("renamed");
                p.rename("/g", PATH).expect("renamed back");
            }
            _ => {
                ledger.lock().new = None;
                p.unlink(PATH).expect("unlink");
                p.close(fd).expect("close");
                p.sync().expect("sync");
                ledger.lock().done();
                continue;
            }
        }
        ledger.lock().done();
        p.close(fd).expect("close");
    }
}

fn look(p: &mut Process, seed: u64, known: &Known) {
    let mut found = Vec::new();
    // A rename that was not synced may be there.
    for path in [PATH, "/g"] {
        match p.open(path, OpenFlags::RDONLY, 0) {
            Ok(fd) => {
                let mut bytes = vec![0; p.fstat(fd).expect("stat").attr.size as usize];
                assert_eq!(p.pread(fd, Dest::Bytes(&mut bytes), 0), Ok(bytes.len()), "seed {seed}");
                p.close(fd).expect("close");
                found.push(bytes);
            }
            Err(FsError::NoEntry) => {}
            Err(e) => panic!("seed {seed}: {path}: {e}"),
        }
    }
    assert!(found.len() <= 1, "seed {seed}: both names");
    let Some(found) = found.pop() else {
        assert!(known.old.is_none() || known.new.is_none(), "seed {seed}: the file is gone");
        return;
    };
    let sides = [&known.old, &known.new].map(|side| side.clone().unwrap_or_default());
    assert!(sides.iter().any(|side| side.len() == found.len()), "seed {seed}: {} bytes", found.len());
    for (i, byte) in found.iter().enumerate() {
        // A byte that one of both lacks counts as zero there, where the file has the other's size.
        let may = sides.iter().any(|side| side.get(i).copied().unwrap_or(0) == *byte);
        let sides = sides.each_ref().map(|side| (side.len(), side.get(i)));
        assert!(may, "seed {seed}: byte {i} of {} is {byte}, of {sides:?}", found.len());
    }
}

fn fail(seed: u64, options: &MountOptions, punches: bool) -> Recovery {
    let (devices, ledger) = (devices(), Ledger::default());
    let at = Nanos(3_000_000 + Stream::new(seed, "at").below(60_000_000));
    let (theirs, known, own) = (devices.clone(), ledger.clone(), options.clone());
    let world = World::new(WorldConfig { power_fail_at: Some(at), seed, ..WorldConfig::default() });
    let stopped = world.run(move || {
        STACK.make(&theirs, &granary_fs::entry::defaults).expect("mkfs");
        theirs.track_in_flight(true);
        let (fs, vfs) = mount(&theirs, &own);
        let mut p = Process::new(vfs, Cred::ROOT);
        work(&mut p, seed, &known, &|| fs.demote_all().expect("demotes"), punches);
    });
    let t = match stopped {
        Err(Stop::PowerFail(t)) => t,
        other => panic!("seed {seed}: {other:?}"),
    };
    devices.power_fail(t, &mut Stream::new(seed, "power"));
    let (known, options) = (ledger.lock().clone(), options.clone());
    run(move || {
        sleep_until(t);
        sleep_until(devices.power_on(now()).expect("on"));
        let (fs, vfs) = mount(&devices, &options);
        let recovery = fs.recovery();
        drop(fs);
        // The cuts of recovery below are still on their way.
        vfs.sync(&Caller::KERNEL).expect("sync");
        let wrong = vfs.check().expect("checks");
        assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        look(&mut p, seed, &known);
        p.exit();
        vfs.unmount().expect("unmounts");
        let (fs, vfs) = mount(&devices, &options);
        assert!(fs.recovery().clean, "seed {seed}");
        look(&mut Process::new(vfs, Cred::ROOT), seed, &known);
        recovery
    })
}

#[test]
fn what_a_tiered_file_acknowledged_survives_power_failures() {
    let eager = MountOptions { promote_after: 2, piece: 2, ..MountOptions::default() };
    let busy = MountOptions {
        tick: Nanos::from_micros(300),
        factor_percent: 40,
        consistency: Consistency::Meta,
        purge_after: Nanos::from_millis(2),
        ..eager.clone()
    };
    let all: Vec<Recovery> =
        (0..12).flat_map(|seed| [fail(seed, &eager, false), fail(1000 + seed, &busy, false)]).collect();
    let sum = |of: fn(&Recovery) -> u64| all.iter().map(of).sum::<u64>();
    let seen = (sum(|r| r.files), sum(|r| r.dropped), sum(|r| r.scrubbed));
    assert!(seen.0 > 3 && seen.2 > 0, "recovery had hardly anything to do: {seen:?}");
}

/// The same with holes that are punched in what persistent memory has and in what is below.
#[test]
fn punches_of_a_tiered_file_survive_power_failures() {
    let eager = MountOptions { promote_after: 2, piece: 2, ..MountOptions::default() };
    let files: u64 = (2000..2008).map(|seed| fail(seed, &eager, true).files).sum();
    assert!(files > 2, "{files} files were tiered");
}

/// One file, all of it in persistent memory, is overwritten and grows, and the power fails within some
/// microseconds: each write is there wholly or not at all, since none touches more than one extent.
fn overwrite_and_fail(form: Form, seed: u64) -> Recovery {
    const LEN: usize = 40_000;
    let mut stack = Stack::busy(form);
    stack.mount = MountOptions { demotion: false, ..stack.mount };
    let (drive, ledger) = (dimm(Bytes::mib(4)), Ledger::default());
    let (own, device, known) = (stack.clone(), drive.clone(), ledger.clone());
    let stopped = World::new(WorldConfig { seed, ..WorldConfig::default() }).run(move || {
        own.mkfs(&Port::new(device.clone())).expect("mkfs");
        let mut rig = Rig::again(&own, device.clone());
        let fd = rig.tiered("/f", 100);
        rig.put(fd, 0, 1, LEN);
        let mut rng = Stream::new(seed, "overwrites");
        let mut content = rig.content(fd);
        device.track_in_flight(true);
        let at = Nanos(now().0 + 100 + rng.below(60_000));
        granary_sim::spawn("power", move || {
            sleep_until(at);
            granary_sim::power_fail()
        });
        *known.lock() = Known { old: Some(content.clone()), new: Some(content.clone()) };
        for word in 2u64.. {
            let grows = rng.chance(0.2);
            let pos = if grows { content.len() as u64 } else { rng.below(LEN as u64) };
            // Within its cluster: that is one extent's.
            let len = 1 + rng.below(4096 - pos % 4096) as usize;
            content.resize(content.len().max(pos as usize + len), 0);
            Payload::Fill { word, len }.copy_to(pos, &mut content[pos as usize..pos as usize + len]);
            known.lock().new = Some(content.clone());
            rig.put(fd, pos, word, len);
            known.lock().done();
        }
    });
    let t = match stopped {
        Err(Stop::PowerFail(t)) => t,
        other => panic!("seed {seed}: {other:?}"),
    };
    drive.power_fail(t, &mut Stream::new(seed, "power"));
    let known = ledger.lock().clone();
    run(move || {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("on"));
        let mut rig = Rig::again(&stack, drive);
        let recovery = rig.fs.recovery();
        rig.check();
        let fd = rig.p.open(PATH, OpenFlags::RDWR, 0).expect("there");
        let found = Some(rig.content(fd));
        // The size follows the bytes: a write over the end may be there up to the old end.
        let old = known.old.as_ref().map_or(0, Vec::len);
        let cut = known.new.clone().map(|new| new[..old.min(new.len())].to_vec());
        let whole = found == known.old || found == known.new || found == cut;
        assert!(whole, "seed {seed}: a write is torn");
        recovery
    })
}

#[test]
fn an_overwrite_is_there_wholly_or_not_at_all() {
    let mut undone = 0;
    for seed in 0..150 {
        let form = if seed % 2 == 0 { Form::Carved } else { Form::Pointers };
        undone += overwrite_and_fail(form, seed).undone;
    }
    assert!(undone > 5, "{undone} overwrites were taken back");
}

/// One file, all of it in persistent memory: large overwrites split extents, punches leave zeros, small
/// writes fill them. The power fails within them: each cluster is old or new.
fn change_and_fail(form: Form, seed: u64) -> Recovery {
    const LEN: usize = 1 << 20;
    let mut stack = Stack::busy(form);
    stack.mkfs.segment = 4;
    stack.mount = MountOptions { demotion: false, ..stack.mount };
    let (drive, ledger) = (dimm(Bytes::mib(8)), Ledger::default());
    let (own, device, known) = (stack.clone(), drive.clone(), ledger.clone());
    let stopped = World::new(WorldConfig { seed, ..WorldConfig::default() }).run(move || {
        own.mkfs(&Port::new(device.clone())).expect("mkfs");
        let mut rig = Rig::again(&own, device.clone());
        let fd = rig.tiered("/f", 100);
        rig.put(fd, 0, 1, LEN);
        let mut rng = Stream::new(seed, "changes");
        let mut content = rig.content(fd);
        device.track_in_flight(true);
        let at = Nanos(now().0 + 100 + rng.below(1_500_000));
        granary_sim::spawn("power", move || {
            sleep_until(at);
            granary_sim::power_fail()
        });
        *known.lock() = Known { old: Some(content.clone()), new: Some(content.clone()) };
        for word in 2u64.. {
            let large = rng.chance(0.5);
            let len = 1 + rng.below(if large { 600_000 } else { 9000 }) as usize;
            let pos = rng.below((LEN - len) as u64);
            let (punch, part) = (rng.chance(0.4), pos as usize..pos as usize + len);
            let fill = if punch { 0 } else { word };
            Payload::Fill { word: fill, len }.copy_to(pos, &mut content[part]);
            known.lock().new = Some(content.clone());
            match punch {
                true => rig.p.fallocate(fd, Allocate::PunchHole, pos, len as u64).expect("punched"),
                false => rig.put(fd, pos, word, len),
            }
            known.lock().done();
        }
    });
    let t = match stopped {
        Err(Stop::PowerFail(t)) => t,
        other => panic!("seed {seed}: {other:?}"),
    };
    drive.power_fail(t, &mut Stream::new(seed, "power"));
    let known = ledger.lock().clone();
    run(move || {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("on"));
        let mut rig = Rig::again(&stack, drive);
        let recovery = rig.fs.recovery();
        rig.check();
        let fd = rig.p.open(PATH, OpenFlags::RDWR, 0).expect("there");
        let found = rig.content(fd);
        let (old, new) = (known.old.expect("old"), known.new.expect("new"));
        assert_eq!(found.len(), LEN, "seed {seed}");
        for at in (0..LEN).step_by(4096) {
            let cluster = at..at + 4096;
            let whole =
                found[cluster.clone()] == old[cluster.clone()] || found[cluster.clone()] == new[cluster];
            assert!(whole, "seed {seed}: cluster {} is torn", at / 4096);
        }
        recovery
    })
}

#[test]
fn a_split_or_punched_extent_is_old_or_new() {
    let mut scrubbed = 0;
    for seed in 0..90 {
        let form = if seed % 2 == 0 { Form::Carved } else { Form::Pointers };
        scrubbed += change_and_fail(form, seed).scrubbed;
    }
    assert!(scrubbed > 3, "{scrubbed} slots were left over");
}
