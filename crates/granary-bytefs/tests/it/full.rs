//! A full file system: whatever filled it, everything can be removed, and then all is as it was.

use crate::common::client::{Client, bytes};
use crate::common::{assert_clean, in_world, open, small_cached, strict};
use granary_bytefs::{ByteFs, DataMode, MkfsOptions, MountOptions, Variant, mkfs};
use granary_device::{Drive, Port};
use granary_fs::{Allocate, Call, FileKind, FsError, Inode, Life, Result, Space, Time};
use granary_sim::now;
use granary_sim::rng::Stream;
use granary_units::Nanos;
use std::collections::BTreeMap;
use std::sync::Arc;

fn call() -> Call<'static> {
    Call::kernel(Time(now().0 as i64))
}

/// The ways to mount: each variant, and data in the journal.
fn ways() -> Vec<MountOptions> {
    let of = |variant, data| MountOptions { variant, data, cpus: 4, ..MountOptions::default() };
    vec![
        of(Variant::Full, DataMode::Ordered),
        of(Variant::Full, DataMode::Journal),
        of(Variant::Log, DataMode::Ordered),
        of(Variant::Dual, DataMode::Ordered),
    ]
}

fn fresh(options: &MountOptions, mib: u64, inode_ratio: u64) -> Arc<ByteFs> {
    let drive: Arc<dyn Drive> = match options.variant {
        Variant::Dual => small_cached(mib),
        _ => strict(mib),
    };
    let made = MkfsOptions { discard: false, inode_ratio, blocks: Some(mib * 256), ..MkfsOptions::default() };
    mkfs(&Port::new(drive.clone()), &made).expect("mkfs");
    open(&drive, options)
}

/// Kinds of content that fill a file system.
#[derive(Clone, Copy, Debug)]
enum Filler {
    SmallFiles,
    LargeFile,
    Sparse,
    Directories,
    LongNames,
    Reserved,
}

const FILLERS: [Filler; 6] = [
    Filler::SmallFiles,
    Filler::LargeFile,
    Filler::Sparse,
    Filler::Directories,
    Filler::LongNames,
    Filler::Reserved,
];

/// Fills until nothing goes any more; returns the call's error.
fn fill(fs: &ByteFs, c: &Client, dir: &Inode, how: Filler) -> FsError {
    let one = |n: u64| -> Result<()> {
        match how {
            Filler::SmallFiles => {
                let f = c.file(dir, format!("small {n}").as_bytes())?;
                c.write(&f, 0, &bytes(n, 4096 * (1 + n as usize % 3)))
            }
            Filler::LargeFile | Filler::Sparse => {
                let f = match c.lookup(dir, b"large")? {
                    Some(f) => f,
                    None => c.file(dir, b"large")?,
                };
                let step = if matches!(how, Filler::Sparse) { 3 } else { 1 };
                c.write(&f, n * step * 4096, &bytes(n, 4096))
            }
            Filler::Directories => {
                let d = c.make(dir, format!("dir {n}").as_bytes(), FileKind::Dir, &[])?;
                c.make(&d, b"inner", FileKind::Dir, &[]).map(drop)
            }
            Filler::LongNames => c.file(dir, format!("{n:0>255}").as_bytes()).map(drop),
            Filler::Reserved => {
                let f = c.file(dir, format!("reserved {n}").as_bytes())?;
                fs.fallocate(
                    &call(),
                    &f,
                    Allocate::Reserve { keep_size: n.is_multiple_of(2) },
                    0,
                    (n % 9 + 1) * 4096,
                )
            }
        }
    };
    (0..).find_map(|n| one(n).err()).expect("some call fails")
}

/// Removes everything in a directory, however deep.
fn empty(c: &Client, dir: &Inode) {
    for (name, kind) in c.list(dir).expect("readable") {
        if kind == FileKind::Dir {
            let inner = c.lookup(dir, &name).expect("readable").expect("there");
            empty(c, &inner);
        }
        c.unlink(dir, &name, false).expect("removing needs no space");
    }
}

