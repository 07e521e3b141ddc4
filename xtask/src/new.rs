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
use granary_bench::drives::DRIVES;
use granary_testbed::registry::FILE_SYSTEMS;
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

/// A text that stands once in a file, and what comes in its place.
struct Edit {
    file: &'static str,
    old: String,
    new: String,
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

    fn is_taken(self, name: &str) -> bool {
        match self {
            Kind::Fs => FILE_SYSTEMS.iter().any(|entry| entry.name == name),
            Kind::Drive => DRIVES.iter().any(|entry| entry.name == name),
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
            old: format!("\n{line}"),
            new: format!("\n{new}\n{line}"),
        };
        let member = format!("{package} = {{ path = \"crates/{package}\" }}");
        let known = format!("{package}.workspace = true");
        let mut edits = vec![before("Cargo.toml", "granary-workload = ", member)];
        match self {
            Kind::Fs => edits.extend([
                before("crates/granary-testbed/Cargo.toml", "granary-trace.workspace", known),
                Edit {
                    file: "crates/granary-testbed/src/registry.rs",
                    old: "\n];\n\n/// What comes before".to_owned(),
                    new: format!("\n    {krate}::ENTRY,\n];\n\n/// What comes before"),
                },
            ]),
            Kind::Drive => edits.extend([
                before("crates/granary-bench/Cargo.toml", "granary-trace.workspace", known),
                Edit {
                    file: "crates/granary-bench/src/drives.rs",
                    old: "granary_mssd::CACHE]".to_owned(),
                    new: format!("granary_mssd::CACHE, {krate}::ENTRY]"),
                },
            ]),
        }
        edits
    }
}

/// Makes it in this workspace. Says so; nothing is found.
///
/// # Errors
/// The name cannot be, or is taken; a file of the tree is not as expected: nothing is changed then. Writing
/// failed.
pub fn run(kind: Kind, args: &Args) -> Result<u64, String> {
    let package = make(kind, &args.name, Path::new("."))?;
    let (name, guide) = (&args.name, kind.guide());
    outln!("crates/{package} is made and registered. Next:");
    outln!("  cargo test -p {package}");
    match kind {
        Kind::Fs => {
            outln!("  cargo run --release -- run varmail --fs {name},ext4 --scale 0.001");
            outln!("  cargo run --release -- crash --fs {name},{name}@volatile --time 60");
        }
        Kind::Drive => {
            outln!("  cargo run --release -- drive bench --firmware {name} --rw randwrite");
            outln!("  cargo run --release -- crash --fs ext4@{name} --time 60");
        }
    }
    outln!("{guide} says what is to be written in it.");
    Ok(0)
}

/// Makes it in the workspace at `root`; says what the crate is called.
fn make(kind: Kind, name: &str, root: &Path) -> Result<String, String> {
    check(kind, name)?;
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
        if text.matches(&edit.old).count() != 1 {
            return Err(format!(
                "{} does not have '{}' once: add the lines by hand, as {} says; nothing is changed",
                file.display(),
                edit.old.trim(),
                kind.guide()
            ));
        }
        made.push((file, text.replace(&edit.old, &edit.new)));
    }
    for (file, text) in made {
        let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, text));
        written.map_err(|e| format!("writing {}: {e}", file.display()))?;
    }
    Ok(package)
}

fn check(kind: Kind, name: &str) -> Result<(), String> {
    let word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || name.len() > 32 || !name.split('-').all(word) {
        return Err(format!(
            "'{name}' is no name: write small letters, digits and single hyphens, as in log-fs, 32 characters at most"
        ));
    }
    if kind.is_taken(name) {
        return Err(format!("'{name}' is registered already: choose another name"));
    }
    Ok(())
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
        all.extend(
            ["crates/granary-testbed/src/registry.rs", "crates/granary-bench/src/drives.rs"]
                .map(PathBuf::from),
        );
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
        for wrong in ["mine", "ext4", "Mine", "9p", "a--b", "-a", "a-", "", "a/b", "x".repeat(33).as_str()] {
            assert!(make(Kind::Fs, wrong, root.path()).is_err(), "{wrong}");
        }
        assert!(make(Kind::Drive, DRIVES[0].name, root.path()).expect_err("taken").contains("registered"));
        fs::write(root.path().join("crates/granary-bench/src/drives.rs"), "another").expect("written");
        assert!(make(Kind::Drive, "other", root.path()).expect_err("no place").contains("by hand"));
        fs::write(
            root.path().join("crates/granary-bench/src/drives.rs"),
            &before.iter().find(|(file, _)| file.ends_with("drives.rs")).expect("it").1,
        )
        .expect("written");
        assert_eq!(snapshot(root.path()), before);
    }
}
