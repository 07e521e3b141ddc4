//! Checksums that are put right after a change: a [`Seal`] is learned from the block as it was.
//!
//! ```text
//!   before   [ .......... | crc | .... ]   is `crc` the CRC-32C of something near it? yes: that is its seal
//!   after    [ ..changed. | crc'| .... ]   the same CRC of the present content
//! ```
//!
//! So one mechanism gets past the checksums of all formats whose sums lie in the unit that they cover, and a
//! new format needs no line here. A unit has one of some sizes, and its sum is at any word of it. The sum
//! covers the bytes before it, those behind it, or both; its own place counts as zero or not at all. It
//! begins with nothing, with the number of the block, or with that of the line on the drive.

use granary_units::PAGE_SIZE;

/// Bytes of a block.
pub type Block = [u8; PAGE_SIZE];

/// Sizes of what has a sum of its own.
const UNITS: [usize; 7] = [32, 64, 128, 256, 512, 1024, 4096];

/// The bytes that a sum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The bytes before it.
    Before,
    /// All of the unit, the sum as zero.
    Zeroed,
    /// The bytes behind it.
    Behind,
    /// All but the sum.
    Without,
}

/// The beginning of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Nothing,
    /// The CRC of the unit's number among those of its size on the device, 8 bytes.
    Number,
    /// The block's number is the initial value.
    Block,
}

/// A checksum in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    from: usize,
    unit: usize,
    /// Where in the unit.
    at: usize,
    over: Over,
    begun: Begun,
}

impl Seal {
    fn sum(&self, block: &Block, number: u64) -> u32 {
        let unit = &block[self.from..self.from + self.unit];
        let start = match self.begun {
            Begun::Nothing => 0,
            Begun::Number => {
                let nth = number * (PAGE_SIZE / self.unit) as u64 + (self.from / self.unit) as u64;
                crc32c::crc32c(&nth.to_le_bytes())
            }
            Begun::Block => number as u32,
        };
        let (before, behind) = (&unit[..self.at], &unit[self.at + 4..]);
        let add = crc32c::crc32c_append;
        match self.over {
            Over::Before => add(start, before),
            Over::Behind => add(start, behind),
            Over::Without => add(add(start, before), behind),
            Over::Zeroed => add(add(add(start, before), &[0; 4]), behind),
        }
    }

    fn stored(&self, block: &Block) -> u32 {
        let at = self.from + self.at;
        block[at..at + 4].first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
    }

    fn holds(&self, block: &Block, number: u64) -> bool {
        let stored = self.stored(block);
        stored != 0 && stored == self.sum(block, number)
    }
}

/// The seals of the units of block `number` that were changed from `before` to `after`: those that held
/// before.
pub fn broken(number: u64, before: &Block, after: &Block) -> Vec<Seal> {
    let mut found = Vec::new();
    for unit in UNITS {
        for from in (0..PAGE_SIZE).step_by(unit).filter(|&f| before[f..f + unit] != after[f..f + unit]) {
            for at in (0..=unit - 4).step_by(4) {
                for over in [Over::Before, Over::Zeroed, Over::Behind, Over::Without] {
                    for begun in [Begun::Nothing, Begun::Number, Begun::Block] {
                        let seal = Seal { from, unit, at, over, begun };
                        // Long units are looked at where sums usually are: at the ends.
                        let near = unit <= 256 || at < 64 || at + 64 >= unit;
                        if near && seal.holds(before, number) {
                            found.push(seal);
                        }
                    }
                }
            }
        }
    }
    found
}

/// Puts these seals right, the smallest units first: larger ones cover them.
pub fn mend(number: u64, block: &mut Block, seals: &[Seal]) {
    for seal in seals {
        let (at, sum) = (seal.from + seal.at, seal.sum(block, number));
        block[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums as formats of ours have them: at the end, in the middle, begun with a line's number.
    #[test]
    fn a_change_in_a_sealed_unit_is_sealed_again() {
        let number = 7u64;
        let line = |b: &Block, n: usize| {
            let nth = crc32c::crc32c(&(number * 64 + n as u64).to_le_bytes());
            crc32c::crc32c_append(nth, &b[n * 64..n * 64 + 60])
        };
        let mut block = [3; PAGE_SIZE];
        block[64..256].fill(0x5a);
        let sum = line(&block, 1);
        block[124..128].copy_from_slice(&sum.to_le_bytes());
        block[148..152].fill(0);
        let middle = crc32c::crc32c(&block[128..192]);
        block[148..152].copy_from_slice(&middle.to_le_bytes());

        let mut changed = block;
        changed[70] ^= 1;
        changed[130] ^= 4;
        let seals = broken(number, &block, &changed);
        assert!(seals.iter().any(|s| s.begun == Begun::Number && s.at == 60), "{seals:?}");
        mend(number, &mut changed, &seals);
        assert_eq!(changed[124..128], line(&changed, 1).to_le_bytes());
        let mut plain = changed;
        plain[148..152].fill(0);
        assert_eq!(changed[148..152], crc32c::crc32c(&plain[128..192]).to_le_bytes());
        assert_eq!(broken(number, &block, &block), []);
    }
}
