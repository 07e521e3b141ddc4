//! Images on a real directory: making, opening, refusing, closing.

use super::rig::with_ssd;
use granary_device::vendor::transactions::Recover;
use granary_device::{Command, Drive, DriveError, Structure};
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image, ImageDevices, ImageError, ImageMeta, OpenOptions};
use granary_mssd::{DriveConfig, Mode};
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

const WHAT: Structure = Structure::Data;

fn write(drive: &dyn Drive, lpa: u64, page: &Page) -> Result<(), DriveError> {
    let pages = std::slice::from_ref(page);
    drive.submit(Nanos::ZERO, Command::Write { lpa: Lpa(lpa), pages, what: WHAT }).map(drop)
}

fn read(drive: &dyn Drive, lpa: u64) -> Page {
    let mut out = [Page::ZERO];
    drive.submit(Nanos::ZERO, Command::Read { lpa: Lpa(lpa), out: &mut out, what: WHAT }).expect("read");
    out[0].clone()
}

fn bytes(tag: u64) -> Page {
    let mut b = [0; Page::SIZE];
    b.chunks_exact_mut(8)
        .enumerate()
        .for_each(|(i, c)| c.copy_from_slice(&(tag * 513 + i as u64).to_le_bytes()));
    Page::from_bytes(&b)
}

fn open(path: &Path) -> Result<(Image, Arc<dyn Drive>), ImageError> {
    Image::open(path, Durability::Process, false).map(with_ssd)
}

#[test]
fn a_drive_comes_back_from_its_directory_clean_or_not() {
    for mode in [Mode::Log, Mode::Cache] {
        for durability in [Durability::Process, Durability::Machine] {
            let dir = tempfile::tempdir().expect("directory");
            let path = dir.path().join("img");
            let config = DriveConfig::tiny(mode);
            Image::create(
                &path,
                &ImageDevices::ssd(config.clone()),
                ImageMeta { fs: "none".into(), ..ImageMeta::default() },
                false,
            )
            .expect("made");
            for round in 0..3u64 {
                let (image, drive) = Image::open(&path, durability, false).map(with_ssd).expect("opens");
                assert_eq!(image.devices(), ImageDevices::ssd(config.clone()));
                // The round before was not closed.
                assert_eq!(image.replayed().is_some(), round == 2);
                for l in 0..round * 50 {
                    assert_eq!(read(&*drive, l), bytes(l), "page {l} in round {round}");
                }
                (round * 50..round * 50 + 50).for_each(|l| write(&*drive, l, &bytes(l)).expect("written"));
                image.barrier().expect("safe");
                drive.check().expect("consistent");
                assert_eq!(image.counters().ssd.commands.writes, [50, 100, 100][round as usize]);
                match round {
                    0 => image.close().expect("closed"),
                    _ => drop(image),
                }
                assert!(matches!(write(&*drive, 0, &bytes(0)), Err(DriveError::ReadOnly(_))));
            }
        }
    }
}

/// Three groups fill a half, faster than the checkpoint thread takes it: now and then both are full, and have
/// to be taken in their order; the image is closed with the thread just woken.
#[test]
fn an_image_closes_with_both_halves_of_its_log_in_use() {
    for round in 0..20 {
        let host = MemoryHost::new();
        let config = DriveConfig::tiny(Mode::Cache);
        Image::create_on(&host, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false)
            .expect("made");
        let options = OpenOptions {
            durability: Durability::Machine,
            wal_half: Some(256 << 10),
            ..OpenOptions::default()
        };
        let (image, drive) = Image::open_on(Arc::new(host.clone()), options).map(with_ssd).expect("opens");
        // Groups of more than half a half: each begins the other one.
        for group in 0..3 {
            (0..40).for_each(|l| write(&*drive, l, &bytes(round + group + l)).expect("written"));
            if group < 2 {
                image.barrier().expect("safe");
            }
        }
        image.close().expect("closed");
        let (image, drive) = Image::open_on(Arc::new(host), options).map(with_ssd).expect("opens again");
        assert!((0..40).all(|l| read(&*drive, l) == bytes(round + 2 + l)));
        image.close().expect("closed");
    }
}

