//! The loads that reach rare steps, at a few power failures on file systems of every kind.

use granary_crash::{Explorer, FromFile};
use std::sync::Arc;

fn explore(fs: &str, load: &str, points: u64) {
    let (target, load) =
        (crate::targets::by_name(fs).expect("a target"), crate::targets::load(load).expect("a load"));
    let explorer = Explorer::new(target, load).unwrap_or_else(|f| panic!("without a power failure: {f}"));
    let report = explorer.explore(1..1 + points);
    assert!(report.failures.is_empty(), "{report}");
}

#[test]
fn stores_through_mappings_are_kept() {
    ["bytefs", "ext4", "nova", "f2fs"].iter().for_each(|fs| explore(fs, "mapped", 6));
}

#[test]
fn files_without_names_are_whole_or_gone() {
    ["bytefs", "ext4", "f2fs", "pmfs"].iter().for_each(|fs| explore(fs, "unnamed", 6));
}

#[test]
fn access_lists_bits_and_times_are_kept() {
    ["bytefs", "ext4", "f2fs", "nova"].iter().for_each(|fs| explore(fs, "access", 6));
}

#[test]
fn sizes_around_borders_are_kept() {
    ["bytefs", "ext4", "f2fs", "nilfs2"].iter().for_each(|fs| explore(fs, "resize", 6));
}

#[test]
fn directories_that_grow_and_shrink_are_whole() {
    ["bytefs", "ext4", "f2fs", "pmfs"].iter().for_each(|fs| explore(fs, "churn", 4));
}

#[test]
fn small_synced_pieces_are_kept() {
    ["spfs+ext4", "bytefs", "orchfs"].iter().for_each(|fs| explore(fs, "private", 4));
}

#[test]
fn programs_from_files_are_loads() {
    let f = "set $dir=/x\ndefine fileset name=a,path=$dir,size=8k,entries=20,dirwidth=5,prealloc\n\
        define process name=p,instances=1 { thread name=t,instances=2 {\n\
        flowop openfile name=o,filesetname=a,fd=1\n flowop write name=w,fd=1,iosize=4k\n flowop fsync name=s,fd=1\n\
        flowop closefile name=c,fd=1\n } }\nrun 60\n";
    let fio = "[j]\ndirectory=/y\nfilename=a\nsize=256k\nbs=4k\nrw=randwrite\nfsync=4\n";
    for (name, text) in [("short.f", f), ("short.fio", fio)] {
        let load = Arc::new(FromFile::new(name, text.as_bytes(), 150).expect("a load"));
        let target = crate::targets::by_name("ext4").expect("a target");
        let explorer = Explorer::new(target, load).unwrap_or_else(|f| panic!("without a power failure: {f}"));
        let report = explorer.explore(1..5);
        assert!(report.failures.is_empty(), "{report}");
        assert!(report.coverage.files > 4, "{report}");
    }
}
