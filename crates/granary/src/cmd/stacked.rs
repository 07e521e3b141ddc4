//! Persistent memory in front of a directory, for the commands that work without a mount: they need the
//! directory, `--stack DIR`.

use super::files::{serve, warn};
use granary_fs::quoted;
use granary_lab::LabError;
use granary_lab::stack::{self, Look};
use granary_mount::host_config;
use granary_testbed::Testbed;
use granary_units::Bytes;
use granary_vfs::{Process, VfsConfig};
use rustix::process::{Resource, getrlimit};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Memory for file pages of both layers while one command runs.
const PAGE_CACHE: Bytes = Bytes::mib(64);

/// A vfs configuration for a layer over a directory of the host, which holds up to two descriptors for each
/// inode in memory.
pub fn bounded(vfs: VfsConfig) -> VfsConfig {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    VfsConfig { inodes: vfs.inodes.min(usize::try_from(files / 4).unwrap_or(usize::MAX)), ..vfs }
}

/// The configuration of both layers of a look.
///
/// # Errors
/// None that a person can bring about: the testbed is built in.
pub fn config() -> Result<VfsConfig, LabError> {
    let testbed = Testbed::load("bytefs-emulator", &[])?;
    Ok(bounded(host_config(testbed.host.vfs, PAGE_CACHE, true)))
}

/// Refuses an image that needs a directory, and was given none. `whole`: the command to type, of directory
/// and image.
///
/// # Errors
/// That it needs one.
pub fn refuse_alone(image: &Path, whole: impl Fn(&str, &str) -> String) -> Result<(), LabError> {
    if !stack::is_stacked(image) {
        return Ok(());
    }
    let (dir, shown) = (stack::directory_shown(image), quoted(image.as_os_str().as_bytes()).to_string());
    Err(LabError::Usage(format!(
        "{shown}: persistent memory in front of a directory, which has the rest of its files: {} looks at both, `granary mount --stack \
         {dir} {shown} MNT` mounts them",
        whole(&dir, &shown)
    )))
}

/// Opens both for reading, and tells what there is to tell.
///
/// # Errors
/// As [`stack::look`].
pub fn look(image: &Path, dir: &Path) -> Result<Look, LabError> {
    let config = config()?;
    let look = super::serve::when_free(image, || stack::look(dir, image, config))?;
    warn(look.image.exposed().as_deref());
    warn(look.note.as_deref());
    Ok(look)
}

/// Runs `work` with a process on both. Nothing changes.
///
/// # Errors
/// As [`look`]; what `work` says.
pub fn with_process(
    image: &Path,
    dir: &Path,
    work: impl FnOnce(&mut Process) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let look = look(image, dir)?;
    let done = serve(&look.vfs, work);
    done.and(look.close())
}
