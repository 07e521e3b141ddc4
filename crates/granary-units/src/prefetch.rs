//! [`prefetch`], [`prefetch_at`]: a hint to the processor that runs the emulation.
#![allow(unsafe_code, reason = "one intrinsic that takes a pointer")]

/// `items[at]` will be needed soon: its cache line is fetched while the program goes on. Nothing happens beyond the end. No
/// result depends on it; on processors without such an instruction it does nothing.
#[inline(always)]
pub fn prefetch<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is to a live item, SSE is part of x86-64, and the instruction changes nothing but caches.
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
        // SAFETY: SSE is part of x86-64; the instruction does not fault, whatever the address, and changes nothing but caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(addr)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = addr;
}
