//! The files of an image without a mount: opens it, gives a process of the superuser, closes it cleanly.

use super::stacked;
use granary_fs::{Cred, FsError, quoted};
use granary_image::{Durability, Image};
use granary_lab::LabError;
use granary_lab::image::OpenImage;
use granary_units::Bytes;
use granary_vfs::{Process, Vfs};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Memory for file pages while one command runs.
const PAGE_CACHE: Bytes = Bytes::mib(256);

/// Runs `work` with a process on the image's file system, and with the image. With `read_only` nothing in the
/// image changes.
pub fn with_process(
    image: &Path,
    read_only: bool,
    work: impl FnOnce(&mut Process, &Image) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let open = super::serve::when_free(image, || OpenImage::open(image, Durability::Process, read_only))?;
    tell(&open);
    let vfs = match open.vfs(super::date(), PAGE_CACHE) {
        Ok(vfs) => vfs,
        Err(e) => {
            open.close_unused();
            return Err(LabError::call(format!("mounting {}", image.display()), e));
        }
    };
    let done = serve(&vfs, |process| work(process, &open.image));
    let closed = open.close(&vfs);
    done.and(closed)
}

/// Runs `work` with a process of the superuser.
pub fn serve(
    vfs: &Arc<Vfs>,
    work: impl FnOnce(&mut Process) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let mut process = Process::new(vfs.clone(), Cred::ROOT);
    process_umask(&mut process);
    let done = work(&mut process);
    process.exit();
    done
}

/// Runs `work` with a process on the files of an image, of which nothing changes: those of persistent memory
/// in front of a directory where that is given. `whole`: the command to type where it is not, and has to be.
pub fn look(
    image: &Path,
    stack: Option<&Path>,
    whole: impl Fn(&str, &str) -> String,
    work: impl FnOnce(&mut Process) -> Result<(), LabError>,
) -> Result<(), LabError> {
    match stack {
        Some(dir) => stacked::with_process(image, dir, work),
        None => {
            stacked::refuse_alone(image, whole)?;
            with_process(image, true, |process, _| work(process))
        }
    }
}

/// Says what there is to know of the host of an image, and who else gets at it.
pub fn tell(open: &OpenImage) {
    warn(open.note.as_deref());
    warn(open.image.exposed().as_deref());
}

/// Says something that keeps nobody from going on.
pub fn warn(of: Option<&str>) {
    if let Some(text) = of {
        say!("warning: {text}");
    }
}

/// Count of files that could not be copied: each gets a message, and the others are copied all the same.
#[derive(Default)]
pub struct Troubles(u64);

impl Troubles {
    /// Tells of a failure. Returns what there is where there is none.
    pub fn none<T>(&mut self, result: Result<T, LabError>) -> Option<T> {
        result
            .inspect_err(|e| {
                self.0 += 1;
                say!("granary: {e}");
            })
            .ok()
    }

    /// 0, or 1 where something could not be copied.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(u8::from(self.0 > 0))
    }
}

/// Modes are given whole.
fn process_umask(process: &mut Process) {
    use granary_vfs::Posix;
    process.umask(0);
}

/// A failed call on a file of the image.
pub fn failed(what: &str, path: impl AsRef<[u8]>) -> impl FnOnce(FsError) -> LabError {
    let what = format!("{what} {}", quoted(path.as_ref()));
    move |e| LabError::call(what, e)
}

/// A failed call on a file of this machine.
pub fn host_failed(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> LabError {
    let what = format!("{what} {}", quoted(path.as_os_str().as_bytes()));
    move |e| LabError::call(what, e)
}

/// `dir/name`.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
