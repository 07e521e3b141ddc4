//! `randvar(...)`, `cvar(...)` and `define randvar`: from their attributes to a distribution.
//!
//! ```text
//!   written                                        becomes
//!   randvar(type=uniform,mean=M,min=m)             uniform in m..2M-m
//!   randvar(type=gamma,mean=M,min=m,gamma=G)       m + gamma of mean M-m, shape G/1000; without a mean,
//!                                                  M=G/1000
//!   randvar(type=tabular,randtable={{p,a,b},...})  the table, shifted and stretched to mean M and minimum m
//!                                                  if given
//!   cvar(type=cvar-gamma,parameters=mean:M;gamma:G)
//!                                                  gamma of mean M, shape G, clamped to min and max
//!   cvar(type=cvar-T,...)                          likewise for uniform, normal, lognormal, exponential,
//!                                                  erlang, weibull, triangular
//! ```
//!
//! It does *not* draw.
//!
//! Source: Filebench's `fb_random` and `cvars/` (parameter names, defaults and what they mean). One
//! difference: a table that holds a single value gives that value; Filebench gives `min`.

use super::args::{Args, check};
use super::ast::{Attr, Value, ValueKind};
use super::catalog::{CVAR, RANDVAR};
use super::parse::shorten;
use super::source::Result;
use super::vars::Held;
use crate::spec::{Distribution, RandomVar, TableRow, Warning};
use granary_trace::suggest::{names, nearest};

/// Filebench's gamma shape where none is given, in thousandths.
const DEFAULT_GAMMA: u64 = 1500;

/// The random variable that the attributes describe; `custom` for `cvar`.
pub(crate) fn variable(
    name: &str,
    custom: bool,
    args: Args<'_, '_>,
    warnings: &mut Vec<Warning>,
) -> Result<RandomVar> {
    check(args.source, args.head, if custom { &CVAR } else { &RANDVAR }, warnings)?;
    if let Some(local) = args.head.attrs.iter().find(|a| a.local) {
        let help = "its attributes are written without `$`";
        return args.source.error(local.span, "a random variable has no variables", help);
    }
    let (distribution, min, max) = if custom { cvar(args)? } else { (randvar(args)?, 0.0, f64::INFINITY) };
    let round = args.number("round")?.unwrap_or(0);
    Ok(RandomVar { name: name.to_owned(), distribution, round, min, max })
}

fn randvar(args: Args<'_, '_>) -> Result<Distribution> {
    let min = args.number("min")?.unwrap_or(0) as f64;
    let mean = args.number("mean")?.map(|mean| mean as f64);
    let kind = args.text("type")?;
    let table = args.find("randtable");
    match (kind.as_deref(), table) {
        (None | Some("tabular"), Some(table)) => tabular(args, table, mean, min),
        (Some("tabular"), None) => {
            args.error("type", "a tabular `randvar` needs a `randtable`", "add `randtable={...}`")
        }
        (Some("uniform"), None) => match mean {
            None => args.error("type", "a uniform `randvar` needs a `mean`", "add `mean=...`"),
            Some(mean) if mean < min => below_min(args, mean, min),
            Some(mean) => Ok(Distribution::Uniform { lower: min, upper: 2.0 * mean - min }),
        },
        (None | Some("gamma"), None) => {
            let shape =
                args.within("gamma", 1, u64::from(u32::MAX))?.unwrap_or(DEFAULT_GAMMA) as f64 / 1000.0;
            let mean = mean.unwrap_or(shape);
            if mean < min {
                return below_min(args, mean, min);
            }
            Ok(Distribution::Gamma { mean, shape, offset: min })
        }
        (Some("uniform" | "gamma"), Some(table)) => {
            args.source.error(table.span, "only a tabular `randvar` has a table", "write `type=tabular`")
        }
        (Some(other), _) => {
            let known = ["uniform", "gamma", "tabular"];
            let help = match nearest(other, known.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the types are {}", names(known.into_iter())),
            };
            args.error("type", format!("there is no `randvar` of type `{}`", shorten(other)), help)
        }
    }
}

