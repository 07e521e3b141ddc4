//! The memory that the devices of built-in testbeds need.

use granary_bench::Precondition;
use granary_bench::memory::{Limits, Need, Use, ssd_fits};
use granary_testbed::{Testbed, builtins};
use granary_units::Bytes;

fn refusal(name: &str, precondition: Precondition, limits: &Limits) -> Option<String> {
    let testbed = Testbed::load(name, &[]).expect("built in");
    let how = Use { precondition, content: true };
    ssd_fits(name, testbed.ssd().expect("an SSD"), how, limits).err().map(|e| e.to_string())
}

const GIB: u64 = 1 << 30;

#[test]
fn a_filled_drive_of_4_tb_fits_into_6_gib_and_one_written_at_random_is_refused_with_advice() {
    let limits = Limits::of(6 * GIB);
    assert_eq!(refusal("orchfs", Precondition::Fill, &limits), None);
    let said = refusal("orchfs", Precondition::Random(1), &limits).expect("refused");
    for part in ["of memory, and there is 6", "--set blocks_per_plane=", "--precondition fill", "--no-data"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// The number that the message names is of use.
#[test]
fn the_drive_that_is_advised_fits() {
    for (name, precondition) in [
        ("orchfs", Precondition::Fill),
        ("spfs", Precondition::Random(2)),
        ("bytefs-fpga", Precondition::Fill),
    ] {
        let limits = Limits::of(512 << 20);
        let Some(said) = refusal(name, precondition, &limits) else { continue };
        let (_, rest) = said.split_once("--set ").expect("a set");
        let set = rest.split(')').next().expect("ends").to_owned();
        let log = "log_region=1MiB".to_owned();
        let testbed = Testbed::load(name, &[set.clone(), log]).expect("loads");
        let how = Use { precondition, content: true };
        ssd_fits(name, testbed.ssd().expect("an SSD"), how, &limits).unwrap_or_else(|e| panic!("{set}: {e}"));
    }
}

#[test]
fn no_built_in_testbed_needs_much_before_it_is_written() {
    for (name, _) in builtins() {
        let testbed = Testbed::load(name, &[]).expect("built in");
        let ssd = testbed.drive.as_ref().map(|ssd| Need::of_ssd(ssd, Use::NEW)).unwrap_or_default();
        let nvm = testbed.device.nvm.as_ref().map(Need::of_nvm).unwrap_or_default();
        let peak = ssd.and(nvm).peak();
        assert!(peak < Bytes(256 << 20), "{name}: {peak}");
    }
}