#[test]
fn an_empty_image_of_a_terabyte_takes_next_to_nothing() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("img");
    let mut config = DriveConfig::bytefs_emulator();
    config.flash = config.flash.with_capacity(Bytes::gib(1024));
    Image::create(&path, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false).expect("made");
    let used = |path: &Path| -> u64 {
        let files = std::fs::read_dir(path).expect("directory");
        files.map(|f| f.expect("entry").metadata().expect("metadata").blocks() * 512).sum()
    };
    assert!(used(&path) < 64 << 10, "{} bytes", used(&path));
    let (image, drive) = open(&path).expect("opens");
    let last = config.pages() - 1;
    write(&*drive, last, &bytes(7)).expect("written");
    image.close().expect("closed");
    assert!(used(&path) < 256 << 10, "{} bytes", used(&path));
    let (_image, drive) = open(&path).expect("opens");
    assert_eq!(read(&*drive, last), bytes(7));
}

#[test]
fn what_is_no_image_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("directory");
    let at = |name: &str| dir.path().join(name);
    assert!(matches!(open(&at("nothing")), Err(ImageError::Missing { .. })));
    std::fs::write(at("file"), "x").expect("file");
    assert!(matches!(open(&at("file")), Err(ImageError::Foreign { .. })));
    std::fs::create_dir(at("home")).expect("directory");
    std::fs::write(at("home/letter"), "dear").expect("file");
    assert!(matches!(open(&at("home")), Err(ImageError::Foreign { .. })));
    let config = DriveConfig::tiny(Mode::Log);
    for force in [false, true] {
        let made = Image::create(at("home"), &ImageDevices::ssd(config.clone()), ImageMeta::default(), force);
        assert!(matches!(made, Err(ImageError::Foreign { .. })), "{made:?}");
        let made = Image::create(at("file"), &ImageDevices::ssd(config.clone()), ImageMeta::default(), force);
        assert!(matches!(made, Err(ImageError::Foreign { .. })), "{made:?}");
    }
    assert_eq!(std::fs::read(at("home/letter")).expect("left alone"), b"dear");
}

#[test]
fn somebody_elses_header_is_left_alone_and_an_interrupted_making_is_made_good() {
    let dir = tempfile::tempdir().expect("directory");
    let config = DriveConfig::tiny(Mode::Log);
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("home")).expect("directory");
    std::fs::write(at("home/image.toml"), "[picture]\n").expect("file");
    for force in [false, true] {
        let made = Image::create(at("home"), &ImageDevices::ssd(config.clone()), ImageMeta::default(), force);
        assert!(matches!(made, Err(ImageError::Foreign { .. })), "{made:?}");
    }
    assert_eq!(std::fs::read_dir(at("home")).expect("reads").count(), 1);
    std::fs::create_dir(at("cut")).expect("directory");
    std::fs::write(at("cut/flash"), "").expect("file");
    let made = Image::create(at("cut"), &ImageDevices::ssd(config.clone()), ImageMeta::default(), false)
        .expect_err("refused");
    assert!(made.to_string().contains("--force"), "{made}");
    Image::create(at("cut"), &ImageDevices::ssd(config.clone()), ImageMeta::default(), true).expect("made");
    open(&at("cut")).expect("opens");
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_without_waiting() {
    use rustix::fs::{CWD, FileType, Mode as Bits, mknodat};
    for name in ["image.toml", "flash", "dram", "wal"] {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("img");
        Image::create(&path, &ImageDevices::ssd(DriveConfig::tiny(Mode::Log)), ImageMeta::default(), false)
            .expect("made");
        std::fs::remove_file(path.join(name)).expect("removed");
        mknodat(CWD, path.join(name), FileType::Fifo, Bits::RUSR | Bits::WUSR, 0).expect("mkfifo");
        let said = open(&path).map(|_| ()).expect_err("refused").to_string();
        assert!(said.contains(&format!("{name} is a pipe")), "{name}: {said}");
    }
}

#[test]
fn an_open_image_keeps_others_out() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("img");
    let config = DriveConfig::tiny(Mode::Log);
    Image::create(&path, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false).expect("made");
    let (image, _drive) = open(&path).expect("opens");
    let pid = Some(std::process::id());
    assert!(matches!(open(&path), Err(ImageError::InUse { pid: p, .. }) if p == pid));
    assert!(matches!(
        Image::create(&path, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false),
        Err(ImageError::Exists { .. })
    ));
    assert!(matches!(
        Image::create(&path, &ImageDevices::ssd(config.clone()), ImageMeta::default(), true),
        Err(ImageError::InUse { .. })
    ));
    assert!(!Image::describe(&path).expect("described").clean);
    image.close().expect("closed");
    assert!(Image::describe(&path).expect("described").clean);
    Image::create(&path, &ImageDevices::ssd(config.clone()), ImageMeta::default(), true).expect("made anew");
    open(&path).expect("opens");
}