fn below_min<T>(args: Args<'_, '_>, mean: f64, min: f64) -> Result<T> {
    args.error(
        "min",
        format!("the mean {mean} is below the minimum {min}"),
        "give a larger `mean` or a smaller `min`",
    )
}

fn tabular(args: Args<'_, '_>, table: &Attr<'_>, mean: Option<f64>, min: f64) -> Result<Distribution> {
    let Some(Value { kind: ValueKind::Table(rows), span }) = &table.value else {
        let help = "write `randtable={{percent, lower, upper}, ...}`";
        return args.source.error(table.span, "`randtable` needs a table", help);
    };
    let number = |value: &Value<'_>| match args.scope.eval(args.source, value)? {
        Held::Int(number) => Ok(number),
        other => {
            let message = format!("a table holds whole numbers, but this is {}", other.describe());
            args.source.error(value.span, message, "write {percent, lower, upper}")
        }
    };
    let mut read = Vec::with_capacity(rows.len());
    let mut percent_sum = 0;
    for [percent, lower, upper] in rows {
        let (share, low, high) = (number(percent)?, number(lower)?, number(upper)?);
        if share > 100 {
            return args.source.error(percent.span, format!("{share} is not a percentage"), "give 0 to 100");
        }
        if low > high {
            let message = format!("the row's bounds are the wrong way round: {low} and {high}");
            return args.source.error(lower.span, message, "write {percent, lower, upper}");
        }
        percent_sum += share;
        read.push(TableRow { percent: share as u32, lower: low as f64, upper: high as f64 });
    }
    if percent_sum != 100 {
        let message = format!("the percentages add up to {percent_sum}");
        return args.source.error(*span, message, "they must add up to 100");
    }
    let table_min = read.iter().map(|r| r.lower).fold(f64::INFINITY, f64::min);
    read.retain(|row| row.percent > 0);
    let table_mean = Distribution::Table(read.clone()).mean();
    let mean = mean.filter(|&mean| mean != 0.0).unwrap_or(table_mean);
    if mean < min {
        return below_min(args, mean, min);
    }
    let spread = table_mean - table_min;
    let fit = |x: f64| if spread == 0.0 { mean } else { (x - table_min) / spread * (mean - min) + min };
    for row in &mut read {
        (row.lower, row.upper) = (fit(row.lower), fit(row.upper));
    }
    Ok(Distribution::Table(read))
}

