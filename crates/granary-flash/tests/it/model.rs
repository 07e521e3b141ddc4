//! The FTL against a plain map: after any commands, the host reads back the content that it wrote.

use super::*;
use granary_flash::{FaultRates, Faults, FlashError};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Op {
    Write { lpa: u64, word: u64 },
    Burst { first: u64, n: u64, word: u64 },
    Read { lpa: u64 },
    Trim { lpa: u64, n: u64 },
    PowerCycle { map_saved: bool },
}

fn op(pages: u64) -> impl Strategy<Value = Op> {
    // Three quarters of the accesses fall on a tenth of the pages: hot and cold blocks arise.
    let lpa = || prop_oneof![3 => 0..pages / 10, 1 => 0..pages];
    prop_oneof![
        20 => (lpa(), 1u64..).prop_map(|(lpa, word)| Op::Write { lpa, word }),
        6 => (lpa(), 1u64..80, 1u64..).prop_map(|(first, n, word)| Op::Burst { first, n, word }),
        6 => lpa().prop_map(|lpa| Op::Read { lpa }),
        2 => (lpa(), 0u64..20).prop_map(|(lpa, n)| Op::Trim { lpa, n }),
        1 => any::<bool>().prop_map(|map_saved| Op::PowerCycle { map_saved }),
    ]
}

/// Runs `ops` on the FTL and on a map, comparing and checking after each. Returns whether the drive reached
/// its end of life.
fn run(ftl: &mut Ftl, ops: &[Op]) -> bool {
    let mut model: HashMap<u64, u64> = HashMap::new();
    let pages = ftl.capacity_pages();
    let mut now = Nanos::ZERO;
    for op in ops {
        match *op {
            Op::Write { .. } | Op::Burst { .. } => {
                let (first, n, word) = match *op {
                    Op::Write { lpa, word } => (lpa, 1, word),
                    Op::Burst { first, n, word } => (first, n, word),
                    _ => unreachable!("matched above"),
                };
                for i in 0..n {
                    let l = (first + i) % pages;
                    match ftl.write(now, Lpa(l), Page::word(word ^ i), Cause::Host) {
                        Ok(done) => {
                            assert!(done > now);
                            model.insert(l, word ^ i);
                        }
                        Err(FlashError::ReadOnly { .. }) => {
                            check(ftl);
                            compare(ftl, &model);
                            return true;
                        }
                        Err(e) => panic!("{e}"),
                    }
                }
                now += Nanos(700);
            }
            Op::Read { lpa } => {
                let (page, done) = ftl.read(now, Lpa(lpa), Cause::Host).expect("read");
                assert_eq!(page, model.get(&lpa).map_or(Page::ZERO, |&w| Page::word(w)));
                assert_eq!(done > now, model.contains_key(&lpa), "only mapped pages take time");
            }
            Op::Trim { lpa, n } => {
                let n = n.min(pages - lpa);
                match ftl.trim(Lpa(lpa), n) {
                    Ok(()) => model.retain(|l, _| !(lpa..lpa + n).contains(l)),
                    Err(FlashError::ReadOnly { .. }) => return true,
                    Err(e) => panic!("{e}"),
                }
            }
            Op::PowerCycle { map_saved } => {
                now = ftl.power_cycle(now, map_saved).expect("power cycle");
                // A lost map may bring trimmed pages back: trim them again, as a file system's recovery does.
                for l in 0..pages {
                    if !model.contains_key(&l) && !ftl.is_read_only() {
                        assert!(!map_saved || !ftl.is_mapped(Lpa(l)));
                        ftl.trim(Lpa(l), 1).expect("trim");
                    }
                }
                compare(ftl, &model);
            }
        }
        check(ftl);
    }
    compare(ftl, &model);
    false
}

fn compare(ftl: &Ftl, model: &HashMap<u64, u64>) {
    for l in lpas(ftl) {
        if let Some(&word) = model.get(&l.0) {
            assert!(ftl.is_mapped(l));
            assert_eq!(ftl.peek(l).expect("peek"), Page::word(word), "{l}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_drive_holds_what_the_host_wrote(
        filled in any::<bool>(),
        ops in prop::collection::vec(op(tiny().capacity_pages()), 1..150),
    ) {
        let mut ftl = Ftl::new(&tiny()).expect("drive");
        let mut all = ops;
        if filled {
            let pages = ftl.capacity_pages();
            all.insert(0, Op::Burst { first: 0, n: pages, word: 1 << 40 });
        }
        prop_assert!(!run(&mut ftl, &all), "a healthy drive never becomes read-only");
        prop_assert_eq!(ftl.lost_blocks(), 0);
    }

    #[test]
    fn failing_programs_and_erases_lose_nothing(
        seed in any::<u64>(),
        program in prop_oneof![Just(0.0), Just(0.003), Just(0.1)],
        erase in prop_oneof![Just(0.0), Just(0.003), Just(0.5)],
        ops in prop::collection::vec(op(tiny().capacity_pages()), 1..150),
    ) {
        let mut ftl = Ftl::new(&tiny()).expect("drive");
        let rates = FaultRates { program, erase, ..FaultRates::default() };
        ftl.set_faults(Some(Faults::new(seed, rates)));
        run(&mut ftl, &ops);
    }

    /// Every configuration that passes `validate` makes a drive that can be overwritten for ever.
    #[test]
    fn any_valid_configuration_works(
        (channels, ways, dies, planes) in (1u32..5, 1u32..4, 1u32..3, 1u32..3),
        (blocks_per_plane, pages_per_block) in (1u32..80, 1u32..40),
        (gc_start, more) in (2u32..6, 1u32..4),
        (over_provisioning_permille, wear_gap) in (0u32..300, 0u32..4),
        seed in any::<u64>(),
    ) {
        let geometry = Geometry { channels, ways, dies, planes, blocks_per_plane, pages_per_block };
        let gc_stop = gc_start + more;
        let config =
            FtlConfig { geometry, timing: timing(), over_provisioning_permille, gc_start, gc_stop, wear_gap, ..FtlConfig::new(geometry, timing()) };
        prop_assume!(config.validate().is_ok());
        let mut ftl = Ftl::new(&config).expect("drive");
        let pages = ftl.capacity_pages();
        let mut rng = granary_sim::rng::Stream::new(seed, "configurations");
        let hot = 1 + rng.below(pages);
        let mut model: Vec<u64> = (0..pages).collect();
        fill(&mut ftl);
        for i in 0..2 * pages {
            let within = if rng.chance(0.8) { hot } else { pages };
            let l = rng.below(within);
            write(&mut ftl, Nanos(i * 1000), Lpa(l), i);
            model[l as usize] = i;
        }
        check(&ftl);
        prop_assert!(content(&ftl).iter().zip(&model).all(|(page, &word)| *page == Page::word(word)));
    }
}