#[test]
fn what_filled_the_file_system_can_be_deleted_and_all_is_as_at_the_start() {
    for options in ways() {
        for how in FILLERS {
            let options = options.clone();
            in_world(move || {
                let ratio = if matches!(how, Filler::LongNames) { 512 } else { 4096 };
                let fs = fresh(&options, 4, ratio);
                let c = Client::new(fs.clone());
                let start = fs.statfs(&Call::offline()).expect("statfs");
                for round in 0..2 {
                    let told = format!("{how:?} in {options:?}, round {round}");
                    assert_eq!(fill(&fs, &c, &c.root(), how), FsError::NoSpace, "{told}");
                    let full = fs.statfs(&Call::offline()).expect("statfs");
                    // The call that failed wanted nine at most, and room for their extents.
                    assert!(full.available_blocks() < 12 || full.free_inodes == 0, "{told}: {full:?}");
                    assert_eq!(fs.stats().reserved_blocks, 0, "{told}");
                    if round == 0 {
                        fs.sync(&Call::offline()).expect("synced");
                        assert_clean(&fs);
                    }
                    empty(&c, &c.root());
                    fs.sync(&Call::offline()).expect("synced");
                    assert_clean(&fs);
                    assert_eq!(fs.statfs(&Call::offline()).expect("statfs"), start, "{told}");
                }
            });
        }
    }
}

/// On a file system whose last block is taken, moves into directories that must grow, holes in the middle of
/// an extent, renames over names, truncations and removals go on working.
#[test]
fn changes_that_free_or_move_work_on_a_full_file_system() {
    for options in ways() {
        in_world(move || {
            let fs = fresh(&options, 4, 2048);
            let c = Client::new(fs.clone());
            let root = c.root();
            let start = fs.statfs(&Call::offline()).expect("statfs");
            let target = c.make(&root, b"target", FileKind::Dir, &[]).expect("made");
            let hole = c.file(&root, b"hole").expect("created");
            c.write(&hole, 0, &[7; 40 * 4096]).expect("written");
            for n in 0..40 {
                c.file(&root, format!("move {n}").as_bytes()).expect("created");
            }
            for n in 0.. {
                if c.write(&hole, (1000 + n) * 4096, &[1; 4096]).is_err() {
                    break;
                }
            }
            let full = fs.statfs(&Call::offline()).expect("statfs");
            assert_eq!(full.available_blocks(), 0);
            assert!(full.free_blocks > 0, "something is kept");
            // 64 slots a block, 5 to such a name: four blocks.
            for n in 0..40 {
                let (from, to) = (format!("move {n}"), format!("{n:0>255}"));
                c.rename(&root, from.as_bytes(), &target, to.as_bytes(), false).expect("moved");
            }
            assert!(target.attr().blocks >= 24, "the directory grew");
            let before = hole.attr().blocks;
            for n in [3u64, 11, 17, 25] {
                fs.fallocate(&call(), &hole, Allocate::PunchHole, n * 4096, 4096).expect("punched");
            }
            assert_eq!(hole.attr().blocks, before - 2 * 8, "four blocks for an extent block and its index");
            for n in 1..40 {
                let (from, to) = (format!("{n:0>255}"), format!("{:0>255}", 0));
                c.rename(&target, from.as_bytes(), &target, to.as_bytes(), false).expect("renamed over");
            }
            c.truncate(&hole, 12_345).expect("truncated");
            fs.sync(&Call::offline()).expect("synced");
            assert_clean(&fs);
            empty(&c, &root);
            fs.sync(&Call::offline()).expect("synced");
            assert_clean(&fs);
            assert_eq!(fs.statfs(&Call::offline()).expect("statfs"), start);
        });
    }
}