/// The distribution of a `cvar`, and its bounds.
fn cvar(args: Args<'_, '_>) -> Result<(Distribution, f64, f64)> {
    let min = args.number("min")?.unwrap_or(0) as f64;
    let max = args.number("max")?.map_or(f64::INFINITY, |max| max as f64);
    if min > max {
        return args.error("min", format!("the minimum {min} is above the maximum {max}"), "swap them");
    }
    let kind = args.text("type")?.unwrap_or_default();
    let bare = kind.strip_prefix("cvar-").or(kind.strip_prefix("rand-")).unwrap_or(&kind);
    let Some(&(_, keys)) = CVARS.iter().find(|(name, _)| *name == bare) else {
        let help = match nearest(bare, CVARS.iter().map(|&(name, _)| name)) {
            Some(near) => format!("did you mean `cvar-{near}`?"),
            None => {
                format!("the types are `cvar-` and one of {}", names(CVARS.iter().map(|&(name, _)| name)))
            }
        };
        return args.error("type", format!("there is no `cvar` of type `{}`", shorten(&kind)), help);
    };
    let p = parameters(args, keys)?;
    let positive = |key: usize| -> Result<f64> {
        if p[key] > 0.0 {
            return Ok(p[key]);
        }
        args.error("parameters", format!("`{}` must be above 0", keys[key].0), "give a larger number")
    };
    let not_negative = |key: usize| -> Result<f64> {
        if p[key] >= 0.0 {
            return Ok(p[key]);
        }
        args.error("parameters", format!("`{}` must not be below 0", keys[key].0), "give a larger number")
    };
    let distribution = match bare {
        "gamma" => Distribution::Gamma { mean: not_negative(0)?, shape: positive(1)?, offset: 0.0 },
        "exponential" => Distribution::Exponential { mean: positive(0)? },
        "normal" => Distribution::Normal { mean: p[0], sigma: not_negative(1)? },
        "lognormal" => Distribution::LogNormal { shape: not_negative(0)?, scale: p[1] },
        "weibull" => Distribution::Weibull { shape: positive(0)?, scale: positive(1)? },
        "erlang" => {
            let order = positive(0)?;
            if order.fract() != 0.0 || order > f64::from(u32::MAX) {
                return args.error("parameters", "`shape` must be a whole number", "round it");
            }
            Distribution::Erlang { order: order as u32, mean: positive(1)? }
        }
        _ => {
            let (lower, upper) = (p[0], p[1]);
            if lower > upper {
                return args.error("parameters", "`lower` is above `upper`", "swap them");
            }
            match p.get(2) {
                None => Distribution::Uniform { lower, upper },
                Some(&mode) if (lower..=upper).contains(&mode) => {
                    Distribution::Triangular { lower, upper, mode }
                }
                Some(_) => {
                    return args.error("parameters", "`mode` is not between `lower` and `upper`", "move it");
                }
            }
        }
    };
    Ok((distribution, min, max))
}

/// The parameters of a distribution, with their defaults, in the order in which [`cvar`] reads them.
type Keys = &'static [(&'static str, f64)];

const CVARS: &[(&str, Keys)] = &[
    ("gamma", &[("mean", 4096.0), ("gamma", 1.5)]),
    ("uniform", &[("lower", 0.0), ("upper", 1.0)]),
    ("triangular", &[("lower", 0.0), ("upper", 1.0), ("mode", 0.5)]),
    ("exponential", &[("mean", 1.0)]),
    ("normal", &[("mean", 0.0), ("sigma", 1.0)]),
    ("lognormal", &[("shape", 1.0), ("scale", 1.0)]),
    ("erlang", &[("shape", 1.0), ("rate", 1.0)]),
    ("weibull", &[("shape", 1.0), ("scale", 1.0)]),
];

/// `key:number;key:number`, each key at most once.
fn parameters(args: Args<'_, '_>, keys: Keys) -> Result<Vec<f64>> {
    let mut values: Vec<f64> = keys.iter().map(|&(_, default)| default).collect();
    let mut given = vec![false; keys.len()];
    let Some(text) = args.text("parameters")? else { return Ok(values) };
    for pair in text.split(';').filter(|pair| !pair.trim().is_empty()) {
        let Some((key, number)) = pair.split_once(':') else {
            let message = format!("`{}` is not a parameter", shorten(pair));
            return args.error("parameters", message, "parameters are written `key:number;key:number`");
        };
        let (key, number) = (key.trim(), number.trim());
        let Some(at) = keys.iter().position(|&(known, _)| known == key) else {
            let help = match nearest(key, keys.iter().map(|&(name, _)| name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its parameters are {}", names(keys.iter().map(|&(name, _)| name))),
            };
            return args.error("parameters", format!("there is no parameter `{}`", shorten(key)), help);
        };
        if std::mem::replace(&mut given[at], true) {
            return args.error("parameters", format!("`{key}` is given twice"), "remove one of the two");
        }
        // Beyond this a double no longer tells neighbouring whole numbers apart.
        const LARGEST: f64 = 9.0e15;
        match number.parse::<f64>() {
            Ok(value) if value.abs() <= LARGEST => values[at] = value,
            _ => {
                let help = "write a plain number of at most 15 digits; k, m and g are not understood here";
                return args.error("parameters", format!("`{}` is not a number", shorten(number)), help);
            }
        }
    }
    Ok(values)
}
