//! Every file system keeps its promises at a sample of power failures; `cargo xtask soak` does the large counts.

#[path = "common/targets.rs"]
mod targets;

use granary_crash::{Explorer, Load, Torture};
use std::sync::Arc;

fn explore(fs: &str, load: Arc<dyn Load>, points: u64) {
    let target = targets::by_name(fs).expect("a target");
    let explorer =
        Explorer::new(target, load).unwrap_or_else(|failure| panic!("without a failure: {failure}"));
    let report = explorer.explore(1..1 + points);
    eprintln!("{fs}: {report}");
    assert!(report.failures.is_empty(), "{report}");
    let seen = &report.coverage;
    assert!(
        seen.failures >= points && seen.in_recovery > 0 && seen.files > points,
        "hardly anything seen: {report}"
    );
}

#[test]
fn bytefs_keeps_its_promises() {
    explore("bytefs", Arc::new(Torture::default()), 60);
}
