//! Every command that a message recommends is one: found in the sources, and given to the parser of
//! arguments.
//!
//! ```text
//!   sources of all crates ── string literals (no comments, no tests) ──> "`granary mkfs IMAGE --force`"
//!                                                                              │
//!                                                                              v
//!   help texts of all commands ─────────────────────────────────────────────> clap
//! ```
//!
//! Invariants: a message names a command in backticks and whole, so that a user can copy it. Words in
//! capitals and `{values}` stand for the user's own.

use crate::cli::Cli;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::path::{Path, PathBuf};

/// The string literals of a source file before its tests, each with its line.
fn literals(text: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let mut chars = text.char_indices().peekable();
    let line_of = |at: usize| 1 + text[..at].matches('\n').count();
    while let Some((at, c)) = chars.next() {
        match c {
            '/' if text[at..].starts_with("//") => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            // A character, not a lifetime.
            '\'' => {
                let rest = &text[at + 1..];
                let len =
                    if rest.starts_with('\\') { rest[2..].find('\'').map(|n| n + 3) } else { char_len(rest) };
                if let Some(len) = len {
                    while chars.next_if(|(next, _)| *next <= at + len).is_some() {}
                }
            }
            '#' if text[at..].starts_with("#[cfg(test)]\nmod ")
                || text[at..].starts_with("#[cfg(test)]\npub(") =>
            {
                break;
            }
            '"' => {
                let raw = text[..at].ends_with(['r', '#']) && text[..at].trim_end_matches('#').ends_with('r');
                let hashes = text[..at].len() - text[..at].trim_end_matches('#').len();
                let mut literal = String::new();
                while let Some((here, c)) = chars.next() {
                    match c {
                        '"' if raw && !text[here + 1..].starts_with(&"#".repeat(hashes)) => literal.push('"'),
                        '"' => break,
                        '\\' if !raw => match chars.next() {
                            Some((_, '\n')) => while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {},
                            Some((_, 'n')) => literal.push('\n'),
                            Some((_, c)) => literal.push(c),
                            None => {}
                        },
                        c => literal.push(c),
                    }
                }
                out.push((line_of(at), literal));
            }
            _ => {}
        }
    }
    out
}

/// Bytes of a character and the quote behind it.
fn char_len(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices();
    chars.next()?;
    let (at, c) = chars.next()?;
    (c == '\'').then_some(at + 1)
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in
        std::fs::read_dir(dir).expect("a directory of the sources").map(|e| e.expect("an entry").path())
    {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() && name != "tests" {
            sources(&entry, out);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "hints.rs" {
            out.push(entry);
        }
    }
}

/// Whether the program takes it; what stands for something is something.
fn refusal(command: &str, whole: bool) -> Option<String> {
    let mut words = Vec::new();
    let mut plain = String::new();
    let mut depth = 0;
    for c in command.chars() {
        match c {
            '{' => {
                plain.push_str(if depth == 0 { "1" } else { "" });
                depth += 1;
            }
            '}' => depth -= 1,
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    for word in plain.split_whitespace().filter(|w| *w != "...") {
        let stands = word.chars().all(|c| c.is_ascii_uppercase()) && word.len() > 1 || word == "N";
        words.push(if stands { "1".to_owned() } else { word.to_owned() });
    }
    let Err(e) = Cli::try_parse_from(&words) else { return None };
    let missing = [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    (whole || !missing.contains(&e.kind())).then(|| e.to_string())
}

/// The commands of granary in the backticks of a text.
fn commands(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|q| {
            q.starts_with("granary ")
                .then_some(q)
                .or_else(|| q.split("| ").find(|c| c.starts_with("granary ")))
        })
        .collect()
}

#[test]
fn every_command_that_a_message_recommends_is_one() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    let mut files = Vec::new();
    sources(crates, &mut files);
    let names: Vec<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        let file = file.strip_prefix(crates).expect("below the crates").display().to_string();
        for (line, literal) in literals(&text) {
            // A literal that is a command is put between backticks elsewhere.
            let is_one = literal.starts_with("granary ") && literal.trim() != "granary";
            let alone = is_one.then_some(literal.as_str());
            for command in commands(&literal).into_iter().chain(alone) {
                checked += 1;
                wrong.extend(refusal(command, true).map(|e| format!("{file}:{line}: `{command}`: {e}")));
            }
            if alone.is_some() {
                continue;
            }
            let bare = literal.split('`').step_by(2).collect::<Vec<_>>().join("` `");
            let named = names.iter().find(|name| {
                let at = format!("granary {name}");
                bare.match_indices(&at).any(|(n, _)| {
                    !bare[n + at.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '-')
                })
            });
            wrong.extend(
                named.map(|name| format!("{file}:{line}: granary {name} without backticks: {literal}")),
            );
        }
    }
    assert!(checked > 20, "the messages are found: {checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_that_a_help_text_names_is_one() {
    fn look(command: &clap::Command, wrong: &mut Vec<String>) {
        let of_args = command.get_arguments().flat_map(|a| [a.get_help(), a.get_long_help()]);
        let texts = [command.get_about(), command.get_long_about(), command.get_after_help()];
        for text in texts.into_iter().chain(of_args).flatten().map(ToString::to_string) {
            for named in commands(&text) {
                wrong
                    .extend(refusal(named, false).map(|e| format!("{}: `{named}`: {e}", command.get_name())));
            }
        }
        command.get_subcommands().for_each(|c| look(c, wrong));
    }
    let mut wrong = Vec::new();
    look(&Cli::command(), &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_is_none_is_found() {
    assert_eq!(
        commands("say `granary testbed show NAME --values`, or `zcat F | granary drive replay -`").len(),
        2
    );
    assert_eq!(refusal("granary testbed show NAME --values", true), None);
    assert_eq!(refusal("granary grow {} --size {size}", true), None);
    assert!(refusal("granary testbed show --values", true).is_some());
    assert!(refusal("granary testbed show --value x", false).is_some());
    let found = literals(
        "// \"no\"\nlet a = '\"'; let b: &'static str = \"one \\\n  two\"; let c = r#\"th\"ree\"#;\n#[cfg(test)]\nmod tests { \"no\" }",
    );
    assert_eq!(found, [(2, "one two".to_owned()), (3, "th\"ree".to_owned())]);
}
