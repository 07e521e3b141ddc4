//! `granary man`: the manual pages, made from the same descriptions as `--help`.

use crate::cli::Cli;
use crate::failure::Failure;
use clap::{Command, CommandFactory};
use std::path::Path;

/// Prints all pages (`granary man | man -l -` shows them), or writes one file per command.
pub fn run(out: Option<&Path>) -> Result<(), Failure> {
    let pages = pages()?;
    let Some(dir) = out else {
        pages.iter().for_each(|(_, page)| crate::out::bytes(page));
        return Ok(());
    };
    std::fs::create_dir_all(dir).map_err(|e| Failure::io(format!("making {}", dir.display()), e))?;
    for (name, page) in &pages {
        let file = dir.join(name);
        std::fs::write(&file, page).map_err(|e| Failure::io(format!("writing {}", file.display()), e))?;
    }
    Ok(())
}

/// Each page and the name of its file: of granary, then of its commands in the order of `--help`.
fn pages() -> Result<Vec<(String, Vec<u8>)>, Failure> {
    // Without the command `help`, which would have a page for each command again.
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    page(root, &mut pages).map_err(|e| Failure::io("making the manual", e))?;
    Ok(pages)
}

fn page(command: Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let inner: Vec<Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).cloned().collect();
    let man = clap_mangen::Man::new(command)
        .source(concat!("granary ", env!("CARGO_PKG_VERSION")))
        .manual("Granary");
    let mut text = Vec::new();
    man.render(&mut text)?;
    pages.push((man.get_filename(), text));
    inner.into_iter().try_for_each(|command| page(command, pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_of_its_name() {
        let pages = pages().expect("made");
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in
            ["granary.1", "granary-run.1", "granary-drive.1", "granary-drive-bench.1", "granary-man.1"]
        {
            assert!(names.contains(&name), "{names:?}");
        }
        for (name, page) in &pages {
            let text = String::from_utf8(page.clone()).expect("text");
            assert!(text.contains(".TH ") && text.contains(".SH NAME"), "{name}: {text}");
        }
        let run = pages
            .iter()
            .find(|(name, _)| name == "granary-run.1")
            .map(|(_, page)| String::from_utf8_lossy(page));
        assert!(run.expect("is there").contains("\\-\\-scale"), "options are told");
    }
}
