//! Mapping of the host's error numbers to errors of the vfs.

use granary_fs::FsError;
use rustix::io::Errno;

/// The error of the vfs that this one is.
pub(crate) fn error(errno: Errno) -> FsError {
    match errno {
        Errno::PERM => FsError::NotPermitted,
        Errno::NOENT => FsError::NoEntry,
        Errno::NXIO => FsError::NoDevice,
        Errno::TOOBIG => FsError::TooLong,
        Errno::BADF => FsError::BadFd,
        Errno::ACCESS => FsError::Access,
        Errno::BUSY | Errno::TXTBSY => FsError::Busy,
        Errno::EXIST => FsError::Exists,
        Errno::XDEV => FsError::CrossDevice,
        Errno::NOTDIR => FsError::NotDir,
        Errno::ISDIR => FsError::IsDir,
        Errno::INVAL => FsError::Invalid,
        Errno::NFILE => FsError::TableFull,
        Errno::MFILE => FsError::TooManyFiles,
        Errno::FBIG | Errno::OVERFLOW => FsError::TooBig,
        Errno::NOSPC | Errno::DQUOT => FsError::NoSpace,
        Errno::ROFS => FsError::ReadOnly,
        Errno::MLINK => FsError::TooManyLinks,
        Errno::RANGE => FsError::Range,
        Errno::NAMETOOLONG => FsError::NameTooLong,
        Errno::NOTEMPTY => FsError::NotEmpty,
        Errno::LOOP => FsError::Loop,
        Errno::NODATA => FsError::NoAttribute,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => FsError::NotSupported,
        Errno::STALE => FsError::Stale,
        other => FsError::Host(other.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of the vfs yields the host's number again, or another number of Linux with the same meaning.
    #[test]
    fn every_number_comes_back() {
        let same = [(Errno::TXTBSY, Errno::BUSY), (Errno::DQUOT, Errno::NOSPC)];
        let same = same.into_iter().chain([
            (Errno::OVERFLOW, Errno::FBIG),
            (Errno::NOSYS, Errno::OPNOTSUPP),
            (Errno::NOTTY, Errno::OPNOTSUPP),
        ]);
        let same: Vec<_> = same.collect();
        for number in 1..=133 {
            let errno = Errno::from_raw_os_error(number);
            let expected = same.iter().find(|(a, _)| *a == errno).map_or(errno, |(_, b)| *b);
            assert_eq!(error(errno).errno(), expected.raw_os_error(), "{errno:?}");
        }
    }
}
