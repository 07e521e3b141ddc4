//! Draws the random variables of a workload, each thread from its own streams.
//!
//! ```text
//!   stream "NAME of the variable / owner"  ->  distribution  ->  round  ->  clamp to min..=max  ->  truncate
//! ```
//!
//! Filebench draws a variable from one stream that all threads share, so that a thread's numbers depend on
//! what the others do. Here every owner (a thread, a fileset) has its own stream: two file systems see the
//! same numbers in each thread however their timing differs.
//!
//! Samplers use `granary_sim::rng` and `libm` only: the same bits on every machine.

use crate::spec::{Distribution, RandomId, RandomVar, Value};
use granary_sim::rng::Stream;
use std::sync::Arc;

/// Random numbers of one owner.
pub(crate) struct Draws {
    vars: Arc<[RandomVar]>,
    streams: Vec<Option<Stream>>,
    seed: u64,
    owner: String,
}

impl Draws {
    pub(crate) fn new(vars: &Arc<[RandomVar]>, seed: u64, owner: &str) -> Draws {
        let streams = vars.iter().map(|_| None).collect();
        Draws { vars: Arc::clone(vars), streams, seed, owner: owner.to_owned() }
    }

    /// The value as a real number.
    pub(crate) fn real(&mut self, value: Value) -> f64 {
        match value {
            Value::Const(n) => n as f64,
            Value::Random(id) => self.random(id),
        }
    }

    /// The value, truncated; 0 where it is negative.
    #[inline]
    pub(crate) fn int(&mut self, value: Value) -> u64 {
        match value {
            Value::Const(n) => n,
            Value::Random(id) => self.random(id) as u64,
        }
    }

    /// A draw of `id` as if its distribution had this mean (Filebench does so with `dirdepthrv`).
    pub(crate) fn with_mean(&mut self, id: RandomId, mean: f64) -> f64 {
        let vars = Arc::clone(&self.vars);
        let var = &vars[id.0];
        let old = var.distribution.mean();
        let x = match var.distribution {
            Distribution::Uniform { lower, .. } => {
                let upper = (2.0 * mean - lower).max(lower);
                sample(&Distribution::Uniform { lower, upper }, self.stream(id))
            }
            Distribution::Gamma { shape, offset, .. } => {
                sample(&Distribution::Gamma { mean, shape, offset }, self.stream(id))
            }
            ref other if old != 0.0 => sample(other, self.stream(id)) * mean / old,
            _ => mean,
        };
        finish(var, x)
    }

    fn random(&mut self, id: RandomId) -> f64 {
        let vars = Arc::clone(&self.vars);
        let var = &vars[id.0];
        finish(var, sample(&var.distribution, self.stream(id)))
    }

    fn stream(&mut self, id: RandomId) -> &mut Stream {
        self.streams[id.0].get_or_insert_with(|| {
            Stream::new(self.seed, &format!("workload variable {} / {}", self.vars[id.0].name, self.owner))
        })
    }
}

fn finish(var: &RandomVar, x: f64) -> f64 {
    let x = if var.round == 0 { x } else { (x / var.round as f64).round() * var.round as f64 };
    x.min(var.max).max(var.min)
}

fn sample(distribution: &Distribution, stream: &mut Stream) -> f64 {
    // 1 - unit() is in (0, 1], so that its logarithm is finite.
    let exponential = |stream: &mut Stream| -libm::log(1.0 - stream.unit());
    match *distribution {
        Distribution::Uniform { lower, upper } => lower + stream.unit() * (upper - lower),
        Distribution::Gamma { mean, shape, offset } => {
            if mean > offset {
                offset + stream.gamma(shape, (mean - offset) / shape)
            } else {
                offset
            }
        }
        Distribution::Table(ref rows) => {
            let mut percent = stream.below(100) as u32;
            let place = stream.unit();
            for row in rows {
                if percent < row.percent {
                    return row.lower + place * (row.upper - row.lower);
                }
                percent -= row.percent;
            }
            rows.last().map_or(0.0, |row| row.upper)
        }
        Distribution::Exponential { mean } => mean * exponential(stream),
        Distribution::Normal { mean, sigma } => mean + sigma * stream.normal(),
        Distribution::LogNormal { shape, scale } => libm::exp(scale + shape * stream.normal()),
        Distribution::Erlang { order, mean } => {
            (0..order).map(|_| exponential(stream)).sum::<f64>() * mean / f64::from(order.max(1))
        }
        Distribution::Weibull { shape, scale } => scale * libm::pow(exponential(stream), 1.0 / shape),
        Distribution::Triangular { lower, upper, mode } => {
            let (u, span) = (stream.unit(), upper - lower);
            if span <= 0.0 {
                lower
            } else if u * span < mode - lower {
                lower + libm::sqrt(u * span * (mode - lower))
            } else {
                upper - libm::sqrt((1.0 - u) * span * (upper - mode))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::TableRow;

    fn var(distribution: Distribution) -> RandomVar {
        RandomVar { name: "x".into(), distribution, round: 0, min: 0.0, max: f64::INFINITY }
    }

    #[test]
    fn every_distribution_has_its_mean() {
        let row = |percent, lower, upper| TableRow { percent, lower, upper };
        for distribution in [
            Distribution::Uniform { lower: 10.0, upper: 30.0 },
            Distribution::Gamma { mean: 16384.0, shape: 1.5, offset: 1024.0 },
            Distribution::Table(vec![row(25, 0.0, 100.0), row(75, 200.0, 400.0)]),
            Distribution::Exponential { mean: 7.0 },
            Distribution::Normal { mean: 100.0, sigma: 5.0 },
            Distribution::LogNormal { shape: 0.5, scale: 2.0 },
            Distribution::Erlang { order: 4, mean: 12.0 },
            Distribution::Weibull { shape: 2.0, scale: 3.0 },
            Distribution::Triangular { lower: 1.0, upper: 9.0, mode: 2.0 },
        ] {
            let expected = distribution.mean();
            let vars: Arc<[RandomVar]> = vec![var(distribution)].into();
            let mut draws = Draws::new(&vars, 1, "test");
            let n = 100_000;
            let mean = (0..n).map(|_| draws.real(Value::Random(RandomId(0)))).sum::<f64>() / f64::from(n);
            assert!((mean / expected - 1.0).abs() < 0.02, "{:?}: {mean}", vars[0].distribution);
        }
    }

    #[test]
    fn rounds_then_clamps_then_truncates() {
        let mut v = var(Distribution::Uniform { lower: 0.0, upper: 10_000.0 });
        (v.round, v.min, v.max) = (4096, 100.5, 8192.0);
        let vars: Arc<[RandomVar]> = vec![v].into();
        let mut draws = Draws::new(&vars, 2, "test");
        for _ in 0..1_000 {
            assert!([100, 4096, 8192].contains(&draws.int(Value::Random(RandomId(0)))));
        }
    }

    #[test]
    fn the_mean_of_a_depth_variable_is_replaced() {
        let vars: Arc<[RandomVar]> =
            vec![var(Distribution::Gamma { mean: 50.0, shape: 1.5, offset: 0.0 })].into();
        let mut draws = Draws::new(&vars, 3, "test");
        let mean = (0..50_000).map(|_| draws.with_mean(RandomId(0), 3.0)).sum::<f64>() / 50_000.0;
        assert!((mean - 3.0).abs() < 0.1, "{mean}");
    }
}
