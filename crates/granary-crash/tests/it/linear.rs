//! A linear run has an image at each command, and few of them at a time.

use granary_crash::{Effort, Explorer, Target, Torture};
use granary_device::{Command, Devices, Drive, DriveError};
use granary_units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Copies of a drive: how many there are, and were at most.
#[derive(Default)]
struct Copies {
    now: AtomicU64,
    most: AtomicU64,
}

struct Counted {
    inner: Arc<dyn Drive>,
    copies: Arc<Copies>,
}

impl Counted {
    fn new(inner: Arc<dyn Drive>, copies: &Arc<Copies>) -> Counted {
        copies.most.fetch_max(copies.now.fetch_add(1, Relaxed) + 1, Relaxed);
        Counted { inner, copies: Arc::clone(copies) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.copies.now.fetch_sub(1, Relaxed);
    }
}

impl Drive for Counted {
    granary_device::forward_drive!(inner: info, identify, load, store_from, flush_lines, load_pages, load_known, stream, verify, look_ahead, look_ahead_lines, wants_attention, settle, power_fail, power_on, track_in_flight, traffic, counters, counters_at, check);

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        self.inner.submit(now, command)
    }

    fn fork(&self) -> Option<Arc<dyn Drive>> {
        Some(Arc::new(Counted::new(self.inner.fork()?, &self.copies)))
    }
}

struct Counting(Arc<dyn Target>, Arc<Copies>);

impl Target for Counting {
    granary_crash::forward_target!(0: name, mkfs, mount, renames_are_whole, times_are_durable, vfs, costs);

    fn devices(&self, seed: u64) -> Devices {
        self.0.devices(seed).map(|_, inner| Arc::new(Counted::new(inner, &self.1)))
    }
}

#[test]
fn all_commands_have_images_and_few_are_there_at_a_time() {
    let copies = Arc::new(Copies::default());
    let target = Counting(crate::targets::by_name("pmfs").expect("a target"), Arc::clone(&copies));
    let load = Torture { clients: 1, ops: 20, name: "short", ..Torture::default() };
    let explorer = Explorer::new(Arc::new(target), Arc::new(load)).expect("sound").deep(1);
    let effort = Effort { anywhere: 0, in_steps: 0, linear: true, draws: 1, ..Effort::default() };
    let report = explorer.run(1, &effort);
    assert!(report.failures.is_empty(), "{report}");
    let most = copies.most.load(Relaxed);
    assert!(report.points > 600 && most < 300, "{} images, {most} at a time", report.points);
}
