//! One power failure at a chosen point of a program, and what the next life of the file system sees.

use granary_crash::Target;
use granary_device::Devices;
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, now, sleep_until};
use std::sync::Arc;

/// Makes a file system of `target`, runs `before` on it, cuts the power where that returns, and hands what
/// `after` finds when the power is back.
pub fn across_a_power_failure<T: Send + 'static>(
    target: &Arc<dyn Target>,
    before: impl FnOnce(&dyn Target, &Devices) + Send + 'static,
    after: impl FnOnce(&dyn Target, &Devices) -> T + Send + 'static,
) -> T {
    let devices = target.devices(1);
    let (t, d) = (Arc::clone(target), devices.clone());
    let stopped = World::default().run(move || {
        t.mkfs(&d).expect("mkfs");
        before(&*t, &d);
        granary_sim::power_fail();
    });
    let Err(Stop::PowerFail(at)) = stopped else { panic!("{stopped:?}") };
    devices.power_fail(at, &mut Stream::new(1, "power"));
    let t = Arc::clone(target);
    let world = World::default().run(move || {
        sleep_until(at);
        sleep_until(devices.power_on(now()).expect("power on"));
        after(&*t, &devices)
    });
    world.expect("no deadlock")
}
