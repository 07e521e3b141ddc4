//! Which commit a checkout is at, for the result records; used by build.rs and tests/commit.rs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of the program, of the whole repository.
const BUILT: [&str; 4] = ["crates", "testbeds", "Cargo.toml", "Cargo.lock"];

/// Prints of `git ARGS` in `dir`; none where there is no git, no repository, or it fails.
fn git(dir: &Path, args: &[&str]) -> Option<String> {
    // Nothing is to be written: `status` would refresh the index, and that is one of the files that are
    // watched.
    let output = Command::new("git").arg("--no-optional-locks").args(args).current_dir(dir).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The commit of the repository at `root`, with `-dirty` where something that is built was changed since (or
/// is new). None where `root` is not the top of a checkout: sources unpacked within another repository are
/// not at that one's commit.
pub fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let hash = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(root, &[&["status", "--porcelain", "--"][..], &BUILT].concat())?;
    Some(if changed.is_empty() { hash } else { format!("{hash}-dirty") })
}

/// The files that say that the commit is another one, or that something was changed. Only those that exist:
/// what does not, cargo takes for changed each time.
pub fn watched(root: &Path) -> Vec<PathBuf> {
    let of_git = ["HEAD", "index", "logs/HEAD"].into_iter();
    let of_git = of_git.filter_map(|name| Some(root.join(git(root, &["rev-parse", "--git-path", name])?)));
    of_git.chain(BUILT.map(|name| root.join(name))).filter(|path| path.exists()).collect()
}
