//! Checkpoint packs with the bitmap of SIT copies in blocks of its own: large drives, and small ones that are
//! told to.

use crate::common::{Mounted, Subject, fresh};
use granary_device::Drive;
use granary_f2fs::{InPlace, MkfsOptions, MountOptions};
use granary_suite::suite::{self, LateDrive, run, write_all};
use granary_units::{Bytes, Dest, Nanos};
use granary_vfs::{OpenFlags, Posix};
use std::sync::Arc;

fn content(m: &Mounted, path: &str) -> u64 {
    let mut p = m.process();
    let fd = p.open(path, OpenFlags::RDONLY, 0).expect("there");
    let mut word = [0; 8];
    p.pread(fd, Dest::Bytes(&mut word), 3 << 20).expect("read");
    u64::from_le_bytes(word)
}

/// Files come back after an unmount; everything is sound, where somebody wants to wait for the `check`.
fn a_drive_of(size: Bytes, check: bool) {
    let drive: Arc<dyn Drive> = Arc::new(LateDrive::new(size));
    let d = Arc::clone(&drive);
    run(move || {
        let m = fresh(&d);
        let mut p = m.process();
        let all = p.statfs().expect("statfs").blocks * 4096;
        assert!(all > size.0 / 100 * 95, "{all} of {size}");
        for i in 0..20 {
            p.mkdir(format!("/d{i}"), 0o755).expect("mkdir");
            let fd = write_all(&mut p, &format!("/d{i}/file"), i + 1, 4 << 20).expect("written");
            p.close(fd).expect("close");
        }
        p.exit();
        let m = m.remounted();
        (0..20).for_each(|i| assert_eq!(content(&m, &format!("/d{i}/file")), i + 1));
        if check {
            m.check();
        }
    });
}

#[test]
fn four_tib_are_made_filled_and_mounted_again() {
    a_drive_of(Bytes::gib(4 << 10), true);
}

#[test]
fn fifteen_tib_are_made_filled_and_mounted_again() {
    a_drive_of(Bytes::gib(15 << 10), false);
}

/// As in power.rs, with the payload.
#[test]
fn what_was_fsynced_survives_power_failures_at_any_instant() {
    let mkfs = MkfsOptions { segment_blocks: Some(64), payload: true, ..MkfsOptions::default() };
    let mount = MountOptions {
        checkpoint_interval: Nanos::from_millis(15),
        idle_interval: Nanos::from_millis(2),
        gc_sleep: (Nanos::from_millis(2), Nanos::from_millis(4), Nanos::from_millis(8)),
        dirty_nodes: 200,
        in_place: InPlace::Fsync,
        ..MountOptions::default()
    };
    let all = suite::what_was_fsynced_survives_power_failures(&Subject { mkfs, mount }, 6);
    assert!(all.iter().any(|r| r.nodes > 0) && all.iter().any(|r| r.orphans > 0), "{all:?}");
}

#[test]
fn scribbled_images_are_refused_or_reported() {
    let mkfs = MkfsOptions { payload: true, ..MkfsOptions::default() };
    suite::scribbled_images_are_refused_or_reported(&Subject { mkfs, ..Subject::default() }, 2048);
}
