//! [`FsError`]: everything a file-system call can fail with, one errno each.

use granary_device::{DriveError, Missing};

/// Result of a file-system call.
pub type Result<T, E = FsError> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages are the documentation
pub enum FsError {
    #[error("no such file or directory")]
    NoEntry,
    #[error("file exists")]
    Exists,
    #[error("not a directory")]
    NotDir,
    #[error("is a directory")]
    IsDir,
    #[error("directory not empty")]
    NotEmpty,
    #[error("no space left on the drive")]
    NoSpace,
    #[error("file name too long")]
    NameTooLong,
    #[error("permission denied")]
    Access,
    #[error("operation not permitted")]
    NotPermitted,
    #[error("invalid argument")]
    Invalid,
    #[error("file too large")]
    TooBig,
    #[error("too many links")]
    TooManyLinks,
    #[error("too many levels of symbolic links")]
    Loop,
    #[error("bad file descriptor")]
    BadFd,
    #[error("too many open files")]
    TooManyFiles,
    /// Of all processes together.
    #[error("too many open files in the file system")]
    TableFull,
    #[error("read-only file system")]
    ReadOnly,
    #[error("device or resource busy")]
    Busy,
    #[error("no such attribute")]
    NoAttribute,
    #[error("value too large for the buffer")]
    Range,
    #[error("argument list too long")]
    TooLong,
    #[error("operation not supported")]
    NotSupported,
    #[error("no such device or address")]
    NoDevice,
    #[error("stale file handle")]
    Stale,
    /// An access through a mapping that a program would get a signal for (SIGSEGV, SIGBUS).
    #[error("bad address: beyond the mapping or the end of the file")]
    Fault,
    #[error("not a regular file: it cannot be mapped")]
    NotMappable,
    /// Two places of the host that lie on different file systems there.
    #[error("invalid cross-device link")]
    CrossDevice,
    /// The host's own file system failed, with this errno of Linux, which means nothing else here.
    #[error("the host's file system failed (errno {0})")]
    Host(i32),
    /// The drive failed.
    #[error("drive error: {0}")]
    Drive(#[from] DriveError),
    /// The host has no device that it could be on.
    #[error("it {0}: choose a testbed that has one (`granary testbed list`)")]
    NoDeviceFor(#[from] Missing),
    /// Devices, or layers, that do not belong together; the text says what does.
    #[error("{0}")]
    Mismatch(String),
    /// The kernel's part of a file system has taken a file away from this process; the text says which, and
    /// why.
    #[error("{0}")]
    Revoked(String),
    /// The media holds something that no correct file system wrote; the text is the evidence.
    #[error("corrupt file system: {0}; run fsck")]
    Corrupt(String),
}

impl FsError {
    /// The Linux errno.
    pub fn errno(&self) -> i32 {
        match self {
            FsError::NotPermitted => 1,
            FsError::NoEntry => 2,
            FsError::Drive(DriveError::ReadOnly(_)) => 30,
            FsError::Drive(_) | FsError::Revoked(_) => 5,
            FsError::NoDevice => 6,
            FsError::TooLong => 7,
            FsError::BadFd => 9,
            FsError::Access => 13,
            FsError::Fault => 14,
            FsError::Busy => 16,
            FsError::Exists => 17,
            FsError::CrossDevice => 18,
            FsError::NotMappable | FsError::NoDeviceFor(_) => 19,
            FsError::NotDir => 20,
            FsError::IsDir => 21,
            FsError::Invalid | FsError::Mismatch(_) => 22,
            FsError::TableFull => 23,
            FsError::TooManyFiles => 24,
            FsError::TooBig => 27,
            FsError::NoSpace => 28,
            FsError::ReadOnly => 30,
            FsError::TooManyLinks => 31,
            FsError::Range => 34,
            FsError::NameTooLong => 36,
            FsError::NotEmpty => 39,
            FsError::Loop => 40,
            FsError::NoAttribute => 61,
            FsError::NotSupported => 95,
            FsError::Stale => 116,
            FsError::Corrupt(_) => 117,
            FsError::Host(errno) => *errno,
        }
    }
}
