//! Damaged files: an error or a correct drive, never a panic.

use super::rig::{Rig, options, with_ssd};
use granary_device::{Command, Drive, DriveError, Structure};
use granary_image::{Durability, Image, ImageError};
use granary_mssd::Mode;
use granary_sim::rng::Stream;
use granary_units::{Lpa, Nanos, Page};
use std::sync::Arc;

const FILES: [&str; 4] = ["image.toml", "dram", "flash", "wal"];

/// Changes some bytes of a file, or cuts it, or makes it longer.
fn damage(bytes: &mut Vec<u8>, rng: &mut Stream) {
    if bytes.is_empty() {
        return;
    }
    match rng.below(6) {
        0 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
        1 => bytes.extend_from_slice(&[7; 100]),
        kind => {
            // Where something is: most of the files are zeros.
            let used: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i] != 0).collect();
            for _ in 0..1 + rng.below(4) {
                let at = if kind == 2 || used.is_empty() {
                    rng.below(bytes.len() as u64) as usize
                } else {
                    used[rng.below(used.len() as u64) as usize]
                };
                bytes[at] ^= 1 << rng.below(8);
            }
        }
    }
}

fn read_all(drive: &dyn Drive) -> Vec<Result<Page, DriveError>> {
    let read = |l| {
        let mut out = [Page::ZERO];
        let what = Structure::Data;
        drive.submit(Nanos::ZERO, Command::Read { lpa: Lpa(l), out: &mut out, what }).map(|_| out[0].clone())
    };
    (0..drive.info().pages).map(read).collect()
}

/// After a clean close every damaged byte that matters is found: each page reads as it was, or as an error.
#[test]
fn damage_to_a_closed_image_is_found() {
    for mode in [Mode::Log, Mode::Cache] {
        let mut rng = Stream::new(3, "image.damage");
        let mut rig = Rig::new(mode, Durability::Process, 256 << 10, mode == Mode::Log);
        rig.open().expect("opens");
        (0..900).for_each(|_| rig.step(&mut rng).expect("done"));
        rig.close();
        rig.open().expect("opens");
        rig.recover();
        rig.close();
        let (image, drive) = open(&rig).expect("opens");
        let truth = read_all(&*drive);
        image.close().expect("closed");

        let (mut refused, mut unreadable) = (0, 0);
        for case in 0..150 {
            let file = FILES[case % 3];
            let host = rig.host.after_process_death();
            host.tamper(file, |b| damage(b, &mut rng));
            let opened =
                Image::open_on(Arc::new(host), options(Durability::Process, 256 << 10)).map(with_ssd);
            let (_image, drive) = match opened {
                Ok(opened) => opened,
                Err(e) => {
                    assert!(e.to_string().len() > 30, "{e}");
                    refused += 1;
                    continue;
                }
            };
            for (found, wanted) in read_all(&*drive).iter().zip(&truth) {
                match found {
                    Ok(page) => assert_eq!(Ok(page), wanted.as_ref(), "case {case}, {file}"),
                    Err(DriveError::Unreadable(_)) => unreadable += 1,
                    Err(e) => panic!("case {case}, {file}: {e}"),
                }
            }
        }
        assert!(refused > 40 && unreadable > 10, "{refused} refused, {unreadable} pages unreadable");
    }
}

/// After a crash damage may look like a shorter redo log; but the drive that opens is a consistent one and
/// works.
#[test]
fn damage_to_a_crashed_image_gives_an_error_or_a_consistent_drive() {
    for (mode, durability) in [
        (Mode::Log, Durability::Process),
        (Mode::Cache, Durability::Process),
        (Mode::Log, Durability::Machine),
        (Mode::Cache, Durability::Machine),
    ] {
        let mut rng = Stream::new(4, "image.damage");
        let mut rig = Rig::new(mode, durability, 256 << 10, mode == Mode::Cache);
        rig.open().expect("opens");
        (0..700).for_each(|_| rig.step(&mut rng).expect("done"));
        rig.barrier().expect("safe");
        let (mut refused, mut opened) = (0, 0);
        for case in 0..120 {
            let host = rig.host.after_process_death();
            host.tamper(FILES[case % 4], |b| damage(b, &mut rng));
            match Image::open_on(Arc::new(host), options(durability, 256 << 10)).map(with_ssd) {
                Ok((_image, drive)) => {
                    opened += 1;
                    let broken = read_all(&*drive).iter().any(Result::is_err);
                    assert!(drive.check().is_ok() || broken, "case {case}: {:?}", drive.check());
                    // It goes on working, or says why not.
                    let pages = [Page::word(1)];
                    for l in 0..300 {
                        let lpa = Lpa(l % drive.info().pages);
                        let write = Command::Write { lpa, pages: &pages, what: Structure::Data };
                        if drive.submit(Nanos(l * 100_000), write).is_err() {
                            break;
                        }
                    }
                }
                Err(
                    ImageError::Damaged { .. }
                    | ImageError::Foreign { .. }
                    | ImageError::Newer { .. }
                    | ImageError::Older { .. },
                ) => {
                    refused += 1;
                }
                Err(e) => panic!("case {case}: {e}"),
            }
        }
        assert!(refused > 20 && opened > 20, "{refused} refused, {opened} opened");
    }
}

fn open(rig: &Rig) -> Result<(Image, Arc<dyn Drive>), ImageError> {
    Image::open_on(Arc::new(rig.host.clone()), options(rig.durability, rig.half)).map(with_ssd)
}
