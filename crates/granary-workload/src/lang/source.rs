//! The text of a workload file, positions in it, and the error that points at one.
//!
//! ```text
//!   varmail.f:12:12: unknown flowop `opnfile`
//!      |
//!   12 |     flowop opnfile name=open1,filesetname=bigfileset,fd=1
//!      |            ^^^^^^^
//!      = help: did you mean `openfile`?
//! ```
//!
//! Invariants: lines and columns count from 1, columns in characters; a [`Span`] lies within the text, on
//! character boundaries (both come from the lexer); a long line is clipped around the caret.

use std::fmt;

use super::MAX_TEXT;

/// A range of bytes in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// `MAX_TEXT` fits in `u32`, so no offset is cut.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// From the start of `self` to the end of `other`.
    pub(crate) fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.end) }
    }
}

/// The result of reading something; boxed because the error is large and rare.
pub(crate) type Result<T> = std::result::Result<T, Box<Diagnostic>>;

/// A text and where its lines start.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    name: &'a str,
    pub(crate) text: &'a str,
    line_starts: Vec<u32>,
    /// It is a file, whose lines are counted.
    is_file: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn new(name: &'a str, text: &'a str) -> Self {
        let text = text.get(..MAX_TEXT + 1).unwrap_or(text);
        let after_newline = text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| i as u32 + 1);
        Self { name, text, line_starts: std::iter::once(0).chain(after_newline).collect(), is_file: true }
    }

    /// A text that was given with an argument: errors name that instead of file and line.
    pub(crate) fn of_argument(name: &'a str, text: &'a str) -> Self {
        Self { is_file: false, ..Self::new(name, text) }
    }

    /// The file's name.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// Refuses a text that is too long to be a workload file.
    pub(crate) fn check_size(&self) -> Result<()> {
        if self.text.len() <= MAX_TEXT {
            return Ok(());
        }
        let message = format!("a workload file has at most {MAX_TEXT} bytes");
        self.error(Span::new(0, 0), message, "is this a workload file? They usually end in `.f`")
    }

    /// Line and column of a byte offset, both from 1.
    pub(crate) fn position(&self, offset: u32) -> (u32, u32) {
        let line = self.line_starts.partition_point(|&start| start <= offset).max(1);
        let start = self.line_starts[line - 1] as usize;
        let before = self.text.get(start..offset as usize).unwrap_or("");
        (line as u32, before.chars().count() as u32 + 1)
    }

    /// An error at `span`.
    pub(crate) fn error<T>(
        &self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Result<T> {
        let (line, column) = self.position(span.start);
        let start = self.line_starts[line as usize - 1] as usize;
        let rest = self.text.get(start..).unwrap_or("");
        let text = rest.split('\n').next().unwrap_or("").trim_end_matches('\r');
        let (shown, caret) = clip(text, column as usize - 1);
        let marked = self.text.get(span.start as usize..span.end as usize).unwrap_or("");
        let marked = marked.split('\n').next().unwrap_or("").chars().count();
        let room = shown.chars().count().saturating_sub(caret);
        Err(Box::new(Diagnostic {
            file: self.name.to_owned(),
            line: if self.is_file { line } else { 0 },
            column,
            message: message.into(),
            source_line: shown,
            caret,
            width: marked.min(room).max(1),
            help: help.into(),
        }))
    }
}

/// At most this many characters of a line are shown.
const SHOWN: usize = 100;

/// The part of `line` around character `at`, with control characters made harmless, and where `at` is in it.
fn clip(line: &str, at: usize) -> (String, usize) {
    let length = line.chars().count();
    let from = if length <= SHOWN { 0 } else { at.saturating_sub(SHOWN / 2).min(length - SHOWN) };
    let harmless = |c: char| if c.is_control() { ' ' } else { c };
    (line.chars().skip(from).take(SHOWN).map(harmless).collect(), at - from)
}

/// An error in a workload file, its place, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name, or the argument that is wrong.
    pub file: String,
    /// Line, from 1; 0 in an argument.
    pub line: u32,
    /// Column in the line in characters, from 1.
    pub column: u32,
    /// The error.
    pub message: String,
    /// The line (at most 100 characters of it, tabs as single spaces).
    pub source_line: String,
    /// Where in [`source_line`](Self::source_line) the fault starts, in characters from 0.
    pub caret: usize,
    /// How many characters it covers; at least 1.
    pub width: usize,
    /// The remedy.
    pub help: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, source_line, caret, width, help } = self;
        let line = if *line == 0 { String::new() } else { line.to_string() };
        let gutter = line.len();
        match line.is_empty() {
            true => writeln!(f, "{file}: {message}")?,
            false => writeln!(f, "{file}:{line}:{column}: {message}")?,
        }
        writeln!(f, "{:gutter$} |", "")?;
        writeln!(f, "{line} | {source_line}")?;
        writeln!(f, "{:gutter$} | {:caret$}{}", "", "", "^".repeat(*width))?;
        write!(f, "{:gutter$} = help: {help}", "")
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(text: &str, start: usize, end: usize) -> Box<Diagnostic> {
        Source::new("x.f", text).error::<()>(Span::new(start, end), "wrong", "right").unwrap_err()
    }

    #[test]
    fn an_error_points_at_its_text() {
        let shown = diagnostic("one\n  two three\n", 10, 15).to_string();
        assert_eq!(shown, "x.f:2:7: wrong\n  |\n2 |   two three\n  |       ^^^^^\n  = help: right");
    }

    #[test]
    fn columns_count_characters_and_carets_line_up_after_tabs() {
        let d = diagnostic("\tgrüße x", 9, 10);
        assert_eq!((d.line, d.column, d.caret, d.width), (1, 8, 7, 1));
        assert_eq!(d.source_line, " grüße x");
    }

    #[test]
    fn the_end_of_the_text_is_a_position() {
        let d = diagnostic("set\n", 4, 4);
        assert_eq!((d.line, d.column, d.width), (2, 1, 1));
        let d = diagnostic("", 0, 0);
        assert_eq!((d.line, d.column, d.width), (1, 1, 1));
    }

    #[test]
    fn long_lines_are_clipped_around_the_fault() {
        let text = format!("{}X{}", "a".repeat(1000), "b".repeat(1000));
        let d = diagnostic(&text, 1000, 1001);
        assert_eq!(d.column, 1001);
        assert_eq!(d.source_line.chars().count(), SHOWN);
        assert_eq!(d.source_line.chars().nth(d.caret), Some('X'));
    }
}