#[test]
fn an_image_that_is_only_read_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("img");
    Image::create(&path, &ImageDevices::ssd(DriveConfig::tiny(Mode::Log)), ImageMeta::default(), false)
        .expect("made");
    let (image, drive) = open(&path).expect("opens");
    (0..40).for_each(|l| write(&*drive, l, &bytes(l)).expect("written"));
    drop(image);
    let content = || ["wal", "dram", "flash"].map(|f| std::fs::read(path.join(f)).expect("read"));
    let before = content();
    for _ in 0..2 {
        let (image, drive) = Image::open(&path, Durability::Process, true).map(with_ssd).expect("opens");
        drive.submit(Nanos::ZERO, Command::Vendor(&mut Recover)).expect("recovers");
        (0..40).for_each(|l| assert_eq!(read(&*drive, l), bytes(l)));
        write(&*drive, 3, &bytes(99)).expect("taken, to be forgotten");
        assert_eq!(read(&*drive, 3), bytes(99));
        image.close().expect("closed");
        assert!(content() == before, "the files have changed");
    }
}

#[test]
fn a_full_host_disk_makes_the_drive_read_only_and_loses_nothing() {
    for mode in [Mode::Log, Mode::Cache] {
        for durability in [Durability::Process, Durability::Machine] {
            let host = MemoryHost::new();
            Image::create_on(&host, &ImageDevices::ssd(DriveConfig::tiny(mode)), ImageMeta::default(), false)
                .expect("made");
            let options = super::rig::options(durability, 128 << 10);
            let (image, drive) =
                Image::open_on(Arc::new(host.clone()), options).map(with_ssd).expect("opens");
            host.limit_space(Some(300 << 10));
            let mut done = 0;
            let refused = loop {
                let written = write(&*drive, done % 100, &bytes(done));
                match written.and_then(|()| image.barrier().map_err(|e| DriveError::Failed(e.to_string()))) {
                    Ok(()) => done += 1,
                    Err(e) => break e,
                }
                assert!(done < 10_000, "the disk is never full");
            };
            assert!(refused.to_string().contains("no space left on the host"), "{refused}");
            assert!(done > 20, "only {done} pages");
            assert!(matches!(write(&*drive, 5, &bytes(0)), Err(DriveError::ReadOnly(_))));
            assert_eq!(read(&*drive, (done - 1) % 100), bytes(done - 1));
            assert!(image.failure().is_some());
            drop(image);
            host.limit_space(None);
            let (_image, drive) = Image::open_on(Arc::new(host), options).map(with_ssd).expect("opens");
            for n in done.saturating_sub(90)..done {
                assert_eq!(read(&*drive, n % 100), bytes(n), "write {n} of {done}");
            }
            drive.check().expect("consistent");
        }
    }
}

/// Space of trimmed pages goes back to the host, at the latest when the image is closed; kept pages stay.
#[test]
fn trimmed_blocks_take_no_space_on_the_host() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("img");
    let mut config = DriveConfig::tiny(Mode::Log);
    config.flash = config.flash.with_capacity(Bytes::mib(32));
    Image::create(&path, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false).expect("made");
    let (image, drive) = open(&path).expect("opens");
    let pages = config.pages();
    (0..pages).for_each(|l| write(&*drive, l, &bytes(l)).expect("written"));
    image.close().expect("closed");
    let used = || std::fs::metadata(path.join("flash")).expect("metadata").blocks() * 512;
    let full = used();
    assert!(full >= pages * 4096, "{full} bytes");

    let (image, drive) = open(&path).expect("opens");
    drive.submit(Nanos::ZERO, Command::Trim { lpa: Lpa(64), count: pages - 64 }).expect("trimmed");
    // A few commands later the first batches are gone.
    (0..64).for_each(|l| write(&*drive, l, &bytes(l + 1)).expect("written"));
    assert!(used() < full / 4, "{} of {full} bytes", used());
    image.close().expect("closed");
    assert!(used() < 2 << 20, "{} of {full} bytes", used());
    let (_image, drive) = open(&path).expect("opens");
    assert!((0..64).all(|l| read(&*drive, l) == bytes(l + 1)));
    assert_eq!(read(&*drive, 100), Page::ZERO);
}

