//! Making files: the server makes one at once, and the kernel then opens it.
//!
//! ```text
//!   open(path, O_CREAT)   path below the mount? ── the server: nothing there, made, handle
//!                                                    │            ── the kernel: opens it (LOOKUP)
//!                                                    └─ something is there, or anything unusual
//!                                                                 ── the kernel alone
//! ```
//!
//! The kernel would ask whether the name is there, have the file made, and with some file systems opened and
//! closed. The file that it opens is compared with the one that was made.
//!
//! It is not done where the kernel could not open the new file again: its mode does not allow its owner what
//! the flags ask for (the superuser may all).

use crate::file::borrowed;
use crate::owner;
use crate::path::{Room, place};
use crate::session::{self, Connected};
use crate::setup::setup;
use granary_direct::segment::Segment;
use granary_direct::{Command, Op};
use libc::{c_char, mode_t};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The umask is not known.
const UNKNOWN: u32 = u32::MAX;

static UMASK: AtomicU32 = AtomicU32::new(UNKNOWN);

/// A file that the server has made.
pub struct Made {
    pub handle: Connected,
    pub ino: u64,
}

/// This process's umask, which only /proc tells without changing it.
pub fn umask_now() -> Option<u32> {
    let known = UMASK.load(Relaxed);
    if known != UNKNOWN {
        return Some(known);
    }
    let mut text = [0; 512];
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let status = rustix::fs::open(c"/proc/self/status", flags, rustix::fs::Mode::empty()).ok()?;
    let n = rustix::io::read(&status, &mut text).ok()?;
    let text = std::str::from_utf8(&text[..n]).ok()?;
    let mask = text.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    let mask = u32::from_str_radix(mask.trim(), 8).ok()?;
    UMASK.store(mask, Relaxed);
    Some(mask)
}

fn can_be_opened(flags: c_int, mode: u32) -> bool {
    let wanted = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => 0o400,
        libc::O_WRONLY => 0o200,
        _ => 0o600,
    };
    mode & wanted == wanted || rustix::process::geteuid().is_root()
}

/// Has the server make the file, if there is nothing at this path.
pub fn make(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Option<Made> {
    let unusual = libc::O_DIRECTORY | libc::O_PATH | libc::O_NOCTTY | libc::O_NOATIME;
    if flags & libc::O_CREAT == 0 || flags & unusual != 0 {
        return None;
    }
    // With one processor the kernel makes files as fast.
    setup().filter(|setup| !setup.alone)?;
    let mut room = Room::new();
    let place = place(dir, path, &mut room)?;
    let umask = umask_now()?;
    if !can_be_opened(flags, mode & !umask) {
        return None;
    }
    let command = Command {
        flags: flags as u32,
        pos: u64::from(mode & 0o7777) | (u64::from(umask) << 16),
        len: place.bytes() as u32,
        ..Command::new(Op::Create)
    };
    let put = |segment: &Segment| {
        let _ = place.put(segment, 0);
    };
    let (answer, epoch) = session::call(None, command, put, |_, _| ())?;
    let handle = answer.value().ok()?.ok()? as u32;
    Some(Made { handle: Connected { epoch, handle }, ino: answer.attributes.ino })
}

/// Whether what the kernel has opened is that file.
pub fn is_opened(made: &Made, fd: c_int) -> bool {
    let how = rustix::fs::AtFlags::EMPTY_PATH | rustix::fs::AtFlags::STATX_DONT_SYNC;
    let Some(setup) = setup() else { return false };
    rustix::fs::statx(borrowed(fd), c"", how, rustix::fs::StatxFlags::INO).is_ok_and(|s| {
        s.stx_ino == made.ino && (s.stx_dev_major, s.stx_dev_minor) == (setup.major, setup.minor)
    })
}

/// umask(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umask(mask: mode_t) -> mode_t {
    let before = next!(umask: fn(mode_t) -> mode_t, mask);
    // A child in the same memory may have one of its own.
    UMASK.store(if owner::is_here() { mask & 0o777 } else { UNKNOWN }, Relaxed);
    before
}
