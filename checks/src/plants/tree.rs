//! The copy of the project with all bugs in it, built once.
//!
//! Files whose content is what it was keep their times, so cargo builds only what changed.

use super::patches::{self, By, Plant};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The copy, and where cargo builds it.
pub(super) struct Built {
    pub tree: PathBuf,
    pub target: PathBuf,
}

impl Built {
    /// The explorer of the copy.
    pub fn explorer(&self) -> PathBuf {
        self.target.join("debug/granary-checks")
    }

    /// Cargo for the copy.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }
}

/// Copies, applies all patches, builds the explorer and the tests that these bugs name.
///
/// # Errors
/// Patches that do not apply, or a copy that does not build.
pub(super) fn build(root: &Path, place: &Path, home: &Path, plants: &[Plant]) -> Result<Built, String> {
    let (tree, fresh, target) = (home.join("tree"), home.join("fresh"), home.join("target"));
    let _ = fs::remove_dir_all(&fresh);
    let files = tracked(root)?;
    for file in &files {
        copy(&root.join(file), &fresh.join(file)).map_err(failed(file))?;
    }
    let all = patches::list(place)?;
    patches::apply(&patches::in_order(place, &all), &fresh)?;
    fs::create_dir_all(&tree).and_then(|()| sync(&fresh, &tree)).map_err(failed(&tree))?;
    fs::remove_dir_all(&fresh).map_err(failed(&fresh))?;
    let at = |path: &Path| path.canonicalize().map_err(failed(path));
    fs::create_dir_all(&target).map_err(failed(&target))?;
    let built = Built { tree: at(&tree)?, target: at(&target)? };
    say!("building {} planted bugs", all.len());
    cargo(built.cargo().args(["build", "--package", "granary-checks"]))?;
    let tests: BTreeSet<&Vec<String>> = plants.iter().filter_map(|p| args_of(&p.by)).collect();
    tests.into_iter().try_for_each(|args| cargo(built.cargo().args(["test", "--no-run"]).args(args)))?;
    Ok(built)
}

fn args_of(by: &By) -> Option<&Vec<String>> {
    match by {
        By::Crash => None,
        By::Test { args, .. } => Some(args),
    }
}

fn cargo(command: &mut Command) -> Result<(), String> {
    let done = command.status().map_err(|e| format!("cargo does not run: {e}"))?;
    if done.success() { Ok(()) } else { Err("the copy with the planted bugs cannot be built".to_owned()) }
}

/// The project's files: those that git knows, and those that it would add.
fn tracked(root: &Path) -> Result<Vec<PathBuf>, String> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(args).current_dir(root).output();
    let listed = listed.map_err(|e| format!("git does not run: {e}"))?;
    if !listed.status.success() {
        return Err(format!("git lists no files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let names = listed.stdout.split(|b| *b == 0).filter(|name| !name.is_empty());
    let paths = names.map(|name| PathBuf::from(OsString::from_vec(name.to_vec())));
    Ok(paths.filter(|path| root.join(path).is_file()).collect())
}

fn failed(what: &Path) -> impl FnOnce(io::Error) -> String + '_ {
    move |e| format!("{}: {e}", what.display())
}

/// With its permissions.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::copy(from, to).map(drop)
}

/// Makes one directory what another is.
fn sync(from: &Path, to: &Path) -> io::Result<()> {
    let mut there = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, old) = (entry.file_name(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&old)?;
            sync(&entry.path(), &old)?;
        } else if fs::read(&old).ok() != Some(fs::read(entry.path())?) {
            copy(&entry.path(), &old)?;
        }
        there.insert(name);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !there.contains(&entry.file_name()) {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
    }
    Ok(())
}
