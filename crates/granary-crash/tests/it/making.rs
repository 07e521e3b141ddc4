//! Power failures in mkfs.

use granary_crash::Explorer;

#[test]
fn what_a_power_failure_in_mkfs_leaves_is_no_wrong_file_system_and_is_made_anew() {
    // mkfs of ext4 and F2FS was not safe on a volatile cache; ByteFS has two superblocks.
    for fs in ["ext4@volatile", "f2fs@volatile", "bytefs"] {
        let target = crate::targets::by_name(fs).expect("a target");
        let load = crate::targets::load("creat(/A/foo) fsync").expect("a load");
        let report = Explorer::new(target, load).expect("sound").making(0);
        assert!(report.failures.is_empty(), "{fs}: {report}");
        assert!(report.points >= 8, "{fs}: {report}");
    }
}
