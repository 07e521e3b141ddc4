//! Power: the map from the OOB equals the saved one; restored pages hold what they held.

use super::*;
use granary_flash::{FlashError, RamMedium};
use granary_sim::rng::Stream;

fn used() -> Ftl {
    let mut ftl = Ftl::new(&tiny()).expect("drive");
    fill(&mut ftl);
    let mut rng = Stream::new(2, "used");
    for i in 0..3_000 {
        let l = Lpa(rng.below(ftl.capacity_pages()));
        write(&mut ftl, Nanos::ZERO, l, i);
    }
    ftl
}

/// In whatever state gc is interrupted.
#[test]
fn the_map_from_the_oob_equals_the_saved_map() {
    let mut ftl = used();
    let mut rng = Stream::new(3, "cut");
    for i in 0..300 {
        let l = Lpa(rng.below(ftl.capacity_pages()));
        write(&mut ftl, Nanos::ZERO, l, i);
        let (mut saved, mut scanned) = (ftl.clone(), ftl.clone());
        saved.power_cycle(Nanos::ZERO, true).expect("saved");
        scanned.power_cycle(Nanos::ZERO, false).expect("scanned");
        check(&scanned);
        assert_eq!(content(&saved), content(&scanned));
        assert_eq!(saved.mapped_pages(), scanned.mapped_pages());
        // Both go on working from there.
        for ftl in [&mut saved, &mut scanned] {
            for j in 0..50 {
                write(ftl, Nanos::ZERO, Lpa((l.0 + j) % ftl.capacity_pages()), j);
            }
            check(ftl);
        }
    }
}

#[test]
fn the_scan_reads_every_programmed_page_once_with_all_planes_at_work() {
    let mut ftl = Ftl::new(&tiny()).expect("drive");
    let pages = 64;
    for l in 0..pages {
        write(&mut ftl, Nanos::ZERO, Lpa(l), l);
    }
    let before = ftl.counters();
    let at = Nanos::from_secs(1);
    let took = ftl.power_cycle(at, false).expect("scan") - at;
    let c = ftl.counters().since(&before);
    assert_eq!((c.reads(Cause::Mapping), c.total_programs()), (pages, 0));
    let per_plane = timing().read * (pages / 4);
    assert!(took >= per_plane && took <= per_plane + Nanos::from_micros(2), "{took}");
    assert_eq!(ftl.power_cycle(at, true).expect("saved"), at, "a saved map takes no time");
}

#[test]
fn a_drive_opened_on_a_used_medium_holds_its_data() {
    let ftl = used();
    let medium: RamMedium = ftl.nand().medium().clone();
    let reopened = Ftl::with_medium(&tiny(), medium.clone()).expect("reopen");
    assert_eq!(content(&reopened), content(&ftl));
    assert_eq!(reopened.wear(), ftl.wear());
    check(&reopened);

    let mut smaller = tiny();
    smaller.over_provisioning_permille = 1000;
    assert!(matches!(Ftl::with_medium(&smaller, medium.clone()), Err(FlashError::Corrupt(_))));
    smaller.geometry.ways = 1;
    assert!(matches!(Ftl::with_medium(&smaller, medium), Err(FlashError::Config(_))));
}

#[test]
fn restore_undoes_what_the_power_failure_prevented() {
    let mut ftl = used();
    let before = [Lpa(1), Lpa(2)].map(|l| ftl.peek(l).expect("peek"));
    ftl.trim(Lpa(3), 1).expect("trim");
    let counted = ftl.counters();
    write(&mut ftl, Nanos::ZERO, Lpa(1), 77);
    write(&mut ftl, Nanos::ZERO, Lpa(3), 77);
    ftl.trim(Lpa(2), 1).expect("trim");

    ftl.restore(Lpa(1), Some(before[0].clone())).expect("overwritten");
    ftl.restore(Lpa(2), Some(before[1].clone())).expect("trimmed");
    ftl.restore(Lpa(3), None).expect("written where nothing was");
    assert_eq!(ftl.counters().since(&counted).programs(Cause::Recovery), 1, "only the trimmed page");
    ftl.power_cycle(Nanos::ZERO, true).expect("power cycle");
    check(&ftl);
    assert_eq!([Lpa(1), Lpa(2)].map(|l| ftl.peek(l).expect("peek")), before);
    assert!(!ftl.is_mapped(Lpa(3)));
}

#[test]
fn commands_beyond_the_end_are_refused() {
    let mut ftl = Ftl::new(&tiny()).expect("drive");
    let end = ftl.capacity_pages();
    let out = |e: FlashError| matches!(e, FlashError::OutOfRange { .. });
    assert!(out(ftl.read(Nanos::ZERO, Lpa(end), Cause::Host).expect_err("read")));
    assert!(out(ftl.write(Nanos::ZERO, Lpa(u64::MAX), Page::ZERO, Cause::Host).expect_err("write")));
    assert!(out(ftl.peek(Lpa(end)).expect_err("peek")));
    assert!(out(ftl.trim(Lpa(end - 1), 2).expect_err("trim")));
    assert!(out(ftl.trim(Lpa(u64::MAX), u64::MAX).expect_err("trim")));
    ftl.trim(Lpa(end), 0).expect("nothing at the end is nothing");
    assert!(!ftl.is_mapped(Lpa(end)));
}
