//! Tests of this module.

use super::*;

/// A page is 16 bytes: the price of every simulated flash page and cache slot.
#[test]
fn a_page_handle_is_sixteen_bytes() {
    assert_eq!(std::mem::size_of::<Page>(), 16);
}

/// Any sequence of writes leaves the same bytes as a plain array, in every form of the page.
#[test]
fn writes_agree_with_a_plain_array() {
    let mut page = Page::ZERO;
    let mut model = [0u8; PAGE_SIZE];
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    for _ in 0..20_000 {
        let at = next(4097) as usize * next(2) as usize;
        let len = next((PAGE_SIZE - at) as u64 + 1) as usize;
        let word = [0, 7, 0x0102_0304_0506_0708][next(3) as usize];
        match next(8) {
            0 => {
                let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
                page.write(at, Payload::Bytes(&bytes));
                model[at..at + len].copy_from_slice(&bytes);
            }
            1 => {
                page.zero_from(at);
                model[at..].fill(0);
            }
            2 => page = Page::from_bytes(&model),
            3 => {
                page = page.packed(next(65) as u32);
            }
            4 => {
                let (other, mask) = (Page::word(word), next(u64::MAX));
                page.merge_lines(&other, mask);
                for line in (0..64).filter(|l| mask >> l & 1 == 1) {
                    other.copy_out(line * 64, &mut model[line * 64..line * 64 + 64]);
                }
            }
            _ => {
                page.write(at, Payload::Fill { word, len });
                Payload::Fill { word, len }.copy_to(at as u64, &mut model[at..at + len]);
            }
        }
        assert!(page.to_bytes() == model);
        assert_eq!(page, Page::from_bytes(&model));
        let mut part = vec![0; len];
        page.copy_out(at, &mut part);
        assert_eq!(part, model[at..at + len]);
    }
}

/// Packing keeps the content and the old page; a page with more lines than asked for, and a word, stay as
/// they are.
#[test]
fn packed_pages_are_lines_where_those_are_few() {
    let mut page = Page::ZERO;
    for line in [0, 7, 63] {
        page.bytes_mut()[line * 64 + line] = 1;
    }
    let packed = page.packed(3);
    assert!(packed.as_bytes().is_none() && !packed.is_word() && !packed.is_same(&page));
    assert_eq!(packed, page);
    assert!(packed.is_same(&packed.clone()) && packed.packed(1).is_same(&packed));
    assert!(page.packed(2).is_same(&page));
    assert!(Page::word(9).packed(64).is_word());
    let mut zeros = Page::ZERO;
    zeros.bytes_mut();
    assert!(!zeros.is_word() && zeros.packed(0).is_word());
    let (mut part, mut changed) = ([9; 66], packed.clone());
    packed.copy_out(447, &mut part);
    assert!(part == page.to_bytes()[447..513] && part[8] == 1);
    changed.write(100, Payload::Bytes(&[5]));
    assert_eq!((changed.to_bytes()[100], packed.to_bytes()[100], changed.to_bytes()[63 * 65]), (5, 0, 1));
    assert_eq!(page, packed);
}

#[test]
fn a_fill_split_anywhere_is_the_same_fill() {
    let word = 0x1122_3344_5566_7788;
    let mut whole = [0; 100];
    Payload::Fill { word, len: 100 }.copy_to(5, &mut whole);
    for cut in 0..100 {
        let mut two = [0; 100];
        let p = Payload::Fill { word, len: 100 };
        p.part(0, cut).copy_to(5, &mut two[..cut]);
        p.part(cut, 100 - cut).copy_to(5 + cut as u64, &mut two[cut..]);
        assert_eq!(whole, two);
    }
}

#[test]
fn repeated_bytes_are_found() {
    assert!(Page::from_bytes(&[9; PAGE_SIZE]).is_word());
    let mut b = [9; PAGE_SIZE];
    b[4095] = 8;
    let mut page = Page::from_bytes(&b);
    assert!(!page.is_word());
    page.compact();
    assert!(!page.is_word());
    page.bytes_mut()[4095] = 9;
    assert!(!page.is_word());
    page.compact();
    assert!(page.is_word() && page.to_bytes() == [9; PAGE_SIZE]);
}
