//! Tests of this module.

use super::*;

#[test]
fn a_lone_chunk_takes_8_bytes_and_a_full_page_of_lines_less_than_5_each() {
    let piece = |first| Piece { entry: EntryRef(first as u32), first, lines: 1 };
    let mut chunks = Chunks::new();
    chunks.build(&[piece(7)], &[]);
    assert_eq!(chunks.words.len() * 4, 8);
    let mut chunks = Chunks::new();
    chunks.build(&(0..64).map(piece).collect::<Vec<_>>(), &[]);
    assert!(chunks.words.len() * 4 < 64 * 5);
}

#[test]
fn runs_of_a_mask_cover_it_exactly() {
    for m in [0, 1, u64::MAX, 0b1011_0111, 1 << 63, 0xf0f0_0000_0000_0001] {
        let all: Vec<_> = runs(m).collect();
        assert_eq!(all.iter().fold(0, |a, &(f, n)| a | mask(f as usize, n as usize)), m);
        assert!(all.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "{all:?}");
    }
}
