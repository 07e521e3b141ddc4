//! ByteFS and ext4 with `data = "journal"`: a power failure leaves a prefix of the calls, each wholly there
//! or not at all, data included. With ByteFS's `commit = "sync"` the prefix has all calls that returned, and
//! the one under way. In ext4 it has everything before any fsync. One client works beside the reference, and
//! the power fails at a random command (now and then in the recovery again). The recovered tree must be the
//! reference's after some number of calls.
//!
//! In ext4 a fallocate takes several transactions: of the last one each byte may be as before or as after,
//! and so may the size. Each page of a write has a handle of its own: of the last write its first pages may
//! be there. Writes and removals beyond the size of one transaction are not made. Stores through mappings are
//! no calls.
//!
//! A sample; `cargo xtask soak --kind prefix` takes seeds by the thousand.

mod prefix;

use granary_crash::{Faults, Trip};
use granary_fs::{Allocate, Call};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, sleep_until};
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix};
use prefix::{Aim, Kept, point, process};

#[test]
fn a_power_failure_leaves_a_prefix_of_the_calls() {
    let lost: usize = (0..15).map(|seed| point("bytefs-journal", seed, Kept::Sync, Aim::Anywhere)).sum();
    assert!(lost > 0, "calls that nobody synced are lost now and then, otherwise this tests little");
}

/// Records of a page that outlived newer ones brought back what had been there (5 seeds of 1000 before that
/// was mended, 1003 the first).
#[test]
fn with_sync_commits_a_returned_call_is_durable_and_the_one_under_way_whole() {
    for seed in 1000..1040 {
        point("bytefs-journal-sync", seed, Kept::Always, Aim::Anywhere);
    }
}

#[test]
fn ext4_with_a_data_journal_leaves_a_prefix_of_the_calls_that_reaches_every_fsync() {
    let lost: usize = (0..12).map(|seed| point("ext4-journal", seed, Kept::Fsync, Aim::Anywhere)).sum();
    assert!(lost > 0, "calls that nobody synced are lost now and then, otherwise this tests little");
}

#[test]
fn a_fallocate_is_there_wholly_or_not_at_all() {
    for seed in 2000..2030 {
        point("bytefs-journal-sync", seed, Kept::Always, Aim::Fallocate);
        point("bytefs-journal", seed, Kept::Sync, Aim::Fallocate);
    }
}

/// The power fails at the n-th command of a fallocate over a file of eight pages; returns the recovered
/// content, or none where the call had returned before.
fn fallocate_until(name: &str, how: Allocate, range: (u64, u64), n: u64) -> Option<Vec<u8>> {
    let target = crate::targets::by_name(name).expect("a target");
    let devices = target.devices(0);
    let (t, d) = (target.clone(), devices.clone());
    let stopped = World::default().run(move || {
        t.mkfs(&d).expect("mkfs");
        let (faulty, faults) = Faults::around(&d);
        let (_, mut p) = process(&*t, &faulty).expect("mount");
        let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        p.write(fd, Payload::Bytes(&[7; 8 * 4096])).expect("writes");
        p.sync().expect("syncs");
        d.track_in_flight(true);
        faults.arm(Some(Trip::After(n)));
        p.fallocate(fd, how, range.0, range.1).expect("there is room");
        faults.arm(None);
    });
    let Err(Stop::PowerFail(at)) = stopped else { return None };
    devices.power_fail(at, &mut Stream::new(n, "survivors"));
    let ready = devices.power_on(at + Nanos(1)).expect("power on");
    let found = World::default().run(move || {
        sleep_until(ready);
        let (fs, mut p) = process(&*target, &devices).expect("mount");
        assert_eq!(fs.check(&Call::offline()).expect("readable"), Vec::<String>::new());
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("opens");
        let mut found = vec![1; 64 * 4096];
        let len = p.read(fd, Dest::Bytes(&mut found)).expect("reads");
        found.truncate(len);
        found
    });
    Some(found.expect("no deadlock"))
}

/// Fails the power at every command of some calls; hands each content that is neither the old nor the new one
/// to `other`, with the range. Returns how often it was new.
fn fallocates(name: &str, mut other: impl FnMut(Vec<u8>, std::ops::Range<usize>)) -> usize {
    let mut new = 0;
    for (how, range) in [
        (Allocate::PunchHole, (100, 7 * 4096)),
        (Allocate::ZeroRange { keep_size: true }, (4000, 5 * 4096 + 4000)),
        (Allocate::ZeroRange { keep_size: false }, (4096 + 7, 12 * 4096)),
        (Allocate::Reserve { keep_size: false }, (4096, 9 * 4096 + 5)),
    ] {
        let (pos, end) = (range.0 as usize, (range.0 + range.1) as usize);
        let old = vec![7; 8 * 4096];
        let mut after = old.clone();
        if how.grows() {
            after.resize(end, 0);
        }
        if how.zeroes() {
            after[pos..end].fill(0);
        }
        for content in (1..).map_while(|n| fallocate_until(name, how, range, n)) {
            new += (content == after) as usize;
            if content != old && content != after {
                other(content, pos..end);
            }
        }
    }
    new
}

#[test]
fn at_every_command_a_fallocate_is_there_wholly_or_not_at_all() {
    let new = fallocates("bytefs-journal-sync", |_, range| panic!("half of {range:?}"));
    assert!(new > 0, "some calls are there before they return");
}

#[test]
fn a_fallocate_that_takes_several_transactions_zeroes_whole_pages_first_and_changes_the_rest_last() {
    let mut halves = 0;
    fallocates("bytefs-journal-steps", |content, range| {
        let whole = range.start.next_multiple_of(4096)..(range.end / 4096 * 4096).min(content.len());
        let old = vec![7; 8 * 4096];
        let from = |from: usize| {
            let mut half = old.clone();
            half[from..whole.end].fill(0);
            half
        };
        assert!(whole.clone().step_by(4096).any(|at| from(at) == content), "neither: {range:?}");
        halves += 1;
    });
    assert!(halves > 0, "it takes several transactions");
}
