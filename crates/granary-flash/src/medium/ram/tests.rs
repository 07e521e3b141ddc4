//! Tests of this module.

use super::*;

/// Memory follows the live data: content is dropped when it is stale and at an erase, its OOB stays until
/// then.
#[test]
fn stale_content_takes_no_memory() {
    let mut medium = RamMedium::new(2, 4);
    let mut bytes = [0; Page::SIZE];
    bytes[9] = 1;
    let content = Page::from_bytes(&bytes);
    let oob = |lpa| Oob { seq: lpa as u64 + 1, lpa };
    for page in 0..4 {
        medium.program(BlockNo(1), page, &content, oob(page)).expect("program");
    }
    medium.forget(BlockNo(1), 2);
    medium.sync().expect("sync");
    assert_eq!(medium.read(BlockNo(1), 1).expect("read"), (content, oob(1)));
    assert_eq!(medium.read(BlockNo(1), 2).expect("read"), (Page::ZERO, oob(2)));
    assert_eq!(medium.header(BlockNo(1)).expect("header").programmed, 4);

    medium.forget(BlockNo(1), 3);
    medium.erase(BlockNo(1)).expect("erase");
    assert_eq!(medium.chunks[0].slots.len(), 0, "erased blocks hold nothing");
    let header = BlockHeader { programmed: 0, erases: 1, bad: false };
    assert_eq!(medium.header(BlockNo(1)).expect("header"), header);
}

/// Neither of two copies sees what the other changes, whichever way it does.
#[test]
fn copies_that_share_their_slots_go_on_by_themselves() {
    let oob = |lpa| Oob { seq: lpa as u64 + 1, lpa };
    let changes: [fn(&mut RamMedium); 4] = [
        |m| m.program(BlockNo(0), 2, &Page::word(7), Oob { seq: 9, lpa: 5 }).expect("program"),
        |m| m.replace(BlockNo(0), 1, &Page::word(7)).expect("replace"),
        |m| m.erase(BlockNo(0)).expect("erase"),
        |m| {
            m.forget(BlockNo(1), 0);
            m.sync().expect("sync");
        },
    ];
    let mut bytes = [0; Page::SIZE];
    bytes[9] = 1;
    let content = Page::from_bytes(&bytes);
    for change in changes {
        let mut first = RamMedium::new(2, 4);
        for (block, page) in [(0, 0), (0, 1), (1, 0)] {
            first.program(BlockNo(block), page, &content, oob(page)).expect("program");
        }
        first.share();
        let mut second = first.clone();
        let state = |m: &RamMedium| {
            let header = |b| m.header(BlockNo(b)).expect("header").programmed;
            let pages = |b: u32| (0..header(b)).map(move |p| m.read(BlockNo(b), p).expect("read"));
            [pages(0).collect::<Vec<_>>(), pages(1).collect()]
        };
        let before = state(&first);
        change(&mut second);
        assert_eq!(state(&first), before);
        assert_ne!(state(&second), before);
        change(&mut first);
        assert_eq!(state(&first), state(&second));
    }
}

/// A block that was filled at once takes no slots, and is the same as one that was programmed page by page,
/// whatever is done to it and to its neighbours next.
#[test]
fn a_filled_block_is_kept_as_its_first_page_until_one_of_its_chunk_changes() {
    let (first, step) = (Oob { seq: 10, lpa: 3 }, 5);
    let all = |m: &RamMedium, block: u32| -> Vec<(Page, Oob)> {
        let n = m.header(BlockNo(block)).expect("header").programmed;
        (0..n).map(|page| m.read(BlockNo(block), page).expect("read")).collect()
    };
    let make = |word: fn(u32) -> Page| {
        let (mut filled, mut written) = (RamMedium::new(3, 4), RamMedium::new(3, 4));
        for block in [0, 2] {
            filled.program_block(BlockNo(block), first, step, word).expect("fill");
            for page in 0..4 {
                let lpa = first.lpa + page * step;
                let oob = Oob { seq: first.seq + (page * step) as u64, lpa };
                written.program(BlockNo(block), page, &word(lpa), oob).expect("program");
            }
        }
        (filled, written)
    };
    let own = |lpa: u32| Page::word(lpa as u64);
    let changes: [fn(&mut RamMedium); 5] = [
        |_| {},
        |m| m.program(BlockNo(1), 0, &Page::word(9), Oob { seq: 99, lpa: 1 }).expect("program"),
        |m| m.replace(BlockNo(2), 1, &Page::word(9)).expect("replace"),
        |m| m.erase(BlockNo(0)).expect("erase"),
        |m| {
            m.forget(BlockNo(0), 2);
            m.erase(BlockNo(2)).expect("erase");
            m.program(BlockNo(2), 0, &Page::word(7), Oob { seq: 98, lpa: 2 }).expect("program");
        },
    ];
    for change in changes {
        let (mut filled, mut written) = make(own);
        assert_eq!(filled.chunks[0].slots.len(), 0, "what is known needs no memory");
        change(&mut filled);
        change(&mut written);
        for block in 0..3 {
            assert_eq!(all(&filled, block), all(&written, block), "block {block}");
        }
    }
    let (filled, written) = make(|lpa| Page::word(if lpa == 13 { 1 } else { lpa as u64 }));
    assert_eq!(all(&filled, 2), all(&written, 2));
}
