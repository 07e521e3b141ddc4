//! Tests of this module.

use super::*;
use crate::bench::Bench;
use crate::bench::tests::{job, small};
use crate::precondition::Precondition;
use granary_mssd::Mssd;

fn warnings(config: &DriveConfig, rw: &str, accesses: u64) -> String {
    let origin = Origin {
        granary: String::new(),
        commit: String::new(),
        testbed: String::new(),
        set: Vec::new(),
        seed: 1,
        precondition: "fill".to_owned(),
        warm: false,
        no_data: false,
    };
    let jobs = [job(rw, 4096, 32, accesses)];
    let drive = Mssd::without_data(config).expect("valid");
    Precondition::Fill.apply(&drive, 1, |_| {}).expect("fills");
    let m = Bench::of(&drive, &jobs).run(|_, _| {}).expect("runs");
    DriveRecord::new(origin, config, &jobs, &m).warnings.join("\n")
}

#[test]
fn throughput_of_the_drives_memory_is_told_from_that_of_its_flash() {
    let mut slow = small();
    slow.flash.timing.program = Nanos(10_000_000);
    let said = warnings(&slow, "randwrite", 4000);
    assert!(said.contains("3872 of 4000 flash pages were programmed in the drain: the 2.498 GB/s"), "{said}");
    assert!(said.contains("they are 0.0"), "64 planes of 10 ms: {said}");
    for (config, rw, accesses) in [(&small(), "randwrite", 60_000), (&slow, "randread", 1000)] {
        let said = warnings(config, rw, accesses);
        assert!(!said.contains("in the drain"), "{rw}: {said}");
    }
}

#[test]
fn what_the_drives_values_contradict_is_told_with_the_run() {
    let mut config = small();
    config.firmware.write_buffer = granary_units::Bytes::gib(1);
    let said = warnings(&config, "randwrite", 100);
    assert!(
        said.contains("drive.firmware.write_buffer: the write buffer of 1GiB holds the whole drive"),
        "{said}"
    );
    config.flash.over_provisioning_permille = 10;
    let said = warnings(&config, "randread", 100);
    assert!(said.contains("1 % are stated"), "{said}");
}

#[test]
fn gc_has_run_where_a_block_was_erased() {
    assert_eq!((gc_never_ran(0).is_some(), gc_never_ran(1)), (true, None));
}
