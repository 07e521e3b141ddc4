//! [`Chain`]: which slot a chain of loads asked for after which.
//!
//! ```text
//!   then     4 -> 9 -> 2 -> 7 -> ...        as it was the last time
//!                 ^         ^
//!                 at        ahead, AHEAD slots before it: these are on their way into the processor's caches
//! ```
//!
//! A directory is searched in one order again and again: the next page is known before it is asked for. Kept
//! apart from the slots, so that looking ahead does not wait for them. A hint only: the slot that is expected
//! may hold another page by now.

/// No slot.
const NONE: u32 = u32::MAX;
/// Slots that are looked ahead.
const AHEAD: usize = 4;

/// See the module.
#[derive(Clone)]
pub struct Chain {
    /// By slot.
    then: Vec<u32>,
    at: u32,
    ahead: u32,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { then: Vec::new(), at: NONE, ahead: NONE }
    }
}

impl Chain {
    #[inline]
    fn after(&self, slot: u32) -> u32 {
        self.then.get(slot as usize).copied().unwrap_or(NONE)
    }

    /// The slot that came after the present one.
    #[inline]
    pub fn expected(&self) -> u32 {
        self.after(self.at)
    }

    /// The expected slot was asked for. Returns one that will soon be.
    #[inline]
    pub fn goes_on(&mut self) -> u32 {
        self.at = self.expected();
        self.ahead = self.after(self.ahead);
        self.ahead
    }

    /// This slot was asked for, expected or not. Returns those that will soon be.
    pub fn comes_to(&mut self, slot: u32) -> [u32; AHEAD] {
        if let Some(then) = self.then.get_mut(self.at as usize) {
            *then = slot;
        }
        if self.then.len() <= slot as usize {
            self.then.resize(slot as usize + 1, NONE);
        }
        self.at = slot;
        self.ahead = slot;
        std::array::from_fn(|_| {
            self.ahead = self.after(self.ahead);
            self.ahead
        })
    }

    /// The page that was asked for had no slot.
    pub fn breaks(&mut self) {
        self.at = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_next_is_expected() {
        let mut chain = Chain::default();
        for slot in [4, 9, 2, 7, 1, 3] {
            assert_eq!(chain.expected(), NONE, "slot {slot} was never asked for before");
            chain.comes_to(slot);
        }
        chain.breaks();
        assert_eq!(chain.comes_to(4), [9, 2, 7, 1]);
        assert_eq!((chain.expected(), chain.goes_on()), (9, 3));
        assert_eq!(chain.expected(), 2);
        // Another one comes: it is what is expected from now on.
        chain.comes_to(5);
        chain.breaks();
        assert_eq!(chain.comes_to(9), [5, NONE, NONE, NONE]);
    }
}
