//! [`Clean`]: a log that is cleaned while files change.
//!
//! ```text
//!   /c0 ... /c11   96 KiB each, overwritten in pieces, so that no segment stays full     fsync, fdatasync,
//!                                                                                        sync now and then
//!   every few changes: sweep       valid blocks move, power fails before or after the checkpoint that names
//!                                  their new places
//! ```
//!
//! A file system that has nothing to clean is busy with the overwrites alone.

use super::torture::expected;
use super::{Clients, Load};
use granary_fs::{FsError, Sweep};
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix};

/// Bytes of each file.
const LEN: u64 = 96 << 10;

/// The load of cleaning.
#[derive(Clone, Copy, Debug)]
pub struct Clean {
    /// Files.
    pub files: u64,
    /// Changes.
    pub changes: u32,
}

impl Default for Clean {
    /// 1.1 MiB of files, 120 changes.
    fn default() -> Clean {
        Clean { files: 12, changes: 120 }
    }
}

impl Load for Clean {
    fn name(&self) -> &str {
        "clean"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let mut posix = clients.client();
        for change in 0..self.files as u32 + self.changes {
            let first = change < self.files as u32;
            let n = if first { change as u64 } else { random.below(self.files) };
            let (at, len) = match first {
                true => (0, LEN),
                false => (random.below(LEN / 4096) * 4096, 1 + random.below(16 << 10)),
            };
            let len = len.min(LEN - at) as usize;
            let fd = posix.open(format!("/c{n}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o644);
            let Some(fd) = expected("open", fd)? else { continue };
            expected("write", posix.pwrite(fd, Payload::Fill { word: 1, len }, at))?;
            match random.below(10) {
                0..3 => expected("fsync", posix.fsync(fd)).map(drop)?,
                3..7 => expected("fdatasync", posix.fdatasync(fd)).map(drop)?,
                _ => {}
            }
            expected("close", posix.close(fd))?;
            match random.below(20) {
                0 => expected("sync", posix.sync()).map(drop)?,
                1..4 => match clients.vfs().sweep(&Sweep::default()) {
                    Err(FsError::NotSupported) | Ok(_) => {}
                    other => expected("sweep", other).map(drop)?,
                },
                _ => {}
            }
        }
        posix.into_inner().exit();
        Ok(())
    }
}
