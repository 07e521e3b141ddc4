//! `granary crash --keep-image PATH`: the devices as the power failure of the first failure left them, in an
//! image.

use super::{CrashArgs, explorer};
use crate::failure::Failure;
use granary_crash::target::OnImage;
use granary_crash::{Explorer, Load, Target};
use granary_image::ImageDevices;
use granary_lab::kept::{self, Keep};
use std::path::Path;
use std::sync::Arc;

/// Failures that are tried until one can be kept.
const TRIED: usize = 3;

/// Whether there is a place for an image, and a file system of which there can be one.
///
/// # Errors
/// There is not: nobody has worked for nothing then.
pub(super) fn is_possible(path: &Path, targets: &[Arc<dyn Target>]) -> Result<(), Failure> {
    kept::is_free(path)?;
    let mut none = targets.iter().map(|target| target.on_image());
    match none.find(Result::is_ok).or_else(|| targets.first().map(|target| target.on_image())) {
        Some(Err(why)) => Err(Failure::usage(format!("--keep-image: {why}"))),
        _ => Ok(()),
    }
}

/// Keeps the first of these failures of which that is possible, and says so; or why it is not.
pub(super) fn first<'a>(
    args: &CrashArgs,
    targets: &[Arc<dyn Target>],
    loads: &[Arc<dyn Load>],
    failures: impl Iterator<Item = &'a granary_crash::Failure>,
    path: &Path,
) {
    let mut why = None;
    for failure in failures.filter(|failure| !failure.path.0.is_empty()).take(TRIED) {
        let target = targets.iter().find(|target| target.name() == &*failure.fs);
        let load = loads.iter().find(|load| load.name() == &*failure.load);
        let Some((target, load)) = target.zip(load) else { continue };
        let made = explorer(args, target, load).map_err(|failure| Failure::usage(failure.to_string()));
        let kept = made.and_then(|explorer| {
            let mut explorer = explorer.write_errors(failure.errors);
            keep(&mut explorer, &**target, failure, path)
        });
        match kept {
            Ok(()) => return,
            Err(e) => why = why.or(Some(e)),
        }
    }
    if let Some(why) = why {
        say!("granary: {why}");
    }
}

/// Keeps what led to a failure.
///
/// # Errors
/// Why that is not possible.
pub(super) fn keep(
    explorer: &mut Explorer,
    target: &dyn Target,
    failure: &granary_crash::Failure,
    path: &Path,
) -> Result<(), Failure> {
    let not = |why| Failure::usage(format!("{} is not kept: {why}", path.display()));
    let OnImage { fs, ssd, nvm, host } = target.on_image().map_err(not)?;
    let line = failure.replay_command().unwrap_or_default();
    let image = Keep { fs, devices: ImageDevices { ssd, nvm }, host, label: &line, date: crate::cmd::date() };
    kept::keep(path, &image, |devices| explorer.keep(failure, devices))?;
    let path = path.display();
    let passes = if failure.evidence.is_empty() { "; all is well behind that recovery" } else { "" };
    say!(
        "{path}: the devices of {} as the power failure left them; `granary fsck {path}` looks at what their recovery makes of them, \
         and changes nothing{passes}",
        failure.fs
    );
    Ok(())
}
