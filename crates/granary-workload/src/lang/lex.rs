//! From text to tokens.
//!
//! ```text
//!   set $dir=/tmp  # where          flowop read name=r1, iosize=4k   echo "to $dir"
//!   W   V   E W                     W      W    W   E W C W     E N  W    S
//!   W word   V variable   E `=`   C `,`   N number (4096)   S string, still raw
//! ```
//!
//! A word starts with a letter, `/`, `.`, `_` or `-` and goes on with those, digits, `:` and `;`. There are
//! no reserved words: the parser knows from the place what a word is. A number has an optional `k`, `m` or
//! `g` (powers of 1024). A newline is a blank. `#` starts a comment.
//!
//! It does *not* fill in variables inside strings (that is `vars`).

use super::source::{Result, Source, Span};

/// Kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tok<'a> {
    Word(&'a str),
    /// A number, its suffix applied.
    Int(u64),
    /// A negative number's magnitude.
    Neg(u64),
    /// A variable's name without its `$`.
    Var(&'a str),
    /// The text between the quotes, escapes and variables untouched.
    Str(&'a str),
    LBrace,
    RBrace,
    LParen,
    RParen,
    Eq,
    Comma,
    Plus,
    Star,
    /// The end of the text; always the last token, and only there.
    End,
}

/// A token and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) tok: Tok<'a>,
    pub(crate) span: Span,
}

fn starts_word(b: u8) -> bool {
    b.is_ascii_alphabetic() || matches!(b, b'/' | b'.' | b'_' | b'-')
}

fn continues_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'-' | b':' | b';')
}

/// Whether a byte belongs to a variable's name.
pub(crate) fn in_variable(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// All tokens of the text, an [`Tok::End`] last.
pub(crate) fn lex<'a>(source: &Source<'a>) -> Result<Vec<Token<'a>>> {
    let mut lexer = Lexer { source, text: source.text, bytes: source.text.as_bytes(), at: 0 };
    if lexer.text.starts_with('\u{feff}') {
        lexer.at = '\u{feff}'.len_utf8(); // a byte order mark that some editors write
    }
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.tok == Tok::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'s, 'a> {
    source: &'s Source<'a>,
    text: &'a str,
    bytes: &'a [u8],
    /// Byte offset of what comes next; always on a character boundary.
    at: usize,
}

