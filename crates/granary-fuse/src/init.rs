//! The first request: the agreement of kernel and server.
//!
//! ```text
//!   kernel: INIT { its version, all that it can do }      ours newer or equal, 7.23 at least: agreed, with
//!                                                         what both have
//!                                                         a major version beyond ours: ours is told, it asks
//!                                                         again
//!                                                         older: EPROTO, and the mount fails
//! ```
//!
//! Asked for in any case: asynchronous reads, writes of more than a page, requests of as many pages as the
//! largest write takes. Times are exact to the nanosecond. The server goes without abilities that the kernel
//! lacks, only slower.
//!
//! Source: `include/uapi/linux/fuse.h`, "Version negotiation", `fuse_init_in`, `fuse_init_out`;
//! `process_init_reply` of `fs/fuse/inode.c`.

use crate::abi::{InitFlags, InitIn, InitOut, MAJOR, MINOR, OLDEST_MINOR};
use crate::device::{Buffer, Device};
use crate::mount::MountConfig;
use crate::reply::Reply;
use crate::request::{Op, Request};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

const ALWAYS: InitFlags =
    InitFlags::ASYNC_READ.union(InitFlags::BIG_WRITES).union(InitFlags::MAX_PAGES).union(InitFlags::INIT_EXT);
/// The kernel's page, in which it counts a request's largest length.
const PAGE: u32 = 4096;

/// Answers INIT.
///
/// # Errors
/// An unusable kernel; the mount ended; something else was asked first.
pub(crate) fn shake_hands(device: &Arc<Device>, config: &MountConfig) -> io::Result<()> {
    let mut buffer = Buffer::new(0);
    loop {
        let ended = || io::Error::new(io::ErrorKind::NotConnected, "the mount ended before it began");
        let bytes = device.read(buffer.bytes())?.ok_or_else(ended)?;
        let request = Request::decode(bytes);
        let refuse = |unique: Option<u64>, error, why: String| {
            if let Some(unique) = unique {
                Reply::new(unique, device).error(error);
            }
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        };
        let (unique, kernel) = match request {
            Ok(Request { unique, op: Op::Init(kernel), .. }) => (unique, kernel),
            Ok(r) => return refuse(Some(r.unique), Errno::IO, format!("the kernel began with {:?}", r.op)),
            Err(e) => return refuse(e.unique, Errno::IO, "the kernel began with no request".to_owned()),
        };
        if (kernel.major, kernel.minor) < (MAJOR, OLDEST_MINOR) {
            let (major, minor) = (kernel.major, kernel.minor);
            let why = format!(
                "the kernel's FUSE is {major}.{minor}; {MAJOR}.{OLDEST_MINOR} (Linux 3.15) is needed"
            );
            return refuse(Some(unique), Errno::PROTO, why);
        }
        Reply::new(unique, device).init(&agree(&kernel, config));
        if kernel.major == MAJOR {
            return Ok(());
        }
    }
}

/// The agreement; only our version where the kernel's major one is beyond it.
fn agree(kernel: &InitIn, config: &MountConfig) -> InitOut {
    let version = InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() };
    if kernel.major > MAJOR {
        return version;
    }
    let mut offered = u64::from(kernel.flags);
    if offered & InitFlags::INIT_EXT.bits() != 0 {
        offered |= u64::from(kernel.flags2) << 32;
    }
    let flags = (ALWAYS | config.wanted).bits() & offered;
    InitOut {
        max_readahead: kernel.max_readahead,
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: config.max_background,
        congestion_threshold: config.max_background / 4 * 3,
        max_write: config.max_write,
        time_gran: 1,
        max_pages: config.max_write.max(kernel.max_readahead).div_ceil(PAGE).min(u32::from(u16::MAX)) as u16,
        ..version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> MountConfig {
        MountConfig {
            wanted: InitFlags::PARALLEL_DIROPS | InitFlags::ASYNC_DIO,
            max_write: 1 << 20,
            max_background: 64,
            ..MountConfig::default()
        }
    }

    #[test]
    fn what_both_can_do_is_agreed_on() {
        let kernel = InitIn {
            major: 7,
            minor: 45,
            max_readahead: 1 << 17,
            flags: u32::MAX,
            flags2: u32::MAX,
            ..InitIn::default()
        };
        let out = agree(&kernel, &config());
        assert_eq!(
            (out.major, out.minor, out.max_write, out.max_pages, out.time_gran),
            (7, 38, 1 << 20, 256, 1)
        );
        assert_eq!((out.max_readahead, out.max_background, out.congestion_threshold), (1 << 17, 64, 48));
        assert_eq!(out.flags, (ALWAYS | config().wanted).bits() as u32);
        assert_eq!(out.flags2, 0);
        let poor = InitIn { flags: InitFlags::ASYNC_READ.bits() as u32, ..kernel };
        assert_eq!(agree(&poor, &config()).flags, poor.flags);
    }

    #[test]
    fn a_kernel_of_another_major_version_is_told_ours() {
        let out = agree(&InitIn { major: 8, minor: 1, flags: u32::MAX, ..InitIn::default() }, &config());
        assert_eq!(out, InitOut { major: 7, minor: 38, ..InitOut::default() });
    }
}
