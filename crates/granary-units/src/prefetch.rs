//! [`prefetch`], [`prefetch_at`], [`large_pages`]: hints to the machine that runs the emulation.
#![allow(unsafe_code, reason = "an intrinsic and a system call that take pointers")]

/// `items[at]` will be needed soon: its cache line is fetched while the program goes on. Nothing happens
/// beyond the end. No result depends on it; on processors without such an instruction it does nothing.
#[inline(always)]
pub fn prefetch<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is to a live item, SSE is part of x86-64, and the instruction changes nothing
        // but caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, at);
}

/// The same for an address, which need not be that of anything any more.
#[inline(always)]
pub fn prefetch_at(addr: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64; the instruction does not fault, for any address, and changes nothing
        // but caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(addr)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = addr;
}

/// Arrays of this size at most are put into large pages: larger ones belong to drives of which a run touches
/// a small part, here and there, and each touch would clear 2 MiB. The allocator asks for large pages on its
/// own, so that these ask for small ones.
const LARGEST: usize = 256 << 20;
/// A large page.
const LARGE_PAGE: usize = 2 << 20;

/// An array that has just been allocated, and will be accessed at random, is better kept in pages of 2 MiB:
/// an access then seldom waits for the page tables. Arrays beyond 256 MiB are kept in small ones. A hint,
/// which no result depends on; elsewhere than on Linux it does nothing.
pub fn large_pages<T>(items: &[T]) {
    #[cfg(target_os = "linux")]
    {
        let addr = items.as_ptr().addr();
        let (from, end) = (addr.next_multiple_of(LARGE_PAGE), addr + size_of_val(items));
        let end = end - end % LARGE_PAGE;
        let advice = match size_of_val(items) <= LARGEST {
            true => rustix::mm::Advice::LinuxHugepage,
            false => rustix::mm::Advice::LinuxNoHugepage,
        };
        if from < end {
            let start = items.as_ptr().with_addr(from).cast_mut().cast();
            // SAFETY: the range lies within the array, and the advice changes nothing but which pages back
            // it. A kernel that does not know it refuses it.
            let _ = unsafe { rustix::mm::madvise(start, end - from, advice) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = items;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_leaves_arrays_as_they_are() {
        for len in [0, 1, LARGE_PAGE / 4, 3 * LARGE_PAGE / 4 + 5, LARGEST / 4 + 1] {
            let mut items = vec![0u32; len];
            large_pages(&items);
            if let Some(last) = items.last_mut() {
                *last = 7;
            }
            large_pages(&items);
            assert_eq!(items.iter().rev().take(LARGE_PAGE).sum::<u32>(), 7 * (len > 0) as u32);
        }
    }
}
