//! [`Leveling`]: when data that lies still has to move, so that its block wears as others do.
//!
//! ```text
//!   every few erases of a plane: the least erased of the next closed blocks ── Leveling::moves
//!                                       ── yes: its data goes to the most erased free block
//! ```
//!
//! New data goes to the least erased free block under every policy (dynamic wear leveling).

use std::fmt::Debug;

/// A policy of static wear leveling.
pub trait Leveling: Debug + Send + Sync {
    /// Whether it ever moves anything.
    fn is_on(&self) -> bool {
        true
    }

    /// Whether a closed block that was erased so often is to be emptied; `most`: erases of the most erased
    /// block of its plane.
    fn moves(&self, erases: u32, most: u32) -> bool;
}

/// A block moves when it has been erased so many times less than the most erased one, and once more.
#[derive(Clone, Copy, Debug)]
pub struct Gap(pub u32);

impl Leveling for Gap {
    #[inline]
    fn moves(&self, erases: u32, most: u32) -> bool {
        most - erases > self.0
    }
}

/// Dynamic wear leveling alone: data that lies still stays.
#[derive(Clone, Copy, Debug)]
pub struct Off;

impl Leveling for Off {
    fn is_on(&self) -> bool {
        false
    }

    fn moves(&self, _: u32, _: u32) -> bool {
        false
    }
}
