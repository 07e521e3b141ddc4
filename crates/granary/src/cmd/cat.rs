//! `granary cat [--stack DIR] IMAGE PATH...`. A file that cannot be printed gets a message, and the others
//! are printed; the exit code is then 1.

use super::files::{Troubles, failed, look};
use crate::out;
use granary_lab::LabError;
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix, Process};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the command.
pub fn run(image: &Path, stack: Option<&Path>, paths: &[PathBuf]) -> Result<ExitCode, LabError> {
    let mut troubles = Troubles::default();
    let whole = |dir: &str, image: &str| format!("`granary cat --stack {dir} {image} PATH`");
    look(image, stack, whole, |process| {
        let mut buffer = vec![0; 1 << 20];
        for path in paths {
            troubles.none(print(process, path.as_os_str().as_bytes(), &mut buffer));
        }
        Ok(())
    })?;
    Ok(troubles.code())
}

fn print(process: &mut Process, path: &[u8], buffer: &mut [u8]) -> Result<(), LabError> {
    let fd = process.open(path, OpenFlags::RDONLY, 0).map_err(failed("opening", path))?;
    let printed = loop {
        match process.read(fd, Dest::Bytes(buffer)) {
            Ok(n) if n > 0 && out::is_open() => out::bytes(&buffer[..n]),
            end => break end.map(drop).map_err(failed("reading", path)),
        }
    };
    printed.and(process.close(fd).map_err(failed("closing", path)))
}
