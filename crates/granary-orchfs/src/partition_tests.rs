//! The partition against a model of bytes, the slides' worked example, and the published placement.

use super::*;
use crate::geometry::{BLOCK, PAGES};
use crate::unit::Base;
use crate::upage::Header;
use granary_sim::rng::Stream;

const HOLE: Unit = Unit::Hole;

/// Carries out the I/Os on numbers alone; `reclaim`: a whole overwrite frees the pages above.
fn carry_out(unit: &mut Unit, pieces: &[Piece], reclaim: bool, next: &mut u64) {
    let mut take = || {
        *next += 1;
        *next
    };
    for piece in pieces {
        match *piece {
            Piece::Ssd { new: true } => *unit = Unit::Block(Base { block: take(), unwritten: false }),
            Piece::Ssd { new: false } => {
                let base = Base { unwritten: false, ..unit.base().expect("a block that is there") };
                match unit {
                    Unit::Over { slots, .. } if !reclaim => {
                        slots.iter_mut().for_each(|slot| slot.header = Header::EMPTY);
                    }
                    _ => *unit = Unit::Block(base),
                }
            }
            Piece::Nvm { page, from, to, touch } => {
                if *unit == HOLE {
                    *unit = Unit::Append { eln: take(), pages: [0; PAGES] };
                }
                if let Unit::Block(base) = *unit {
                    *unit = Unit::Over { eln: take(), base, slots: Box::default() };
                }
                match unit {
                    Unit::Append { pages, .. } => match touch {
                        Touch::New => pages[page] = take(),
                        _ => assert!(touch == Touch::InPlace && pages[page] != 0),
                    },
                    Unit::Over { slots, .. } => {
                        let slot = &mut slots[page];
                        let old = slot.header;
                        slot.header = match touch {
                            Touch::Chunk { full: false, .. } => {
                                old.with(from, to).expect("has an entry left")
                            }
                            _ => Header::whole(),
                        };
                        match touch {
                            Touch::New | Touch::Chunk { new: true, .. } => {
                                assert_eq!(slot.page, 0, "never a second unit");
                                slot.page = take();
                            }
                            Touch::InPlace => {
                                assert!(slot.page != 0 && (old.is_whole() || is_page(from, to)))
                            }
                            Touch::Chunk { .. } => assert!(slot.page != 0),
                        }
                    }
                    _ => unreachable!(),
                }
            }
        }
    }
}

/// Every byte of a request is in exactly one I/O, in order, and each I/O follows the rules of its block's
/// kind.
#[test]
fn the_ios_are_the_request_and_follow_the_rules() {
    let mut kinds = [0; 4];
    for seed in 0..40 {
        let mut random = Stream::new(seed, "partition");
        let (mut units, mut next) = (vec![HOLE; 12], 0);
        let end = units.len() as u64 * BLOCK;
        for _ in 0..2_500 {
            let pos = match random.below(3) {
                0 => random.below(end),
                1 => random.below(end / PAGE) * PAGE,
                _ => random.below(end / BLOCK) * BLOCK,
            };
            let most = [300, PAGE, BLOCK, 4 * BLOCK][random.below(4) as usize];
            let len = match random.below(2) {
                0 => 1 + random.below(most),
                _ => most,
            };
            let len = len.min(end - pos);
            let planned = plan(pos, len, |block| &units[block as usize]);
            let mut at = pos;
            for (part, pieces) in &planned {
                let unit = units[part.block as usize].clone();
                for piece in pieces {
                    let (from, to) = match *piece {
                        Piece::Ssd { new } => {
                            assert!(part.is_whole() && new == (unit == HOLE));
                            assert!(!matches!(unit, Unit::Append { .. }), "appended pages stay on the NVM");
                            (0, BLOCK)
                        }
                        Piece::Nvm { page, from, to, .. } => {
                            let base = page as u64 * PAGE;
                            assert!(matches!(unit, Unit::Append { .. }) || !part.is_whole());
                            (base + u64::from(from), base + u64::from(to))
                        }
                    };
                    assert_eq!(part.block * BLOCK + from, at);
                    at = part.block * BLOCK + to;
                }
                carry_out(&mut units[part.block as usize], pieces, seed % 2 == 0, &mut next);
            }
            assert_eq!(at, pos + len);
        }
        for unit in &units {
            kinds[match unit {
                Unit::Hole => 0,
                Unit::Append { .. } => 1,
                Unit::Block(_) => 2,
                Unit::Over { .. } => 3,
            }] += 1;
        }
    }
    assert!(kinds[1] > 10 && kinds[2] + kinds[3] > 10, "{kinds:?}");
}

