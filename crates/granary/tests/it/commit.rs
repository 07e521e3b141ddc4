//! Which commit the records name.

use std::path::Path;
use std::process::Command;

#[path = "../../build/commit.rs"]
mod built;

fn git(dir: &Path, args: &[&str]) -> bool {
    let who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
    Command::new("git").args(who).args(args).current_dir(dir).output().is_ok_and(|out| out.status.success())
}

#[test]
fn a_changed_tree_is_dirty_and_its_commit_clean() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path();
    assert_eq!(built::commit(root), None, "no repository");
    if !git(root, &["init", "-q"]) {
        return; // no git here: then the build says `unknown`
    }
    let write = |name: &str, text: &str| std::fs::write(root.join(name), text).expect("written");
    std::fs::create_dir(root.join("crates")).expect("made");
    write("crates/a.rs", "a");
    write("Cargo.toml", "");
    write("README.md", "");
    assert!(git(root, &["add", "-A"]) && git(root, &["commit", "-qm", "one"]));
    let clean = built::commit(root).expect("a commit");
    assert!(clean.len() == 12 && clean.bytes().all(|b| b.is_ascii_hexdigit()), "{clean}");
    // A change of a file that is not built does not make another program.
    write("README.md", "changed");
    assert_eq!(built::commit(root), Some(clean.clone()));
    write("crates/a.rs", "b");
    assert_eq!(built::commit(root), Some(format!("{clean}-dirty")));
    assert!(git(root, &["commit", "-qam", "two"]));
    let next = built::commit(root).expect("a commit");
    assert!(next != clean && !next.contains('-'), "{next}");
    write("crates/new.rs", "");
    assert_eq!(built::commit(root), Some(format!("{next}-dirty")));
    // Within another repository it is nobody's commit.
    assert_eq!(built::commit(&root.join("crates")), None);
    let watched = built::watched(root);
    assert!(
        watched.iter().any(|path| path.ends_with("logs/HEAD")) && watched.iter().all(|path| path.exists())
    );
}
