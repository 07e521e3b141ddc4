//! [`commands`]: the commands of a page. The test that follows the guide includes this file, too
//! (`crates/granary/tests/it/guide.rs`).

/// The lines of all `sh` blocks of a Markdown text.
pub fn commands(text: &str) -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) => script += &format!("{line}\n"),
            (false, _) => {}
        }
    }
    script
}