/// Reads through the units return the last written bytes. The test keeps the bytes of both devices by the
/// I/Os.
#[test]
fn the_last_writer_of_every_byte_is_seen() {
    for seed in 0..60 {
        let mut random = Stream::new(seed, "bytes");
        let (mut unit, mut next) = (HOLE, 0);
        let mut model = vec![0u8; BLOCK as usize];
        let (mut ssd, mut nvm) = (model.clone(), model.clone());
        for stamp in 1..=120u8 {
            let from = random.below(BLOCK) as u32;
            let to = match random.below(12) {
                0 => BLOCK as u32,
                1 => from.next_multiple_of(PAGE as u32),
                _ => from + 1 + random.below(600) as u32,
            };
            let from = if random.below(12) == 0 { 0 } else { from };
            let part = Part { block: 0, from, to: to.clamp(from + 1, BLOCK as u32) };
            model[part.from as usize..part.to as usize].fill(stamp);
            let pieces = plan_block(&unit, part);
            for piece in &pieces {
                match *piece {
                    Piece::Ssd { .. } => ssd.fill(stamp),
                    Piece::Nvm { page, from, to, touch } => {
                        let base = page * PAGE as usize;
                        let body = &mut nvm[base..base + PAGE as usize];
                        match (touch, &unit) {
                            (Touch::New, _) => body.fill(0),
                            (Touch::Chunk { full: true, .. }, Unit::Over { slots, .. }) => {
                                for (f, t) in slots[page].header.gaps(0, PAGE as u16) {
                                    let (f, t) = (f as usize, t as usize);
                                    body[f..t].copy_from_slice(&ssd[base + f..base + t]);
                                }
                            }
                            // Garbage that a header must hide.
                            (Touch::Chunk { new: true, .. }, _) => body.fill(0xee),
                            _ => {}
                        }
                        body[from as usize..to as usize].fill(stamp);
                    }
                }
            }
            carry_out(&mut unit, &pieces, seed % 2 == 0, &mut next);
            let seen: Vec<u8> = (0..BLOCK as usize)
                .map(|at| {
                    let (page, inside) = (at / PAGE as usize, (at % PAGE as usize) as u16);
                    match &unit {
                        Unit::Hole => 0,
                        Unit::Append { pages, .. } => {
                            if pages[page] == 0 {
                                0
                            } else {
                                nvm[at]
                            }
                        }
                        Unit::Block(_) => ssd[at],
                        Unit::Over { slots, .. } => {
                            if slots[page].header.covers(inside, inside + 1) {
                                nvm[at]
                            } else {
                                ssd[at]
                            }
                        }
                    }
                })
                .collect();
            assert!(seen == model, "seed {seed}, write {stamp} of {part:?}");
        }
    }
}

fn appended(size: u64, next: &mut u64) -> Vec<Unit> {
    let mut units = vec![HOLE; 1 + (2 * size / BLOCK) as usize];
    for (part, pieces) in plan(0, size, |block| &units[block as usize]) {
        carry_out(&mut units[part.block as usize], &pieces, true, next);
    }
    units
}

