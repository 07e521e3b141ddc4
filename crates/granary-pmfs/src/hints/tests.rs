//! Tests of this module.

use super::*;
use crate::layout::dentry::bytes;
use granary_fs::FileKind;
use granary_units::Payload;

fn page(names: &[&str]) -> Page {
    let mut b = [0u8; PAGE_SIZE];
    let mut at = 0;
    for (i, name) in names.iter().enumerate() {
        let len = if i + 1 == names.len() { PAGE_SIZE - at } else { 64 };
        let e = bytes(7, len, FileKind::File, name.as_bytes());
        b[at..at + e.len()].copy_from_slice(&e);
        at += 64;
    }
    Page::from_bytes(&b)
}

/// Which pages of `run`, which begins at page 16, are searched.
fn may(hints: &Hints, run: &[Page], wanted: Wanted) -> u32 {
    let (known, mut bits) = hints.plan(5, 16, run.len(), wanted);
    for (i, (page, known)) in run.iter().zip(known.iter()).enumerate() {
        if !page.is_same(known) {
            bits = bits & !(1 << i) | u32::from(hints.learn(5, 16 + i as u64, page, wanted)) << i;
        }
    }
    bits
}

fn has(hints: &Hints, run: &[Page], name: &str) -> u32 {
    may(hints, run, Wanted::name(name.as_bytes()))
}

#[test]
fn a_changed_page_is_parsed_anew() {
    let hints = Hints::default();
    let mut p = [page(&["a", "b"])];
    assert_eq!(["a", "b", "c"].map(|n| has(&hints, &p, n)), [1, 1, 0]);
    // In place, as the drive changes it: not in place, for the hint holds the old content.
    p[0].write(64 + 12, Payload::Bytes(b"c"));
    assert_eq!(["a", "b", "c"].map(|n| has(&hints, &p, n)), [1, 0, 1]);
}

#[test]
fn a_name_is_found_wherever_it_went() {
    let hints = Hints::default();
    let all = [page(&["a", "b"]), page(&["b", "c", "d"]), page(&["e", "b", "b"]), page(&["f"])];
    assert_eq!(["a", "b", "c", "f", "x"].map(|n| has(&hints, &all, n)), [1, 7, 2, 8, 0]);
    // One of two equal names goes, the other stays; a name moves; a page loses what it had in the middle.
    let moved = [page(&["b"]), page(&["b", "d"]), page(&["e", "b"]), page(&["f", "a", "c"])];
    assert_eq!(["a", "b", "c", "d", "e"].map(|n| has(&hints, &moved, n)), [8, 7, 8, 2, 4]);
    let back = [moved[0].clone(), page(&["x"]), page(&["y"]), moved[3].clone()];
    assert_eq!(["b", "d", "e", "x", "y"].map(|n| has(&hints, &back, n)), [1, 0, 0, 2, 4]);
}

/// After any change of a page, the learnt entries are those that a full parse finds.
#[test]
fn what_differs_is_all_that_need_be_parsed() {
    let mut rng = granary_sim::rng::Stream::new(3, "hints");
    let mut dir = Dir::default();
    dir.contents.push(Arc::new([const { Page::ZERO }; STEP]));
    dir.entries.push(Vec::new());
    dir.room.push(0);
    // A page of words of 12 to 60 bytes, some free, of which a few change at a time: split, joined, renamed,
    // freed.
    let mut lens = vec![PAGE_SIZE];
    let mut inos = vec![0u64];
    for _ in 0..3_000 {
        for _ in 0..1 + rng.below(3) {
            let i = rng.below(lens.len() as u64) as usize;
            let cut = 32 + rng.below(12) as usize * 4;
            match rng.below(3) {
                0 if lens[i] >= cut + 32 => {
                    lens.insert(i + 1, lens[i] - cut);
                    inos.insert(i + 1, rng.below(3));
                    lens[i] = cut;
                }
                1 if i > 0 => {
                    lens[i - 1] += lens.remove(i);
                    inos.remove(i);
                }
                _ => inos[i] = rng.below(40),
            }
        }
        let (mut b, mut at) = ([0; PAGE_SIZE], 0);
        for (len, ino) in lens.iter().zip(&inos) {
            let e = bytes(*ino, *len, FileKind::File, format!("name{}", ino % 20).as_bytes());
            b[at..at + e.len()].copy_from_slice(&e);
            at += len;
        }
        let content = Page::from_bytes(&b);
        if rng.chance(0.02) {
            // No directory's; then everything is new.
            let bad = Page::from_bytes(&std::array::from_fn(|i| if i == 100 { 1 } else { 9 }));
            assert!(!dir.learn(0, &bad, bad.as_bytes().expect("bytes")));
            assert!(dir.entries[0].is_empty() && dir.room[0] == 0 && dir.index.is_empty());
        }
        assert!(dir.learn(0, &content, content.as_bytes().expect("bytes")));
        let (all, _) = parse_from(&b, 0, PAGE_SIZE, &[]).expect("a directory");
        assert_eq!(dir.entries[0], all);
        assert_eq!(Some(dir.room[0]), all.iter().map(|e| e.room).max());
        assert!(dir.index.keys().all(|h| all.iter().any(|e| e.name == *h)), "names that are gone");
        assert!(all.iter().all(|e| dir.index.contains_key(&e.name)), "names that have come");
    }
}

#[test]
fn candidates_are_the_entries_that_may_be_it() {
    let hints = Hints::default();
    let run = [page(&["a", "b", "a"])];
    let name = Wanted::name(b"a");
    assert_eq!(hints.candidate(5, 16, &run[0], name, 0), Err(Unknown));
    assert_eq!(may(&hints, &run, name), 1);
    let next = |from| hints.candidate(5, 16, &run[0], name, from).expect("known");
    assert_eq!(next(0), Some(Candidate { number: 0, at: 0, before: None }));
    assert_eq!(next(1), Some(Candidate { number: 2, at: 128, before: Some((64, 64)) }));
    assert_eq!(next(3), None);
    assert_eq!(hints.candidate(5, 16, &page(&["a"]), name, 0), Err(Unknown));
}

#[test]
fn room_is_the_largest_gap() {
    let hints = Hints::default();
    let p = [page(&["a", "b"])];
    let rest = PAGE_SIZE - 64 - 16;
    for _ in 0..2 {
        assert_eq!(may(&hints, &p, Wanted::Room(rest)), 1);
        assert_eq!(may(&hints, &p, Wanted::Room(rest + 1)), 0);
    }
}

#[test]
fn a_page_that_is_no_directorys_is_left_to_the_search() {
    let hints = Hints::default();
    let run = [page(&["a"]), Page::from_bytes(&[9; PAGE_SIZE]), Page::ZERO];
    assert_eq!(has(&hints, &run, "nobody"), 0b110);
    assert_eq!(has(&hints, &run, "a"), 0b111);
}
