//! Failing flash: data moves to healthy blocks, errors are reported, the drive ends read-only and readable.

use super::*;
use granary_flash::{FaultRates, Faults, FlashError, Nand, Oob, RamMedium};
use granary_sim::rng::Stream;
use granary_units::Ppa;

fn failing(rates: FaultRates) -> Ftl {
    let mut config = FtlConfig::new(geometry(2, 2, 64, 16), timing());
    config.over_provisioning_permille = 300;
    let mut ftl = Ftl::new(&config).expect("drive");
    ftl.set_faults(Some(Faults::new(11, rates)));
    ftl
}

/// Overwrites random pages until the drive refuses, at most `most`; returns the words that the host was
/// promised.
fn wear_out(ftl: &mut Ftl, most: u64) -> (Vec<u64>, u64) {
    let pages = ftl.capacity_pages();
    let mut model = vec![0; pages as usize];
    let mut rng = Stream::new(6, "wear out");
    for i in 1..=most {
        let l = rng.below(pages);
        match ftl.write(Nanos(i * 1000), Lpa(l), Page::word(i), Cause::Host) {
            Ok(_) => model[l as usize] = i,
            Err(FlashError::ReadOnly { .. }) => return (model, i - 1),
            Err(e) => panic!("{e}"),
        }
    }
    (model, most)
}

#[track_caller]
fn holds(ftl: &mut Ftl, model: &[u64]) {
    for (l, &word) in model.iter().enumerate() {
        let (page, _) = ftl.read(Nanos::ZERO, Lpa(l as u64), Cause::Host).expect("read");
        assert_eq!(page, Page::word(word), "page {l}");
    }
}

#[test]
fn failed_programs_lose_no_data() {
    let mut ftl = failing(FaultRates { program: 0.0005, ..FaultRates::default() });
    let (model, written) = wear_out(&mut ftl, 20_000);
    assert_eq!(written, 20_000, "{} blocks lost", ftl.lost_blocks());
    assert!(ftl.nand_stats().program_failures > 5, "{:?}", ftl.nand_stats());
    check(&ftl);
    holds(&mut ftl, &model);
    ftl.power_cycle(Nanos::ZERO, false).expect("scan");
    check(&ftl);
    holds(&mut ftl, &model);
}

#[test]
fn a_drive_without_spare_blocks_is_read_only_and_readable() {
    let mut ftl = failing(FaultRates { endurance: 30, ..FaultRates::default() });
    let (model, written) = wear_out(&mut ftl, u64::MAX);
    // Each of the blocks can be filled 31 times; gc and the blocks that fail last take their share.
    assert!((30_000..31 * 64 * 4 * 16).contains(&written), "{written} pages written");
    assert!(ftl.is_read_only() && ftl.spare_blocks() == 0 && ftl.lost_blocks() > 0);
    assert!(matches!(ftl.trim(Lpa(0), 1), Err(FlashError::ReadOnly { .. })));
    check(&ftl);
    holds(&mut ftl, &model);
    ftl.power_cycle(Nanos::ZERO, false).expect("scan");
    assert!(ftl.is_read_only(), "a power cycle does not heal");
    check(&ftl);
    holds(&mut ftl, &model);
}

#[test]
fn a_drive_whose_every_program_fails_says_so() {
    let mut ftl = failing(FaultRates { program: 1.0, ..FaultRates::default() });
    let e = ftl.write(Nanos::ZERO, Lpa(0), Page::word(1), Cause::Host).expect_err("nothing works");
    assert!(matches!(e, FlashError::ReadOnly { .. }), "{e}");
    assert!(!ftl.is_mapped(Lpa(0)));
    check(&ftl);
}

#[test]
fn read_errors_are_retried_and_the_retries_take_time() {
    let mut ftl = failing(FaultRates { read: 0.3, ..FaultRates::default() });
    write(&mut ftl, Nanos::ZERO, Lpa(0), 5);
    let (mut slow, mut lost) = (0, 0);
    for i in 1..1000 {
        let at = Nanos::from_millis(i);
        match ftl.read(at, Lpa(0), Cause::Host) {
            Ok((page, done)) => {
                assert_eq!(page, Page::word(5));
                slow += (done - at > timing().read * 2) as u32;
            }
            Err(FlashError::Unreadable { done, .. }) => {
                assert_eq!(done, at + timing().read * 4);
                lost += 1;
            }
            Err(e) => panic!("{e}"),
        }
    }
    // 30 % need a second attempt, 0.8 % fail four times.
    assert!((250..350).contains(&slow) && (1..25).contains(&lost), "{slow} slow, {lost} lost");
}

/// An unreadable page stays unreadable: gc must not bring back an older copy of it.
#[test]
fn a_broken_page_gives_errors_until_it_is_rewritten() {
    let mut ftl = failing(FaultRates::default());
    let pages = ftl.capacity_pages();
    fill(&mut ftl);
    // The first page written lies in the first page of plane 0.
    let mut faults = Faults::new(1, FaultRates::default());
    faults.break_page(Ppa(0));
    ftl.set_faults(Some(faults));
    let mut rng = Stream::new(7, "broken");
    for i in 0..6 * pages {
        let l = Lpa(1 + rng.below(pages - 1));
        write(&mut ftl, Nanos::ZERO, l, i);
    }
    check(&ftl);
    assert_eq!(ftl.lost_blocks(), 1, "gc met the page");
    for map_saved in [true, false] {
        ftl.power_cycle(Nanos::ZERO, map_saved).expect("power cycle");
        check(&ftl);
        let read = ftl.read(Nanos::ZERO, Lpa(0), Cause::Host);
        assert!(matches!(read, Err(FlashError::Unreadable { .. })), "{read:?}");
    }
    write(&mut ftl, Nanos::ZERO, Lpa(0), 9);
    assert_eq!(ftl.read(Nanos::ZERO, Lpa(0), Cause::Host).expect("read").0, Page::word(9));
    check(&ftl);
}

#[test]
fn the_array_enforces_the_rules_of_nand() {
    let config = tiny();
    let g = config.geometry;
    let mut nand = Nand::new(&config, RamMedium::new(g.blocks(), g.pages_per_block)).expect("array");
    let oob = Oob { seq: 1, lpa: 0 };
    let at = Nanos::ZERO;
    let mut program = |ppa| nand.program(at, Ppa(ppa), &Page::word(3), oob);
    assert!(matches!(program(1), Err(FlashError::OutOfOrder { next: 0, .. })), "not in order");
    program(0).expect("the first page");
    assert!(matches!(program(0), Err(FlashError::OutOfOrder { next: 1, .. })), "programmed already");
    assert!(matches!(nand.read(at, Ppa(1)), Err(FlashError::Erased { .. })));
    assert!(matches!(nand.read(at, Ppa(u32::MAX)), Err(FlashError::Erased { .. })));
    nand.erase(at, granary_flash::BlockNo(0)).expect("erase");
    assert!(matches!(nand.read(at, Ppa(0)), Err(FlashError::Erased { .. })));
    nand.program(at, Ppa(0), &Page::word(4), oob).expect("again after an erase");
    assert_eq!(nand.header(granary_flash::BlockNo(0)).erases, 1);
}
