//! Failures are minimised to the calls that matter.

use crate::liar::Lie;
use crate::planted::{Bug, Planted};
use granary_crash::{Effort, Explorer, Failure};
use std::sync::Arc;

fn explorer(fs: &str, load: &str, bug: Bug) -> Explorer {
    let inner = crate::targets::by_name(fs).expect("a target");
    let target = Planted { inner, bug, told: Arc::default() };
    Explorer::new(Arc::new(target), crate::targets::load(load).expect("a load")).expect("sound")
}

/// The first failure of an image.
fn found(explorer: &Explorer) -> Failure {
    let failures = (1..40).flat_map(|seed| explorer.run(seed, &Effort::default()).failures);
    failures.into_iter().find(|f| !f.path.0.is_empty()).expect("found in an image")
}

#[test]
fn look() {
    for (fs, load, bug) in [
        ("ext4", "varmail", Bug::In(Lie::Fsync)),
        ("ext4", "torture", Bug::In(Lie::Fsync)),
        ("bytefs-sync", "torture", Bug::In(Lie::Rename)),
        ("ext4@volatile", "torture", Bug::HiddenCache),
        ("f2fs@volatile", "torture", Bug::HiddenCache),
    ] {
        let mut explorer = explorer(fs, load, bug);
        let failure = found(&explorer);
        let began = std::time::Instant::now();
        let tried = std::cell::Cell::new(0);
        println!("{failure}");
        let minimal = explorer.minimise(&failure, &|| { tried.set(tried.get() + 1); began.elapsed().as_secs() > 30 });
        match minimal {
            Ok(minimal) => {
                println!("{} of {} in {:?}, {} looks", minimal.calls.len(), minimal.of, began.elapsed(), tried.get());
                minimal.calls.iter().for_each(|c| println!("  {c}"));
                println!("{}", minimal.failure);
            }
            Err(e) => println!("NOT: {e}"),
        }
    }
}
