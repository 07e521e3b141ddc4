//! Crashes at random points, three deep and more, in both kinds of durability and both modes of the firmware,
//! half of the drives with PebbleSSD's commands.

use super::rig::Rig;
use granary_image::Durability;
use granary_mssd::Mode;
use granary_sim::rng::Stream;

/// Lives of one image, each with gc, log cleaning and checkpoints at work. Each is ended by a crash: anywhere
/// among its commands, at a host write, within a host write, while it is being opened. Now and then a clean
/// close ends one.
pub fn lives(seed: u64, mode: Mode, durability: Durability) {
    let mut rng = Stream::new(seed, "image.crash");
    let half = [128 << 10, 256 << 10, 1 << 20][rng.below(3) as usize];
    let mut rig = Rig::new(mode, durability, half, rng.chance(0.5));
    // Seldom ones leave time for blocks to be erased and programmed again between two of them.
    let barriers = [0.1, 0.02, 0.003][rng.below(3) as usize];
    rig.riders = [0, 3, 64][rng.below(3) as usize];
    for life in 0..4 {
        if rng.chance(0.3) {
            rig.host.stop_after(rng.below(40), rng.below(5000) as usize);
        }
        while rig.open().is_err() {
            assert!(rig.host.has_stopped(), "seed {seed}, life {life}: {:?}", rig.open().err());
            rig.crash(&mut rng);
        }
        rig.recover_unless_stopped();
        let steps = rng.below(1000);
        if rng.chance(0.7) {
            rig.host.stop_after(rng.below(2 * steps + 1), rng.below(5000) as usize);
        }
        for _ in 0..steps {
            if rig.step(&mut rng).is_err() {
                assert!(rig.host.has_stopped(), "seed {seed}, life {life}: a command failed");
                break;
            }
            if durability == Durability::Machine && rng.chance(barriers) && rig.barrier().is_err() {
                assert!(rig.host.has_stopped(), "seed {seed}, life {life}: a barrier failed");
                break;
            }
        }
        if !rig.host.has_stopped() && rng.chance(0.15) {
            rig.host.stop_after(u64::MAX / 2, 0);
            rig.close();
        } else {
            if rng.chance(0.5) {
                // While the drive recovers, or shortly after.
                rig.crash(&mut rng);
                rig.host.stop_after(20 + rng.below(60), rng.below(5000) as usize);
                if rig.open().is_ok() {
                    rig.half_recover();
                }
            }
            rig.crash(&mut rng);
        }
    }
    rig.open().expect("opens");
    rig.recover();
}

/// Lives in which flash blocks go round as fast as they can between barriers. So the remains of one file
/// after a crash meet those of another. There is content that came before its erase was safe, a frame before
/// the content that it speaks of, an older rider after newer content, and a page that gc had left.
pub fn dense(seed: u64, durability: Durability) {
    let mut rng = Stream::new(seed, "image.dense");
    let mut rig = Rig::new(Mode::Log, durability, 1 << 20, rng.chance(0.3));
    rig.dense = true;
    rig.riders = [0, 1, 3, 8][rng.below(4) as usize];
    let barriers = [0.1, 0.02, 0.003][rng.below(3) as usize];
    for life in 0..3 {
        rig.open().unwrap_or_else(|e| panic!("seed {seed}, life {life}: {e}"));
        rig.recover();
        for _ in 0..200 + rng.below(1000) {
            rig.step(&mut rng).unwrap_or_else(|e| panic!("seed {seed}, life {life}: {e}"));
            if rng.chance(barriers) {
                rig.barrier().unwrap_or_else(|e| panic!("seed {seed}, life {life}: {e}"));
            }
        }
        rig.crash(&mut rng);
    }
    rig.open().expect("opens");
    rig.recover();
}

#[cfg(test)]
const SAMPLE: u64 = 40;

#[test]
fn process_mode_loses_nothing_acknowledged_log_firmware() {
    (0..SAMPLE).for_each(|seed| lives(seed, Mode::Log, Durability::Process));
}

#[test]
fn process_mode_loses_nothing_acknowledged_cache_firmware() {
    (0..SAMPLE).for_each(|seed| lives(seed, Mode::Cache, Durability::Process));
}

#[test]
fn machine_mode_loses_nothing_before_the_last_barrier_log_firmware() {
    (0..SAMPLE).for_each(|seed| lives(seed, Mode::Log, Durability::Machine));
}

#[test]
fn machine_mode_loses_nothing_before_the_last_barrier_cache_firmware() {
    (0..SAMPLE).for_each(|seed| lives(seed, Mode::Cache, Durability::Machine));
}

#[test]
fn blocks_that_go_round_between_barriers_lose_nothing() {
    (0..SAMPLE).for_each(|seed| dense(seed, Durability::Machine));
    (0..SAMPLE / 2).for_each(|seed| dense(seed, Durability::Process));
}
