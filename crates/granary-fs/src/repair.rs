//! [`Repaired`]: report of a repair of damaged media.

/// Report of a repair: mended and remaining damage, one sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Damage that was found, and the way it was mended.
    pub done: Vec<String>,
    /// Damage that remains.
    pub left: Vec<String>,
}