/// Slides and paper, Figure 8: a file of 154 KB, a write of 89..194 KB is seven I/Os. The slides draw seven
/// boxes; which bytes each has follows from the rules: chunk, page, SSD block, in place, appended page, SSD
/// block, page.
#[test]
fn figure_8_is_seven_ios() {
    const KB: u64 = 1024;
    let mut next = 0;
    // Appended in one request: four blocks of 32 KB on the SSD, the tail of 26 KB on NVM pages.
    let units = appended(154 * KB, &mut next);
    let planned = plan(89 * KB, 105 * KB, |block| &units[block as usize]);
    // Pages of one block that are touched in the same way are one I/O.
    let mut ios: Vec<(u64, u64, &str)> = Vec::new();
    for (part, pieces) in planned {
        for piece in pieces {
            let (from, to, how) = match piece {
                Piece::Ssd { new: true } => (0, BLOCK, "new SSD block"),
                Piece::Ssd { new: false } => (0, BLOCK, "SSD block"),
                Piece::Nvm { page, from, to, touch } => {
                    let how = match touch {
                        Touch::InPlace => "in place",
                        Touch::New => "page",
                        Touch::Chunk { .. } => "chunk",
                    };
                    let base = page as u64 * PAGE;
                    // A page that is half old, half new is in place up to the old end, and an append behind
                    // it.
                    (base + u64::from(from), base + u64::from(to), how)
                }
            };
            let (from, to) = (part.block * BLOCK + from, part.block * BLOCK + to);
            match ios.last_mut() {
                Some(last) if last.1 == from && last.2 == how && from % BLOCK != 0 => last.1 = to,
                _ => ios.push((from, to, how)),
            }
        }
    }
    let kb = |from: u64, to: u64, how| (from * KB, to * KB, how);
    assert_eq!(
        ios,
        [
            kb(89, 92, "chunk"),
            kb(92, 96, "page"),
            kb(96, 128, "SSD block"),
            // The old tail's pages end at 156 KB: its last page has 2 KB behind the old end.
            kb(128, 156, "in place"),
            kb(156, 160, "page"),
            kb(160, 192, "new SSD block"),
            kb(192, 194, "page"),
        ]
    );
}

/// Sizes of Table 2's columns in KiB, each +-10 %; 0: 1 B to 2 MB.
const COLUMNS: [u64; 7] = [32, 64, 128, 256, 512, 1024, 0];
/// Table 2 of the slides, GB of 10: SSD blocks after the pre-fill; then NVM pages and Upages after the random
/// writes.
const SSD: [f64; 7] = [0.24, 4.81, 7.50, 8.75, 9.37, 9.69, 9.68];
const PAGES_AFTER: [f64; 7] = [9.89, 7.06, 4.19, 2.34, 1.25, 0.63, 0.64];
const UPAGES: [f64; 7] = [0.03, 0.47, 0.42, 0.27, 0.15, 0.08, 0.08];

