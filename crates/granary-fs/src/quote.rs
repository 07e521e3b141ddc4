//! [`quoted`]: a file's name as a word that a shell would take, and a terminal cannot be fooled by.
//!
//! ```text
//!   plain.txt           as it is
//!   two words           'two words'
//!   it's                "it's"
//!   a, newline, b       'a'$'\n''b'
//!   a byte of no UTF-8  'a'$'\377'
//! ```
//!
//! The style is GNU ls's on a terminal (`--quoting-style=shell-escape`). Characters that turn the direction
//! of text or take no place are escaped, too: they are printable there, and can make one name look like
//! another.
//!
//! Source: GNU coreutils manual, "Formatting the file names"; gnulib, quotearg.c, shell_escape_quoting_style.

use std::fmt::Write as _;

/// Characters for which a shell needs quotes; `#` and `~` only at the beginning.
const SPECIAL: &str = " !\"$&()*;<=>?[\\^`|'";

/// The name for people: itself where it is harmless.
pub fn quoted(name: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(name)
        && !text.chars().any(is_hidden)
    {
        let begins = text.starts_with(['#', '~']) || text == "{" || text == "}";
        if !text.is_empty() && !begins && !text.contains(|c| SPECIAL.contains(c)) {
            return text.to_owned();
        }
        if text.contains('\'') && !text.contains(['"', '\\', '$', '`', '!']) {
            return format!("\"{text}\"");
        }
    }
    let mut out = Pieces { text: "'".to_owned(), escaping: false };
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' => {
                    out.plain();
                    out.text.push_str("'\\''");
                }
                c if is_hidden(c) => out.escape(c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => {
                    out.plain();
                    out.text.push(c);
                }
            }
        }
        out.escape(chunk.invalid());
    }
    out.text.push('\'');
    out.text
}

/// Whether a terminal obeys the character, or shows nothing of it.
fn is_hidden(c: char) -> bool {
    // U+200B.. no width, U+202A.. and U+2066.. direction, U+FEFF no width (Unicode, "General Punctuation").
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A word of quoted and escaped pieces; the last one is open.
struct Pieces {
    text: String,
    escaping: bool,
}

impl Pieces {
    /// Puts the text from here on in plain quotes.
    fn plain(&mut self) {
        if self.escaping {
            self.text.push_str("''");
            self.escaping = false;
        }
    }

    fn escape(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if !self.escaping {
            self.text.push_str("'$'");
            self.escaping = true;
        }
        for b in bytes {
            match b {
                7 => self.text.push_str("\\a"),
                8 => self.text.push_str("\\b"),
                9 => self.text.push_str("\\t"),
                10 => self.text.push_str("\\n"),
                11 => self.text.push_str("\\v"),
                12 => self.text.push_str("\\f"),
                13 => self.text.push_str("\\r"),
                b => drop(write!(self.text, "\\{b:03o}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ls --quoting-style=shell-escape` prints them.
    #[test]
    fn names_are_quoted_as_gnu_ls_does() {
        for (name, shown) in [
            ("plain-1.txt", "plain-1.txt"),
            ("grün", "grün"),
            ("two words", "'two words'"),
            ("it's", "\"it's\""),
            ("it's $1", "'it'\\''s $1'"),
            ("\"", "'\"'"),
            ("a*b", "'a*b'"),
            ("a\\b", "'a\\b'"),
            ("#a", "'#a'"),
            ("a#", "a#"),
            ("~", "'~'"),
            ("{", "'{'"),
            ("{a}", "{a}"),
            ("-n", "-n"),
            ("", "''"),
            ("a\nb", "'a'$'\\n''b'"),
            ("\n", "''$'\\n'"),
            ("\x1b[31mred", "''$'\\033''[31mred'"),
            ("tab\tit's", "'tab'$'\\t''it'\\''s'"),
        ] {
            assert_eq!(quoted(name.as_bytes()), shown, "{name:?}");
        }
        assert_eq!(quoted(b"a\xff"), "'a'$'\\377'");
        assert_eq!(quoted(b"\xff\xfe"), "''$'\\377\\376'");
    }

    #[test]
    fn nothing_that_is_shown_speaks_to_the_terminal() {
        let mut random = granary_sim::rng::Stream::new(1, "names");
        for _ in 0..2000 {
            let name: Vec<u8> = (0..random.below(12)).map(|_| random.below(256) as u8).collect();
            let shown = quoted(&name);
            assert!(!shown.chars().any(is_hidden), "{name:?}: {shown}");
        }
        assert_eq!(quoted("a\u{202e}txt.exe".as_bytes()), "'a'$'\\342\\200\\256''txt.exe'");
    }
}
