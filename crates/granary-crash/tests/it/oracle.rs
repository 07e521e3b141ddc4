//! The oracle's view of calls beyond plain files and names, and what it says of a state that breaks their
//! promises.

use granary_crash::{Promises, Recorded};
use granary_fs::{Cred, FsError};
use granary_suite::reference::{Limits, RefFs, RefProcess};
use granary_units::Payload;
use granary_vfs::{Fd, MapHow, OpenFlags, Posix};
use parking_lot::Mutex;
use std::sync::Arc;

const RW: OpenFlags = OpenFlags::RDWR.union(OpenFlags::CREAT);

fn reference() -> RefProcess {
    let limits = Limits { max_file_size: 1 << 30, max_links: 100 };
    RefProcess::new(Arc::new(Mutex::new(RefFs::new(limits))), Cred::ROOT)
}

type Result = std::result::Result<(), FsError>;

/// The oracle's complaints of a file system on which only `survived` happened, after `all` was done.
fn verdict_with(
    promises: Promises,
    all: impl FnOnce(&mut Recorded<RefProcess>) -> Result,
    survived: impl FnOnce(&mut RefProcess) -> Result,
) -> Vec<String> {
    let mut recorded = Recorded::new(reference(), promises.clone());
    all(&mut recorded).expect("the load works");
    let mut after = reference();
    survived(&mut after).expect("what survived works");
    promises.verify(&mut after).violations
}

fn verdict(
    all: impl FnOnce(&mut Recorded<RefProcess>) -> Result,
    survived: impl FnOnce(&mut RefProcess) -> Result,
) -> Vec<String> {
    verdict_with(Promises::new(), all, survived)
}

fn file(p: &mut impl Posix, path: &str, word: u64) -> std::result::Result<Fd, FsError> {
    let fd = p.open(path, RW, 0o644)?;
    p.pwrite(fd, Payload::Fill { word, len: 9000 }, 0)?;
    Ok(fd)
}

#[test]
fn wrong_content_is_not_called_missing_too() {
    let all = |p: &mut Recorded<RefProcess>| {
        let fd = file(p, "/a", 7)?;
        p.fsync(fd)
    };
    let wrong = verdict(all, |p| file(p, "/a", 8).map(drop));
    assert!(wrong.len() == 1 && wrong[0].starts_with("/a: byte 0x0 is 08"), "{wrong:?}");
    assert!(verdict(all, |_| Ok(())).iter().any(|w| w.contains("nowhere to be found")));
}

/// Two pages of a file are stored to, the first is msynced.
fn stores(p: &mut impl Posix) -> Result {
    let fd = file(p, "/a", 7)?;
    p.sync()?;
    let map = p.mmap(fd, 0, 9000, MapHow { shared: true, write: true })?;
    p.map_store(map, 10, Payload::Bytes(&[1; 5000]))?;
    p.msync(map, 0, 4096, true)
}

#[test]
fn a_store_is_promised_by_msync_of_its_page_and_not_before() {
    let after = |at: u64, len: usize| {
        verdict(stores, move |p| {
            let fd = file(p, "/a", 7)?;
            p.pwrite(fd, Payload::Bytes(&vec![1; len]), at).map(drop)
        })
    };
    assert_eq!(after(10, 5000), Vec::<String>::new(), "all of it is there");
    assert_eq!(after(10, 4086), Vec::<String>::new(), "the page that was msynced is there");
    assert!(!after(10, 4000).is_empty(), "a part of that page is not");
    assert!(!after(4096, 914).is_empty(), "only the other page is there");
    assert!(!after(10, 6000).is_empty(), "bytes that nobody stored");
}

#[test]
fn a_store_does_not_make_a_file_longer() {
    let wrong = verdict(stores, |p| {
        let fd = file(p, "/a", 7)?;
        p.pwrite(fd, Payload::Bytes(&[1; 5000]), 10)?;
        p.ftruncate(fd, 9001)
    });
    assert!(wrong.len() == 1 && wrong[0].contains("has 9001 bytes"), "{wrong:?}");
}

