//! Block writes fail: fsync tells each open file, and nothing else is lost or shown.

use granary_crash::{Effort, Explorer};

fn explored(fs: &str, load: &str, seeds: std::ops::Range<u64>) -> granary_crash::Report {
    let target = crate::targets::by_name(fs).expect("a target");
    let explorer = Explorer::new(target, crate::targets::load(load).expect("a load")).expect("sound");
    let explorer = explorer.write_errors(true);
    let effort = Effort { anywhere: 6, in_steps: 4, draws: 1, ..Effort::default() };
    let mut report = granary_crash::Report::default();
    seeds.for_each(|seed| report.add(explorer.run(seed, &effort)));
    report
}

#[test]
fn what_fsync_promised_is_there_although_writes_fail() {
    // Of ext4 the load that shows what else a block held; of F2FS and SPFS those that clean and promote.
    for (fs, load) in [
        ("ext4", "unnamed"),
        ("ext4-writeback", "resize"),
        ("f2fs", "resize"),
        ("nilfs2", "resize"),
        ("bytefs", "resize"),
        ("orchfs", "resize"),
        ("spfs+ext4", "oltp"),
    ] {
        let report = explored(fs, load, 100..104);
        assert!(report.failures.is_empty(), "{fs} under {load}: {report}");
        assert!(report.points > 0, "{fs} under {load}");
    }
}
