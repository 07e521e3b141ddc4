//! Transactions that meet, that share a commit, and that are larger than what the drive or the journal holds.

use crate::common::client::Client;
use crate::common::{assert_clean, format, in_world, open, small_mssd};
use granary_bytefs::{ByteFs, CommitMode, DataMode, MountOptions};
use granary_device::Drive;
use granary_fs::{Attributes, Call, Caller, Cred, Data, Life, SetAttr, Time};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, now, sleep, sleep_until, spawn};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

/// 64 MiB with a log of 256 KiB: two regions of 128 KiB.
fn small_log() -> Arc<dyn Drive> {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Log);
    config.firmware.log_region = Bytes::kib(256);
    (config.flash.geometry.channels, config.flash.geometry.ways) = (4, 1);
    config.flash = config.flash.with_capacity(Bytes::mib(64));
    Arc::new(Mssd::new(&config).expect("a working drive"))
}

fn content(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(seed * 2 + 1) >> 5) as u8).collect()
}

/// One write of twice the journal area over old blocks, and one with more dirty lines than the write log has
/// room for: both are split, nothing is lost, and the file system goes on.
#[test]
fn operations_larger_than_journal_and_log_are_split() {
    const LEN: usize = 4 << 20;
    let run = || {
        let drive = small_log();
        format(&drive);
        // 128 blocks of journal: 127 pages in the largest record.
        let options = MountOptions { data: DataMode::Journal, ..MountOptions::default() };
        let fs = open(&drive, &options);
        let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        for seed in 0..3 {
            assert_eq!(p.pwrite(fd, Payload::Bytes(&content(seed, LEN)), 0), Ok(LEN));
        }
        let mut expected = content(2, LEN);
        // One line of every page, in one transaction each but all uncommitted together.
        for page in 0..LEN / 4096 {
            expected[page * 4096 + 64] = 7;
            p.pwrite(fd, Payload::Bytes(&[7]), page as u64 * 4096 + 64).expect("writes");
        }
        p.fsync(fd).expect("syncs");
        p.close(fd).expect("closes");
        p.sync().expect("syncs");
        assert_clean(&fs);
        p.exit();
        vfs.unmount().expect("unmounts");
        let fs = open(&drive, &MountOptions::default());
        let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs, Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("opens");
        let mut found = vec![0; LEN];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut found), 0), Ok(LEN));
        assert!(found == expected);
    };
    World::default().run(run).expect("no deadlock");
}

