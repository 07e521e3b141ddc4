//! The functions that come after ours: libc's, or those of another library that was put before it.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function of libc, looked up when it is first called.
pub struct Next {
    at: AtomicPtr<c_void>,
    name: &'static CStr,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Next {
        Next { at: AtomicPtr::new(std::ptr::null_mut()), name }
    }

    /// Its address; null where libc has none.
    pub fn find(&self) -> *mut c_void {
        let at = self.at.load(Relaxed);
        if !at.is_null() {
            return at;
        }
        // SAFETY: a name that ends with zero.
        let at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(at, Relaxed);
        at
    }
}

/// Calls libc's function of this name, which has this type. Where libc lacks it: ENOSYS, as of the kernel.
macro_rules! next {
    ($name:ident: fn($($type:ty),* $(; $dots:tt)?) -> $result:ty, $($arg:expr),*) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new({
            const NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
            match std::ffi::CStr::from_bytes_with_nul(NAME) {
                Ok(name) => name,
                Err(_) => panic!("a name"),
            }
        });
        let at = NEXT.find();
        if at.is_null() {
            $crate::fail(libc::ENOSYS) as $result
        } else {
            // SAFETY: libc's function of this name has this type (its manual page); the arguments are the
            // program's.
            unsafe {
                let function: unsafe extern "C" fn($($type),* $(, $dots)?) -> $result = std::mem::transmute(at);
                function($($arg),*)
            }
        }
    }};
}
