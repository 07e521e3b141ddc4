//! A campaign ends where its time is over or somebody asks: between crash points, and in the calls of a load.

use granary_crash::{Campaign, Clients, Effort, Load, Tally, Target};
use granary_device::Devices;
use granary_fs::{FileSystem, FsError};
use granary_sim::rng::Stream;
use granary_vfs::Posix;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A target that sets a flag with its n-th mount.
struct Asking {
    inner: Arc<dyn Target>,
    mounts: AtomicU64,
    at: u64,
    flag: Arc<AtomicBool>,
}

impl Target for Asking {
    granary_crash::forward_target!(inner: name, mkfs, renames_are_whole, times_are_durable, vfs, costs, devices);

    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError> {
        if self.mounts.fetch_add(1, Relaxed) + 1 == self.at {
            self.flag.store(true, Relaxed);
        }
        self.inner.mount(devices)
    }
}

fn campaign(effort: Effort, time: Option<Duration>, interrupted: &Arc<AtomicBool>) -> Campaign {
    Campaign {
        effort,
        nested: 1,
        errors: false,
        media: false,
        seed: 1,
        points: Some(1_000),
        time,
        jobs: 1,
        stop: false,
        kept: usize::MAX,
        interrupted: Arc::clone(interrupted),
    }
}

/// Points of one campaign that is asked to end with the n-th mount.
fn asked(effort: Effort, at: u64) -> Vec<Tally> {
    let flag = Arc::new(AtomicBool::new(false));
    let inner = crate::targets::by_name("pmfs").expect("a target");
    let target = Asking { inner, mounts: AtomicU64::new(0), at, flag: Arc::clone(&flag) };
    let load = crate::targets::load("torture").expect("a load");
    campaign(effort, None, &flag).explore(&[Arc::new(target)], &[load], &|_, _| {})
}

#[test]
fn where_somebody_asks_all_ends_after_the_point_at_hand_and_what_was_found_is_told() {
    let linear = Effort { anywhere: 0, in_steps: 0, linear: true, draws: 1, ..Effort::default() };
    // Of one image many states: it ends between these, too.
    let states = Effort { anywhere: 8, in_steps: 0, draws: 500, ..Effort::default() };
    for effort in [linear, states] {
        let tallies = asked(effort, 20);
        let points = tallies[0].report.points;
        assert!((5..=20).contains(&points), "{points} points");
        assert!(tallies[0].report.failures.is_empty(), "{}", tallies[0].report);
    }
}

/// A load of very many calls, which counts them.
struct Endless(Arc<AtomicU64>);

/// They would take minutes.
const CALLS: u64 = 30_000_000;

impl Load for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn run(&self, clients: &Clients, _: u32, _: &mut Stream) -> Result<(), String> {
        let mut client = clients.client();
        for _ in 0..CALLS {
            self.0.fetch_add(1, Relaxed);
            client.stat("/").map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

#[test]
fn a_load_that_lasts_longer_than_the_time_ends_at_one_of_its_calls_and_is_no_failure() {
    let calls = Arc::new(AtomicU64::new(0));
    let target = crate::targets::by_name("pmfs").expect("a target");
    let time = Some(Duration::from_millis(300));
    let campaign = campaign(Effort::default(), time, &Arc::default());
    let tallies = campaign.explore(&[target], &[Arc::new(Endless(Arc::clone(&calls)))], &|_, _| {});
    let report = &tallies[0].report;
    assert!(report.failures.is_empty() && report.points < 100, "{report}");
    assert!(calls.load(Relaxed) < CALLS, "it was done to its end");
}