/// Lines of pages that the image's `flash` has lost outlive them, and which other lines are gone is not
/// forgotten.
#[test]
fn lines_given_up_are_remembered_by_an_image() {
    let host = MemoryHost::new();
    let config = DriveConfig::tiny(Mode::Log);
    Image::create_on(&host, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false).expect("made");
    let open = || {
        let options = OpenOptions { inline_checkpoints: true, ..OpenOptions::default() };
        Image::open_on(Arc::new(host.clone()), options).map(with_ssd).expect("opens")
    };
    let (image, drive) = open();
    (0..40).for_each(|l| write(&*drive, l, &bytes(l)).expect("written"));
    image.close().expect("closed");
    // All but its label.
    host.tamper("flash", |b| {
        let content = b.len() - 4096;
        b[..content].iter_mut().for_each(|b| *b ^= 1);
    });

    // 20 lines of each page, 64 KiB in all, in a log of 16.
    let (image, drive) = open();
    let mut now = Nanos::ZERO;
    let place = |page: u64, line: u64| ByteAddr(page * 4096 + line * 64);
    for line in 0..20 {
        for page in 0..40 {
            now = drive.store(now, place(page, line), &[line as u8; 64], TxId::NONE, WHAT).expect("stored");
            now = drive.flush_lines(now, place(page, line), 64).expect("flushed");
        }
    }
    drive.verify(now).expect("verified");
    assert!(drive.counters().log.lines_given_up > 0);
    drop(image);
    for _ in 0..2 {
        let (image, drive) = open();
        now = drive.submit(Nanos::ZERO, Command::Vendor(&mut Recover)).expect("recovered");
        for page in 0..40 {
            let mut out = [0; 64];
            for line in 0..20 {
                drive.load(now, place(page, line), &mut out, WHAT).expect("acknowledged");
                assert_eq!(out, [line as u8; 64]);
            }
            assert_eq!(drive.load(now, place(page, 20), &mut out, WHAT), Err(DriveError::Unreadable(page)));
        }
        drive.check().expect("consistent");
        image.close().expect("closed");
    }
}

/// All that an image does after it was opened happens in the directory that it was opened in.
#[test]
fn an_open_image_stays_in_its_directory_when_that_is_renamed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (was, now) = (dir.path().join("was"), dir.path().join("now"));
    let config = DriveConfig::tiny(Mode::Log);
    Image::create(&was, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false).expect("made");
    let (image, drive) = Image::open(&was, Durability::Process, false).map(with_ssd).expect("opened");
    std::fs::rename(&was, &now).expect("renamed");
    Image::create(&was, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false)
        .expect("another one");
    let other = Image::describe(&was).expect("an image");
    let before = image.ssd_config().expect("an SSD").pages();
    image.grow_open(Bytes(2 * before * 4096)).expect("grown");
    image.note("memo").expect("noted");
    drop(drive);
    image.close().expect("closed");
    let found = Image::describe(&was).expect("an image");
    assert_eq!((found.meta, found.devices, found.counters), (other.meta, other.devices, other.counters));
    assert!(!was.join("memo").exists() && now.join("memo").exists());
    let grown = Image::describe(&now).expect("an image");
    assert!(grown.clean && grown.devices.ssd.expect("an SSD").pages() >= 2 * before);
    assert!(
        matches!(Image::open(&now, Durability::Process, false).map(with_ssd), Ok((image, _)) if !image.has_note("other"))
    );
}

#[test]
fn a_firmware_that_no_image_keeps_is_refused_before_there_is_a_file() {
    let host = MemoryHost::new();
    let devices = ImageDevices::ssd(DriveConfig::tiny(Mode::named("mine")));
    let refused =
        Image::create_on(&host, &devices, ImageMeta::default(), false).expect_err("no image keeps it");
    assert!(refused.to_string().contains("take one of log and cache"), "{refused}");
    assert!(!granary_image::host::Host::exists(&host, "image.toml"), "nothing was made");
}
