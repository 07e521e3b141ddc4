//! [`Allocator`]: mimalloc, asked for as C asks for it, and [`keep`], for programs that end.
//!
//! The crate `mimalloc` asks for an alignment always, and mimalloc then takes its general way: more memory than was wanted, aligned
//! within, unless a power of two was asked for or a small block happens to be free. Nearly all that a Rust program asks for
//! is aligned to a word, which every block is.
//!
//! Source: `mi_theap_malloc_zero_aligned_at_generic` (`src/alloc-aligned.c`), `mi_option_e` (`include/mimalloc.h`), mimalloc 3.
#![allow(unsafe_code)] // an allocator

use libmimalloc_sys as mi;
use std::alloc::{GlobalAlloc, Layout};

/// The global allocator of Granary's programs and benches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// What every block of mimalloc's is aligned to: it lies at a multiple of its size, which is one of words, in a page of blocks.
const WORD: usize = size_of::<usize>();

// SAFETY: mimalloc is an allocator; blocks are given back to and changed by the functions that belong to those that gave them.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two are allowed.
        unsafe {
            if layout.align() <= WORD {
                mi::mi_malloc(layout.size()).cast()
            } else {
                mi::mi_malloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if layout.align() <= WORD {
                mi::mi_zalloc(layout.size()).cast()
            } else {
                mi::mi_zalloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller has it from here.
        unsafe { mi::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller has it from here.
        unsafe {
            if layout.align() <= WORD {
                mi::mi_realloc(block.cast(), size).cast()
            } else {
                mi::mi_realloc_aligned(block.cast(), size, layout.align()).cast()
            }
        }
    }
}

/// `mi_option_purge_delay`, which libmimalloc-sys does not name; the options before and after it are 14 and 16 there.
const PURGE_DELAY: mi::mi_option_t = 15;

/// From now on freed memory waits for its next use for ever: it is not given back to the machine after a second, to be cleared by the
/// kernel when it is wanted again. For programs that end, such as simulations: what they use varies little and often.
pub fn keep() {
    // SAFETY: an option of mimalloc's, and a value that it has.
    unsafe { mi::mi_option_set(PURGE_DELAY, -1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds. No option near it has this default.
    fn delay() -> std::ffi::c_long {
        // SAFETY: an option of mimalloc's.
        unsafe { mi::mi_option_get(PURGE_DELAY) }
    }

    #[test]
    fn freed_memory_was_given_back_after_a_second_and_then_is_kept() {
        assert_eq!(delay(), 1000, "the default: is MIMALLOC_PURGE_DELAY set?");
        keep();
        assert_eq!(delay(), -1);
    }

    #[test]
    fn blocks_are_aligned_and_hold_what_was_written_when_they_grow() {
        for (size, align) in
            [(1, 1), (8, 8), (24, 8), (4104, 8), (100, 16), (64, 64), (5000, 4096), (1 << 20, 8)]
        {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            let grown = Layout::from_size_align(3 * size, align).expect("a layout");
            // SAFETY: blocks are used within their size, and given back once, with their layout.
            unsafe {
                let block = Allocator.alloc_zeroed(layout);
                assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} {align}");
                assert!((0..size).all(|at| *block.add(at) == 0));
                block.write_bytes(7, size);
                let block = Allocator.realloc(block, layout, grown.size());
                assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} {align}");
                assert!((0..size).all(|at| *block.add(at) == 7));
                Allocator.dealloc(block, grown);
                let again = Allocator.alloc(layout);
                assert!(!again.is_null() && again.addr().is_multiple_of(align), "{size} {align}");
                Allocator.dealloc(again, layout);
            }
        }
    }
}
