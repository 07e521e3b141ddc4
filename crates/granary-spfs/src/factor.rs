//! The sync factor: how much a promoted file still deserves persistent memory.
//!
//! ```text
//!   SF(t) = (a * w + (4Mi - a) * SF(t-1)) / 4Mi       a = 5 % of 4Mi; w: small synchronous writes much,
//!                                                     reads and large writes nothing
//!   bin   = SF / 4096                                 bin 0 is demoted at the next tick; low bins go first
//!                                                     when memory is short
//! ```
//!
//! Source: SPFS slides, "Migration to Lower File System"; weights and constants are the released code's
//! (branch `demotion`).

/// The largest factor, which a file has when it is promoted: 4 Mi.
pub const FULL: u64 = 4 << 20;
/// Factors to a bin.
const BIN: u64 = 4096;

/// A use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// So many bytes were written by one call.
    Write(u64),
    /// It was fsynced, and met the profiler's criteria or not.
    Fsync(bool),
}

/// The sync factor of a file, with the reads that it has not taken into account yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    value: u64,
    reads: u64,
}

impl Factor {
    /// A factor with this value, at most [`FULL`].
    pub fn new(value: u64) -> Factor {
        Factor { value: value.min(FULL), reads: 0 }
    }

    /// The value.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// The bin: 0 is to be demoted.
    pub fn bin(&self) -> u64 {
        self.value / BIN
    }

    /// The file was read. Reads weigh nothing and are applied before the next write; so many in a row that
    /// they alone would bring any factor into bin 0 count at once. Says whether they did.
    pub fn read(&mut self, percent: u64) -> bool {
        self.reads += 1;
        let enough = self.reads >= reads_to_zero(percent);
        if enough {
            *self = Factor::new(0);
        }
        enough
    }

    /// The file was written or fsynced.
    pub fn used(&mut self, what: Use, percent: u64) {
        for _ in 0..std::mem::take(&mut self.reads) {
            self.value = step(self.value, 0, percent);
        }
        let weight = match what {
            Use::Write(bytes) => FULL.saturating_sub(bytes),
            Use::Fsync(qualifies) => {
                if qualifies {
                    FULL
                } else {
                    0
                }
            }
        };
        self.value = step(self.value, weight, percent);
    }
}

fn step(value: u64, weight: u64, percent: u64) -> u64 {
    let a = FULL * percent / 100;
    (a * weight + (FULL - a) * value) / FULL
}

/// Reads after which a factor of [`FULL`] is in bin 0.
pub fn reads_to_zero(percent: u64) -> u64 {
    let (mut value, mut n) = (FULL, 0);
    while value >= BIN {
        (value, n) = (step(value, 0, percent), n + 1);
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P5: with weights of zero alone bin 0 is reached at the 136th operation, whether they are large writes
    /// or reads.
    #[test]
    fn bin_zero_is_reached_at_136() {
        let mut factor = Factor::new(FULL);
        for n in 1..=136 {
            assert!(factor.bin() > 0, "after {} operations", n - 1);
            factor.used(Use::Write(8 << 20), 5);
        }
        assert_eq!(factor.bin(), 0);
        assert_eq!(reads_to_zero(5), 136);
        let mut factor = Factor::new(FULL);
        assert_eq!((1..=136).map(|_| u32::from(factor.read(5))).sum::<u32>(), 1, "the 136th read");
        assert_eq!(factor.bin(), 0);
    }

    /// Small synchronous writes keep a file, and reads in between are paid at the next write.
    #[test]
    fn small_synchronous_writes_keep_a_file() {
        let mut factor = Factor::new(FULL);
        for _ in 0..1000 {
            factor.used(Use::Write(4096), 5);
            factor.used(Use::Fsync(true), 5);
        }
        assert!(factor.value() > FULL * 99 / 100);
        let before = factor.value();
        factor.read(5);
        assert_eq!(factor.value(), before, "a read is applied later");
        factor.used(Use::Write(4096), 5);
        assert!(factor.value() < before);
        let low = Factor::new(100);
        let mut risen = low;
        risen.used(Use::Fsync(true), 5);
        assert!(risen.bin() > low.bin());
    }
}
