//! Every command of the guide works when it is pasted: the `sh` blocks of a page run in one shell, in an
//! empty directory, with `granary` on the path.

#[path = "../../../../xtask/src/guides/blocks.rs"]
mod blocks;

use blocks::commands;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src")
}

fn script(page: &Path) -> String {
    commands(&fs::read_to_string(page).expect("a page"))
}

/// Runs the commands of a page.
fn follow(name: &str) {
    let script = script(&pages().join(name).with_extension("md"));
    if script.contains("granary mount") && !Path::new("/dev/fuse").exists() {
        granary_suite::skip::skipped("/dev/fuse is missing");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = assert_cmd::cargo::cargo_bin("granary");
    let mut paths = vec![program.parent().expect("a directory").to_owned()];
    paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let out = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", &script])
        .current_dir(&dir)
        .env("PATH", std::env::join_paths(paths).expect("a path"))
        .output()
        .expect("bash runs");
    // A page that failed may have left something mounted.
    for entry in fs::read_dir(&dir).expect("there").flatten() {
        let _ = rustix::mount::unmount(entry.path(), rustix::mount::UnmountFlags::DETACH);
    }
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name}.md: {script}\n{said}");
}

macro_rules! pages {
    ($($page:ident: $name:literal,)+) => {
        $(
            #[test]
            fn $page() {
                follow($name);
            }
        )+

        #[test]
        fn all_pages_with_commands_are_followed() {
            let named = BTreeSet::from([$($name.to_owned()),+]);
            let all = fs::read_dir(pages()).expect("the guide").map(|page| page.expect("a page").path());
            let with_commands = all.filter(|page| !script(page).is_empty());
            let found: BTreeSet<String> =
                with_commands.map(|page| page.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
            assert_eq!(found, named);
        }
    };
}

pages! {
    bytefs: "bytefs",
    crash_testing: "crash-testing",
    devfs: "devfs",
    getting_started: "getting-started",
    images: "images",
    mounting: "mounting",
    orchfs: "orchfs",
    pebblessd: "pebblessd",
    reports: "reports",
    spfs: "spfs",
    stacking: "stacking",
    testbeds: "testbeds",
    virtual_time: "virtual-time",
    workloads: "workloads",
}
