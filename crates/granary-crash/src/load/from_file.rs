//! [`FromFile`]: a Filebench file, a fio job file or a recorded trace as a load.
//!
//! ```text
//!   x.f                      Filebench        x.fio, x.job, x.ini    fio
//!   anything else            a trace of FIU, of files or of blocks
//! ```
//!
//! Somebody else's program is made for drives of any size and runs for any time: its files are scaled down to
//! [`MOST_BYTES`], and its run ends after so many calls. Every round begins with an empty tree, because such programs make
//! their files anew: what the round before left is removed, call by call.

use super::torture::expected;
use super::{Clients, Load};
use crate::recorded::{Budget, Recorded};
use granary_fs::FileKind;
use granary_sim::rng::Stream;
use granary_vfs::{Posix, Process};
use granary_workload::Workload;
use granary_workload::run::{Run, RunOptions};
use std::path::Path;

/// Bytes that files may take that are laid out before a run: a part of the small drives of crash tests.
const MOST_BYTES: f64 = (6 << 20) as f64;

/// A program from a file, as a load.
#[derive(Clone, Debug)]
pub struct FromFile {
    name: String,
    workload: Workload,
    calls: u64,
}

/// The program of a file as a load whose run ends after `calls` calls (at least one).
///
/// # Errors
/// The file cannot be read, or as [`FromFile::new`].
pub fn load_from_file(path: &Path, calls: u64) -> Result<FromFile, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    FromFile::new(&path.to_string_lossy(), &bytes, calls)
}

impl FromFile {
    /// The program with this text; `name` is the file's, its end says what it is.
    ///
    /// # Errors
    /// A fault of the text, with its line; files that cannot be scaled down to what crash tests have space for.
    pub fn new(name: &str, text: &[u8], calls: u64) -> Result<FromFile, String> {
        let end = Path::new(name).extension().map(|end| end.to_string_lossy().to_lowercase());
        let told = |e: &dyn std::fmt::Display| e.to_string();
        let mut workload = match end.as_deref() {
            Some("f") => Workload::parse_bytes(name, text, &[]).map_err(|e| told(&e))?,
            Some("fio" | "job" | "ini") => {
                let text = std::str::from_utf8(text).map_err(|e| format!("{name}: {e}"))?;
                Workload::from_fio(name, text).map_err(|e| told(&e))?
            }
            _ => Workload::from_fiu(name, text).map_err(|e| told(&e))?,
        };
        let wants = workload.expected_bytes();
        if wants > MOST_BYTES {
            workload.scale(MOST_BYTES / wants).map_err(|e| told(&e))?;
        }
        let wants = workload.expected_bytes();
        if wants > 2.0 * MOST_BYTES {
            return Err(format!(
                "{name} lays out {:.0} MiB even with as few files as can be: crash tests have {:.0} MiB for them",
                wants / 1048576.0,
                MOST_BYTES / 1048576.0
            ));
        }
        Ok(FromFile { name: name.to_owned(), workload, calls })
    }
}

impl Load for FromFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let mut first = clients.client();
        remove_all(&mut first, "")?;
        first.into_inner().exit();
        let budget = Budget::new(self.calls);
        let stop = Some(budget.stop().clone());
        let options = RunOptions { seed: random.next_u64(), stop, ..RunOptions::default() };
        let clients = clients.clone();
        // Laying out files is not what is counted.
        let client = move |thread: &str| match thread {
            "setup" | "prologue" => clients.client(),
            _ => clients.client().with_budget(budget.clone()),
        };
        let mut run = Run::new(&self.workload, client, options);
        run.setup().map_err(|e| e.to_string())?;
        run.measure().map(drop).map_err(|e| e.to_string())
    }
}

/// Removes everything in a directory; "" is the root.
fn remove_all(posix: &mut Recorded<Process>, dir: &str) -> Result<(), String> {
    let listed = posix.list(if dir.is_empty() { "/" } else { dir });
    for entry in expected("list", listed)?.unwrap_or_default() {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        if matches!(&*name, "." | ".." | "lost+found") {
            continue;
        }
        let path = format!("{dir}/{name}");
        if entry.kind == FileKind::Dir {
            remove_all(posix, &path)?;
            expected("rmdir", posix.rmdir(&path))?;
        } else {
            expected("unlink", posix.unlink(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: &str = "set $dir=/x\ndefine fileset name=a,path=$dir,size=100m,entries=50,prealloc\n\
        define process name=p { thread name=t { flowop writewholefile name=w,filesetname=a } }\nrun 60\n";

    #[test]
    fn a_program_is_scaled_to_small_drives_and_one_that_cannot_be_is_refused() {
        let small = F.replace("100m", "1m");
        let load = FromFile::new("a.f", small.as_bytes(), 10).expect("it fits");
        assert!(load.workload.expected_bytes() <= 2.0 * MOST_BYTES);
        let refused = FromFile::new("a.f", F.as_bytes(), 10).expect_err("one file is too large");
        assert!(refused.contains("100 MiB"), "{refused}");
    }

    #[test]
    fn the_end_of_a_name_says_what_a_file_is_and_what_is_wrong_is_told() {
        let job = b"[global]\nfilename=/x\nsize=1m\nrw=randwrite\n[j]\n";
        FromFile::new("a.fio", job, 10).expect("a job file");
        for (name, text) in [("a.f", &b"run fast"[..]), ("a.fio", b"[j]\nrw=sideways\n"), ("a.log", b"hello")]
        {
            assert!(!FromFile::new(name, text, 10).expect_err(name).is_empty());
        }
    }
}
