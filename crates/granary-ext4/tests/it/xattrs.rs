//! Inodes with the same attributes share a block, as the kernel's do, and nobody sees that.

use crate::common::{Mounted, again, fresh};
use granary_fs::{Caller, SetXattr};
use granary_sim::rng::Stream;
use granary_suite::suite::{drive, run};
use granary_units::Bytes;
use granary_vfs::{Posix, Process};
use std::collections::BTreeMap;

fn make(p: &mut Process, path: &str) {
    p.mknod(path, granary_fs::FileKind::File, 0o644, 0).expect("makes");
}

fn set(p: &mut Process, path: &str, name: &str, value: &[u8]) {
    p.setxattr(path, name.as_bytes(), value, SetXattr::Any).expect("sets");
}

fn get(p: &mut Process, path: &str, name: &str) -> Vec<u8> {
    p.getxattr(path, name.as_bytes()).expect("is there")
}

/// Makes files `/0` to `/n-1`; the free blocks with them.
fn files(m: &Mounted, n: u32) -> u64 {
    let mut p = m.process();
    (0..n).for_each(|f| make(&mut p, &format!("/{f}")));
    free(m)
}

/// On a new file system with `n` files which all have the same 2,000 B; `test` gets the free blocks of before
/// those. All is sound after it.
fn with_sharers(n: u32, test: impl FnOnce(&Mounted, &mut Process, u64) + 'static) {
    run(move || {
        let m = fresh(&drive(Bytes::mib(64)));
        let (empty, mut p) = (files(&m, n), m.process());
        (0..n).for_each(|f| set(&mut p, &format!("/{f}"), "user.name", &[7; 2000]));
        test(&m, &mut p, empty);
        m.check();
    });
}

fn free(m: &Mounted) -> u64 {
    m.vfs.sync(&Caller::KERNEL).expect("sync");
    m.process().statfs().expect("statfs").free_blocks
}

/// Linux 6.18, ordered mode, commit=900: 12 blocks, seven of them inodes.
#[test]
fn a_hundred_files_with_the_same_attributes_are_the_kernels_blocks() {
    run(|| {
        let m = fresh(&drive(Bytes::mib(64)));
        let empty = files(&m, 100);
        let before = m.fs.journal_stats().log_blocks;
        let mut p = m.process();
        (0..100).for_each(|f| set(&mut p, &format!("/{f}"), "user.name", &[7; 2000]));
        assert_eq!(empty - free(&m), 1);
        let blocks = m.fs.journal_stats().log_blocks - before;
        assert!((11..=13).contains(&blocks), "{blocks} blocks");
        assert_eq!(p.stat("/5").expect("stat").attr.blocks, 8, "counted by each");
        m.check();
    });
}

#[test]
fn who_changes_its_attributes_leaves_those_of_the_others() {
    with_sharers(3, |m, p, empty| {
        set(p, "/1", "user.name", &[8; 2000]);
        set(p, "/2", "user.more", &[9; 200]);
        assert_eq!(empty - free(m), 3);
        let is = ["/0", "/1", "/2"].map(|f| get(p, f, "user.name"));
        assert_eq!(is, [vec![7; 2000], vec![8; 2000], vec![7; 2000]]);
        assert_eq!(p.listxattr("/0").expect("lists"), [b"user.name"]);
        // Back to what another has: one block less.
        set(p, "/1", "user.name", &[7; 2000]);
        p.removexattr("/2", b"user.more").expect("removes");
        assert_eq!(empty - free(m), 1);
    });
}

#[test]
fn the_last_of_its_users_frees_a_block() {
    with_sharers(3, |m, p, empty| {
        p.unlink("/0").expect("unlinks");
        p.removexattr("/1", b"user.name").expect("removes");
        assert_eq!(empty - free(m), 1);
        assert_eq!(get(p, "/2", "user.name"), [7; 2000]);
        p.unlink("/2").expect("unlinks");
        assert_eq!(empty, free(m));
        // A free block is not shared any more.
        set(p, "/1", "user.name", &[7; 2000]);
        assert_eq!(empty - free(m), 1);
    });
}

#[test]
fn the_order_in_which_attributes_came_does_not_matter() {
    run(|| {
        let m = fresh(&drive(Bytes::mib(64)));
        let empty = files(&m, 2);
        let mut p = m.process();
        for (f, names) in [("/0", ["user.a", "user.b"]), ("/1", ["user.b", "user.a"])] {
            for name in names {
                set(&mut p, f, name, &name.as_bytes()[5..].repeat(500));
            }
        }
        assert_eq!(empty - free(&m), 1);
        m.check();
    });
}

#[test]
fn a_block_has_1024_users() {
    with_sharers(1025, |m, _, empty| assert_eq!(empty - free(m), 2));
}

#[test]
fn after_a_mount_what_was_read_is_shared() {
    run(|| {
        let drive = drive(Bytes::mib(64));
        let m = fresh(&drive);
        files(&m, 4);
        set(&mut m.process(), "/0", "user.name", &[7; 2000]);
        m.unmount();
        let m = again(&drive);
        let (mut p, before) = (m.process(), free(&m));
        set(&mut p, "/1", "user.name", &[7; 2000]); // of the other's block nothing is known yet
        assert_eq!(before - free(&m), 1);
        p.removexattr("/1", b"user.name").expect("removes");
        assert_eq!(get(&mut p, "/0", "user.name"), [7; 2000]);
        set(&mut p, "/1", "user.name", &[7; 2000]);
        set(&mut p, "/2", "user.name", &[7; 2000]);
        assert_eq!(before, free(&m));
        m.check();
    });
}

/// Few values on few files, so that blocks are shared, left, changed in place and freed all the time.
#[test]
fn attributes_are_each_files_own_whatever_is_shared() {
    for seed in 0..8 {
        run(move || {
            let drive = drive(Bytes::mib(64));
            let (mut m, mut s) = (fresh(&drive), Stream::new(seed, "xattrs"));
            let mut model: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
            for step in 0..1500 {
                let mut p = m.process();
                let path = format!("/{}", s.below(12));
                let name = ["user.a", "user.b", "user.name"][s.below(3) as usize].to_owned();
                let value = vec![s.below(3) as u8; [20, 700, 1300][s.below(3) as usize]];
                let there = model.contains_key(&path);
                match s.below(16) {
                    0 | 1 if there => {
                        p.unlink(&path).expect("unlinks");
                        model.remove(&path);
                    }
                    2..5 if there => {
                        let removed = p.removexattr(&path, name.as_bytes()).is_ok();
                        let known = model.get_mut(&path).expect("there").remove(&name).is_some();
                        assert_eq!(removed, known, "seed {seed}, step {step}");
                    }
                    5 if s.below(8) == 0 => {
                        p.exit();
                        m.unmount();
                        m = again(&drive);
                        continue;
                    }
                    6 if s.below(4) == 0 => m.check(),
                    _ => {
                        if !there {
                            make(&mut p, &path);
                        }
                        set(&mut p, &path, &name, &value);
                        model.entry(path.clone()).or_default().insert(name, value);
                    }
                }
                let Some(wanted) = model.get(&path) else { continue };
                let names = p.listxattr(&path).expect("lists");
                assert_eq!(names.len(), wanted.len(), "seed {seed}, step {step}");
                for (name, value) in wanted {
                    assert_eq!(get(&mut p, &path, name), *value, "seed {seed}, step {step}: {path} {name}");
                }
            }
            m.check();
            m.unmount();
        });
    }
}
