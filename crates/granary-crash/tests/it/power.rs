//! Every file system keeps its promises at a sample of power failures; `cargo xtask soak` does the large
//! counts.

use granary_crash::{Explorer, Report};

fn explore(fs: &str, load: &str, points: u64) {
    let report = is_clean(explorer(fs, load).explore(1..1 + points));
    let seen = &report.coverage;
    assert!(
        seen.failures >= points && (seen.in_recovery > 0 || points < 16) && seen.files > points,
        "saw hardly anything: {report}"
    );
}

/// Seeds that once found something, with drives that answer in their own time, as they did then.
fn explore_seeds(fs: &str, load: &str, seeds: std::ops::Range<u64>) -> Report {
    is_clean(explorer(fs, load).punctual().explore(seeds))
}

fn explorer(fs: &str, load: &str) -> Explorer {
    let (target, load) =
        (crate::targets::by_name(fs).expect("a target"), crate::targets::load(load).expect("a load"));
    Explorer::new(target, load).unwrap_or_else(|f| panic!("without a power failure: {f}"))
}

fn is_clean(report: Report) -> Report {
    assert!(report.failures.is_empty(), "{report}");
    report
}

#[test]
fn bytefs_keeps_its_promises_under_torture() {
    explore("bytefs", "torture", 16);
}

/// Long enough that the journal's tail moves and the drive collects garbage.
#[test]
fn they_keep_their_promises_for_longer() {
    explore("bytefs", "long", 2);
    explore("ext4", "long", 3);
    explore("f2fs", "long", 2);
    explore("nilfs2", "long", 2);
}

#[test]
fn bytefs_with_synchronous_commits_keeps_its_promises_under_torture() {
    explore("bytefs-sync", "torture", 16);
}

#[test]
fn bytefs_with_a_redo_log_of_the_host_keeps_its_promises_under_torture() {
    explore("bytefs-dual", "torture", 16);
}

#[test]
fn bytefs_with_a_redo_log_of_the_host_keeps_its_promises_under_fileserver() {
    explore("bytefs-dual", "fileserver", 12);
}

#[test]
fn bytefs_with_a_data_journal_keeps_its_promises_under_torture() {
    explore("bytefs-journal", "torture", 16);
}

#[test]
fn bytefs_with_a_data_journal_keeps_its_promises_under_fileserver() {
    explore("bytefs-journal", "fileserver", 12);
}

#[test]
fn bytefs_keeps_its_promises_under_varmail() {
    explore("bytefs", "varmail", 16);
}

#[test]
fn bytefs_keeps_its_promises_under_fileserver() {
    explore("bytefs", "fileserver", 16);
}

#[test]
fn ext4_keeps_its_promises_under_torture() {
    explore("ext4", "torture", 16);
}

#[test]
fn ext4_keeps_its_promises_under_varmail() {
    explore("ext4", "varmail", 16);
}

#[test]
fn ext4_keeps_its_promises_under_fileserver() {
    explore("ext4", "fileserver", 16);
}

#[test]
fn ext4_in_writeback_mode_keeps_its_promises_under_torture() {
    explore("ext4-writeback", "torture", 16);
}

#[test]
fn ext4_in_writeback_mode_keeps_its_promises_under_fileserver() {
    explore("ext4-writeback", "fileserver", 12);
}

#[test]
fn ext4_with_a_data_journal_keeps_its_promises_under_torture() {
    explore("ext4-journal", "torture", 16);
}

#[test]
fn ext4_with_a_data_journal_keeps_its_promises_under_fileserver() {
    explore("ext4-journal", "fileserver", 12);
}

#[test]
fn nova_keeps_its_promises_under_torture() {
    explore("nova", "torture", 16);
}

#[test]
fn nova_with_data_in_place_keeps_its_promises_under_torture() {
    explore("nova-in-place", "torture", 10);
}

#[test]
fn nova_keeps_its_promises_under_varmail() {
    explore("nova", "varmail", 12);
}

#[test]
fn nova_keeps_its_promises_under_fileserver() {
    explore("nova", "fileserver", 12);
}

#[test]
fn nova_on_a_dimm_keeps_its_promises_under_torture() {
    explore("nova@nvm", "torture", 16);
}

/// The second power failure came when recovery wrote the superblock's copy, the only whole one after the
/// first failure.
#[test]
fn nova_on_a_dimm_always_has_a_whole_superblock() {
    for seed in [11_206_750, 11_207_045] {
        explore_seeds("nova@nvm", "torture", seed..seed + 1);
    }
}

#[test]
fn nova_on_a_dimm_keeps_its_promises_with_data_in_place() {
    explore("nova-in-place@nvm", "torture", 6);
}

