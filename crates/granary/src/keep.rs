//! [`keep`]: mimalloc keeps what was freed, for programs that end.
//!
//! Source: `mi_option_e` (`include/mimalloc.h`), mimalloc 3.
#![allow(unsafe_code)] // an option of the allocator

use libmimalloc_sys as mi;

/// `mi_option_purge_delay`, which libmimalloc-sys does not name; the options before and after it are 14 and
/// 16 there.
const PURGE_DELAY: mi::mi_option_t = 15;

/// From now on freed memory waits for its next use for ever: it is not given back to the machine after a
/// second, to be cleared by the kernel when it is wanted again. For programs that end, such as simulations:
/// what they use varies little and often.
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
}