/// (SSD after the pre-fill, pages of A blocks, pages over SSD blocks, Upages), as fractions of the file.
fn table_2(column: u64, reclaim: bool) -> [f64; 4] {
    const FILE: u64 = 1 << 30;
    let mut random = Stream::new(column, "table 2");
    let mut size = || match column {
        0 => 1 + random.below(2 << 20),
        kib => kib * 1024 * 9 / 10 + random.below(kib * 1024 / 5),
    };
    let mut sizes: Vec<u64> = Vec::new();
    let mut sum = 0;
    while sum < 2 * FILE {
        let next = size();
        sizes.push(next);
        sum += next;
    }
    let mut units = vec![HOLE; (FILE / BLOCK + 80) as usize];
    let (mut next, mut pos, mut requests) = (0, 0, sizes.into_iter());
    while pos < FILE {
        let len = requests.next().expect("enough requests");
        for (part, pieces) in plan(pos, len, |block| &units[block as usize]) {
            carry_out(&mut units[part.block as usize], &pieces, reclaim, &mut next);
        }
        pos += len;
    }
    let blocks = |units: &[Unit]| units.iter().filter(|u| u.base().is_some()).count() as f64 * BLOCK as f64;
    let filled = blocks(&units) / FILE as f64;
    // A page counts as an Upage when its first touch on the NVM was a chunk.
    let mut chunked = vec![false; units.len() * PAGES];
    let (mut written, mut at) = (0, Stream::new(column, "offsets"));
    while written < FILE {
        let Some(len) = requests.next() else { break };
        written += len;
        for (part, pieces) in plan(at.below(FILE - len), len, |block| &units[block as usize]) {
            for piece in &pieces {
                if let Piece::Nvm { page, touch: Touch::Chunk { new: true, .. }, .. } = piece {
                    chunked[part.block as usize * PAGES + page] = true;
                }
            }
            carry_out(&mut units[part.block as usize], &pieces, reclaim, &mut next);
        }
    }
    let (mut append, mut over, mut upages) = (0.0, 0.0, 0.0);
    for (block, unit) in units.iter().enumerate() {
        match unit {
            Unit::Over { slots, .. } => {
                for (page, _) in slots.iter().enumerate().filter(|(_, slot)| slot.page != 0) {
                    over += PAGE as f64;
                    upages += if chunked[block * PAGES + page] { PAGE as f64 } else { 0.0 };
                }
            }
            unit => append += unit.nvm_pages().count() as f64 * PAGE as f64,
        }
    }
    [filled, append / FILE as f64, over / FILE as f64, upages / FILE as f64]
}

/// Table 2 of the slides by the planner alone, a tenth of its scale. The figures depend only on the written
/// bytes, so they are the published ones: SSD and Upages within 0.02 GB, all NVM pages within 16 %. The SSD's
/// figure for 64 KB is within 5 %: its published cell would need a mean request of 61.7 KB. The published
/// table keeps pages that a whole overwrite hides (`reclaim = artifact`). The rule of the paper's text
/// (`reclaim = paper`) is printed beside it.
#[test]
fn table_2_is_reproduced() {
    for (i, column) in COLUMNS.into_iter().enumerate() {
        let [ssd, append, over, upages] = table_2(column, false).map(|fraction| fraction * 10.0);
        let [.., over_paper, upages_paper] = table_2(column, true).map(|fraction| fraction * 10.0);
        println!(
            "{column:>5} KiB: SSD {ssd:.2} ({:.2}), NVM pages {:.2} ({:.2}), Upages {upages:.2} ({:.2}); reclaimed: {:.2}, {upages_paper:.2}",
            SSD[i],
            append + over,
            PAGES_AFTER[i],
            UPAGES[i],
            append + over_paper
        );
        // A thousand requests of 1 B to 2 MB: their number alone varies by some per cent.
        let slack = [0.05 * SSD[i], 0.04, 0.02][if column == 64 { 0 } else { 1 + usize::from(column > 0) }];
        assert!((ssd - SSD[i]).abs() <= slack, "{column} KiB: SSD {ssd:.3}");
        assert!((upages - UPAGES[i]).abs() <= 0.02, "{column} KiB: Upages {upages:.3}");
        let (grown, published) = (over, PAGES_AFTER[i] - (10.0 - SSD[i]));
        let all = append + over;
        assert!((all / PAGES_AFTER[i] - 1.0).abs() <= 0.16, "{column} KiB: NVM pages {all:.3}");
        // 32 KB: hundredths of a GB, whose rounding is a third of them.
        assert!(column == 32 || grown / published <= 1.17, "{column} KiB: {grown:.3} for {published:.3}");
        assert!(over_paper <= over && upages_paper <= upages + 0.01);
    }
    // 1 to 16 KB: no request covers a block, all of the file is on NVM pages and stays there.
    for column in [1, 4, 8, 16] {
        assert_eq!(table_2(column, false)[0], 0.0);
    }
}
