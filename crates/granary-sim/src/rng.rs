//! Named random streams: each component draws from its own, all derived from one root seed.
//!
//! Generator: xoshiro256++ (Blackman and Vigna), seeded through SplitMix64 as its authors advise. A stream
//! depends on the root seed and its name only, so that adding a component never changes what another one
//! draws. All samplers use integer arithmetic or `libm`, so that they give the same bits on every machine.

mod fates;

pub use fates::{Fate, Forced, Thing};

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A reproducible stream of random numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    random: Xoshiro256PlusPlus,
    /// Values that [`Stream::below`] and [`Stream::chance`] return instead.
    choices: Option<Box<Choices>>,
    /// The record of fates at power failures.
    fates: Option<Box<fates::Fates>>,
}

/// Choices by a script, for callers that go through all of them: see [`Stream::scripted`].
#[derive(Clone, Debug, Default, PartialEq)]
struct Choices {
    script: Vec<u64>,
    /// Each choice made, and of how many.
    made: Vec<(u64, u64)>,
}

impl Choices {
    fn next(&mut self, of: u64) -> u64 {
        let choice = self.script.get(self.made.len()).copied().unwrap_or(0).min(of - 1);
        self.made.push((choice, of));
        choice
    }
}

impl Stream {
    /// The stream called `name` of root seed `root`.
    pub fn new(root: u64, name: &str) -> Stream {
        // FNV-1a: the name only has to select a stream, xoshiro's seeding does the mixing.
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
        let random = Xoshiro256PlusPlus::seed_from_u64(root.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash);
        Stream { random, choices: None, fates: None }
    }

    /// A stream that chooses by a script: the n-th [`Stream::below`] or [`Stream::chance`] (0 or 1) gives its
    /// n-th number, and 0 behind its end. [`Stream::next_script`] then tells the script of the next try,
    /// until every combination of choices was made.
    pub fn scripted(script: Vec<u64>) -> Stream {
        let choices = Some(Box::new(Choices { script, made: Vec::new() }));
        Stream { choices, ..Stream::new(0, "scripted") }
    }

    /// The script behind the one of this stream, which has been used; `None` where all were. Of a stream
    /// without one: `None`.
    pub fn next_script(&self) -> Option<Vec<u64>> {
        let made = &self.choices.as_ref()?.made;
        let last = made.iter().rposition(|(choice, of)| choice + 1 < *of)?;
        let mut script: Vec<u64> = made[..=last].iter().map(|(choice, _)| *choice).collect();
        script[last] += 1;
        Some(script)
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// A uniform number in `0..n`, without bias (Lemire's method).
    ///
    /// # Panics
    /// With `n == 0`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0) has no values");
        if let Some(choices) = &mut self.choices {
            return choices.next(n);
        }
        loop {
            let wide = self.next_u64() as u128 * n as u128;
            let low = wide as u64;
            if low >= n || low >= n.wrapping_neg() % n {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A uniform number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        if let Some(choices) = &mut self.choices {
            return choices.next(2) == 1;
        }
        self.unit() < p
    }

    /// A standard normal number (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * libm::sqrt(-2.0 * libm::log(s) / s);
            }
        }
    }

    /// A gamma-distributed number with this shape and scale (mean `shape * scale`), by Marsaglia and Tsang
    /// (2000).
    ///
    /// # Panics
    /// Where shape or scale is not positive.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        assert!(shape > 0.0 && scale > 0.0, "gamma needs a positive shape and scale");
        if shape < 1.0 {
            // Boost: gamma(a) = gamma(a + 1) * u^(1/a)
            let u = 1.0 - self.unit();
            return self.gamma(shape + 1.0, scale) * libm::pow(u, 1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            let u = 1.0 - self.unit();
            if libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v * scale;
            }
        }
    }

    /// Puts `items` in random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_name_only() {
        let draw = |seed, name: &str| Stream::new(seed, name).next_u64();
        assert_eq!(draw(1, "gc"), draw(1, "gc"));
        assert_ne!(draw(1, "gc"), draw(1, "link"));
        assert_ne!(draw(1, "gc"), draw(2, "gc"));
    }

    #[test]
    fn gamma_has_its_mean_and_variance() {
        for (shape, scale) in [(1.5, 16384.0 / 1.5), (0.5, 2.0), (9.0, 1.0)] {
            let mut s = Stream::new(7, "gamma");
            let n = 200_000;
            let xs: Vec<f64> = (0..n).map(|_| s.gamma(shape, scale)).collect();
            let mean = xs.iter().sum::<f64>() / n as f64;
            let var = xs.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
            assert!((mean / (shape * scale) - 1.0).abs() < 0.02, "mean {mean} of gamma({shape}, {scale})");
            assert!(
                (var / (shape * scale * scale) - 1.0).abs() < 0.05,
                "variance {var} of gamma({shape}, {scale})"
            );
        }
    }

    #[test]
    fn scripts_go_through_every_combination_of_choices_once() {
        let (mut script, mut seen) = (Some(Vec::new()), Vec::new());
        while let Some(now) = script {
            let mut s = Stream::scripted(now);
            let first = s.chance(0.1);
            // How many choices there are may depend on those before.
            seen.push((first, if first { s.below(3) } else { 9 }));
            script = s.next_script();
        }
        assert_eq!(seen, [(false, 9), (true, 0), (true, 1), (true, 2)]);
    }

    #[test]
    fn below_is_uniform() {
        let mut s = Stream::new(3, "below");
        let mut seen = [0u32; 7];
        for _ in 0..70_000 {
            seen[s.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
    }
}
