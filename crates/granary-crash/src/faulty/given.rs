//! [`Given`]: a command, as far as it is told of.

use granary_device::{Role, Structure};
use std::fmt;

/// A command, as far as it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// First page and number of pages, where it has such.
    pub(crate) pages: Option<(u64, u64)>,
    pub(crate) what: Option<Structure>,
    /// Once it is answered, all that came before is durable.
    pub(crate) fences: bool,
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on the {}", self.name, self.role)?;
        if let Some((first, count)) = self.pages {
            write!(f, ", {count} page{} from {first} on", if count == 1 { "" } else { "s" })?;
        }
        self.what.map_or(Ok(()), |what| write!(f, " ({})", what.name()))
    }
}
