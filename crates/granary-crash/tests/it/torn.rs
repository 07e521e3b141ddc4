//! Pages torn at sectors of 512 B: those that say so survive them, and those that rely on whole pages do not.

use granary_crash::{Effort, Explorer};

#[test]
fn what_says_that_it_survives_torn_pages_does() {
    for (fs, load) in [("nilfs2@torn", "torture"), ("orchfs@torn", "resize")] {
        let target = crate::targets::by_name(fs).expect("a target");
        let explorer = Explorer::new(target, crate::targets::load(load).expect("a load")).expect("sound");
        for seed in 0..3 {
            let report = explorer.run(seed, &Effort { in_steps: 4, ..Effort::default() });
            assert!(report.failures.is_empty() && report.points > 0, "{fs}: {report}");
        }
    }
}

#[test]
fn file_systems_that_rely_on_whole_pages_are_not_run_with_torn_ones() {
    for fs in ["ext4@torn", "f2fs@torn", "bytefs@torn", "nova@torn"] {
        assert!(crate::targets::by_name(fs).is_none(), "{fs}");
    }
}
