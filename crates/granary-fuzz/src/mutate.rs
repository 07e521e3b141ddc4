//! Mutations: other bytes of a kind's seeds. The same number always gives the same bytes.

use granary_sim::rng::Stream;

/// Longest input, bytes.
pub const LONGEST: usize = 64 << 10;
/// Most mutations of one input.
const MOST: u64 = 8;

/// Numbers at the edges of what fields hold.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0xfff,
    0x1000,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 52,
    i64::MAX as u64,
    u64::MAX,
];
/// The same as text.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "255",
    "4096",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e308",
    "NaN",
    "99999999999g",
    "0.0000001",
    "",
];

/// A number at an edge.
pub fn edge(random: &mut Stream) -> u64 {
    EDGES[random.below(EDGES.len() as u64) as usize]
}

/// One of the seeds, changed. `text`: numbers and lines are known to be such.
pub fn mutated(seeds: &[Vec<u8>], text: bool, random: &mut Stream) -> Vec<u8> {
    let any = |random: &mut Stream| &seeds[random.below(seeds.len() as u64) as usize];
    let mut bytes = any(random).clone();
    for _ in 0..1 + random.below(MOST) {
        if text && random.below(3) > 0 {
            change_text(&mut bytes, any(random).clone(), random);
        } else {
            change(&mut bytes, any(random).clone(), random);
        }
    }
    bytes.truncate(LONGEST);
    bytes
}

/// A place in bytes that are not empty.
fn place(bytes: &[u8], random: &mut Stream) -> usize {
    random.below(bytes.len().max(1) as u64) as usize
}

/// A part of bytes, at most 64 long.
fn part(bytes: &[u8], random: &mut Stream) -> std::ops::Range<usize> {
    let from = place(bytes, random);
    from..bytes.len().min(from + random.below(65) as usize)
}

fn change(bytes: &mut Vec<u8>, other: Vec<u8>, random: &mut Stream) {
    if bytes.is_empty() {
        bytes.extend(other);
        return;
    }
    let at = place(bytes, random);
    match random.below(9) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'\n'][random.below(6) as usize],
        2 => {
            let number = edge(random).to_le_bytes();
            let n = [1, 2, 4, 8][random.below(4) as usize].min(bytes.len() - at);
            bytes[at..at + n].copy_from_slice(&number[..n]);
        }
        3 => bytes.truncate(at),
        4 => bytes[at..].fill(0),
        5 => drop(bytes.drain(part(bytes, random))),
        6 => {
            let again = bytes[part(bytes, random)].to_vec();
            bytes.splice(at..at, again);
        }
        7 => {
            let new = other[part(&other, random)].to_vec();
            bytes.splice(at..at, new);
        }
        _ => {
            let rest = other[place(&other, random).min(other.len())..].to_vec();
            bytes.truncate(at);
            bytes.extend(rest);
        }
    }
}

fn change_text(bytes: &mut Vec<u8>, other: Vec<u8>, random: &mut Stream) {
    let lines = |bytes: &[u8]| bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    match random.below(4) {
        // Another number.
        0 | 1 => {
            let digits: Vec<usize> = (0..bytes.len())
                .filter(|&i| bytes[i].is_ascii_digit() && (i == 0 || !bytes[i - 1].is_ascii_digit()))
                .collect();
            if digits.is_empty() {
                return;
            }
            let from = digits[random.below(digits.len() as u64) as usize];
            let len = bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
            let number = NUMBERS[random.below(NUMBERS.len() as u64) as usize];
            bytes.splice(from..from + len, number.bytes());
        }
        // Lines in another order, twice, or gone.
        2 => {
            let mut all = lines(bytes);
            if all.len() < 2 {
                return;
            }
            let (a, b) = (random.below(all.len() as u64) as usize, random.below(all.len() as u64) as usize);
            match random.below(3) {
                0 => all.swap(a, b),
                1 => drop(all.remove(a)),
                _ => all.insert(a, all[b].clone()),
            }
            *bytes = all.concat();
        }
        // A line of another seed.
        _ => {
            let (mut all, others) = (lines(bytes), lines(&other));
            if others.is_empty() {
                return;
            }
            let at = random.below(all.len() as u64 + 1) as usize;
            all.insert(at, others[random.below(others.len() as u64) as usize].clone());
            *bytes = all.concat();
        }
    }
}

/// Numbers out of bytes; zeros when they are used up.
#[derive(Clone, Debug)]
pub struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    /// All of these bytes.
    pub fn new(bytes: &'a [u8]) -> Numbers<'a> {
        Numbers(bytes)
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    /// A number below `n`, of two bytes; zero where `n` is.
    pub fn below(&mut self, n: usize) -> usize {
        self.short() as usize % n.max(1)
    }

    /// A number at an edge, a small one, or any, near `end` where that is meant.
    pub fn wild(&mut self, end: u64) -> u64 {
        let kind = self.byte();
        match kind % 8 {
            0..4 => u64::from(self.short()) % end.max(1),
            4 => EDGES[usize::from(self.byte()) % EDGES.len()],
            5 => end.wrapping_add(u64::from(self.byte())).wrapping_sub(8),
            6 => u64::from(self.short()),
            _ => (0..8).fold(0, |n, _| n << 8 | u64::from(self.byte())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_give_equal_bytes_and_few_are_the_seeds() {
        let seeds = vec![b"set $a=5\n# b\n".to_vec(), b"x=7\ny=z\n".to_vec(), Vec::new()];
        let of = |n| mutated(&seeds, true, &mut Stream::new(n, "test"));
        let all: Vec<_> = (0..500).map(of).collect();
        assert_eq!(all, (0..500).map(of).collect::<Vec<_>>());
        assert!(all.iter().filter(|bytes| !seeds.contains(bytes)).count() > 350);
        assert!(all.iter().all(|bytes| bytes.len() <= LONGEST));
    }
}
