//! The library has been loaded, or its process forks.
//!
//! ```text
//!   fork:    before: open files are shared from now on
//!            ── child: no connection any more, it makes its own (owner.rs)
//! ```

use crate::{owner, setup, table};

extern "C" fn loaded() {
    setup::take_environment(|| {
        owner::begin();
        // SAFETY: functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
    });
}

extern "C" fn before_fork() {
    table::share_all(|_| true);
}

extern "C" fn in_child() {
    owner::forked();
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
