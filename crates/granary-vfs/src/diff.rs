//! [`changed_lines`]: which 64 B lines of two pages differ, with the widest vectors that the processor has.
//!
//! ```text
//!   line n of a ─┐
//!                xor ── any bit? ── bit n of the mask          64 times
//!   line n of b ─┘
//!
//!   AVX-512  one register per line      AVX2  two      portable  eight words, which the compiler vectorises
//!                                                                as it may
//! ```
//!
//! The processor is asked at run time; all three give the same answer (a test compares them). This is the
//! only file of the crate with `unsafe`: loads through raw pointers, nothing else.
//!
//! Source: ByteFS section 4.6 (256-bit XOR of a page and its duplicate: 936 cycles per page, 14 GB/s).
#![allow(unsafe_code, reason = "vector loads")]

use granary_units::{LINE_SIZE, LINES_PER_PAGE, PAGE_SIZE, Page};

type Bytes = [u8; PAGE_SIZE];

/// A way to compare two pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// 512-bit vectors (AVX-512F).
    Avx512,
    /// 256-bit vectors (AVX2), the paper's.
    Avx2,
    /// Plain Rust.
    Portable,
}

impl Kernel {
    /// All, the fastest first.
    pub const ALL: [Kernel; 3] = [Kernel::Avx512, Kernel::Avx2, Kernel::Portable];

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            Kernel::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => std::is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => std::is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The fastest that this processor has.
    pub fn best() -> Kernel {
        Kernel::ALL.into_iter().find(|k| k.is_available()).unwrap_or(Kernel::Portable)
    }

    /// Bit n: line n of the two pages differs.
    ///
    /// # Panics
    /// Where the processor does not have it.
    pub fn changed_lines(self, a: &Bytes, b: &Bytes) -> u64 {
        assert!(self.is_available(), "this processor has no {self:?}");
        match self {
            // SAFETY: the processor has AVX-512F, asserted above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => unsafe { avx512(a, b) },
            // SAFETY: the processor has AVX2, asserted above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2(a, b) },
            _ => portable(a, b),
        }
    }
}

/// Bit n: line n of the two pages differs. Pages that share their bytes, or repeat one word, are not looked
/// through.
pub fn changed_lines(a: &Page, b: &Page) -> u64 {
    match (a.as_bytes(), b.as_bytes()) {
        (Some(x), Some(y)) if std::ptr::eq(x, y) => 0,
        (Some(x), Some(y)) => Kernel::best().changed_lines(x, y),
        (None, None) if a == b => 0,
        _ => Kernel::best().changed_lines(&a.to_bytes(), &b.to_bytes()),
    }
}

fn portable(a: &Bytes, b: &Bytes) -> u64 {
    let mut mask = 0;
    for (n, (x, y)) in a.chunks_exact(LINE_SIZE).zip(b.chunks_exact(LINE_SIZE)).enumerate() {
        let mut any = 0u64;
        for (p, q) in x.chunks_exact(8).zip(y.chunks_exact(8)) {
            let word = |c: &[u8]| u64::from_ne_bytes(c.try_into().expect("eight bytes"));
            any |= word(p) ^ word(q);
        }
        mask |= u64::from(any != 0) << n;
    }
    mask
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(a: &Bytes, b: &Bytes) -> u64 {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_or_si256, _mm256_testz_si256, _mm256_xor_si256};
    let mut mask = 0;
    for n in 0..LINES_PER_PAGE {
        // SAFETY: line n < 64 lies within both pages, 32 bytes are read at its start and its middle; loadu
        // asks for no alignment.
        let (low, high) = unsafe {
            let (p, q) = (a.as_ptr().add(n * LINE_SIZE), b.as_ptr().add(n * LINE_SIZE));
            (
                _mm256_xor_si256(_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(q.cast())),
                _mm256_xor_si256(_mm256_loadu_si256(p.add(32).cast()), _mm256_loadu_si256(q.add(32).cast())),
            )
        };
        let any = _mm256_or_si256(low, high);
        mask |= u64::from(_mm256_testz_si256(any, any) == 0) << n;
    }
    mask
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512(a: &Bytes, b: &Bytes) -> u64 {
    use std::arch::x86_64::{_mm512_cmpneq_epi64_mask, _mm512_loadu_si512};
    let mut mask = 0;
    for n in 0..LINES_PER_PAGE {
        // SAFETY: line n < 64 lies within both pages and has 64 bytes; loadu asks for no alignment.
        let (x, y) = unsafe {
            let (p, q) = (a.as_ptr().add(n * LINE_SIZE), b.as_ptr().add(n * LINE_SIZE));
            (_mm512_loadu_si512(p.cast()), _mm512_loadu_si512(q.cast()))
        };
        mask |= u64::from(_mm512_cmpneq_epi64_mask(x, y) != 0) << n;
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// Every kernel finds exactly the lines in which a byte was changed, at any place.
    #[test]
    fn all_kernels_find_exactly_the_lines_that_changed() {
        let mut s = Stream::new(1, "diff");
        let mut a: Bytes = [0; PAGE_SIZE];
        a.iter_mut().for_each(|b| *b = s.next_u64() as u8);
        let kernels: Vec<Kernel> = Kernel::ALL.into_iter().filter(|k| k.is_available()).collect();
        for at in 0..PAGE_SIZE {
            let mut b = a;
            b[at] ^= 1 << (at % 8);
            for k in &kernels {
                assert_eq!(k.changed_lines(&a, &b), 1 << (at / LINE_SIZE), "{k:?}, byte {at}");
            }
        }
        for _ in 0..500 {
            let (mut b, mut expected) = (a, 0u64);
            for _ in 0..s.below(40) {
                let at = s.below(PAGE_SIZE as u64) as usize;
                b[at] = b[at].wrapping_add(1 + s.below(255) as u8);
            }
            for (n, (x, y)) in a.chunks(LINE_SIZE).zip(b.chunks(LINE_SIZE)).enumerate() {
                expected |= u64::from(x != y) << n;
            }
            for k in &kernels {
                assert_eq!(k.changed_lines(&a, &b), expected, "{k:?}");
            }
            let (p, q) = (Page::from_bytes(&a), Page::from_bytes(&b));
            assert_eq!(changed_lines(&p, &q), expected);
        }
    }

    #[test]
    fn pages_of_words_are_compared_by_their_content() {
        let (five, half) = (Page::word(5), Page::prefix(5, 2048));
        assert_eq!(changed_lines(&five, &five.clone()), 0);
        assert_eq!(changed_lines(&five, &half), u64::MAX << 32);
        assert_eq!(changed_lines(&five, &Page::from_bytes(&five.to_bytes())), 0);
        let mut bytes = five.clone();
        bytes.bytes_mut()[4095] = 1;
        assert_eq!(changed_lines(&bytes, &five), 1 << 63);
        assert_eq!(changed_lines(&bytes, &bytes.clone()), 0);
    }
}
