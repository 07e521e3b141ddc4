//! [`WriteError`]: the error of a write-back, told once to each open file.
//!
//! ```text
//!   open (A) ─────── write-back fails ── open (C) ── fsync(A): error ── open (D) ── fsync(A), fsync(D): fine
//!   open (B) ──────────────────────────── fsync(B): error     fsync(C): error, as nobody had been told when
//!                                                             it was opened
//! ```
//!
//! As Linux does since 4.13 (`errseq_t`): a count of errors in the inode, and in each open file the count
//! that it has been told of.

use granary_fs::FsError;

/// A node's failed write-backs.
#[derive(Debug)]
pub(super) struct WriteError {
    /// The newest.
    error: FsError,
    /// Errors so far, each counted once until somebody is told.
    count: u32,
    /// Somebody has been told of the newest.
    told: bool,
}

/// A write-back failed.
pub(super) fn remember(known: &mut Option<Box<WriteError>>, error: &FsError) {
    match known {
        Some(known) if known.told => {
            **known = WriteError { error: error.clone(), count: known.count.wrapping_add(1), told: false }
        }
        Some(_) => {}
        None => *known = Some(Box::new(WriteError { error: error.clone(), count: 1, told: false })),
    }
}

/// The count that a file has been told of which is opened now.
pub(super) fn at_open(known: Option<&WriteError>) -> u32 {
    known.map_or(0, |known| known.count.wrapping_sub(u32::from(!known.told)))
}

/// The error that an open file has not been told of, if there is one; `since`: the count that it has been
/// told of.
pub(super) fn tell(known: Option<&mut WriteError>, since: u32) -> Option<(FsError, u32)> {
    let known = known.filter(|known| known.count != since)?;
    known.told = true;
    Some((known.error.clone(), known.count))
}

/// The error that nobody has been told of.
pub(super) fn tell_anybody(known: Option<&mut WriteError>) -> Option<FsError> {
    let known = known.filter(|known| !known.told)?;
    known.told = true;
    Some(known.error.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_file_is_told_once() {
        let mut known = None;
        let (a, b) = (at_open(known.as_deref()), at_open(known.as_deref()));
        remember(&mut known, &FsError::Busy);
        let c = at_open(known.as_deref());
        let (error, a) = tell(known.as_deref_mut(), a).expect("told");
        assert_eq!((error, tell(known.as_deref_mut(), a)), (FsError::Busy, None));
        let d = at_open(known.as_deref());
        assert_eq!(tell(known.as_deref_mut(), d), None, "opened after somebody was told");
        assert!(tell(known.as_deref_mut(), b).is_some() && tell(known.as_deref_mut(), c).is_some());
    }

    #[test]
    fn a_later_error_is_another_one() {
        let mut known = None;
        remember(&mut known, &FsError::Busy);
        let (_, a) = tell(known.as_deref_mut(), 0).expect("told");
        remember(&mut known, &FsError::NoSpace);
        assert_eq!(tell(known.as_deref_mut(), a).map(|(e, _)| e), Some(FsError::NoSpace));
    }

    #[test]
    fn whoever_has_no_open_file_is_told_what_nobody_was() {
        let mut known = None;
        remember(&mut known, &FsError::Busy);
        assert_eq!(tell_anybody(known.as_deref_mut()), Some(FsError::Busy));
        assert_eq!(tell_anybody(known.as_deref_mut()), None);
        assert!(tell(known.as_deref_mut(), 0).is_some(), "open files are told all the same");
    }
}
