//! The list of planted bugs and their patches; shared with `cargo xtask plants`.
//!
//! ```text
//!   plants/000-switch.patch   granary_sim::planted(name): the environment variable GRANARY_PLANT
//!   plants/001-example.patch  examples/minimal-fs is in the registry, as `cargo xtask new-fs` would have it
//!   plants/plants.toml        what there is, in the order in which the patches are applied
//!   plants/NAME.patch         wrong code behind planted("NAME")
//! ```
//!
//! A patch may be made on those before it: only all of them, in their order, apply to the tree. `git apply`
//! does that, which needs no repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Where the patches lie, from the root of the project.
pub const PLACE: &str = "crates/granary-crash/plants";
/// The patches that come before all bugs: the others need them.
pub const FIRST: [&str; 2] = ["000-switch", "001-example"];
/// The published classes of bugs.
pub const CLASSES: [&str; 6] = ["CrashMonkey/ACE", "B3", "Chipmunk", "Vinter", "Hydra", "drive firmware"];

/// The check that finds a planted bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The crash explorer.
    Crash,
    /// `cargo test` with these arguments, and why nothing else can.
    Test { args: Vec<String>, reason: String },
}

/// A planted bug.
#[derive(Clone, Debug)]
pub struct Plant {
    /// Its name, and its patch's.
    pub name: String,
    /// The bug in one sentence.
    pub bug: String,
    /// One of [`CLASSES`].
    pub class: String,
    /// The targets that have it, the likeliest first.
    pub targets: Vec<String>,
    /// The check that finds it.
    pub by: By,
}

fn text(entry: &toml::Table, key: &str) -> Result<String, String> {
    let value = entry.get(key).and_then(toml::Value::as_str).filter(|text| !text.is_empty());
    value.map(str::to_owned).ok_or_else(|| format!("an entry has no {key}: {entry}"))
}

fn plant(entry: &toml::Table) -> Result<Plant, String> {
    let (name, class) = (text(entry, "name")?, text(entry, "class")?);
    if !CLASSES.contains(&class.as_str()) {
        return Err(format!("{name}: no class '{class}': choose from {}", CLASSES.join(", ")));
    }
    let targets = entry.get("targets").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let targets: Vec<String> = targets.iter().filter_map(|t| t.as_str().map(str::to_owned)).collect();
    if targets.is_empty() {
        return Err(format!("{name}: no targets"));
    }
    let by = match text(entry, "by")?.as_str() {
        "crash" => By::Crash,
        "test" => {
            let args = text(entry, "test")?.split_whitespace().map(str::to_owned).collect();
            By::Test { args, reason: text(entry, "reason")? }
        }
        by => return Err(format!("{name}: by '{by}', which is neither crash nor test")),
    };
    Ok(Plant { name, bug: text(entry, "bug")?, class, targets, by })
}

/// The list, of which each entry has its patch and each patch its entry.
///
/// # Errors
/// Its fault, in one sentence.
pub fn list(place: &Path) -> Result<Vec<Plant>, String> {
    let path = place.join("plants.toml");
    let content = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let table: toml::Table = toml::from_str(&content).map_err(|e| format!("plants.toml: {e}"))?;
    let entries = table.get("plant").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let entries = entries.iter().filter_map(toml::Value::as_table);
    let plants: Vec<Plant> = entries.map(plant).collect::<Result<_, _>>()?;
    let mut listed = BTreeSet::from(FIRST.map(str::to_owned));
    if let Some(twice) = plants.iter().find(|p| !listed.insert(p.name.clone())) {
        return Err(format!("{}: listed twice", twice.name));
    }
    let there = names(place).map_err(|e| format!("{}: {e}", place.display()))?;
    match (listed.difference(&there).next(), there.difference(&listed).next()) {
        (Some(name), _) => Err(format!("{name}: in plants.toml, and has no patch")),
        (_, Some(name)) => Err(format!("{name}.patch: not in plants.toml")),
        _ => Ok(plants),
    }
}

fn names(place: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(place)? {
        let name = entry?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(".patch")).map(str::to_owned));
    }
    Ok(names)
}

/// All patches, in the order in which they are applied.
pub fn in_order(place: &Path, plants: &[Plant]) -> Vec<PathBuf> {
    let names = FIRST.into_iter().chain(plants.iter().map(|plant| plant.name.as_str()));
    names.map(|name| place.join(format!("{name}.patch"))).collect()
}

/// Applies patches to a tree, one after the other.
///
/// # Errors
/// The patch that does not apply, and what git says; the tree has those before it.
pub fn apply(patches: &[PathBuf], tree: &Path) -> Result<(), String> {
    let tree = tree.canonicalize().map_err(|e| format!("{}: {e}", tree.display()))?;
    for patch in patches {
        let patch = patch.canonicalize().map_err(|e| format!("{}: {e}", patch.display()))?;
        let mut git = Command::new("git");
        // Within a repository git would take the paths for those of the repository.
        git.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(&tree)).env_remove("GIT_DIR");
        let done = git.arg("apply").arg(&patch).current_dir(&tree).output();
        let done = done.map_err(|e| format!("git does not run: {e}"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let name = patch.file_name().unwrap_or_default().display();
            return Err(format!("{name} does not apply: {}", said.trim()));
        }
    }
    Ok(())
}

/// The files that a patch changes and that are there before it.
pub fn touched(patch: &str) -> impl Iterator<Item = &str> {
    patch.lines().filter_map(|line| line.strip_prefix("--- a/"))
}

/// Applies all patches to a copy of the files that they touch; `scratch` is for the copy. Returns how many
/// bugs there are.
///
/// # Errors
/// The first thing that does not fit, in one sentence.
pub fn check(root: &Path, place: &Path, scratch: &Path) -> Result<usize, String> {
    let plants = list(place)?;
    let patches = in_order(place, &plants);
    let mut copied = BTreeSet::new();
    for patch in &patches {
        let content = fs::read_to_string(patch).map_err(|e| format!("{}: {e}", patch.display()))?;
        for file in touched(&content).filter(|file| copied.insert((*file).to_owned())) {
            let to = scratch.join(file);
            let dir = to.parent().unwrap_or(scratch);
            // A file that is not there any more: git says whose patch wants it.
            let copy = fs::create_dir_all(dir).and_then(|()| match root.join(file).exists() {
                true => fs::copy(root.join(file), &to).map(drop),
                false => Ok(()),
            });
            copy.map_err(|e| format!("{file}: {e}"))?;
        }
    }
    apply(&patches, scratch)?;
    Ok(plants.len())
}
