//! `cargo xtask new-fs NAME`, `cargo xtask new-drive NAME`: a crate to begin a file system or a firmware of
//! one's own from.
//!
//! ```text
//!   examples/minimal-fs        ── copy, with the name ──>  crates/granary-NAME       its tests pass
//!   examples/minimal-firmware  ── copy, with the name ──>  crates/granary-fw-NAME
//!   Cargo.toml, the Cargo.toml and the list of the registry: a line each
//! ```
//!
//! Everything is made up in memory first: an error leaves the tree as it was.

use clap::Args as ClapArgs;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of both.
#[derive(ClapArgs)]
pub struct Args {
    /// Its name, as in `--fs NAME` or `--firmware NAME`: small letters, digits and single hyphens
    name: String,
}

/// The kind of crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file system.
    Fs,
    /// A firmware of a drive.
    Drive,
}

/// Text that goes into a file: before the first `before` behind `anchor`, which stands there once.
struct Edit {
    file: &'static str,
    anchor: String,
    before: String,
    new: String,
}

impl Edit {
    /// The text with it; none where the anchor does not stand there once.
    fn made(&self, text: &str) -> Option<String> {
        let at = text.find(&self.anchor).filter(|_| text.matches(&self.anchor).count() == 1)?;
        let at = at + text[at..].find(&self.before)?;
        Some(format!("{}{}{}", &text[..at], self.new, &text[at..]))
    }
}

impl Kind {
    fn example(self) -> &'static str {
        if self == Kind::Fs { "examples/minimal-fs" } else { "examples/minimal-firmware" }
    }

    fn guide(self) -> &'static str {
        if self == Kind::Fs { "docs/ADDING.md" } else { "docs/ADDING_A_DRIVE.md" }
    }

    /// The name of the crate.
    fn package(self, name: &str) -> String {
        if self == Kind::Fs { format!("granary-{name}") } else { format!("granary-fw-{name}") }
    }

    /// Where the registry stands.
    fn registry(self) -> &'static str {
        if self == Kind::Fs {
            "crates/granary-testbed/src/registry.rs"
        } else {
            "crates/granary-bench/src/drives.rs"
        }
    }

    /// The copy of a file of the example, with the new name; the name of the crate in code is `krate`.
    fn renamed(self, text: &str, name: &str, package: &str, krate: &str) -> String {
        let text = match self {
            Kind::Fs => text.replace("granary_example", krate).replace("\"minimal\"", &format!("\"{name}\"")),
            Kind::Drive => text
                .replace("granary_example_firmware", krate)
                .replace("ext4@minimal", &format!("ext4@{name}"))
                .replace("name: \"minimal\"", &format!("name: \"{name}\"")),
        };
        let manifest = |line: &str| match line.split(" = ").next() {
            Some("name") => Some(format!("name = \"{package}\"")),
            Some("publish") => None,
            _ => Some(line.to_owned()),
        };
        if text.starts_with("[package]") {
            text.lines().filter_map(manifest).fold(String::new(), |all, line| all + &line + "\n")
        } else {
            text
        }
    }

    /// The lines that make it known.
    fn edits(self, package: &str, krate: &str) -> Vec<Edit> {
        let before = |file, line: &str, new: String| Edit {
            file,
            anchor: format!("\n{line}"),
            before: line.to_owned(),
            new: format!("{new}\n"),
        };
        let member = format!("{package} = {{ path = \"crates/{package}\" }}");
        let known = format!("{package}.workspace = true");
        let (manifest, list) = match self {
            Kind::Fs => ("crates/granary-testbed/Cargo.toml", "FILE_SYSTEMS: &[FsEntry] = &["),
            Kind::Drive => ("crates/granary-bench/Cargo.toml", "DRIVES: &[DriveEntry] = &["),
        };
        let entry = match self {
            Kind::Fs => format!("    {krate}::ENTRY,\n"),
            Kind::Drive => format!(", {krate}::ENTRY"),
        };
        vec![
            before("Cargo.toml", "granary-workload = ", member),
            before(manifest, "granary-trace.workspace", known),
            Edit { file: self.registry(), anchor: list.to_owned(), before: "];".to_owned(), new: entry },
        ]
    }
}

/// Makes it in this workspace, and says so.
///
/// # Errors
/// The name cannot be, or is taken; a file of the tree is not as expected: nothing is changed then. Writing
/// failed.
pub fn run(kind: Kind, args: &Args) -> Result<(), String> {
    let package = make(kind, &args.name, Path::new("."))?;
    let (name, guide) = (&args.name, kind.guide());
    println!("crates/{package} is made and registered. Next:");
    println!("  cargo test -p {package}");
    match kind {
        Kind::Fs => {
            println!("  cargo run --release -- run varmail --fs {name},ext4 --scale 0.001");
            println!("  cargo run --release -- crash --fs {name},{name}@volatile --time 60");
        }
        Kind::Drive => {
            println!("  cargo run --release -- drive bench --firmware {name} --rw randwrite");
            println!("  cargo run --release -- crash --fs ext4@{name} --time 60");
        }
    }
    println!("{guide} says what is to be written in it.");
    Ok(())
}

