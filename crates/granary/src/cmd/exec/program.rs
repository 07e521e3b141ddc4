//! [`kind`]: whether the loader will put a library before a program.
//!
//! Source: elf(5) (program header PT_INTERP); ld.so(8), "secure-execution mode".

use rustix::process::{getegid, geteuid};
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Kinds of programs, as the loader sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It takes libraries.
    Dynamic,
    /// It has no loader.
    Static,
    /// It takes none, because it runs with other rights than who starts it.
    Privileged,
}

/// Program header PT_INTERP.
const INTERPRETER: u32 = 3;
/// Set-user-ID and set-group-ID.
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
/// Scripts whose interpreter is a script: as deep as the kernel goes (BINPRM_MAX_RECURSION).
const DEEPEST: usize = 4;

/// The kind of a program; `None` where it is unknown: starting the program will tell.
pub fn kind(name: &OsStr) -> Option<Kind> {
    let mut path = find(name)?;
    for _ in 0..DEEPEST {
        let mut file = File::open(&path).ok()?;
        let meta = file.metadata().ok()?;
        let mode = meta.permissions().mode();
        let foreign = |set: u32, owner: u32, mine: u32| mode & set != 0 && owner != mine;
        if foreign(SET_UID, meta.uid(), geteuid().as_raw())
            || foreign(SET_GID, meta.gid(), getegid().as_raw())
        {
            return Some(Kind::Privileged);
        }
        let mut magic = [0; 4];
        file.read_exact(&mut magic).ok()?;
        match &magic {
            b"\x7fELF" => return elf(&mut file),
            [b'#', b'!', ..] => path = interpreter(file)?,
            _ => return None,
        }
    }
    None
}

/// As execvp(3) looks.
fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn interpreter(mut script: File) -> Option<PathBuf> {
    script.seek(SeekFrom::Start(2)).ok()?;
    let mut line = Vec::new();
    BufReader::new(script.take(256)).read_until(b'\n', &mut line).ok()?;
    let path = line.split(|c| matches!(c, b' ' | b'\t' | b'\n')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Looks through the program headers of an ELF file of 64 bits; of others nothing is known.
fn elf(file: &mut File) -> Option<Kind> {
    let mut header = [0; 64];
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_exact(&mut header).ok()?;
    if header[4] != 2 {
        return None;
    }
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let at = u64::from_ne_bytes(header[32..40].try_into().ok()?);
    let (size, count) = (half(54), half(56));
    for i in 0..u64::from(count) {
        let mut kind = [0; 4];
        file.seek(SeekFrom::Start(at.checked_add(i * u64::from(size))?)).ok()?;
        file.read_exact(&mut kind).ok()?;
        if u32::from_ne_bytes(kind) == INTERPRETER {
            return Some(Kind::Dynamic);
        }
    }
    Some(Kind::Static)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_scripts_and_from_nothing() {
        assert_eq!(kind(OsStr::new("sh")), Some(Kind::Dynamic));
        assert_eq!(kind(OsStr::new("/no/such/program")), None);
        let dir = tempfile::tempdir().expect("a directory");
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh -e\ntrue\n").expect("written");
        assert_eq!(kind(script.as_os_str()), Some(Kind::Dynamic), "its interpreter is");
        std::fs::write(&script, "#!").expect("written");
        assert_eq!(kind(script.as_os_str()), None);
    }
}
