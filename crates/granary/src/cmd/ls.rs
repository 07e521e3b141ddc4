//! `granary ls [-l] [--stack DIR] IMAGE [PATH...]`. A path that cannot be listed gets a message, and the
//! others are listed; the exit code is then 1.
//!
//! Names are printed as they are; on a terminal, to which an image from elsewhere could say anything, they
//! are quoted as GNU ls does.

use super::files::{Troubles, failed, join, look};
use crate::out;
use granary_fs::{FileKind, quoted};
use granary_lab::LabError;
use granary_vfs::{Posix, Process, Stat};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the command.
pub fn run(image: &Path, stack: Option<&Path>, paths: &[PathBuf], long: bool) -> Result<ExitCode, LabError> {
    let mut troubles = Troubles::default();
    let whole = |dir: &str, image: &str| format!("`granary ls --stack {dir} {image}`");
    look(image, stack, whole, |process| {
        for (i, path) in paths.iter().map(|p| p.as_os_str().as_bytes()).enumerate() {
            let stat = process.lstat(path).map_err(failed("looking at", path));
            let Some(stat) = troubles.none(stat) else { continue };
            if stat.attr.kind != FileKind::Dir {
                troubles.none(print_entry(process, path, path, long));
                continue;
            }
            if paths.len() > 1 {
                out::bytes(if i > 0 { b"\n" } else { b"" });
                print_line(path, ":", b"");
            }
            let entries = process.list(path).map_err(failed("listing", path));
            let Some(mut entries) = troubles.none(entries) else { continue };
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            for e in
                entries.iter().take_while(|_| out::is_open()).filter(|e| e.name != b"." && e.name != b"..")
            {
                troubles.none(print_entry(process, &join(path, &e.name), &e.name, long));
            }
        }
        Ok(())
    })?;
    Ok(troubles.code())
}

/// Prints a name, what stands between, and another.
fn print_line(name: &[u8], between: &str, other: &[u8]) {
    match out::is_terminal() {
        true if other.is_empty() => outln!("{}{between}", quoted(name)),
        true => outln!("{}{between}{}", quoted(name), quoted(other)),
        false => out::bytes(&[name, between.as_bytes(), other, b"\n"].concat()),
    }
}

fn print_entry(process: &mut Process, path: &[u8], name: &[u8], long: bool) -> Result<(), LabError> {
    if !long {
        print_line(name, "", b"");
        return Ok(());
    }
    let Stat { attr: a, .. } = process.lstat(path).map_err(failed("looking at", path))?;
    let (arrow, target) = match a.kind {
        FileKind::Symlink => (" -> ", process.readlink(path).map_err(failed("reading", path))?),
        _ => ("", Vec::new()),
    };
    out!(
        "{}{} {:>3} {:>5} {:>5} {:>12} {} ",
        letter(a.kind),
        permissions(a.mode),
        a.nlink,
        a.uid,
        a.gid,
        a.size,
        when(a.mtime.0)
    );
    print_line(name, arrow, &target);
    Ok(())
}

fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => '-',
        FileKind::Dir => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharDev => 'c',
        FileKind::BlockDev => 'b',
    }
}

fn permissions(mode: u16) -> String {
    let bits = (0..9).rev().map(|i| if mode >> i & 1 == 1 { b"xwr"[i % 3] as char } else { '-' });
    let mut text: Vec<char> = bits.collect();
    for (bit, at, set, bare) in [(0o4000, 2, 's', 'S'), (0o2000, 5, 's', 'S'), (0o1000, 8, 't', 'T')] {
        if mode & bit != 0 {
            text[at] = if text[at] == 'x' { set } else { bare };
        }
    }
    text.into_iter().collect()
}

/// A date in UTC, to the minute. Days to dates: Howard Hinnant, "chrono-compatible low-level date
/// algorithms".
fn when(ns: i64) -> String {
    let seconds = ns.div_euclid(1_000_000_000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", rest / 3600, rest % 3600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_permissions_read_as_ls_prints_them() {
        assert_eq!(when(0), "1970-01-01 00:00");
        assert_eq!(when(1_735_689_600_000_000_000), "2025-01-01 00:00");
        assert_eq!(when(1_709_210_096_000_000_000), "2024-02-29 12:34");
        assert_eq!(when(-1), "1969-12-31 23:59");
        assert_eq!(permissions(0o755), "rwxr-xr-x");
        assert_eq!(permissions(0o4640), "rwSr-----");
        assert_eq!(permissions(0o1777), "rwxrwxrwt");
    }
}
