//! Tests of this module.

use super::*;
use crate::faulty::Faults;
use granary_device::Role;
use granary_sim::World;

/// Steps of eight commands, each third a fence. Returns where images were taken.
fn filmed(seed: u64, for_steps: usize, steps: &'static [&'static str]) -> Vec<At> {
    filmed_behind(seed, for_steps, steps, None)
}

/// The same behind a power failure: each step had so many images before.
fn filmed_behind(seed: u64, for_steps: usize, steps: &'static [&'static str], had: Option<u64>) -> Vec<At> {
    let run = World::default().run(move || {
        let (devices, promises) = (Devices::none(), Promises::new());
        let random = Stream::new(seed, "film");
        let film = Film::new(devices.clone(), promises, Places::new(), for_steps, Nanos(1), random);
        if let Some(had) = had {
            film.knows(steps.iter().map(|step| (*step, had)).collect());
        }
        film.phase(Phase::Load, &Faults::around(&devices).1);
        // And as many commands as two steps have, behind all of them.
        let after = [None, None];
        for (time, step) in (0..).zip(steps.iter().map(Some).chain(after)) {
            step.iter().for_each(|step| film.enters(step));
            for n in 1..=8 {
                let fences = n % 3 == 0;
                let (name, role) = ("write", Role::Ssd);
                let given = Given { name, role, pages: None, what: None, fences };
                film.command(8 * time + n, false, &given);
                film.command(8 * time + n, true, &given);
            }
            step.iter().for_each(|step| film.leaves(step));
        }
        film.develop().0.iter().map(|image| image.at).collect()
    });
    run.expect("ends")
}

#[test]
fn half_of_the_images_in_steps_are_right_before_a_fence() {
    let all: Vec<At> = (0..200).flat_map(|seed| filmed(seed, 8, &["a step"])).collect();
    let at_fence = all.iter().filter(|at| matches!(at, At::Before(n) if n % 3 == 0)).count();
    assert!((all.len() * 2 / 5..all.len() * 4 / 5).contains(&at_fence), "{at_fence} of {}", all.len());
}

#[test]
fn a_step_has_images_of_its_own_the_first_times_it_is_met() {
    const STEPS: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let images = |for_steps| (0..50).map(|seed| filmed(seed, for_steps, STEPS).len()).min();
    // Nearly each of the twelve, although there are five for all steps; but not where images are few.
    assert!(images(FEW) >= Some(10), "{:?}", images(FEW));
    assert!(images(FEW - 1) <= Some(FEW - 1));
}

#[test]
fn a_step_that_had_few_images_has_one_behind_each_power_failure() {
    const STEPS: &[&str] = &["a", "b", "c"];
    let images = |had| (0..50).map(|seed| filmed_behind(seed, 0, STEPS, Some(had)).len()).min();
    assert!(images(SCARCE - 1) >= Some(STEPS.len()), "{:?}", images(SCARCE - 1));
    assert_eq!(images(SCARCE), Some(0));
}

#[test]
fn some_images_are_taken_behind_a_step_that_is_met_the_first_time() {
    let behind =
        |seed| filmed(seed, FEW, &["a step"]).iter().any(|at| matches!(at, At::Before(n) if *n > 16));
    let seeds = (0..100).filter(|seed| behind(*seed)).count();
    assert!((5..40).contains(&seeds), "{seeds}");
}
