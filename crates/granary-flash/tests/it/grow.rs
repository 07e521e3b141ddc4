//! A drive that gets more planes while it works keeps what it holds, and uses the new ones at once.

use super::*;
use granary_flash::{FlashError, GcPolicy, PlaneMode};
use granary_sim::rng::Stream;

fn grow(ftl: &mut Ftl, factor: u64) -> FtlConfig {
    let has = ftl.capacity_pages() * 4096;
    let larger = ftl.config().grown(Bytes(has * factor)).expect("it can");
    ftl.nand_mut().medium_mut().grow(larger.geometry.blocks());
    ftl.grow(&larger).expect("grown");
    larger
}

/// Overwrites random pages, gc at work all the time; with a P2L table moves some.
fn churn(ftl: &mut Ftl, model: &mut Vec<Option<u64>>, random: &mut Stream, now: &mut Nanos, p2l: bool) {
    let pages = ftl.capacity_pages();
    model.resize(pages as usize, None);
    for n in 0..pages * 4 {
        let lpa = random.below(pages);
        match random.below(20) {
            0 => {
                ftl.trim(Lpa(lpa), 1).expect("trimmed");
                model[lpa as usize] = None;
            }
            1 if p2l => {
                let to = random.below(pages);
                ftl.remap(Lpa(lpa), Lpa(to)).expect("moved");
                model[to as usize] = model[lpa as usize];
                if to != lpa {
                    model[lpa as usize] = None;
                }
            }
            _ => {
                *now = write(ftl, *now, Lpa(lpa), n + 1);
                model[lpa as usize] = Some(n + 1);
            }
        }
    }
}

fn compare(ftl: &Ftl, model: &[Option<u64>]) {
    for (lpa, word) in model.iter().enumerate() {
        let expected = word.map_or(Page::ZERO, Page::word);
        assert_eq!(ftl.peek(Lpa(lpa as u64)).expect("readable"), expected, "page {lpa}");
    }
}

#[test]
fn a_drive_that_grows_under_work_keeps_what_it_holds() {
    let shapes = [
        (1, 1, PlaneMode::Independent, GcPolicy::Greedy),
        (1, 1, PlaneMode::OneAtATime, GcPolicy::CostBenefit),
        (2, 1, PlaneMode::Independent, GcPolicy::CostBenefit),
        (1, 2, PlaneMode::MultiPlane, GcPolicy::Greedy),
        (2, 2, PlaneMode::OneAtATime, GcPolicy::Greedy),
    ];
    for ((dies, planes, plane_mode, gc_policy), p2l) in
        shapes.into_iter().flat_map(|s| [(s, false), (s, true)])
    {
        let geometry = Geometry { dies, planes, ..geometry(2, 2, 16, 8) };
        let config = FtlConfig { plane_mode, gc_policy, geometry, ..tiny() };
        let (mut ftl, mut model) = (Ftl::new(&config).expect("works"), Vec::new());
        let (mut random, mut now) = (Stream::new(11, "ftl.grow"), Nanos::ZERO);
        if p2l {
            ftl.keep_p2l();
        }
        churn(&mut ftl, &mut model, &mut random, &mut now, p2l);
        for factor in [2, 3] {
            let before = ftl.capacity_pages();
            let larger = grow(&mut ftl, factor);
            check(&ftl);
            assert!(ftl.capacity_pages() >= before * factor && *ftl.config() == larger);
            compare(&ftl, &model);
            // The new planes are used, and gc has work in all of them.
            churn(&mut ftl, &mut model, &mut random, &mut now, p2l);
            let (first, end) = (geometry.blocks(), larger.geometry.blocks());
            assert!((first..end).any(|b| ftl.nand().header(granary_flash::BlockNo(b)).erases > 0));
            check(&ftl);
            compare(&ftl, &model);
        }
        // The OOB areas describe the same drive, apart from trims.
        ftl.power_cycle(now, false).expect("rebuilt");
        check(&ftl);
        for (lpa, word) in model.iter().enumerate().filter_map(|(l, w)| w.map(|w| (l, w))) {
            assert_eq!(ftl.peek(Lpa(lpa as u64)).expect("readable"), Page::word(word), "page {lpa}");
        }
    }
}

#[test]
fn another_drive_or_a_smaller_one_is_refused_and_changes_nothing() {
    let mut ftl = Ftl::new(&tiny()).expect("works");
    fill(&mut ftl);
    let before = content(&ftl);
    let larger = tiny().grown(Bytes(ftl.capacity_pages() * 8192)).expect("it can");
    let refused = |ftl: &mut Ftl, config: &FtlConfig| {
        assert!(matches!(ftl.grow(config), Err(FlashError::Config(_))));
        check(ftl);
    };
    refused(&mut ftl, &larger);
    ftl.nand_mut().medium_mut().grow(larger.geometry.blocks());
    refused(&mut ftl, &FtlConfig { gc_stop: 4, ..larger });
    let mut deeper = larger;
    deeper.geometry.blocks_per_plane *= 2;
    refused(&mut ftl, &deeper);
    ftl.grow(&larger).expect("the medium has its blocks");
    refused(&mut ftl, &tiny());
    assert_eq!(content(&ftl)[..before.len()], before);
}