/// The write-back daemons are users of the files that they write: an unmount waits for them, it is not
/// refused and loses nothing.
#[test]
fn an_unmount_in_the_midst_of_write_back_has_everything_on_media() {
    const LEN: usize = 24 << 20;
    let run = || {
        let mut config = DriveConfig::bytefs_emulator();
        config.flash = config.flash.with_capacity(Bytes::mib(256));
        let drive: Arc<dyn Drive> = Arc::new(Mssd::new(&config).expect("a working drive"));
        format(&drive);
        for n in 0..3 {
            let fs = open(&drive, &MountOptions::default());
            let vfs = Vfs::mount(fs, VfsConfig { page_cache: Bytes::mib(128), ..VfsConfig::default() });
            let vfs = vfs.expect("mounts");
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            let fd = p.open(format!("/f{n}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
            assert_eq!(p.pwrite(fd, Payload::Bytes(&content(n, LEN)), 0), Ok(LEN));
            p.close(fd).expect("closes");
            p.exit();
            // The daemons have been woken, and are waiting for the drive.
            sleep(Nanos::from_micros(300 * n));
            assert!(vfs.cache_stats().dirty > 0, "something is left to be written");
            vfs.unmount().expect("nobody else uses it");
        }
        let vfs = Vfs::mount(open(&drive, &MountOptions::default()), VfsConfig::default()).expect("mounts");
        let mut p = Process::new(vfs, Cred::ROOT);
        for n in 0..3 {
            let fd = p.open(format!("/f{n}"), OpenFlags::RDONLY, 0).expect("opens");
            let mut found = vec![0; LEN];
            assert_eq!(p.pread(fd, Dest::Bytes(&mut found), 0), Ok(LEN));
            assert!(found == content(n, LEN));
        }
    };
    World::default().run(run).expect("no deadlock");
}

/// `tasks` programs create, append and fsync in directories of their own; all share bitmap lines. Returns
/// transactions per group commit, and how many transactions met.
fn groups(tasks: usize, commit: CommitMode) -> (f64, u64) {
    let config = WorldConfig { jitter: Nanos(500), seed: tasks as u64, ..WorldConfig::default() };
    let run = move || {
        let drive = crate::common::small_mssd(128);
        format(&drive);
        let fs: Arc<ByteFs> = open(&drive, &MountOptions { cpus: 1, commit, ..MountOptions::default() });
        let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("mounts");
        let handles: Vec<_> = (0..tasks)
            .map(|t| {
                let vfs = vfs.clone();
                spawn("task", move || {
                    let mut p = Process::new(vfs, Cred::ROOT);
                    p.mkdir(format!("/{t}"), 0o755).expect("makes");
                    for n in 0..40 {
                        let path = format!("/{t}/{n}");
                        let fd = p.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
                        p.write(fd, Payload::Fill { word: n, len: 5_000 }).expect("writes");
                        p.fsync(fd).expect("syncs");
                        p.close(fd).expect("closes");
                    }
                    p.exit();
                })
            })
            .collect();
        handles.into_iter().for_each(|h| h.join());
        vfs.sync(&Caller::KERNEL).expect("syncs");
        assert_clean(&fs);
        let stats = fs.stats();
        assert_eq!(stats.transactions, stats.committed);
        (stats.committed as f64 / stats.groups as f64, stats.conflicts)
    };
    World::new(config).run(run).expect("no deadlock")
}

/// Programs that sync together share commits: of 64 programs hardly more than of 16, since the leader is busy
/// all the time by then. Bitmap lines are the group's, so programs meet by chance only (two pages with one
/// word in the table of locks). Where each commits by itself they meet on these lines.
#[test]
fn programs_that_sync_share_commits_and_bitmap_lines() {
    let (alone, _) = groups(1, CommitMode::Group);
    println!("1 program: {alone:.1} transactions per group commit");
    for tasks in [4, 16, 64] {
        let (per_group, met) = groups(tasks, CommitMode::Group);
        println!("{tasks} programs: {per_group:.1} transactions per group commit, {met} met");
        assert!(per_group > 1.2 * alone, "{tasks} programs: {per_group}, one: {alone}");
        let (_, each) = groups(tasks, CommitMode::Sync);
        println!("{tasks} programs, commit = \"sync\": {each} transactions met");
        assert!(tasks < 16 || each > 0, "{tasks} programs never met on a bitmap line");
        assert!(met * 10 <= each, "{tasks} programs in their own directories: {met} met, {each} one by one");
    }
}

/// fsync makes the times durable that it found, whoever is putting them on media at this moment.
#[test]
fn fsync_waits_for_times_that_somebody_else_is_putting_on_media() {
    let call = |t| Call::kernel(Time(t));
    for delay in (0..400).step_by(3) {
        let drive = small_mssd(64);
        let d = drive.clone();
        let stopped = World::default().run(move || {
            format(&d);
            let fs = open(&d, &MountOptions::default());
            let c = Client::new(fs.clone());
            let f = c.file(&c.root(), b"f").expect("creates");
            c.write(&f, 0, &[1; 4096]).expect("writes");
            fs.sync(&Call::offline()).expect("sync");
            fs.wrote(&call(7_777), &f, 0, 64).expect("wrote");
            let (other, g) = (fs.clone(), f.clone());
            let _task = spawn("chmod", move || {
                let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
                other.setattr(&call(8_888), &g, &set).expect("chmod");
            });
            sleep(Nanos(delay * 10));
            fs.fsync(&Call::offline(), &f, false).expect("fsync");
            granary_sim::power_fail();
        });
        let Err(Stop::PowerFail(t)) = stopped else { panic!("{stopped:?}") };
        drive.power_fail(t, &mut Stream::new(1, "power"));
        let mtime = in_world(move || {
            sleep_until(t);
            sleep_until(drive.power_on(now()).expect("power on"));
            let c = Client::new(open(&drive, &MountOptions::default()));
            c.lookup(&c.root(), b"f").expect("reads").expect("there").attr().mtime
        });
        assert_eq!(mtime, Time(7_777), "fsync {} ns after chmod began", delay * 10);
    }
}
