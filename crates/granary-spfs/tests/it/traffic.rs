//! P10: with the profiler off, SPFS moves what the lower file system alone moves, to the byte.

use crate::common::dimm;
use granary_device::{Devices, Drive, Role};
use granary_fs::entry::Mount;
use granary_fs::{Cred, FsEntry, SetXattr};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_sim::sleep_until;
use granary_suite::suite::run;
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{Layer, bring_up};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const STACK: FsEntry = granary_spfs::over(&granary_ext4::EXT4, "spfs+ext4", &[]);

fn traffic(entry: &FsEntry, options: &str) -> String {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    config.flash = config.flash.with_capacity(Bytes::mib(256));
    let drive: Arc<dyn Drive> = Arc::new(Mssd::new(&config).expect("a drive"));
    let devices = Devices::ssd(drive.clone()).with(Role::Nvm, dimm(Bytes::mib(16)));
    entry.make(&devices, &granary_fs::entry::defaults).expect("mkfs");
    // Daemons, time stamps and calls begin at the same instants, whatever was made and mounted before.
    sleep_until(Nanos::from_secs(1));
    let options: toml::Table = toml::from_str(options).expect("TOML");
    let metadata_cache = Bytes::mib(4);
    let how = Mount { options: &options, metadata_cache, read_only: false, lower: None, inside: None };
    let vfs = VfsConfig { page_cache: Bytes::mib(1), ..VfsConfig::default() };
    let below = |_: &FsEntry| Ok(Layer { options: Box::new(granary_fs::Defaults), metadata_cache, vfs });
    let fs = bring_up(entry, &devices, &how, &below).expect("mounts");
    let vfs = Vfs::mount(fs, vfs).expect("vfs");
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    sleep_until(Nanos::from_secs(2));
    calls(&mut p);
    p.exit();
    vfs.unmount().expect("unmounts");
    let t = drive.traffic();
    format!("{:?} {:?} {:?} {:?}", t.block_read, t.block_write, t.byte_read, t.byte_write)
}

/// Files come, grow, shrink, are synced, renamed over each other and removed.
fn calls(p: &mut Process) {
    let mut rng = Stream::new(5, "calls");
    for n in 0..3000u64 {
        let (path, len) = (format!("/{}", rng.below(30)), rng.below(30_000) as usize);
        let Ok(fd) = p.open(&path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644) else { continue };
        let pos = rng.below(100_000);
        match rng.below(9) {
            0..=3 => drop(p.pwrite(fd, Payload::Fill { word: n, len }, pos)),
            4 => drop(p.pread(fd, Dest::Discard(len), pos)),
            5 => p.ftruncate(fd, pos).expect("truncate"),
            6 => p.rename(&path, format!("/{}", rng.below(30))).expect("rename"),
            7 => p.unlink(&path).expect("unlink"),
            _ => p.setxattr(&path, b"user.n", &n.to_le_bytes(), SetXattr::Any).expect("set"),
        }
        if rng.chance(0.4) {
            p.fsync(fd).expect("fsync");
        }
        p.close(fd).expect("close");
    }
}

#[test]
fn without_the_profiler_the_traffic_is_the_lower_file_systems() {
    let alone = run(|| traffic(&granary_ext4::EXT4, ""));
    let stacked = run(|| traffic(&STACK, "profiler = false\ndemotion = false"));
    assert_eq!(stacked, alone);
    let tiered = run(|| traffic(&STACK, "promote_after = 1"));
    assert_ne!(tiered, alone, "and with it files are promoted");
}
