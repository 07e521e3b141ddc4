//! fio's values: sizes, times, numbers, flags, ranges, and lists of three (reads, writes, trims).
//!
//! Source: fio's HOWTO, "Parameter types".

use super::job::{Amount, Blocks, PerDirection};
use granary_units::{Bytes, Nanos};

/// Sizes as fio writes them: `k`, `m`, `g`, `kb`... are powers of 1024. `KiB` are 1000 bytes to fio as long
/// as `kb_base` is 1024, its default (fio(1), "Parameter types", "kb_base"): refused, as everywhere else they
/// are 1024.
///
/// # Errors
/// `value` is no size, with what one looks like.
pub fn size(key: &str, value: &str) -> Result<Bytes, String> {
    let lower = value.to_ascii_lowercase();
    let bad = || format!("{key}={value}: not a size such as 4k or 16m");
    if let Some(hex) = lower.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map(Bytes).map_err(|_| bad());
    }
    let plain = lower.strip_suffix('b').unwrap_or(&lower);
    if let Some(power_of_ten) = plain.strip_suffix('i') {
        return Err(format!(
            "{key}={value}: fio takes such units as powers of 1000 (kb_base=1024, its default): write {key}={power_of_ten}, which \
             is a power of 1024 there and here, or the number of bytes"
        ));
    }
    plain.parse().map_err(|_| bad())
}

/// A size, or a percentage from 1 to `most`.
pub(super) fn amount(key: &str, value: &str, most: u32) -> Result<Amount, String> {
    match value.strip_suffix('%') {
        None => size(key, value).map(Amount::Bytes),
        Some(percent) => percent
            .trim()
            .parse()
            .ok()
            .filter(|p| (1..=most).contains(p))
            .map(Amount::Percent)
            .ok_or_else(|| format!("{key}={value}: a percentage is 1% to {most}%")),
    }
}

/// A word that is true by being there, or says 0 or 1.
///
/// # Errors
/// It says something else.
pub fn flag(key: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(v) => Err(format!("{key}={v}: write {key}, {key}=1 or {key}=0")),
    }
}

/// A whole number from `least` on.
///
/// # Errors
/// It is none, or less.
pub fn number<T>(key: &str, value: &str, least: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
{
    value
        .parse()
        .ok()
        .filter(|n| *n >= least)
        .ok_or_else(|| format!("{key}={value}: not a number of at least {least}"))
}

/// fio's times: seconds unless a unit follows.
///
/// # Errors
/// The form of a time.
pub fn time(value: &str) -> Result<Nanos, String> {
    time_in(value, "s")
}

/// Longest time that is believed, so that sums of a few stay within the virtual clock's 584 years: a hundred
/// years.
const LONGEST: Nanos = Nanos(100 * 366 * 86_400 * 1_000_000_000);

/// A time in `unit` unless another follows.
pub(super) fn time_in(value: &str, unit: &str) -> Result<Nanos, String> {
    let bad = || format!("{value}: not a time such as 10, 10s or 500ms");
    let at = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (digits, given) = value.split_at(at);
    let ns: u64 = match if given.trim().is_empty() { unit } else { given.trim() } {
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" | "hour" => 3_600_000_000_000,
        "d" | "day" => 86_400_000_000_000,
        _ => return Err(bad()),
    };
    let n: u64 = digits.parse().map_err(|_| bad())?;
    let time = n.checked_mul(ns).map(Nanos).filter(|t| *t <= LONGEST);
    time.ok_or_else(|| format!("{value}: too long, up to a hundred years is believed"))
}

/// One value or two: `1k-4k`, `1k:4k`.
pub(super) fn range<T: Copy + PartialOrd>(
    key: &str,
    value: &str,
    one: impl Fn(&str) -> Result<T, String>,
) -> Result<(T, T), String> {
    let Some((least, most)) = value.split_once(['-', ':']) else {
        return one(value).map(|v| (v, v));
    };
    let (least, most) = (one(least.trim())?, one(most.trim())?);
    if most < least {
        return Err(format!("{key}={value}: the second value is below the first"));
    }
    Ok((least, most))
}

/// Up to three values, of reads, writes, trims. A value that is left out stays. A last value without a comma
/// behind it is that of the rest, too.
pub(super) fn three<T: Clone>(
    key: &str,
    value: &str,
    to: &mut PerDirection<T>,
    one: impl Fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    if parts.len() > 3 && !(parts.len() == 4 && parts[3].is_empty()) {
        return Err(format!("{key}={value}: at most three values, for reads, writes and trims"));
    }
    let mut last = None;
    for (n, part) in parts.iter().take(3).enumerate() {
        last = match *part {
            "" => None,
            part => Some(one(part)?),
        };
        if let Some(v) = &last {
            to[n] = v.clone();
        }
    }
    if let Some(last) = last {
        to.iter_mut().skip(parts.len()).for_each(|v| *v = last.clone());
    }
    Ok(())
}

/// `4k/10:64k/50:32k/40`; sizes without a share get equal parts of the rest.
pub(super) fn split(key: &str, value: &str) -> Result<Blocks, String> {
    let mut all = Vec::<(Bytes, Option<u32>)>::new();
    for part in value.split(':') {
        let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
        let share = match share.trim().trim_end_matches('%') {
            "" => None,
            share => Some(
                share
                    .parse()
                    .ok()
                    .filter(|s| *s <= 100)
                    .ok_or_else(|| format!("{key}={value}: '{share}' is no percentage"))?,
            ),
        };
        all.push((size(key, bytes.trim())?, share));
    }
    let given: u32 = all.iter().filter_map(|(_, share)| *share).sum();
    let open = all.iter().filter(|(_, share)| share.is_none()).count() as u32;
    if given > 100 || given < 100 && open == 0 {
        return Err(format!("{key}={value}: the shares add up to {given}, not to 100"));
    }
    let each = (100 - given).checked_div(open).unwrap_or(0);
    // The remainder goes to the first of them, so that the shares add up.
    let mut rest = (100 - given).checked_rem(open).unwrap_or(0);
    let mut shares: Vec<(Bytes, u32)> = all
        .into_iter()
        .map(|(bytes, share)| (bytes, share.unwrap_or_else(|| each + std::mem::take(&mut rest))))
        .collect();
    shares.sort_by_key(|(bytes, _)| bytes.0);
    Ok(Blocks::Split(shares))
}
