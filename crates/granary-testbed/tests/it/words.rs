//! One word, one meaning: a public type's name that two crates have is in docs/GLOSSARY.md, with what all of
//! them are. Names that say nothing by themselves no public type has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// An entry, a state, a place is one of something: `Dentry`, `NodeState`, `SlotPlace`.
const SAY_NOTHING: [&str; 3] = ["Entry", "State", "Direct"];

/// Names with two meanings. The list may only become shorter.
const STILL: [&str; 49] = [
    "Access",
    "Batch",
    "Block",
    "Blocks",
    "Bytes",
    "Call",
    "Change",
    "Command",
    "Crowd",
    "Data",
    "Dirent",
    "Event",
    "Faults",
    "Form",
    "Found",
    "Header",
    "Host",
    "Image",
    "Keep",
    "Kept",
    "Kind",
    "Layout",
    "Load",
    "Look",
    "Missing",
    "Mode",
    "Names",
    "Op",
    "Origin",
    "PageCache",
    "Part",
    "Path",
    "Period",
    "Phase",
    "Piece",
    "Record",
    "Report",
    "Request",
    "Row",
    "Seen",
    "Stats",
    "Structure",
    "Summary",
    "Unit",
    "Use",
    "Variant",
    "Verdict",
    "Watcher",
    "Way",
];

/// The public types that lead out of a crate's root: declared or passed on in `lib.rs` and in its public
/// modules.
fn public_types(file: &Path, modules: &Path, found: &mut BTreeSet<String>) {
    let Ok(text) = fs::read_to_string(file) else { return };
    let lines = || text.lines().filter(|line| !line.trim_start().starts_with("//"));
    for kind in ["struct", "enum", "trait", "type"] {
        let declared =
            lines().filter_map(|line| line.strip_prefix("pub ")?.strip_prefix(kind)?.strip_prefix(' '));
        found.extend(declared.map(word));
    }
    let code: Vec<&str> = lines().collect();
    for passed_on in code.join("\n").split("pub use ").skip(1) {
        let until = passed_on.split(';').next().unwrap_or_default();
        // `A as B` has the second name alone.
        let names = until
            .split([',', '{', '}', ':', '\n'])
            .map(|name| name.rsplit(" as ").next().unwrap_or(name).trim());
        found.extend(names.filter(|name| is_type(name)).map(str::to_owned));
    }
    for module in lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        public_types(&modules.join(module).with_extension("rs"), &modules.join(module), found);
    }
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// `Dentry`, and neither `dentry` nor `DENTRY`.
fn is_type(name: &str) -> bool {
    name.starts_with(|c: char| c.is_uppercase()) && name.contains(|c: char| c.is_lowercase())
}

#[test]
fn what_several_crates_call_by_one_name_is_one_thing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let glossary = fs::read_to_string(root.join("docs/GLOSSARY.md")).expect("the glossary");
    let shared = glossary.split("## Names that several crates have").nth(1).expect("its second part");
    let told: BTreeSet<&str> =
        shared.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for of in fs::read_dir(root.join("crates")).expect("the crates") {
        let of = of.expect("a crate");
        let mut found = BTreeSet::new();
        public_types(&of.path().join("src/lib.rs"), &of.path().join("src"), &mut found);
        let name = of.file_name().to_string_lossy().into_owned();
        for of_it in found {
            types.entry(of_it).or_default().insert(name.clone());
        }
    }
    assert!(types.contains_key("FsEntry") && types["Dentry"].len() > 1, "the sources are read");
    let silent: Vec<_> = SAY_NOTHING.iter().filter_map(|&name| types.get_key_value(name)).collect();
    assert!(silent.is_empty(), "say of what: {silent:?}");
    let several: BTreeMap<&str, _> =
        types.iter().filter(|(_, of)| of.len() > 1).map(|(name, of)| (name.as_str(), of)).collect();
    let untold: Vec<_> =
        several.iter().filter(|(name, _)| !told.contains(*name) && !STILL.contains(name)).collect();
    assert!(untold.is_empty(), "rename, or say in docs/GLOSSARY.md what all of them are: {untold:#?}");
    let gone: Vec<_> = told.iter().copied().chain(STILL).filter(|name| !several.contains_key(name)).collect();
    assert!(gone.is_empty(), "no names of several crates any more: {gone:?}");
    assert!(STILL.iter().all(|name| !told.contains(name)));
}