#[test]
fn pmfs_on_a_dimm_keeps_its_promises_under_torture() {
    explore("pmfs@nvm", "torture", 16);
}

#[test]
fn pmfs_on_a_dimm_keeps_its_promises_under_varmail() {
    explore("pmfs@nvm", "varmail", 8);
}

#[test]
fn f2fs_keeps_its_promises_under_torture() {
    explore("f2fs", "torture", 16);
}

#[test]
fn f2fs_keeps_its_promises_with_nodes_that_come_and_go() {
    explore("f2fs", "sparse", 8);
}

#[test]
fn f2fs_keeps_what_was_fsynced_long_after_it_was_written() {
    explore("f2fs", "late", 2);
}

#[test]
fn f2fs_with_strict_fsyncs_keeps_its_promises_under_torture() {
    explore("f2fs-strict", "torture", 16);
}

#[test]
fn f2fs_keeps_its_promises_under_varmail() {
    explore("f2fs", "varmail", 12);
}

#[test]
fn f2fs_keeps_its_promises_under_fileserver() {
    explore("f2fs", "fileserver", 12);
}

#[test]
fn nilfs2_keeps_its_promises_under_torture() {
    explore("nilfs2", "torture", 10);
    explore("nilfs2-protected", "torture", 6);
}

#[test]
fn nilfs2_keeps_its_promises_on_the_drive_of_pebblessd() {
    explore("nilfs2-remap", "torture", 6);
    explore("nilfs2-fswrite", "torture", 6);
    explore("nilfs2-pebble", "torture", 6);
}

/// A write stamps its times after its pages: another's fsync that came between left them for the next super
/// root.
#[test]
fn nilfs2_keeps_times_of_data_that_another_fsync_has_written() {
    for seed in [9_300_029, 9_300_062, 9_300_273] {
        explore_seeds("nilfs2-fswrite", "torture", seed..seed + 1);
    }
}

#[test]
fn nilfs2_keeps_what_was_fsynced_long_after_it_was_written() {
    explore("nilfs2", "late", 2);
}

#[test]
fn nilfs2_keeps_its_promises_under_varmail() {
    explore("nilfs2", "varmail", 8);
}

/// Writers that wait for the cleaner together: seeds 12,000,020 and 12,000,055 found no space on a drive that
/// was half empty.
#[test]
fn nilfs2_keeps_its_promises_under_oltp() {
    for fs in ["nilfs2", "nilfs2-pebble"] {
        for seed in [12_000_020, 12_000_055] {
            explore_seeds(fs, "oltp", seed..seed + 1);
        }
    }
}

#[test]
fn nilfs2_keeps_its_promises_on_a_full_drive() {
    explore("nilfs2", "full", 4);
}

#[test]
fn bytefs_keeps_what_was_fsynced_long_after_it_was_written() {
    explore("bytefs", "late", 2);
}

#[test]
fn ext4_keeps_what_was_fsynced_long_after_it_was_written() {
    explore("ext4", "late", 2);
}

/// Where a drive forgets what no FLUSH covers, commit blocks, ends of checkpoints and blocks that a journal
/// names are written with FUA.
#[test]
fn on_a_volatile_cache_they_keep_their_promises_under_torture() {
    explore("ext4@volatile", "torture", 12);
    explore("f2fs@volatile", "torture", 12);
    explore("nilfs2@volatile", "torture", 6);
    explore("orchfs@volatile", "torture", 6);
    explore("spfs+ext4@volatile", "torture", 6);
}

#[test]
fn on_a_volatile_cache_they_keep_their_promises_under_varmail() {
    explore("ext4-journal@volatile", "varmail", 8);
    explore("f2fs@volatile", "varmail", 8);
}

#[test]
fn pmfs_keeps_its_promises_under_torture() {
    explore("pmfs", "torture", 16);
}

#[test]
fn pmfs_keeps_its_promises_with_nodes_that_come_and_go() {
    explore("pmfs", "sparse", 8);
}

#[test]
fn pmfs_keeps_its_promises_under_varmail() {
    explore("pmfs", "varmail", 12);
}

#[test]
fn pmfs_keeps_its_promises_under_fileserver() {
    explore("pmfs", "fileserver", 12);
}

#[test]
fn bytefs_keeps_its_promises_under_oltp() {
    explore("bytefs", "oltp", 10);
}

#[test]
fn ext4_keeps_its_promises_under_oltp() {
    explore("ext4", "oltp", 10);
}

#[test]
fn bytefs_keeps_its_promises_on_a_full_drive() {
    explore("bytefs", "full", 4);
}

#[test]
fn ext4_keeps_its_promises_on_a_full_drive() {
    explore("ext4", "full", 4);
}

