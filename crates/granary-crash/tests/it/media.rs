//! Damage of media: nothing panics, nothing that is checked passes for the truth, and what a repair leaves is
//! sound.

use crate::liar::{Liar, Lie};
use granary_crash::{Damages, Explorer};
use granary_fs::{Cred, FsError};
use granary_sim::World;
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

fn explorer(fs: &str, load: &str) -> Explorer {
    let target = crate::targets::by_name(fs).expect("a target");
    Explorer::new(target, crate::targets::load(load).expect("a load")).expect("sound")
}

fn damages(fs: &str, load: &str, seeds: std::ops::Range<u64>) -> Damages {
    let explorer = explorer(fs, load);
    let mut report = granary_crash::Report::default();
    seeds.for_each(|seed| report.add(explorer.media(seed)));
    assert!(report.failures.is_empty(), "{fs} under {load}: {report}");
    report.coverage.damages
}

#[test]
fn damaged_media_are_told_of_or_show_in_the_files_that_they_hit() {
    for (fs, load) in [
        ("bytefs", "torture"),
        ("ext4", "access"),
        ("f2fs", "churn"),
        ("nilfs2", "resize"),
        ("nova@nvm", "torture"),
        ("pmfs@nvm", "torture"),
        ("devfs", "unnamed"),
        ("orchfs", "sparse"),
        ("spfs+ext4", "private"),
    ] {
        let seen = damages(fs, load, 0..2);
        assert!(seen.told > 0 && seen.all() >= 12, "{fs} under {load}: {seen:?}");
    }
}

#[test]
fn a_file_system_without_checksums_does_not_see_everything() {
    // Else the rule would be one that nothing can break.
    let seen = damages("devfs", "torture", 0..20);
    assert!(seen.silent > 0 && seen.content > 0 && seen.harmless > 0, "{seen:?}");
}

#[test]
fn a_repair_leaves_what_mounts_also_where_the_power_fails_in_it() {
    let seen = damages("bytefs", "churn", 4..6);
    assert!(seen.repaired > 24, "{seen:?}");
}

#[test]
fn a_new_file_with_a_number_that_is_in_use_is_an_error() {
    let done = World::default().run(|| {
        let inner = Arc::new(MemFs::new(MemFsConfig::default()));
        let vfs = Vfs::mount(Arc::new(Liar { inner, lie: Lie::Reused }), VfsConfig::default()).expect("vfs");
        let mut p = Process::new(vfs, Cred::ROOT);
        let flags = OpenFlags::RDWR | OpenFlags::CREAT;
        assert!(
            matches!(p.open("/a", flags, 0o644), Err(FsError::Corrupt(what)) if what.contains("is in use"))
        );
        assert!(matches!(p.open_unnamed("/", OpenFlags::RDWR, 0o644), Err(FsError::Corrupt(_))));
    });
    done.expect("ends");
}

#[test]
fn a_block_that_an_old_bitmap_gives_away_while_metadata_go_home_there_is_told_of() {
    // Seed 29 panics in the journal where nobody asks it.
    damages("ext4", "access", 28..32);
}

#[test]
fn damages_that_a_run_does_not_have_are_not_reached() {
    let explorer = explorer("ext4", "torture");
    for place in ["d300-.0", "d3-.0/l1+.0", "d3-.0/f1+.0"] {
        let done = explorer.replay(1, &place.parse().expect("a path"));
        let failure = done.expect_err("nothing is there");
        assert!(failure.to_string().contains("not reached"), "{place}: {failure}");
    }
}