impl<'a> Lexer<'_, 'a> {
    fn next(&mut self) -> Result<Token<'a>> {
        self.skip_blanks();
        let start = self.at;
        let Some(&first) = self.bytes.get(start) else {
            return Ok(Token { tok: Tok::End, span: Span::new(start, start) });
        };
        let tok = match first {
            b'{' => self.single(Tok::LBrace),
            b'}' => self.single(Tok::RBrace),
            b'(' => self.single(Tok::LParen),
            b')' => self.single(Tok::RParen),
            b'=' => self.single(Tok::Eq),
            b',' => self.single(Tok::Comma),
            b'+' => self.single(Tok::Plus),
            b'*' => self.single(Tok::Star),
            b'"' => self.string()?,
            b'$' => self.variable()?,
            b'0'..=b'9' => Tok::Int(self.number(start)?),
            b'-' if self.bytes.get(start + 1).is_some_and(u8::is_ascii_digit) => {
                self.at += 1;
                Tok::Neg(self.number(start)?)
            }
            b if starts_word(b) => Tok::Word(self.run(continues_word)),
            _ => return self.stray(start),
        };
        Ok(Token { tok, span: Span::new(start, self.at) })
    }

    fn skip_blanks(&mut self) {
        while let Some(&b) = self.bytes.get(self.at) {
            match b {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => self.at += 1,
                b'#' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn single(&mut self, tok: Tok<'a>) -> Tok<'a> {
        self.at += 1;
        tok
    }

    /// Takes bytes (all ASCII) as long as `belongs` says so.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(|&b| belongs(b)) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// A number whose digits start here; `start` is where an error points (a sign may come first).
    fn number(&mut self, start: usize) -> Result<u64> {
        let run = self.run(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_'));
        let digits = run.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, suffix) = run.split_at(digits);
        let span = Span::new(start, self.at);
        let unit = match suffix {
            "" => 1,
            "k" | "K" => 1 << 10,
            "m" | "M" => 1 << 20,
            "g" | "G" => 1 << 30,
            _ => {
                let help = if suffix.starts_with('.') {
                    "numbers are whole; gamma values are written in thousandths, so 1.5 is 1500"
                } else if suffix.bytes().all(|b| b.is_ascii_alphabetic()) && suffix.len() <= 3 {
                    "the suffixes are k, m and g (1024, 1024^2 and 1024^3 bytes)"
                } else {
                    "a name starts with a letter"
                };
                return self.source.error(span, format!("`{run}` is not a number"), help);
            }
        };
        match digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).filter(|&n| n <= i64::MAX as u64) {
            Some(value) => Ok(value),
            None => self.source.error(
                span,
                format!("`{run}` is too large a number"),
                format!("numbers go up to {}", i64::MAX),
            ),
        }
    }

    fn variable(&mut self) -> Result<Tok<'a>> {
        let start = self.at;
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'(') => self.source.error(
                Span::new(start, start + 2),
                "environment variables are not read",
                "results must depend on the file alone: use a variable, and override it when you run the workload",
            ),
            Some(b'{') => self.source.error(
                Span::new(start, start + 2),
                "Filebench's internal variables are not available",
                "write an ordinary variable without braces: `$name`",
            ),
            Some(b) if b.is_ascii_alphabetic() => Ok(Tok::Var(self.run(in_variable))),
            _ => self.source.error(
                Span::new(start, start + 1),
                "a `$` without a variable's name",
                "write `$name`, the name starting with a letter",
            ),
        }
    }

    fn string(&mut self) -> Result<Tok<'a>> {
        let start = self.at;
        let mut end = start + 1;
        loop {
            match self.bytes.get(end) {
                Some(b'"') => break,
                // Skips the escaped byte. If that starts a longer character, its other bytes are skipped as
                // ordinary ones: none of them is a quote.
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => {
                    return self.source.error(
                        Span::new(start, start + 1),
                        "this string never ends",
                        "close it with a `\"`",
                    );
                }
            }
        }
        self.at = end + 1;
        Ok(Tok::Str(&self.text[start + 1..end]))
    }

    fn stray<T>(&self, start: usize) -> Result<T> {
        let c = self.text[start..].chars().next().unwrap_or(' ');
        let span = Span::new(start, start + c.len_utf8());
        let help = match c {
            ';' => "a flowop ends where the next one begins; there is no `;`",
            '\'' | '\u{201c}' | '\u{201d}' => "strings are written between straight double quotes: \"...\"",
            _ => "if it belongs to a string, put the string between double quotes",
        };
        self.source.error(span, format!("unexpected character `{}`", c.escape_debug()), help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toks(text: &str) -> Vec<Tok<'_>> {
        // The source may go: tokens borrow the text alone.
        let source = Source::new("t.f", text);
        lex(&source).unwrap().into_iter().map(|t| t.tok).collect()
    }

    fn fault(text: &str) -> (u32, u32, String) {
        let source = Source::new("t.f", text);
        let d = lex(&source).unwrap_err();
        (d.line, d.column, d.message)
    }

    #[test]
    fn a_line_becomes_its_tokens() {
        use Tok::*;
        assert_eq!(
            toks("set $dir=/mnt/a-b.c # not this\n{1k,-2m}"),
            [
                Word("set"),
                Var("dir"),
                Eq,
                Word("/mnt/a-b.c"),
                LBrace,
                Int(1024),
                Comma,
                Neg(2 << 20),
                RBrace,
                End
            ]
        );
        assert_eq!(toks("mean:16384;gamma:1.5,min"), [Word("mean:16384;gamma:1.5"), Comma, Word("min"), End]);
        assert_eq!(toks(r#""a\"b $c" - x"#), [Str(r#"a\"b $c"#), Word("-"), Word("x"), End]);
        assert_eq!(toks("\u{feff}run 08\r\n"), [Word("run"), Int(8), End]);
        assert_eq!(toks(""), [End]);
    }

    #[test]
    fn what_is_no_token_is_refused_at_its_place() {
        assert_eq!(fault("run\n  60x"), (2, 3, "`60x` is not a number".into()));
        assert_eq!(fault("gamma=1.5"), (1, 7, "`1.5` is not a number".into()));
        assert_eq!(fault("9223372036854775808").2, "`9223372036854775808` is too large a number");
        assert_eq!(fault("9999999999g").2, "`9999999999g` is too large a number");
        assert_eq!(fault("set $ x"), (1, 5, "a `$` without a variable's name".into()));
        assert_eq!(fault("path=$(HOME)"), (1, 6, "environment variables are not read".into()));
        assert_eq!(fault("echo \"abc\n"), (1, 6, "this string never ends".into()));
        assert_eq!(fault("echo \"abc\\"), (1, 6, "this string never ends".into()));
        assert_eq!(fault("a ü b"), (1, 3, "unexpected character `ü`".into()));
        assert_eq!(toks("9223372036854775807")[0], Tok::Int(i64::MAX as u64));
    }
}
