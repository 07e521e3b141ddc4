//! [`Failure`]: why a command ended, and with which exit code.

use granary_lab::LabError;
use granary_mount::MountError;
use granary_mssd::image::ImageError;
use granary_vfs::FsError;
use std::fmt;
use std::io;

/// A message for stderr; every one but "a check found something" ends the program with 2.
#[derive(Debug)]
pub struct Failure {
    message: String,
}

impl Failure {
    /// The caller asked for something that cannot be.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { message: message.into() }
    }

    /// The system refused something.
    pub fn io(what: impl fmt::Display, e: io::Error) -> Failure {
        Failure { message: format!("{what}: {e}") }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

macro_rules! from {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(e: $error) -> Failure {
                Failure { message: e.to_string() }
            }
        })*
    };
}

from!(LabError, MountError, ImageError, FsError);
