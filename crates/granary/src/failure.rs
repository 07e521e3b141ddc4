//! [`Failure`]: why a command ended, and with which exit code.

use granary_bench::BenchError;
use granary_device::DriveError;
use granary_fs::FsError;
use granary_image::ImageError;
use granary_lab::LabError;
use granary_mount::MountError;
use granary_testbed::TestbedError;
use granary_trace::TraceError;
use std::fmt;
use std::io;

/// A message for stderr, and the exit code: 2, or 1 where what was asked for has been done and something is
/// wrong.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

/// The caller asked for something that cannot be, or the system refused something.
const REFUSED: u8 = 2;
/// It was done, and something is wrong.
const FOUND: u8 = 1;

impl Failure {
    /// The caller asked for something that cannot be.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: REFUSED }
    }

    /// The command has done as much as it could, and not all is well.
    pub fn found(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: FOUND }
    }

    /// It was stopped by this signal, as asked: 128 and the signal's number, as shells say it.
    pub fn stopped(signal: i32) -> Failure {
        let name = if signal == signal_hook::consts::SIGINT { "SIGINT" } else { "SIGTERM" };
        let message = format!("stopped by {name}: what is shown was done until then");
        Failure { message, code: 128 + u8::try_from(signal).unwrap_or(0) }
    }

    /// Exit code of the program.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The system refused something.
    pub fn io(what: impl fmt::Display, e: io::Error) -> Failure {
        Failure { message: format!("{what}: {e}"), code: REFUSED }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A finding of a consistency check is a result, if a bad one.
impl From<LabError> for Failure {
    fn from(e: LabError) -> Failure {
        Failure { message: e.to_string(), code: if e.is_finding() { FOUND } else { REFUSED } }
    }
}

macro_rules! from {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(e: $error) -> Failure {
                Failure { message: e.to_string(), code: REFUSED }
            }
        })*
    };
}

from!(MountError, ImageError, TraceError, BenchError, TestbedError);

impl From<FsError> for Failure {
    fn from(e: FsError) -> Failure {
        let hint = match &e {
            FsError::Drive(DriveError::ReadOnly(_)) => {
                "; its files can be read: mount it with --read-only, or `granary cp-out IMAGE / DIR`"
            }
            _ => "",
        };
        Failure::usage(format!("{e}{hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_check_found_ends_with_1_and_what_could_not_be_done_with_2() {
        let failed = |phase| LabError::Run { fs: "ext4".to_owned(), phase, message: String::new() };
        assert_eq!(Failure::from(failed("check")).code(), 1);
        for phase in ["mkfs", "mount", "setup", "run", "drain"] {
            assert_eq!(Failure::from(failed(phase)).code(), 2, "{phase}");
        }
        assert_eq!(Failure::from(LabError::Usage(String::new())).code(), 2);
    }
}
