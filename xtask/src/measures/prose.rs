//! Sentences of documents and of comments.
//!
//! ```text
//!   file -> paragraphs -> sentences        code blocks, tables, drawings and headings are none; `code` and
//!                                          links count as their words
//! ```

/// The paragraphs of a document in Markdown. Each item of a list is one.
pub fn paragraphs(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut fence = false;
    for line in text.lines() {
        let bare = line.trim();
        if bare.starts_with("```") {
            fence = !fence;
            all.push(String::new());
            continue;
        }
        if fence || bare.starts_with('#') || bare.starts_with('|') || bare.starts_with('<') || bare.is_empty()
        {
            all.push(String::new());
            continue;
        }
        if is_item(bare) {
            all.push(String::new());
        }
        if let Some(last) = all.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            let bare = if is_item(bare) { bare.split_once(' ').map_or("", |(_, text)| text) } else { bare };
            last.push_str(bare.trim_start_matches(['>', ' ']));
        }
    }
    all.retain(|paragraph| !paragraph.is_empty());
    all
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || number.len() < line.len() && number.starts_with(". ")
}

/// The comments of a Rust source, each run of comment lines as a document.
pub fn comments(source: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in source.lines() {
        match comment(line) {
            Some(text) => {
                if let Some(last) = all.last_mut() {
                    last.push_str(text);
                    last.push('\n');
                }
            }
            None => all.push(String::new()),
        }
    }
    all.retain(|comment| !comment.is_empty());
    all
}

/// The text of a line that is a comment.
pub fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    let text = text.strip_prefix('/').or_else(|| text.strip_prefix('!')).unwrap_or(text);
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// The sentences of a paragraph.
pub fn sentences(paragraph: &str) -> Vec<String> {
    let text = plain(paragraph);
    let mut all = Vec::new();
    let mut rest = text.as_str();
    while let Some(end) = end(rest) {
        all.push(rest[..end].trim().to_owned());
        rest = rest[end..].trim_start();
    }
    all.push(rest.trim().to_owned());
    all.retain(|sentence| sentence.contains(char::is_alphabetic));
    all
}

/// Behind the first sentence: a full stop, question or exclamation mark with what closes behind it, a space,
/// and no small letter.
fn end(text: &str) -> Option<usize> {
    const CLOSING: [char; 5] = [')', '"', '\'', '*', '_'];
    text.match_indices(['.', '?', '!']).find_map(|(at, _)| {
        let behind = text[at + 1..].trim_start_matches(CLOSING);
        let next = behind.trim_start().chars().next();
        let ends = behind.starts_with(char::is_whitespace) && next.is_some_and(|c| !c.is_lowercase());
        (ends && !is_short(&text[..=at])).then(|| text.len() - behind.len())
    })
}

/// Whether a text ends with an abbreviation.
fn is_short(text: &str) -> bool {
    ["e.g.", "i.e.", "et al.", "cf.", "vs.", "Fig.", "Sec.", "No."].iter().any(|short| text.ends_with(short))
}

/// Links without their addresses; code as one word.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut code = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '`' => {
                code = !code;
                if code {
                    out.push('X');
                }
            }
            _ if code => {}
            '[' => {}
            ']' if chars.peek() == Some(&'(') => {
                for c in chars.by_ref() {
                    if c == ')' {
                        break;
                    }
                }
            }
            ']' => {}
            c => out.push(c),
        }
    }
    out
}

/// Words of a sentence.
pub fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Whether a sentence opens with a fused relative: "Who asks is told." A question is none.
pub fn is_fused(sentence: &str) -> bool {
    const OPENINGS: [&str; 7] = ["Who", "What", "Whoever", "Whatever", "Whichever", "Whom", "Whose"];
    let first = sentence.split(|c: char| !c.is_alphabetic()).find(|word| !word.is_empty());
    first.is_some_and(|first| OPENINGS.contains(&first)) && !sentence.ends_with('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_they_end() {
        let text =
            "One `a. b` two, e.g. three. Four [five](http://x.y/z.w) six? \"Seven.\" Version 1.5 counts.";
        let all = sentences(text);
        assert_eq!(all, ["One X two, e.g. three.", "Four five six?", "\"Seven.\"", "Version 1.5 counts."]);
        assert_eq!(words(&all[0]), 5);
    }

    #[test]
    fn code_tables_and_headings_are_no_sentences() {
        let text = "# Title\n\nOne\ntwo.\n\n```sh\nno. No.\n```\n| a | b |\n- item one\n  goes on\n- item two\n1. first\n";
        assert_eq!(
            paragraphs(text),
            ["One two.", "item one goes on", "item two", "first"].map(str::to_owned)
        );
    }

    #[test]
    fn comments_are_documents() {
        let source = "//! One\n//! two.\n\nfn f() {} // not this\n    // Three.\n/// Four.\n";
        assert_eq!(comments(source), ["One\ntwo.\n", "Three.\nFour.\n"]);
    }

    #[test]
    fn a_question_is_no_fused_relative() {
        assert!(is_fused("Who asks is told.") && is_fused("What is lost is lost."));
        assert!(
            !is_fused("Who asks?") && !is_fused("Whole pages.") && !is_fused("The one who asks is told.")
        );
    }
}