/// Makes it in the workspace at `root`; says what the crate is called.
fn make(kind: Kind, name: &str, root: &Path) -> Result<String, String> {
    check(name)?;
    if is_taken(name, root)? {
        return Err(format!("'{name}' is registered already: choose another name"));
    }
    let package = kind.package(name);
    let krate = package.replace('-', "_");
    let to = root.join("crates").join(&package);
    if to.exists() {
        return Err(format!("{} is there already: choose another name", to.display()));
    }
    let from = root.join(kind.example());
    let mut made: Vec<(PathBuf, String)> = Vec::new();
    for file in files(&from)? {
        let text = read(&file)?;
        let within = file.strip_prefix(&from).map_err(|e| e.to_string())?;
        made.push((to.join(within), kind.renamed(&text, name, &package, &krate)));
    }
    for edit in kind.edits(&package, &krate) {
        let file = root.join(edit.file);
        let text = read(&file)?;
        let Some(text) = edit.made(&text) else {
            return Err(format!(
                "{} does not have '{}' once: add the lines by hand, as {} says; nothing is changed",
                file.display(),
                edit.anchor.trim(),
                kind.guide()
            ));
        };
        made.push((file, text));
    }
    for (file, text) in made {
        let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, text));
        written.map_err(|e| format!("writing {}: {e}", file.display()))?;
    }
    Ok(package)
}

fn check(name: &str) -> Result<(), String> {
    let word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || name.len() > 32 || !name.split('-').all(word) {
        return Err(format!(
            "'{name}' is no name: write small letters, digits and single hyphens, as in log-fs, 32 characters at most"
        ));
    }
    Ok(())
}

/// Whether an entry of this name is in the sources. They are read, not linked: so this program is built in
/// seconds.
fn is_taken(name: &str, root: &Path) -> Result<bool, String> {
    let line = format!("name: \"{name}\",");
    for file in files(&root.join("crates"))? {
        let is_source = file.extension().is_some_and(|e| e == "rs");
        if is_source && read(&file)?.lines().any(|found| found.trim() == line) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file)
        .map_err(|e| format!("reading {}: {e}; is this the root of the workspace?", file.display()))
}

/// All files below a directory.
fn files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let broken =
        |e: std::io::Error| format!("reading {}: {e}; is this the root of the workspace?", dir.display());
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        match path.is_dir() {
            true => all.extend(files(&path)?),
            false => all.push(path),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of this tree that are read or changed, elsewhere.
    fn tree() -> tempfile::TempDir {
        let (root, to) =
            (Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), tempfile::tempdir().expect("a directory"));
        let mut all = vec![PathBuf::from("Cargo.toml")];
        for krate in ["granary-testbed", "granary-bench"] {
            all.push(format!("crates/{krate}/Cargo.toml").into());
        }
        // An entry with a name that is taken.
        all.push("crates/granary-mssd/src/entry.rs".into());
        all.extend([Kind::Fs, Kind::Drive].map(|kind| kind.registry().into()));
        for example in [Kind::Fs.example(), Kind::Drive.example()] {
            let found = files(&root.join(example)).expect("an example");
            all.extend(found.iter().map(|file| file.strip_prefix(&root).expect("below").to_owned()));
        }
        for file in all {
            let copy = to.path().join(&file);
            fs::create_dir_all(copy.parent().expect("a parent")).expect("made");
            fs::copy(root.join(&file), copy).expect("copied");
        }
        to
    }

    fn snapshot(root: &Path) -> Vec<(PathBuf, String)> {
        let mut all: Vec<_> =
            files(root).expect("read").into_iter().map(|f| (f.clone(), read(&f).expect("text"))).collect();
        all.sort();
        all
    }

    #[test]
    fn a_crate_has_its_name_everywhere_and_is_registered() {
        for (kind, package, list) in [
            (Kind::Fs, "granary-my-fs", "crates/granary-testbed/src/registry.rs"),
            (Kind::Drive, "granary-fw-my-fs", "crates/granary-bench/src/drives.rs"),
        ] {
            let root = tree();
            assert_eq!(make(kind, "my-fs", root.path()).as_deref(), Ok(package));
            let krate = package.replace('-', "_");
            let text = |file: &str| read(&root.path().join(file)).expect("text");
            assert!(text("Cargo.toml").contains(&format!("{package} = {{ path = \"crates/{package}\" }}")));
            assert!(text(list).contains(&format!("{krate}::ENTRY")));
            let manifest = text(&format!("crates/{package}/Cargo.toml"));
            assert!(manifest.contains(&format!("name = \"{package}\"")) && !manifest.contains("publish"));
            for (file, text) in snapshot(&root.path().join("crates").join(package)) {
                assert!(
                    !text.contains("granary_example") && !text.contains("\"minimal\""),
                    "{}",
                    file.display()
                );
            }
            assert!(text(&format!("crates/{package}/src/lib.rs")).contains("\"my-fs\""));
        }
    }

    #[test]
    fn what_cannot_be_changes_nothing() {
        let root = tree();
        make(Kind::Fs, "mine", root.path()).expect("made");
        let before = snapshot(root.path());
        for wrong in ["mine", "Mine", "9p", "a--b", "-a", "a-", "", "a/b", "x".repeat(33).as_str()] {
            assert!(make(Kind::Fs, wrong, root.path()).is_err(), "{wrong}");
        }
        assert!(make(Kind::Fs, "log", root.path()).expect_err("taken").contains("registered"));
        let list = root.path().join(Kind::Drive.registry());
        fs::write(&list, "another").expect("written");
        assert!(make(Kind::Drive, "other", root.path()).expect_err("no place").contains("by hand"));
        fs::write(&list, &before.iter().find(|(file, _)| *file == list).expect("it").1).expect("written");
        assert_eq!(snapshot(root.path()), before);
    }
}
