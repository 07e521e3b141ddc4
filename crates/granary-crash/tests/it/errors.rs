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
    for (fs, load, seed) in [
        ("ext4", "unnamed", 101),
        ("f2fs", "resize", 105),
        ("nilfs2", "resize", 100),
        ("bytefs", "resize", 101),
        ("orchfs", "resize", 100),
        ("spfs+ext4", "oltp", 101),
    ] {
        let report = explored(fs, load, seed..seed + 1);
        assert!(report.failures.is_empty(), "{fs} under {load}: {report}");
        assert!(report.points > 0, "{fs} under {load}");
    }
}
