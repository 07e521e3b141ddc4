//! The example is held to what the drives of the registry are held to: a file system, power failures, its own
//! counts; and to its size.

use granary_crash::{Explorer, load_by_name, target};
use granary_device::{Command, Devices, Drive, DriveError, Port, Structure};
use granary_example_firmware::{Buffer, ENTRY, PAGES};
use granary_fs::entry::Mount;
use granary_fs::{Cred, FsEntry};
use granary_mssd::{DriveConfig, DriveEntry, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_suite::suite::run;
use granary_units::{ByteAddr, Bytes, LINE_SIZE, Lpa, Nanos, Page, Payload, TxId};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

/// The example's entry in a registry.
static DRIVES: &[DriveEntry] = &[ENTRY];
static FILE_SYSTEMS: &[FsEntry] = &[granary_ext4::EXT4];

const WHAT: Structure = Structure::Data;

fn tiny() -> Mssd {
    ENTRY.make(&DriveConfig::tiny(Mode::Cache)).expect("a drive")
}

fn write(drive: &Mssd, now: Nanos, lpa: u64, word: u64) -> Nanos {
    let pages = [Page::word(word)];
    drive.submit(now, Command::Write { lpa: Lpa(lpa), pages: &pages, what: WHAT }).expect("written")
}

#[test]
fn it_is_as_small_as_promised() {
    let source = include_str!("../src/lib.rs");
    assert!(source.lines().count() < 300, "{} lines", source.lines().count());
}

#[test]
fn a_file_system_is_made_on_it_and_mounted_again() {
    run(|| {
        let mut config = DriveConfig::bytefs_emulator();
        config.flash = config.flash.with_capacity(Bytes::mib(64));
        let devices = Devices::ssd(Arc::new(ENTRY.make(&config).expect("a drive")));
        granary_ext4::EXT4.make(&devices, &granary_fs::entry::defaults).expect("mkfs");
        for word in [None, Some(7)] {
            let metadata_cache = Bytes::mib(1);
            let how = Mount {
                options: &granary_fs::Defaults,
                metadata_cache,
                read_only: false,
                lower: None,
                inside: None,
            };
            let fs = (granary_ext4::EXT4.mount)(&devices, &how).expect("mounts");
            let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            let fd = p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open");
            let mut read = [0; 8];
            let n = p.pread(fd, granary_units::Dest::Bytes(&mut read), 1 << 20).expect("read");
            assert_eq!((n == 8).then(|| u64::from_le_bytes(read)), word);
            p.pwrite(fd, Payload::Fill { word: 7, len: 2 << 20 }, 0).expect("write");
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
            p.exit();
            vfs.unmount().expect("unmounts");
        }
        devices.serving(granary_device::Need::Blocks).expect("an SSD").drive().check().expect("sound");
    });
}

#[test]
fn power_failures_take_nothing_that_was_promised() {
    assert_eq!(target::names_on(FILE_SYSTEMS, DRIVES)[0], "ext4@minimal");
    let target = target::by_name_on(FILE_SYSTEMS, DRIVES, "ext4@minimal").expect("a target");
    for load in ["torture", "resize"] {
        let load = load_by_name(load).expect("a load");
        let explorer = Explorer::new(Arc::clone(&target), load).unwrap_or_else(|failure| panic!("{failure}"));
        let mut points = 0;
        for seed in 0..6 {
            let report = explorer.run(seed, &Default::default());
            points += report.points;
            assert!(report.failures.is_empty(), "{report}");
        }
        assert!(points > 50, "{points} points");
    }
}

#[test]
fn each_posted_line_that_was_not_verified_is_old_or_new_after_a_power_failure() {
    let mut seen = [false; 2];
    for seed in 0..20 {
        let drive = tiny();
        drive.track_in_flight(true);
        let store = |now, byte: u8, lines: usize| {
            let data = vec![byte; lines * LINE_SIZE];
            let t = drive.store(now, ByteAddr(0), &data, TxId::NONE, WHAT).expect("stored");
            drive.flush_lines(t, ByteAddr(0), data.len()).expect("posted")
        };
        let t = store(Nanos::ZERO, 1, 4);
        let t = drive.verify(t).expect("verified");
        let t = store(t, 2, 2);
        drive.power_fail(t, &mut Stream::new(seed, "power"));
        drive.power_on(t).expect("on");
        let page = drive.peek(Lpa(0)).expect("read").to_bytes();
        for line in 0..2 {
            let bytes = &page[line * LINE_SIZE..][..LINE_SIZE];
            assert!(bytes.iter().all(|byte| *byte == bytes[0]) && [1, 2].contains(&bytes[0]), "{bytes:?}");
            seen[bytes[0] as usize - 1] = true;
        }
        assert!(page[2 * LINE_SIZE..4 * LINE_SIZE].iter().all(|byte| *byte == 1), "verified lines stay");
    }
    assert_eq!(seen, [true; 2], "some are lost, some are not");
}

#[test]
fn a_file_system_asks_for_the_command_and_a_drive_without_it_refuses() {
    run(|| {
        let drive = Arc::new(tiny());
        for lpa in 0..10 {
            write(&drive, Nanos::ZERO, lpa, lpa);
        }
        let port = Port::new(drive);
        assert_eq!(port.require::<Buffer<'_>>().and_then(|buffer| buffer.used()), Ok(10));
        let other = Port::new(Arc::new(Mssd::new(&DriveConfig::tiny(Mode::Cache)).expect("a drive")));
        assert!(other.vendor::<Buffer<'_>>().is_none());
        assert!(matches!(other.require::<Buffer<'_>>().err(), Some(DriveError::Unsupported(_))));
        let refused = other.submit_vendor(&mut granary_example_firmware::BufferUsed::default());
        assert!(matches!(refused, Err(DriveError::Unsupported("BUFFER_USED"))), "{refused:?}");
    });
}

/// Page 0 is written once and page 1 a thousand times: the oldest block is emptied although another one has
/// fewer live pages.
#[test]
fn its_own_policy_of_gc_is_asked() {
    let copied = |own: bool| {
        let mut config = DriveConfig::tiny(Mode::Cache);
        config.flash.over_provisioning_permille = 150;
        let policies = ENTRY.policies.filter(|_| own);
        let drive = DriveEntry { policies, ..ENTRY }.make(&config).expect("a drive");
        let pages = config.pages();
        let (mut now, mut random) = (Nanos::ZERO, Stream::new(3, "gc"));
        for n in 0..pages * 8 {
            // A tenth of the pages takes nine tenths of the writes.
            let hot = random.chance(0.9);
            let lpa = if hot { random.below(pages / 10) } else { random.below(pages) };
            now = write(&drive, now, lpa, n + 1);
        }
        drive.settle(now).expect("settles");
        drive.check().expect("sound");
        drive.counters().flash.program_pages[granary_flash::Cause::Gc as usize]
    };
    let (own, greedy) = (copied(true), copied(false));
    assert!(own > 0 && greedy > 0 && own != greedy, "{own} pages copied, {greedy} by the greedy policy");
}

#[test]
fn the_buffer_never_holds_more_than_its_pages() {
    run(|| {
        let drive = Arc::new(tiny());
        for lpa in 0..3 * PAGES as u64 {
            write(&drive, Nanos::ZERO, lpa % drive.info().pages, lpa);
        }
        let port = Port::new(drive);
        assert_eq!(port.vendor::<Buffer<'_>>().expect("a buffer").used(), Ok(PAGES));
    });
}
