//! `granary cat IMAGE PATH...`.

use super::files::{failed, host_failed, with_process};
use granary_lab::LabError;
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix};
use std::io::Write;
use std::path::Path;

/// Runs the command.
pub fn run(image: &Path, paths: &[String]) -> Result<(), LabError> {
    with_process(image, true, |process| {
        let mut out = std::io::stdout().lock();
        let mut buffer = vec![0; 1 << 20];
        for path in paths {
            let fd = process.open(path, OpenFlags::RDONLY, 0).map_err(failed("opening", path))?;
            loop {
                let n = process.read(fd, Dest::Bytes(&mut buffer)).map_err(failed("reading", path))?;
                if n == 0 {
                    break;
                }
                out.write_all(&buffer[..n]).map_err(host_failed("writing", Path::new("to stdout")))?;
            }
            process.close(fd).map_err(failed("closing", path))?;
        }
        out.flush().map_err(host_failed("writing", Path::new("to stdout")))
    })
}
