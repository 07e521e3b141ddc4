//! Power failures: the fates that are drawn, and those that are not.

use crate::rig::*;
use granary_device::Drive;
use granary_pmem::{Dimm, DimmConfig, Domain};
use granary_sim::rng::Stream;
use granary_units::Nanos;

fn words(d: &Dimm) -> Vec<u64> {
    bytes(d, 1).chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes"))).collect()
}

fn fail(d: &Dimm, now: Nanos, seed: u64) -> Vec<u64> {
    d.power_fail(now, &mut Stream::new(seed, "power"));
    d.power_on(now).expect("powers on");
    words(d)
}

fn tracked(domain: Domain) -> Dimm {
    let d = dimm(&DimmConfig { domain, ..small(DimmConfig::optane_dcpmm(), 4) });
    d.track_in_flight(true);
    d
}

fn line(word: u64) -> Vec<u8> {
    word.to_le_bytes().repeat(8)
}

#[test]
fn a_line_that_was_never_written_back_may_be_there_in_any_words() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let d = tracked(Domain::Adr);
        store(&d, 0, Nanos(0), 0, &line(7));
        let left = fail(&d, Nanos::from_secs(1), seed);
        assert!(left[..8].iter().all(|w| [0, 7].contains(w)) && left[8..].iter().all(|&w| w == 0));
        seen.insert((0..8).fold(0u8, |bits, i| bits | u8::from(left[i] == 7) << i));
    }
    assert!(seen.contains(&0) && seen.contains(&255) && seen.len() > 60, "{} subsets", seen.len());
}

#[test]
fn a_write_back_without_a_fence_that_was_answered_promises_nothing() {
    for nt in [true, false] {
        let outcomes = |wait: bool, at: fn(Nanos) -> Nanos| {
            let mut lost = 0;
            for seed in 0..100 {
                let d = tracked(Domain::Adr);
                let mut now = if nt {
                    nt_store(&d, 0, Nanos(0), 0, &line(7))
                } else {
                    flush(&d, store(&d, 0, Nanos(0), 0, &line(7)), 0, 64)
                };
                if wait {
                    now = fence(&d, now);
                }
                lost += u32::from(fail(&d, at(now), seed)[..8] != [7; 8]);
            }
            lost
        };
        assert!(outcomes(false, |now| now + Nanos::from_secs(1)) > 30, "time alone makes nothing safe");
        assert!(
            outcomes(true, |now| now - Nanos(1)) > 30,
            "a fence that is not answered yet makes nothing safe"
        );
        assert_eq!(outcomes(true, |now| now), 0);
    }
}

#[test]
fn a_fence_covers_what_was_written_back_before_it_and_not_what_came_behind_it() {
    let mut lost = [0; 3];
    for seed in 0..100 {
        let d = tracked(Domain::Adr);
        let now = nt_store(&d, 0, Nanos(0), 0, &line(1));
        let done = fence(&d, now);
        nt_store(&d, 0, now, 64, &line(2));
        store(&d, 0, now, 128, &line(3));
        flush(&d, done, 128, 64);
        let left = fail(&d, Nanos::from_secs(1), seed);
        for (i, lost) in lost.iter_mut().enumerate() {
            *lost += u32::from(left[i * 8..i * 8 + 8] != [i as u64 + 1; 8]);
        }
    }
    assert!(lost[0] == 0 && lost[1] > 30 && lost[2] > 30, "{lost:?}");
}

#[test]
fn with_eadr_nothing_that_was_stored_is_lost() {
    for seed in 0..100 {
        let d = tracked(Domain::Eadr);
        store(&d, 0, Nanos(0), 0, &line(1));
        store(&d, 1, Nanos(0), 3, &[9; 2]);
        nt_store(&d, 0, Nanos(0), 64, &line(2));
        flush(&d, store(&d, 0, Nanos(0), 128, &line(3)), 128, 64);
        let before = words(&d);
        assert_eq!(fail(&d, Nanos(1), seed), before);
        assert_eq!(d.held_lines(), 0);
    }
}

#[test]
fn without_tracking_what_left_a_core_has_landed_and_the_caches_are_volatile() {
    let mut lost = 0;
    for seed in 0..100 {
        let d = dimm(&small(DimmConfig::optane_dcpmm(), 4));
        nt_store(&d, 0, Nanos(0), 0, &line(1));
        flush(&d, store(&d, 0, Nanos(0), 64, &line(2)), 64, 64);
        store(&d, 0, Nanos(0), 128, &line(3));
        let left = fail(&d, Nanos(0), seed);
        assert_eq!((&left[..8], &left[8..16]), (&[1; 8][..], &[2; 8][..]));
        lost += u32::from(left[16..24] != [3; 8]);
    }
    assert!(lost > 30, "{lost}");
}

#[test]
fn a_store_of_a_few_bytes_leaves_its_word_whole() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..100 {
        let d = tracked(Domain::Adr);
        let now = fence(&d, nt_store(&d, 0, Nanos(0), 0, &line(0x1111_1111_1111_1111)));
        store(&d, 0, now, 2, &[0x22; 3]);
        match fail(&d, now, seed)[0] {
            0x1111_1111_1111_1111 => old += 1,
            0x1111_1122_2222_1111 => new += 1,
            torn => panic!("{torn:#x}"),
        }
    }
    assert!(old > 20 && new > 20, "{old} {new}");
}

#[test]
fn what_the_buffer_holds_survives_and_is_written_to_the_media() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 4));
    nt_store(&d, 0, Nanos(0), 0, &line(1));
    assert_eq!(d.dimm_counters().media_writes, 0);
    assert_eq!(fail(&d, Nanos(1), 1)[..8], [1; 8]);
    assert_eq!((d.dimm_counters().media_writes, d.dimm_counters().media_reads), (1, 1));
    d.check().expect("balances");
}

#[test]
fn a_dimm_that_was_off_is_idle_when_it_comes_back() {
    let d = dimm(&small(DimmConfig::optane_dcpmm(), 64));
    for page in 0..64 {
        nt_store(&d, 0, Nanos(0), page * 4096, &[1; 4096]);
    }
    let now = Nanos(10);
    d.power_fail(now, &mut Stream::new(1, "power"));
    // A second failure finds nothing to do.
    d.power_fail(now, &mut Stream::new(2, "power"));
    assert_eq!(d.power_on(now), Ok(now));
    assert_eq!(d.power_on(now), Ok(now));
    assert_eq!(fence(&d, now), now);
    assert_eq!(fence(&d, nt_store(&d, 0, now, 0, &[2; 64])), now + Nanos(90));
}
