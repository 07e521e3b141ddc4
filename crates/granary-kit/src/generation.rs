//! [`Generations`]: numbers that tell the lives of one inode number apart, for file systems that do not read
//! what the last life left when they begin a new one.
//!
//! ```text
//!   mount n:  n x 2654435769, then one more for each new inode      (Knuth's multiplicative hashing: starts
//!                                                                   lie far apart)
//! ```
//!
//! A handle (name_to_handle_at, NFS) is inode number and generation: of a file that is gone it must not open
//! the one that has the number now. 0 is what inodes have that were made before generations were kept. It
//! does *not* promise that no two lives of a number ever agree: 32 bits come round.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// See the module.
#[derive(Debug)]
pub struct Generations(AtomicU32);

impl Generations {
    /// Those of a mount, which has a number that no earlier one had.
    pub fn of_mount(number: u64) -> Generations {
        Generations(AtomicU32::new((number as u32).wrapping_mul(2_654_435_769)))
    }

    /// The next one; never 0.
    pub fn next(&self) -> u32 {
        loop {
            match self.0.fetch_add(1, Relaxed) {
                0 => {}
                generation => return generation,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_in_a_row_give_other_numbers_and_none_gives_zero() {
        let of = |mount: u64| {
            let all = Generations::of_mount(mount);
            (0..1000).map(|_| all.next()).collect::<std::collections::BTreeSet<u32>>()
        };
        let mounts: Vec<_> = (0..50).map(of).collect();
        assert!(mounts.iter().all(|m| m.len() == 1000 && !m.contains(&0)));
        for (n, one) in mounts.iter().enumerate() {
            assert!(mounts[..n].iter().all(|earlier| earlier.is_disjoint(one)));
        }
    }
}
