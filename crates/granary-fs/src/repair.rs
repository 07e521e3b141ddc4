//! [`Repaired`]: what a repair of damaged media did.

/// What a repair did and what it could not do; one sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was wrong and how it was mended.
    pub done: Vec<String>,
    /// What is still wrong.
    pub left: Vec<String>,
}