#[test]
fn f2fs_keeps_its_promises_on_a_full_drive() {
    explore("f2fs", "full", 8);
    explore("f2fs-never-in-place", "full", 8);
}

#[test]
fn nova_keeps_its_promises_on_a_full_drive() {
    explore("nova", "full", 4);
}

#[test]
fn pmfs_keeps_its_promises_on_a_full_drive() {
    explore("pmfs", "full", 4);
}

/// Write-back waited for an inode's table block, cold after a recovery, and then wrote the link count of
/// before: the file was unlinked meanwhile.
#[test]
fn ext4_unlinks_while_write_back_marks_the_inode() {
    let report = explore_seeds("ext4", "fileserver", 700_324..700_325);
    assert_eq!(report.coverage.failures, 2, "another life than the one it was found in: {report}");
}

#[test]
fn f2fs_that_cleans_by_remap_keeps_its_promises_under_torture() {
    explore("f2fs-remap", "torture", 16);
}

#[test]
fn f2fs_that_cleans_by_remap_keeps_its_promises_under_fileserver() {
    explore("f2fs-remap", "fileserver", 12);
    explore("f2fs-remap", "full", 8);
}

#[test]
fn cleaning_of_every_kind_loses_nothing() {
    explore("f2fs", "clean", 8);
    explore("f2fs-remap", "clean", 16);
    explore("f2fs-pebble", "clean", 16);
}

#[test]
fn appends_that_meet_truncations_and_other_files_are_there() {
    explore("f2fs", "appended", 8);
    explore("f2fs-fswrite", "appended", 16);
    explore("f2fs-pebble", "appended", 16);
}

#[test]
fn f2fs_with_fs_write_keeps_its_promises_under_torture() {
    explore("f2fs-fswrite", "torture", 16);
    explore("f2fs-fswrite-lazy-times", "torture", 8);
}

#[test]
fn f2fs_with_fs_write_keeps_its_promises_under_varmail() {
    explore("f2fs-fswrite", "varmail", 12);
    explore("f2fs-fswrite", "full", 8);
}

#[test]
fn f2fs_with_both_keeps_its_promises() {
    explore("f2fs-pebble", "torture", 12);
    explore("f2fs-pebble", "fileserver", 8);
    explore("f2fs-pebble", "full", 8);
}

/// A file lost one of two names, its other one became a third, and a new file took the first: recovery has to
/// have the file at the second name or the third, not at both.
#[test]
fn f2fs_leaves_a_file_that_had_two_names_under_one() {
    for fs in ["f2fs-fswrite", "f2fs-pebble"] {
        explore_seeds(fs, "torture", 22_004_239..22_004_240);
    }
}

/// Times that were settled into a node without a mark, the inode having left memory meanwhile: the fsync
/// found nothing new.
#[test]
fn f2fs_with_fs_write_keeps_times_of_inodes_that_left_memory() {
    for seed in [9_400_173, 9_400_841] {
        explore_seeds("f2fs-fswrite", "torture", seed..seed + 1);
        explore_seeds("f2fs-pebble", "torture", seed..seed + 1);
    }
}

/// The power failed while recovery freed inodes without names: some of their bytes were gone, those that say
/// so were not.
#[test]
fn orchfs_frees_orphans_at_once() {
    for (load, seed) in [("torture", 23_000_296), ("torture", 23_004_370), ("appended", 23_001_372)] {
        explore_seeds("orchfs", load, seed..seed + 1);
    }
}

#[test]
fn orchfs_keeps_its_promises_under_torture() {
    explore("orchfs", "torture", 16);
}

#[test]
fn orchfs_with_pages_that_stay_keeps_its_promises_under_fileserver() {
    explore("orchfs-artifact", "fileserver", 12);
}

#[test]
fn orchfs_keeps_its_promises_while_blocks_migrate() {
    explore("orchfs-migrate", "torture", 16);
}

#[test]
fn phfs_keeps_its_promises_under_varmail() {
    explore("phfs", "varmail", 12);
}

#[test]
fn spfs_over_ext4_keeps_its_promises() {
    explore("spfs+ext4", "torture", 8);
    explore("spfs+ext4-pointers", "oltp", 3);
}

#[test]
fn spfs_over_f2fs_keeps_its_promises() {
    explore("spfs+f2fs", "torture", 5);
    explore("spfs+f2fs-pointers", "varmail", 2);
}

#[test]
fn spfs_over_nilfs2_keeps_its_promises() {
    explore("spfs+nilfs2", "torture", 5);
    explore("spfs+nilfs2-pointers", "torture", 3);
}

#[test]
fn spfs_keeps_its_promises_on_a_full_drive() {
    explore("spfs+ext4", "full", 2);
}
