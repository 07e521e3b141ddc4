//! How a process that serves a mount ended, told to whoever unmounts it.
//!
//! ```text
//!   granary umount                      mount, export
//!     finds /proc/PID/fd/N ───────────>   a file in memory, empty while it serves
//!     umount(2)  ─────────────────────>   writes back, closes the image
//!     waits for the end of PID            writes how that went, ends
//!     reads the file, which it holds
//! ```
//!
//! The kernel says that a process has ended, to its parent alone how; an unmount is over long before the last
//! byte is written back; and a full disk may be all that there is beside the image. A process that was killed
//! leaves the file empty.
//!
//! It does *not* work across process namespaces, where the server has another number or none.

use crate::failure::Failure;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{self, File};
use std::io::{Read, Write};

/// The file's name, by which it is found among those that the process has open.
const NAME: &str = "granary-outcome";
/// The file's content when all went well; otherwise it is the reason.
const WELL: &str = "ok";

/// Where this process will tell how it ended.
pub struct Outcome(Option<File>);

impl Outcome {
    /// Before anything is mounted. A system without such files must not keep anybody from mounting.
    pub fn new() -> Outcome {
        Outcome(memfd_create(NAME, MemfdFlags::CLOEXEC).ok().map(File::from))
    }

    /// The last thing that the process does.
    pub fn tell(self, ended: &Result<(), Failure>) {
        let text = ended.as_ref().map_or_else(Failure::to_string, |()| WELL.to_owned());
        // After a failure the reader finds nothing, and says so.
        let _ = self.0.map(|mut file| file.write_all(text.as_bytes()));
    }
}

/// The outcome of another process, to be read when it has ended.
pub struct Watched(File);

impl Watched {
    /// Of this process, while it runs; `None` where it is no server of this version, or does not let us look.
    pub fn of(process: u32) -> Option<Watched> {
        let link = format!("/memfd:{NAME} (deleted)");
        let mut open = fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten();
        let it = open.find(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == link.as_str()))?;
        File::open(it.path()).ok().map(Watched)
    }

    /// How it ended.
    ///
    /// # Errors
    /// Its reason; that it gave none.
    pub fn read(mut self) -> Result<(), String> {
        let mut text = String::new();
        match self.0.read_to_string(&mut text) {
            Ok(_) if text == WELL => Ok(()),
            Ok(_) if !text.is_empty() => Err(text),
            _ => Err("it was killed, or died of a bug".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader gets the outcome, also after the file has been closed; an empty file is a failure.
    #[test]
    fn whoever_watches_reads_what_was_told() {
        let me = std::process::id();
        for (ended, read) in [(Ok(()), Ok(())), (Err(Failure::usage("no room")), Err("no room".to_owned()))] {
            let outcome = Outcome::new();
            let watched = Watched::of(me).expect("it is open");
            outcome.tell(&ended);
            assert_eq!(watched.read(), read);
        }
        let outcome = Outcome::new();
        let watched = Watched::of(me).expect("it is open");
        drop(outcome);
        assert!(watched.read().is_err());
        assert!(Watched::of(me).is_none(), "nothing is left of it");
    }
}
