//! Processes: other programs that are started, other users that this one becomes.
//!
//! ```text
//!   fork                    setup.rs
//!   _Fork, clone            owner.rs
//!   vfork                   is a fork: its child would use this process's memory
//!   posix_spawn, system, popen    libc makes the child: what it inherits is shared from now on
//!   exec                    nothing to do: descriptors are the kernel's, positions too
//!   setuid and its like     a new connection: the server asks the kernel who this is
//!   chroot and its like     paths are the kernel's from then on
//! ```

use crate::setup::leave_names;
use crate::{session, table};
use libc::{FILE, c_char, gid_t, pid_t, size_t, uid_t};
use std::ffi::{c_int, c_void};

/// vfork(2).
///
/// # Safety
/// As libc's fork.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: libc's; handlers of pthread_atfork run.
    unsafe { libc::fork() }
}

/// A program is about to be started that inherits what is not closed then.
fn share_inherited() {
    table::share_all(|fd| {
        let flags = rustix::io::fcntl_getfd(crate::file::borrowed(fd));
        flags.is_ok_and(|flags| !flags.contains(rustix::io::FdFlags::CLOEXEC))
    });
}

macro_rules! spawn {
    ($($name:ident)*) => {$(
        /// posix_spawn(3).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pid: *mut pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            argv: *const *mut c_char,
            env: *const *mut c_char,
        ) -> c_int {
            // Descriptors that its actions duplicate may be closed in other programs, but not in this one.
            table::share_all(|_| true);
            next!(
                $name: fn(*mut pid_t, *const c_char, *const c_void, *const c_void, *const *mut c_char,
                    *const *mut c_char) -> c_int,
                pid, path, actions, attributes, argv, env
            )
        }
    )*};
}
spawn! { posix_spawn posix_spawnp }

/// system(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    share_inherited();
    next!(system: fn(*const c_char) -> c_int, command)
}

/// popen(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, how: *const c_char) -> *mut FILE {
    share_inherited();
    next!(popen: fn(*const c_char, *const c_char) -> *mut FILE, command, how)
}

/// daemon(3), which replaces the first three descriptors by itself.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn daemon(nochdir: c_int, noclose: c_int) -> c_int {
    if noclose == 0 {
        table::forget_range(0, 2);
    }
    next!(daemon: fn(c_int, c_int) -> c_int, nochdir, noclose)
}

macro_rules! identity {
    ($($name:ident($($arg:ident: $type:ty),*))*) => {$(
        /// Another user or group.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            // Before, so that no call of the new user goes the old one's way; files that are open stay open.
            session::start_anew();
            let done = next!($name: fn($($type),*) -> c_int, $($arg),*);
            // Another thread may have connected meanwhile, as who this process was.
            session::start_anew();
            done
        }
    )*};
}
identity! {
    setuid(uid: uid_t)
    seteuid(uid: uid_t)
    setreuid(real: uid_t, effective: uid_t)
    setresuid(real: uid_t, effective: uid_t, saved: uid_t)
    setgid(gid: gid_t)
    setegid(gid: gid_t)
    setregid(real: gid_t, effective: gid_t)
    setresgid(real: gid_t, effective: gid_t, saved: gid_t)
    setgroups(count: size_t, groups: *const gid_t)
    initgroups(user: *const c_char, group: gid_t)
    capset(header: *mut c_void, data: *const c_void)
}

macro_rules! elsewhere {
    ($($name:ident($($arg:ident: $type:ty),*))*) => {$(
        /// Another root, other mounts, or another user of files than the one that a server is told of: paths
        /// are the kernel's from now on.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            leave_names();
            next!($name: fn($($type),*) -> c_int, $($arg),*)
        }
    )*};
}
elsewhere! {
    chroot(path: *const c_char)
    unshare(what: c_int)
    setns(fd: c_int, what: c_int)
    setfsuid(uid: uid_t)
    setfsgid(gid: gid_t)
}