#[test]
fn a_file_without_a_name_is_promised_under_its_first_one_by_fsync_and_never_found_otherwise() {
    let unnamed = |p: &mut Recorded<RefProcess>, named: bool, synced: bool| {
        let fd = p.open_unnamed("/", OpenFlags::RDWR, 0o600)?;
        p.pwrite(fd, Payload::Fill { word: 7, len: 9000 }, 0)?;
        if named {
            p.link_open(fd, "/a")?;
        }
        if synced { p.fsync(fd) } else { Ok(()) }
    };
    let found = |p: &mut RefProcess| {
        let fd = p.open("/a", RW, 0o600)?;
        p.pwrite(fd, Payload::Fill { word: 7, len: 9000 }, 0).map(drop)
    };
    let lost = |_: &mut RefProcess| Ok(());
    for (named, synced, may_be_there, may_be_lost) in [
        (true, true, true, false),
        (true, false, true, true),
        (false, true, false, true),
        (false, false, false, true),
    ] {
        let is = (
            verdict(|p| unnamed(p, named, synced), found).is_empty(),
            verdict(|p| unnamed(p, named, synced), lost).is_empty(),
        );
        assert_eq!(is, (may_be_there, may_be_lost), "named {named}, synced {synced}");
    }
}

#[test]
fn set_id_bits_are_compared_and_a_new_owner_takes_them_away() {
    let all = |chown: bool| {
        move |p: &mut Recorded<RefProcess>| {
            let fd = file(p, "/a", 7)?;
            p.chmod("/a", 0o6755)?;
            if chown {
                p.chown("/a", Some(1), None)?;
            }
            p.fsync(fd)
        }
    };
    let with = |mode: u16, uid: u32| {
        move |p: &mut RefProcess| {
            file(p, "/a", 7)?;
            p.chown("/a", Some(uid), None)?;
            p.chmod("/a", mode)
        }
    };
    assert_eq!(verdict(all(false), with(0o6755, 0)), Vec::<String>::new());
    assert!(verdict(all(false), with(0o755, 0))[0].contains("has mode 755, may have 6755"));
    assert_eq!(verdict(all(true), with(0o755, 1)), Vec::<String>::new());
    assert!(verdict(all(true), with(0o6755, 1))[0].contains("has mode 6755, may have 755"));
}

#[test]
fn where_every_call_is_durable_a_call_that_returned_must_be_there() {
    let all = |p: &mut Recorded<RefProcess>| {
        p.mkdir("/d", 0o755)?;
        file(p, "/d/a", 7)?;
        p.rename("/d/a", "/b")?;
        p.chmod("/b", 0o600)
    };
    let steps = |n: usize| {
        move |p: &mut RefProcess| {
            if n > 0 {
                p.mkdir("/d", 0o755)?;
            }
            if n > 1 {
                file(p, "/d/a", 7)?;
            }
            if n > 2 {
                p.rename("/d/a", "/b")?;
            }
            if n > 3 { p.chmod("/b", 0o600) } else { Ok(()) }
        }
    };
    for n in 0..=4 {
        assert!(verdict(all, steps(n)).is_empty(), "nothing was synced: {n} calls survived");
        let wrong = verdict_with(Promises::new().with_every_call_durable(true), all, steps(n));
        assert_eq!(wrong.is_empty(), n == 4, "{n} calls survived: {wrong:?}");
    }
}

#[test]
fn where_inode_numbers_may_change_another_number_is_no_loss() {
    let all = |p: &mut Recorded<RefProcess>| {
        let fd = file(p, "/a", 7)?;
        p.fsync(fd)
    };
    let renumbered = |p: &mut RefProcess| {
        p.mkdir("/x", 0o755)?;
        file(p, "/a", 7)?;
        p.rmdir("/x")
    };
    assert!(!verdict(all, renumbered).is_empty());
    let loose = || Promises::new().with_loose_inodes(true);
    assert_eq!(verdict_with(loose(), all, renumbered), Vec::<String>::new());
    assert!(!verdict_with(loose(), all, |p| file(p, "/a", 8).map(drop)).is_empty(), "content is compared");
}
