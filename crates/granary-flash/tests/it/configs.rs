//! Random drive configurations, each driven to its steady state: none fails, hangs or runs out of free
//! blocks.
//!
//! `cargo test` takes forty, `GRANARY_CONFIGS=500` as many as one likes; whole drives, with firmware, are
//! `cargo xtask soak --kind drive-configs`.

#[path = "configs/random.rs"]
mod random;

use super::*;
use granary_flash::{FlashError, NoData};

fn count() -> u64 {
    std::env::var("GRANARY_CONFIGS").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

#[test]
fn random_configurations_work_in_their_steady_state() {
    let mut ends = 0;
    for seed in 0..count() {
        let config = random::flash(seed);
        let pages = config.capacity_pages();
        println!("seed {seed}: {pages} pages, {config:?}");
        let mut ftl = Ftl::new(&config).expect("a valid configuration makes a drive");
        let mut model = vec![0; pages as usize];
        let mut load = random::Load::new(seed, pages);
        let rounds = 4;
        for round in 0..rounds {
            for _ in 0..pages {
                let (at, lpa, word, cause) = load.next();
                match ftl.write(at, Lpa(lpa), Page::word(word), cause) {
                    Ok(_) => model[lpa as usize] = word,
                    Err(FlashError::ReadOnly { .. }) if ftl.lost_blocks() > 0 => break,
                    Err(e) => panic!("seed {seed}: {e}"),
                }
            }
            check(&ftl);
            if ftl.is_read_only() {
                ends += 1;
                break;
            }
            // The scan finds the map that the tables have.
            let before: Vec<_> = lpas(&ftl).map(|l| ftl.location(l)).collect();
            ftl.power_cycle(load.now(), round % 2 == 0).expect("power");
            assert!(lpas(&ftl).map(|l| ftl.location(l)).eq(before), "seed {seed}: another map");
            check(&ftl);
        }
        for (l, word) in (0..).zip(&model) {
            let page = if *word == 0 { Page::ZERO } else { Page::word(*word) };
            assert_eq!(ftl.peek(Lpa(l)).expect("peek"), page, "seed {seed}: page {l}");
        }
    }
    // End of life is for drives that lose blocks, which few do.
    assert!(ends * 4 < count(), "{ends} drives reached the end of their life");
}

/// The order of copies that a medium without data remembers is enough for the scan, whatever the
/// configuration.
#[test]
fn the_scan_of_a_medium_without_data_finds_the_map() {
    for seed in 100..100 + count() / 4 {
        let config = random::flash(seed);
        let g = config.geometry;
        let mut ftl = Ftl::with_medium(&config, NoData::new(g.blocks(), g.pages_per_block)).expect("drive");
        let pages = ftl.capacity_pages();
        let mut load = random::Load::new(seed, pages);
        for _ in 0..3 * pages {
            let (at, lpa, _, cause) = load.next();
            if ftl.write(at, Lpa(lpa), Page::ZERO, cause).is_err() {
                break;
            }
        }
        let locations = |ftl: &Ftl<NoData>| (0..pages).map(|l| ftl.location(Lpa(l))).collect::<Vec<_>>();
        let before = locations(&ftl);
        ftl.power_cycle(load.now(), false).expect("scan");
        assert_eq!(before, locations(&ftl), "seed {seed}");
        ftl.check().expect("consistent");
    }
}

#[test]
fn configurations_differ_in_everything_that_is_drawn() {
    let all: Vec<FtlConfig> = (0..200).map(random::flash).collect();
    let some = |f: fn(&FtlConfig) -> bool| {
        let n = all.iter().filter(|c| f(c)).count();
        assert!((10..198).contains(&n), "{n} of 200");
    };
    some(|c| c.log_stream);
    some(|c| c.update_stream);
    some(|c| c.gc_policy == granary_flash::GcPolicy::CostBenefit);
    some(|c| c.idle_gc > Nanos::ZERO);
    some(|c| c.plane_mode == granary_flash::PlaneMode::MultiPlane);
    some(|c| c.cache_read);
    some(|c| c.errors.plan().is_some());
    some(|c| c.wear_gap == 0);
    some(|c| c.striping != granary_flash::Striping::default());
}
