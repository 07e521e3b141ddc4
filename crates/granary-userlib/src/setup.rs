//! Settings from the environment.
//!
//! ```text
//!   loaded:  GRANARY_DIRECT_SOCKET, GRANARY_DIRECT_DIR, GRANARY_DIRECT_DEVICE
//!            ──> where the server is, which device the mount is
//! ```
//!
//! Names are told to the server only where the directory is the mount itself (GRANARY_DIRECT_DEVICE), whole,
//! with nothing mounted in it. The mounts are looked at once, when the program begins.
//!
//! Without these variables, or where the directory is not what it was, the library does nothing.

use crate::owner;
use granary_direct::{DEVICE_VARIABLE, DIR_VARIABLE, REPORT_VARIABLE, SOCKET_VARIABLE};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, statx};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Settings that do not change while the program runs.
pub struct Setup {
    pub socket: PathBuf,
    /// The directory, with a slash behind it.
    pub prefix: Vec<u8>,
    pub major: u32,
    pub minor: u32,
    /// Files may not grow without limit: the kernel knows how to say so (SIGXFSZ), and writes.
    pub limited: bool,
    /// This process has one processor: a command takes two switches between processes, ten times what the
    /// kernel takes for a page that it has. Pages that the kernel may have, and calls that it does as fast,
    /// are left to it.
    pub alone: bool,
    report: bool,
    /// The directory is the mount's root, and nothing is mounted below it that this process sees.
    whole: bool,
}

impl Setup {
    /// The directory.
    pub fn root(&self) -> &Path {
        let bytes = self.prefix.strip_suffix(b"/").unwrap_or(&self.prefix);
        Path::new(OsStr::from_bytes(bytes))
    }
}

/// The number of a mount's root (FUSE_ROOT_ID).
const ROOT: u64 = 1;

static SETUP: OnceLock<Setup> = OnceLock::new();
static ON: AtomicBool = AtomicBool::new(false);
static NAMES: AtomicBool = AtomicBool::new(false);

/// The set-up, if there is anything to do.
pub fn setup() -> Option<&'static Setup> {
    if ON.load(Relaxed) && owner::is_here() { SETUP.get() } else { None }
}

/// The set-up, if paths lead for this process where they lead for the server.
pub fn names() -> Option<&'static Setup> {
    if NAMES.load(Relaxed) { setup() } else { None }
}

/// Paths are the kernel's from now on: they lead elsewhere (another root, other mounts), or this process is
/// not who the server takes it for.
pub fn leave_names() {
    if owner::is_here() {
        NAMES.store(false, Relaxed);
    }
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

/// Whether something is mounted in the directory, as far as this process sees; also where that cannot be
/// told.
fn is_mounted_upon(prefix: &[u8]) -> bool {
    let read = || -> rustix::io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(c"/proc/self/mountinfo", flags, Mode::empty())?;
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        loop {
            match rustix::io::read(&file, &mut part)? {
                0 => return Ok(text),
                n => text.extend_from_slice(&part[..n]),
            }
        }
    };
    let Ok(text) = read() else { return true };
    text.split(|c| *c == b'\n')
        .filter_map(|line| line.split(|c| *c == b' ').nth(4))
        .any(|at| unescaped(at).starts_with(prefix))
}

/// A path as it was before blanks and their like became `\ooo` (proc_pid_mountinfo(5)).
fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    while let Some((first, rest)) = text.split_first() {
        let digits = rest.first_chunk::<3>().filter(|d| d.iter().all(|c| (b'0'..b'8').contains(c)));
        match digits {
            Some(d) if *first == b'\\' => {
                path.push(d.iter().fold(0u8, |n, c| n.wrapping_mul(8) | (c - b'0')));
                text = &rest[3..];
            }
            _ => {
                path.push(*first);
                text = rest;
            }
        }
    }
    path
}

fn read_environment() -> Option<Setup> {
    let socket = PathBuf::from(OsStr::from_bytes(&variable(SOCKET_VARIABLE)?));
    let mut prefix = variable(DIR_VARIABLE)?;
    let found = statx(CWD, prefix.as_slice(), AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    let device = format!("{}:{}", found.stx_dev_major, found.stx_dev_minor);
    let is_it = variable(DEVICE_VARIABLE).is_none_or(|told| told == device.as_bytes());
    prefix.push(b'/');
    let whole = is_it && found.stx_ino == ROOT && !is_mounted_upon(&prefix);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    Some(Setup {
        socket,
        prefix,
        major: found.stx_dev_major,
        minor: found.stx_dev_minor,
        limited: limit.is_some(),
        alone: granary_direct::channel::spins() == 0,
        report: variable(REPORT_VARIABLE).is_some(),
        whole,
    })
}

/// Takes the environment over, and calls `begin` before anybody else can find it.
pub fn take_environment(begin: impl FnOnce()) {
    let Some(setup) = read_environment() else { return };
    NAMES.store(setup.whole, Relaxed);
    let _ = SETUP.set(setup);
    begin();
    ON.store(true, Relaxed);
}
