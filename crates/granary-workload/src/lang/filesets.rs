//! `define fileset` and `define file`: from their attributes to a [`FilesetSpec`].
//!
//! | left out | means |
//! |---|---|
//! | `size` | 0 bytes |
//! | `entries`, `leafdirs` | none (but not both) |
//! | `dirwidth` | every entry has a directory of its own |
//! | `dirgamma` | 1500: width and depth are gamma distributed with shape 1.5 |
//! | `prealloc` | 0 percent; `prealloc` without a value means 100 |
//! | `reuse`, `paralloc`, `readonly`, `writeonly`, `trusttree` | false |
//!
//! It does *not* create anything.
//!
//! Source: Filebench 1.5-alpha3's defaults; `filesizegamma` as in 1.4.

use super::MAX_ENTRIES;
use super::args::{Args, warn};
use super::parse::shorten;
use super::source::Result;
use super::vars::Held;
use crate::spec::{Distribution, FilesetSpec, RandomVar, Value, Warning};

/// Filebench's `dirgamma`, in thousandths.
const DEFAULT_DIR_GAMMA: u64 = 1500;
/// Largest shape of a gamma distribution, in thousandths.
const MAX_GAMMA: u64 = 1_000_000;
/// `dirwidth` of the directory of a `define file` in Filebench.
const FILE_DIRWIDTH: u64 = 10;

/// The fileset that the attributes describe, and the random size that `filesizegamma` makes of a constant
/// one.
pub(crate) fn spec(
    args: Args<'_, '_>,
    single_file: bool,
    warnings: &mut Vec<Warning>,
) -> Result<(FilesetSpec, Option<RandomVar>)> {
    let name = args.name()?;
    if name.contains('/') || name == "." || name == ".." {
        let help = "put the directories into `path`";
        return args.error("name", "a fileset's name becomes a directory's name", help);
    }
    let path = args.text("path")?.unwrap_or_default();
    if path.is_empty() {
        return args.error("path", "the path is empty", "give the directory that holds the files");
    }
    let count = |name| args.within(name, 0, MAX_ENTRIES).map(Option::unwrap_or_default);
    let (entries, leafdirs) = if single_file { (1, 0) } else { (count("entries")?, count("leafdirs")?) };
    if entries + leafdirs == 0 {
        let message = format!("the fileset `{}` is empty", shorten(&name));
        let help = "give `entries=...` (files) or `leafdirs=...` (empty directories)";
        return args.source.error(args.head.span, message, help);
    }
    let dirwidth =
        args.amount("dirwidth")?.unwrap_or(Value::Const(if single_file { FILE_DIRWIDTH } else { 0 }));
    let default_gamma = if single_file { 0 } else { DEFAULT_DIR_GAMMA };
    let dir_gamma = args.within("dirgamma", 0, MAX_GAMMA)?.unwrap_or(default_gamma);
    let depth = match args.amount("dirdepthrv")? {
        None => None,
        Some(Value::Random(id)) => Some(id),
        Some(Value::Const(_)) => {
            let help = "use `dirgamma=0` for an exact depth";
            return args.error("dirdepthrv", "the directory depth needs a random variable", help);
        }
    };
    let (readonly, writeonly) = (args.flag("readonly")?, args.flag("writeonly")?);
    if readonly && writeonly {
        let message = "a fileset cannot be read-only and write-only";
        return args.error("writeonly", message, "remove one of the two");
    }
    let size = args.amount("size")?.unwrap_or(Value::Const(0));
    let random_size = match (size, args.within("filesizegamma", 0, MAX_GAMMA)?) {
        (Value::Const(mean), Some(gamma)) if gamma > 0 => Some(RandomVar {
            name: format!("{name}.filesizegamma"),
            distribution: Distribution::Gamma {
                mean: mean as f64,
                shape: gamma as f64 / 1000.0,
                offset: 0.0,
            },
            round: 0,
            min: 0.0,
            max: f64::INFINITY,
        }),
        _ => None,
    };
    let trust_tree = args.flag("trusttree")?;
    if let Some(attr) = args.find("trusttree").filter(|_| trust_tree) {
        let message =
            "`trusttree` keeps a tree that is there; each run makes a drive of its own, so this one is made";
        warn(args.source, warnings, attr.span, message);
    }
    let spec = FilesetSpec {
        name,
        path,
        single_file,
        entries,
        leafdirs,
        size,
        dirwidth,
        dir_gamma: dir_gamma as f64 / 1000.0,
        depth,
        prealloc_percent: prealloc(args)?,
        parallel_prealloc: args.flag("paralloc")?,
        reuse: args.flag("reuse")?,
        trust_tree,
        readonly,
        writeonly,
    };
    Ok((spec, random_size))
}

/// `prealloc` alone means all, a number is a percentage, a boolean all or nothing.
fn prealloc(args: Args<'_, '_>) -> Result<u8> {
    let percent = match args.find("prealloc").map(|attr| &attr.value) {
        None => 0,
        Some(None) => 100,
        Some(Some(value)) => match args.scope.eval(args.source, value)? {
            Held::Bool(all) => 100 * u64::from(all),
            _ => args.within("prealloc", 0, 100)?.unwrap_or(0),
        },
    };
    Ok(percent as u8)
}
