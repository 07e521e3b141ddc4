//! A number in a workload: a constant, or a random variable that is drawn anew each time.
//!
//! ```text
//!   draw -> x from the distribution -> nearest multiple of `round` (if any) -> clamp to [min, max]
//!        -> truncate to u64
//! ```
//!
//! It does *not* draw: the samplers are `granary-sim`'s, so that they can be reproduced bit by bit.
//!
//! Source: Filebench's `randvar` (uniform, gamma, table) and `cvar` (its `cvar-*` libraries over the `mtwist`
//! random distributions). Where a `randvar` is described by mean, minimum and thousandths, the language front
//! end has already turned that into the parameters below.

use serde::Serialize;

/// The index of a random variable in [`Workload::randoms`](super::Workload::randoms).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RandomId(pub usize);

/// A constant or a random number. Its unit is that of the attribute that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Value {
    /// Always this.
    Const(u64),
    /// A fresh draw each time it is read.
    Random(RandomId),
}

impl Value {
    /// The expected value, before rounding and clamping.
    pub fn mean(self, randoms: &[RandomVar]) -> f64 {
        match self {
            Self::Const(value) => value as f64,
            Self::Random(id) => randoms[id.0].distribution.mean(),
        }
    }

    /// The constant, or `None` if it is random.
    pub fn constant(self) -> Option<u64> {
        match self {
            Self::Const(value) => Some(value),
            Self::Random(_) => None,
        }
    }
}

/// A named random variable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RandomVar {
    /// Unique within the workload; names its random stream.
    pub name: String,
    /// The distribution of the draws.
    pub distribution: Distribution,
    /// Round a draw to the nearest multiple of this; 0 means do not round.
    pub round: u64,
    /// No value is below this (after rounding). At least 0.
    pub min: f64,
    /// No value is above this (after rounding); may be infinite.
    pub max: f64,
}

/// A probability distribution over the real numbers. All parameters are finite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Distribution {
    /// Equally likely anywhere in `lower..upper`.
    Uniform {
        /// Smallest value.
        lower: f64,
        /// Largest value; at least `lower`.
        upper: f64,
    },
    /// `offset` plus a gamma variable of shape `shape` and mean `mean - offset`.
    Gamma {
        /// Mean of the whole, including `offset`.
        mean: f64,
        /// Shape parameter (Filebench's "gamma"), above 0.
        shape: f64,
        /// Smallest value; at most `mean`.
        offset: f64,
    },
    /// Choose a row by its percentage, then uniformly within it. The percentages sum to 100.
    Table(Vec<TableRow>),
    /// Exponential.
    Exponential {
        /// Mean, above 0.
        mean: f64,
    },
    /// Normal (negative draws are clamped by [`RandomVar::min`]).
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation, at least 0.
        sigma: f64,
    },
    /// `exp` of a normal variable with mean `scale` and standard deviation `shape`.
    LogNormal {
        /// Standard deviation of the logarithm, at least 0.
        shape: f64,
        /// Mean of the logarithm.
        scale: f64,
    },
    /// The mean of `order` exponential variables of mean `mean`.
    Erlang {
        /// How many, at least 1.
        order: u32,
        /// Mean, above 0. (Filebench's parameter is called "rate" and is used as the mean.)
        mean: f64,
    },
    /// Weibull.
    Weibull {
        /// Shape parameter, above 0.
        shape: f64,
        /// Scale parameter, above 0.
        scale: f64,
    },
    /// Triangular in `lower..upper`, most likely at `mode`.
    Triangular {
        /// Smallest value.
        lower: f64,
        /// Largest value.
        upper: f64,
        /// Most likely value, within the two.
        mode: f64,
    },
}

/// One row of a [`Distribution::Table`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TableRow {
    /// How often this row is chosen, in percent.
    pub percent: u32,
    /// Smallest value of the row.
    pub lower: f64,
    /// Largest value of the row; at least `lower`.
    pub upper: f64,
}

impl Distribution {
    /// The expected value.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Uniform { lower, upper } => lower + (upper - lower) / 2.0,
            Self::Gamma { mean, .. }
            | Self::Exponential { mean }
            | Self::Normal { mean, .. }
            | Self::Erlang { mean, .. } => mean,
            Self::Table(ref rows) => {
                rows.iter().map(|r| f64::from(r.percent) * (r.lower + r.upper) / 2.0).sum::<f64>() / 100.0
            }
            Self::LogNormal { shape, scale } => libm::exp(scale + shape * shape / 2.0),
            Self::Weibull { shape, scale } => scale * libm::tgamma(1.0 + 1.0 / shape),
            Self::Triangular { lower, upper, mode } => (lower + upper + mode) / 3.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_follow_the_textbook() {
        let near = |d: Distribution, mean: f64| {
            let got = d.mean();
            assert!((got - mean).abs() < 1e-9 * mean.max(1.0), "{d:?} has mean {got}, not {mean}");
        };
        near(Distribution::Uniform { lower: 4096.0, upper: 8192.0 }, 6144.0);
        near(Distribution::Gamma { mean: 16384.0, shape: 1.5, offset: 0.0 }, 16384.0);
        near(Distribution::Weibull { shape: 1.0, scale: 7.0 }, 7.0); // shape 1 is the exponential
        near(Distribution::Weibull { shape: 2.0, scale: 1.0 }, 0.886_226_925_452_758); // sqrt(pi) / 2
        near(Distribution::LogNormal { shape: 0.0, scale: 2.0 }, 7.389_056_098_930_65); // e^2
        near(Distribution::Triangular { lower: 0.0, upper: 9.0, mode: 3.0 }, 4.0);
        let rows = [(25, 0.0, 100.0), (75, 200.0, 400.0)];
        let rows = rows.map(|(percent, lower, upper)| TableRow { percent, lower, upper });
        near(Distribution::Table(rows.to_vec()), 0.25 * 50.0 + 0.75 * 300.0);
    }
}
