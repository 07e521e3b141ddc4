//! Policies that can be chosen: places of overwrites, and TRIMs to the drive.

use crate::common::{Mounted, Subject};
use granary_f2fs::{InPlace, MountOptions};
use granary_sim::sleep;
use granary_suite::suite::{create, drive, fill, run};
use granary_units::{Bytes, Nanos};
use granary_vfs::Posix;

/// Overwrites 20 pages of a file in the background, on a file system that is filled to `percent`; says how
/// many went in place.
fn overwritten_in_place(in_place: InPlace, percent: u64) -> u64 {
    run(move || {
        let mount = MountOptions { in_place, ..MountOptions::default() };
        let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(512)));
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        p.pwrite(fd, fill(1, 20 * 4096), 0).expect("write");
        let all = p.statfs().expect("statfs").blocks;
        let other = create(&mut p, "/other");
        p.pwrite(other, fill(2, (all * percent / 100 * 4096) as usize), 0).expect("write");
        p.sync().expect("sync");
        let before = m.fs.stats();
        p.pwrite(fd, fill(3, 20 * 4096), 0).expect("overwrite");
        p.fsync(fd).expect("fsync");
        let after = m.fs.stats();
        assert_eq!(after.in_place - before.in_place + after.out_of_place - before.out_of_place, 20);
        m.check();
        after.in_place - before.in_place
    })
}

/// `ipu_policy`: 20 pages are more than an fsync puts in place.
#[test]
fn overwrites_go_where_the_policy_says() {
    let expect = |policy, empty, used, full| {
        let found = [5, 75, 96].map(|percent| overwritten_in_place(policy, percent));
        assert_eq!(found, [empty, used, full], "{policy:?}");
    };
    expect(InPlace::Force, 20, 20, 20);
    expect(InPlace::Never, 0, 0, 0);
    expect(InPlace::Fsync, 0, 0, 0);
    expect(InPlace::Util, 0, 20, 20);
    expect(InPlace::Ssr, 0, 0, 20);
    expect(InPlace::SsrUtil, 0, 0, 20);
}

/// Every second page of a file dies: nobody is told while others work or where runs are too short; idle, the
/// drive is told of every block, and the file keeps its content.
#[test]
fn dead_blocks_in_segments_that_live_on_are_trimmed_when_idle() {
    let told = |granularity: Option<u32>| {
        run(move || {
            let mount = MountOptions {
                in_place: InPlace::Never,
                discard_granularity: granularity,
                ..MountOptions::default()
            };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(256)));
            let mut p = m.process();
            let fd = create(&mut p, "/f");
            p.pwrite(fd, fill(1, 400 * 4096), 0).expect("write");
            p.sync().expect("sync");
            for page in (0..400).step_by(2) {
                p.pwrite(fd, fill(2, 4096), page * 4096).expect("overwrite");
            }
            p.sync().expect("sync");
            assert_eq!(m.fs.stats().discards, 0, "not idle yet");
            sleep(Nanos::from_secs(30));
            for page in 0..400u64 {
                let mut word = [0; 8];
                p.pread(fd, granary_units::Dest::Bytes(&mut word), page * 4096).expect("read");
                assert_eq!(u64::from_le_bytes(word), 2 - page % 2, "page {page}");
            }
            m.check();
            m.fs.stats()
        })
    };
    let all = told(None);
    assert!(all.discarded >= 200 && all.discards >= 200, "{all:?}");
    let long = told(Some(16));
    assert!(long.discarded < 50, "{long:?}");
}
