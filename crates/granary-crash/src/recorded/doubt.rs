//! Calls that ended with an error of the drive: whether they changed a name is asked for behind them.

use super::Scribe;
use crate::oracle::{NameChange, NodeId, Shows};
use granary_fs::{FsError, Result};
use granary_vfs::{Posix, Stat};

/// Whether a call that ended so may have happened in part: the drive failed, or the file system stopped
/// because it had.
pub(super) fn in_doubt<T>(result: &Result<T>) -> bool {
    matches!(result, Err(FsError::Drive(_) | FsError::ReadOnly | FsError::Corrupt(_)))
}

impl<P: Posix> Scribe<P> {
    /// Learns what shows of a change that has failed; `paths` are the names that it is about, in its order.
    pub(super) fn doubt(&mut self, change: NameChange, paths: &[&[u8]]) {
        let mut shows = None;
        for (nth, path) in paths.iter().enumerate().take(change.names()) {
            let found = match self.inner.lstat(path) {
                Ok(stat) => Some(stat),
                Err(FsError::NoEntry) => None,
                Err(_) => return self.promises.with(|m| m.doubt_names(change, Shows::Unknown)),
            };
            let here = self.shown(&change, nth, found.as_ref());
            if shows.is_some_and(|before| before != here) {
                return self.promises.with(|m| m.doubt_names(change, Shows::Unknown));
            }
            shows = Some(here);
        }
        self.promises.with(|m| m.doubt_names(change, shows.unwrap_or(Shows::Nothing)));
    }

    /// How much of the change a name shows.
    fn shown(&self, change: &NameChange, nth: usize, found: Option<&Stat>) -> Shows {
        self.promises.with(|m| {
            let (was, is) = m.sides(change, nth);
            let fits = |node: Option<NodeId>| match (node.map(|id| m.node(id).ino), found) {
                (None, None) => Some(true),
                (None, Some(_)) | (Some(_), None) => Some(false),
                (Some(Some(ino)), Some(stat)) => Some(ino == stat.ino),
                // It is being made: its number is not known.
                (Some(None), Some(_)) => None,
            };
            match (fits(was), fits(is)) {
                (Some(true), Some(false) | None) => Shows::Nothing,
                (Some(false), Some(true)) => Shows::All,
                (Some(false), None) => {
                    if let (Some(id), Some(stat)) = (is, found) {
                        m.identify(id, stat.ino, &stat.attr);
                    }
                    Shows::All
                }
                _ => Shows::Unknown,
            }
        })
    }
}
