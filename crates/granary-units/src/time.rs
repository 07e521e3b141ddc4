//! [`Nanos`]: integer nanoseconds, the only unit of time in Granary.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// A span of time, or an instant counted from the start of the world, in nanoseconds.
///
/// Range 0 to 2^64-1 ns (584 years); arithmetic panics on overflow, which only a bug can cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all; the start of the world.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than every instant.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    /// The span as seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - other`, or zero where `other` is later.
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or [`Nanos::MAX`].
    pub const fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl<'de> Deserialize<'de> for Nanos {
    /// From a whole number; anything else is refused as no number *of nanoseconds*.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Nanos, D::Error> {
        struct Whole;
        impl serde::de::Visitor<'_> for Whole {
            type Value = Nanos;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of nanoseconds")
            }

            fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Nanos, E> {
                Ok(Nanos(n))
            }

            fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<Nanos, E> {
                let negative = || E::invalid_value(serde::de::Unexpected::Signed(n), &self);
                u64::try_from(n).map(Nanos).map_err(|_| negative())
            }
        }
        d.deserialize_u64(Whole)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, n: u64) -> Nanos {
        Nanos(self.0 * n)
    }
}

impl fmt::Display for Nanos {
    /// With the largest unit that leaves at least one digit before the point: `850ns`, `4.8us`, `1.25ms`,
    /// `3s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (div, unit) = match self.0 {
            0..1_000 => return write!(f, "{}ns", self.0),
            1_000..1_000_000 => (1_000.0, "us"),
            1_000_000..1_000_000_000 => (1_000_000.0, "ms"),
            _ => (1_000_000_000.0, "s"),
        };
        let v = self.0 as f64 / div;
        let text = format!("{v:.3}");
        write!(f, "{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_largest_fitting_unit() {
        let shown: Vec<String> =
            [850, 4_800, 1_250_000, 3_000_000_000].iter().map(|&n| Nanos(n).to_string()).collect();
        assert_eq!(shown, ["850ns", "4.8us", "1.25ms", "3s"]);
    }
}
