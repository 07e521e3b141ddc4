//! [`FromFile`]: a Filebench file, a fio job file or a recorded trace as a load.
//!
//! ```text
//!   x.f                      Filebench        x.fio, x.job, x.ini    fio
//!   anything else            a trace of FIU, of files or of blocks
//! ```
//!
//! Somebody else's program is made for drives of any size and runs for any time: its files are scaled down to
//! [`MOST_BYTES`], and its run ends after so many calls. Every round begins with an empty tree, because such
//! programs make their files anew: what the round before left is removed, call by call.

use super::torture::expected;
use super::{Clients, Load, OWN_FAULT};
use crate::recorded::{Budget, Recorded};
use granary_fs::FileKind;
use granary_sim::rng::Stream;
use granary_vfs::{Posix, Process};
use granary_workload::Workload;
use granary_workload::run::{Run, RunError, RunOptions};
use std::path::Path;

/// Bytes that files may take that are laid out before a run: a part of the small drives of crash tests.
const MOST_BYTES: f64 = (6 << 20) as f64;

/// A program from a file, as a load.
#[derive(Clone, Debug)]
pub struct FromFile {
    name: String,
    workload: Workload,
    calls: u64,
    /// For the lines of what goes wrong; of a trace nothing.
    text: String,
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
    /// A fault of the text, with its line; files that cannot be scaled down to what crash tests have space
    /// for.
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
        let is_program = matches!(end.as_deref(), Some("f" | "fio" | "job" | "ini"));
        let text = if is_program { String::from_utf8_lossy(text).into_owned() } else { String::new() };
        Ok(FromFile { name: name.to_owned(), workload, calls, text })
    }

    /// An error of a run in words. Where the program is at fault it says so, with the file and the line.
    fn told(&self, error: &RunError) -> String {
        let why = match error {
            error if error.is_no_space() => {
                "; drives of crash tests have 64 MiB: make its files fewer or smaller"
            }
            RunError::NothingToPick { .. }
            | RunError::Misuse { .. }
            | RunError::Fileset { .. }
            | RunError::Endless
            | RunError::Standstill { .. } => "",
            _ => return error.to_string(),
        };
        let line = line_of(&self.text, error).map_or(String::new(), |line| format!("{line}:"));
        format!("{OWN_FAULT}{}:{line} {error}{why}", self.name)
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
        run.setup().map_err(|e| self.told(&e))?;
        run.measure().map(drop).map_err(|e| self.told(&e))
    }
}

/// The line of a program, from 1, in which what went wrong has its name.
fn line_of(text: &str, error: &RunError) -> Option<usize> {
    let has = |line: &str, name: &str| {
        line.split([',', ' ', '\t', '{', '}']).any(|word| word.strip_prefix("name=") == Some(name))
    };
    let defines = |line: &str| line.trim_start().starts_with("define");
    let line = |wanted: &dyn Fn(&str) -> bool| text.lines().position(wanted).map(|line| line + 1);
    match error {
        RunError::Call { flowop, .. }
        | RunError::NothingToPick { flowop, .. }
        | RunError::Misuse { flowop, .. } => {
            line(&|line| !defines(line) && has(line, flowop)).or_else(|| line(&|line| has(line, flowop)))
        }
        RunError::Fileset { fileset, .. } => line(&|line| defines(line) && has(line, fileset)),
        RunError::Setup { path, .. } => {
            line(&|line| defines(line) && path.split('/').any(|name| !name.is_empty() && has(line, name)))
        }
        RunError::Job { job, .. } => line(&|line| line.trim() == format!("[{job}]")),
        _ => None,
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
    use granary_fs::FsError;

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

    #[test]
    fn a_lack_of_room_is_the_programs_own_fault_in_its_line_and_other_errors_are_not() {
        let load = FromFile::new("a.f", F.replace("100m", "1m").as_bytes(), 10).expect("it fits");
        let call = |source| RunError::Call {
            flowop: "w".into(),
            thread: "p-1/t-1".into(),
            call: "write",
            path: "/x/a/1".into(),
            source,
        };
        let told = load.told(&call(FsError::NoSpace));
        assert!(told.starts_with(&format!("{OWN_FAULT}a.f:3: flowop `w`")), "{told}");
        let setup = RunError::Setup { call: "write", path: "/x/a/1".into(), source: FsError::NoSpace };
        assert!(load.told(&setup).starts_with(&format!("{OWN_FAULT}a.f:2: ")), "{}", load.told(&setup));
        assert!(!load.told(&call(FsError::ReadOnly)).contains(OWN_FAULT));
    }
}
