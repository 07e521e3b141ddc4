//! `granary cat IMAGE PATH...`.

use super::files::{failed, with_process};
use crate::out;
use granary_lab::LabError;
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix};
use std::path::Path;

/// Runs the command.
pub fn run(image: &Path, paths: &[String]) -> Result<(), LabError> {
    with_process(image, true, |process| {
        let mut buffer = vec![0; 1 << 20];
        for path in paths {
            let fd = process.open(path, OpenFlags::RDONLY, 0).map_err(failed("opening", path))?;
            loop {
                let n = process.read(fd, Dest::Bytes(&mut buffer)).map_err(failed("reading", path))?;
                if n == 0 || !out::is_open() {
                    break;
                }
                out::bytes(&buffer[..n]);
            }
            process.close(fd).map_err(failed("closing", path))?;
        }
        Ok(())
    })
}
