//! What the environment says, and what a fork does.
//!
//! ```text
//!   loaded:  GRANARY_DIRECT_SOCKET, GRANARY_DIRECT_DIR ──> where the server is, which device the mount is
//!   fork:    before: open files are shared from now on ── child: no connection any more, it makes its own
//! ```
//!
//! Without these variables, or where the directory is not what it was, the library does nothing.

use crate::{session, table};
use granary_direct::{DIR_VARIABLE, REPORT_VARIABLE, SOCKET_VARIABLE};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What does not change while the program runs.
pub struct Setup {
    pub socket: PathBuf,
    /// The directory, with a slash behind it.
    pub prefix: Vec<u8>,
    pub major: u32,
    pub minor: u32,
    /// Files may not grow without limit: the kernel knows how to say so (SIGXFSZ), and writes.
    pub limited: bool,
    /// This process has one processor: a command takes two switches between processes, ten times what the kernel takes for a page that
    /// it has. What the kernel may have, or does as fast, is left to it.
    pub alone: bool,
    report: bool,
}

static SETUP: OnceLock<Setup> = OnceLock::new();
static ON: AtomicBool = AtomicBool::new(false);

/// The set-up, if there is anything to do.
pub fn setup() -> Option<&'static Setup> {
    if ON.load(Relaxed) { SETUP.get() } else { None }
}

/// Says why something is left to the kernel, where the user asked to be told.
pub fn report(what: &str) {
    if let Some(Setup { report: true, .. }) = SETUP.get() {
        let line = format!("granary: direct access: {what}\n");
        let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
    }
}

/// A variable of the environment. The standard library's way takes a lock.
fn variable(name: &str) -> Option<Vec<u8>> {
    let name = CString::new(name).ok()?;
    // SAFETY: a name that ends with zero; the value is copied at once, before the program runs.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes().to_vec())
    }
}

fn read_environment() -> Option<Setup> {
    let socket = PathBuf::from(OsStr::from_bytes(&variable(SOCKET_VARIABLE)?));
    let mut prefix = variable(DIR_VARIABLE)?;
    let flags = rustix::fs::AtFlags::STATX_DONT_SYNC;
    let found =
        rustix::fs::statx(rustix::fs::CWD, prefix.as_slice(), flags, rustix::fs::StatxFlags::TYPE).ok()?;
    prefix.push(b'/');
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    Some(Setup {
        socket,
        prefix,
        major: found.stx_dev_major,
        minor: found.stx_dev_minor,
        limited: limit.is_some(),
        alone: granary_direct::channel::spins() == 0,
        report: variable(REPORT_VARIABLE).is_some(),
    })
}

extern "C" fn loaded() {
    let Some(setup) = read_environment() else { return };
    let _ = SETUP.set(setup);
    // SAFETY: functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
    ON.store(true, Relaxed);
}

extern "C" fn before_fork() {
    table::share_all(|_| true);
}

extern "C" fn in_child() {
    session::forked();
    table::forked();
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