/// Random creations, writes, truncations, moves and removals at the edge: what takes space succeeds wholly or
/// fails with ENOSPC and changes nothing that can be seen; what frees space never fails; content is what was
/// written.
#[test]
fn random_operations_at_the_edge_of_full_agree_with_a_model() {
    for (seed, options) in (0..3u64).flat_map(|seed| ways().into_iter().map(move |o| (seed, o))) {
        in_world(move || {
            let fs = fresh(&options, 2, 4096);
            let c = Client::new(fs.clone());
            let root = c.root();
            let start = fs.statfs(&Call::offline()).expect("statfs");
            let mut s = Stream::new(seed, "full");
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            let (mut refused, mut next) = (0, 0u64);
            for step in 0..1500u64 {
                let pick = (!model.is_empty()).then(|| {
                    let n = s.below(model.len() as u64) as usize;
                    model.keys().nth(n).expect("inside").clone()
                });
                // Mostly filling, then mostly emptying.
                let grow = if step % 500 < 350 { 11 } else { 2 };
                match (s.below(12), pick) {
                    (k, pick) if k < grow => {
                        let fresh = s.chance(0.4);
                        let name = match pick {
                            Some(name) if !fresh => name,
                            _ => {
                                next += 1;
                                let width = [3usize, 60, 200][s.below(3) as usize];
                                format!("{next:0>width$}").into_bytes()
                            }
                        };
                        let f = match c.lookup(&root, &name).expect("readable") {
                            Some(f) => f,
                            None => match c.file(&root, &name) {
                                Ok(f) => {
                                    model.insert(name.clone(), Vec::new());
                                    f
                                }
                                Err(e) => {
                                    assert_eq!(e, FsError::NoSpace);
                                    refused += 1;
                                    continue;
                                }
                            },
                        };
                        let old = model.get_mut(&name).expect("known");
                        let pos = old.len() as u64 + s.below(3) * 5000;
                        let data = bytes(step, 1 + s.below(40_000) as usize);
                        match c.write(&f, pos, &data) {
                            Ok(()) => {
                                old.resize(pos as usize, 0);
                                old.extend_from_slice(&data);
                            }
                            Err(e) => {
                                assert_eq!(e, FsError::NoSpace);
                                refused += 1;
                            }
                        }
                    }
                    (k, Some(name)) if k < 5 => {
                        let f = c.lookup(&root, &name).expect("readable").expect("there");
                        let old = model.get_mut(&name).expect("known");
                        let size = s.below(old.len() as u64 + 1);
                        c.truncate(&f, size).expect("truncating down needs no space");
                        old.truncate(size as usize);
                    }
                    (k, Some(name)) if k < 7 => {
                        let other =
                            model.keys().nth(s.below(model.len() as u64) as usize).expect("inside").clone();
                        c.rename(&root, &name, &root, &other, false).expect("renaming over needs no space");
                        if name != other {
                            let content = model.remove(&name).expect("known");
                            model.insert(other, content);
                        }
                    }
                    (_, Some(name)) => {
                        c.unlink(&root, &name, false).expect("removing needs no space");
                        model.remove(&name);
                    }
                    _ => {}
                }
                if step % 500 == 499 {
                    fs.sync(&Call::offline()).expect("synced");
                    assert_clean(&fs);
                }
            }
            assert!(refused > 20, "the edge was reached: {refused}");
            for (name, content) in &model {
                let f = c.lookup(&root, name).expect("readable").expect("there");
                assert!(c.read(&f).expect("readable") == *content, "{}", String::from_utf8_lossy(name));
            }
            empty(&c, &root);
            fs.sync(&Call::offline()).expect("synced");
            assert_clean(&fs);
            assert_eq!(fs.statfs(&Call::offline()).expect("statfs"), start);
        });
    }
}

/// While freed blocks are being made free there is space: nobody is told that there is none.
fn writes_while_blocks_become_free(options: &MountOptions) {
    for delay in (0..600).step_by(6) {
        let mount = options.clone();
        in_world(move || {
            let fs = fresh(&mount, 8, 16 << 10);
            let c = Client::new(fs.clone());
            let root = c.root();
            let (a, b) = (c.file(&root, b"a").expect("a"), c.file(&root, b"b").expect("b"));
            let d = c.make(&root, b"d", FileKind::Dir, &[]).expect("d");
            let name = |i: usize| format!("{i:0>200}").into_bytes();
            (0..40).for_each(|i| drop(c.file(&d, &name(i)).expect("room")));
            let mut n = 0;
            while c.write(&a, n * 4096, &bytes(n, 4096)).is_ok() {
                n += 1;
            }
            fs.sync(&Call::offline()).expect("sync");
            // With a data journal these pages are in a record.
            c.write(&a, 0, &bytes(77, 20 * 4096)).expect("in place");
            (0..40).for_each(|i| drop(c.unlink(&d, &name(i), false).expect("unlinks")));
            c.unlink(&root, b"a", false).expect("unlinks");
            let other = fs.clone();
            let syncer = granary_sim::spawn("sync", move || other.sync(&Call::offline()).expect("sync"));
            granary_sim::sleep(Nanos(delay * 500));
            let written = c.write(&b, 0, &bytes(5, 20 * 4096));
            syncer.join();
            assert_eq!(
                written,
                Ok(()),
                "{mount:?}, {} ns after sync began, {n} blocks to be free",
                delay * 500
            );
            fs.sync(&Call::offline()).expect("sync");
            assert_clean(&fs);
        });
    }
}

#[test]
fn blocks_that_are_just_becoming_free_are_space() {
    for options in ways() {
        writes_while_blocks_become_free(&MountOptions { discard: true, ..options });
    }
}
