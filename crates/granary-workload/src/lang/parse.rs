//! From tokens to commands.
//!
//! ```text
//!   file     = command*
//!   command  = `define` (`file` | `fileset` | `randvar`) attrs
//!            | `define` `process` attrs `{` thread+ `}`       thread = `thread` attrs `{` flowop+ `}`
//!            | `define` `flowop` attrs `{` flowop+ `}`        flowop = `flowop` type attrs
//!            | `set` $name `=` (value | value op value | `cvar` `(` attrs `)` | `randvar` `(` attrs `)`)
//!            | `set` `mode` `quit` (`alldone` | `firstdone` | `timeout`)
//!            | `run` [n] | `psrun` [period] [n] | `sleep` n | `eventgen` attrs | `create` entity | ...
//!   attrs    = attr (`,` attr)*            attr = name [`=` value] | $local [`=` value]
//!   value    = word | number | $name | string
//! ```
//!
//! A recursive-descent parser without recursion: the language nests to a fixed depth.
//!
//! It does *not* know which flowops and attributes exist (that is `catalog` and `lower`).
//!
//! Source: the grammar of Filebench 1.5-alpha3, and 1.4's `define randvar`, arithmetic, `usage` and `stats`.

mod commands;
mod define;

use super::MAX_ATTRIBUTES;
use super::ast::{Attr, Command, Head, Value, ValueKind};
use super::lex::{Tok, Token};
use super::source::{Result, Source, Span};

/// The commands of the file whose tokens these are.
pub(crate) fn parse<'a>(source: &Source<'a>, tokens: &[Token<'a>]) -> Result<Vec<Command<'a>>> {
    let mut parser = Parser { source, tokens, at: 0 };
    let mut commands = Vec::new();
    while parser.peek().tok != Tok::End {
        commands.push(parser.command()?);
    }
    Ok(commands)
}

struct Parser<'s, 'a> {
    source: &'s Source<'a>,
    /// Ends with [`Tok::End`].
    tokens: &'s [Token<'a>],
    at: usize,
}

impl<'a> Parser<'_, 'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.at]
    }

    /// The next token; the end is never passed.
    fn take(&mut self) -> Token<'a> {
        let token = self.tokens[self.at];
        if token.tok != Tok::End {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, tok: Tok<'_>) -> bool {
        let found = self.peek().tok == tok;
        if found {
            self.take();
        }
        found
    }

    /// An error at the next token.
    fn expected<T>(&self, what: &str, help: impl Into<String>) -> Result<T> {
        let token = self.peek();
        let found = match token.tok {
            Tok::End => "the file ends".to_owned(),
            Tok::Str(_) => "there is a string".to_owned(),
            _ => {
                let Span { start, end } = token.span;
                let text = self.source.text.get(start as usize..end as usize).unwrap_or("");
                format!("there is `{}`", shorten(text))
            }
        };
        self.source.error(token.span, format!("{what} is expected here, but {found}"), help)
    }

    fn head(&mut self, span: Span) -> Result<Head<'a>> {
        Ok(Head { span, attrs: self.attrs()? })
    }

    fn attrs(&mut self) -> Result<Vec<Attr<'a>>> {
        let mut attrs = vec![self.attr()?];
        while self.eat(Tok::Comma) {
            if attrs.len() == MAX_ATTRIBUTES {
                return self.expected("the end of the attributes", format!("there can be {MAX_ATTRIBUTES}"));
            }
            attrs.push(self.attr()?);
        }
        Ok(attrs)
    }

    fn attr(&mut self) -> Result<Attr<'a>> {
        let token = self.peek();
        let (name, local) = match token.tok {
            Tok::Word(name) => (name, false),
            Tok::Var(name) => (name, true),
            _ => {
                return self.expected(
                    "an attribute",
                    "attributes are written `name=value`, with commas between them",
                );
            }
        };
        self.take();
        let value = match self.eat(Tok::Eq) {
            false => None,
            true if name == "randtable" && self.peek().tok == Tok::LBrace => Some(self.table()?),
            true => Some(self.value()?),
        };
        Ok(Attr { name, local, span: token.span, value })
    }

    fn value(&mut self) -> Result<Value<'a>> {
        let token = self.peek();
        let kind = match token.tok {
            Tok::Word(word) => ValueKind::Word(word),
            Tok::Str(text) => ValueKind::Str(text),
            Tok::Int(number) => ValueKind::Int(number),
            Tok::Neg(number) => ValueKind::Neg(number),
            Tok::Var(name) => ValueKind::Var(name),
            _ => {
                return self
                    .expected("a value", "a value is a number, a word, a `$variable` or a \"string\"");
            }
        };
        self.take();
        Ok(Value { kind, span: token.span })
    }

    fn optional_number(&mut self) -> Option<Value<'a>> {
        match self.peek().tok {
            Tok::Int(_) | Tok::Neg(_) | Tok::Var(_) => self.value().ok(),
            _ => None,
        }
    }

    fn number(&mut self, what: &str, help: &str) -> Result<Value<'a>> {
        match self.optional_number() {
            Some(value) => Ok(value),
            None => self.expected(what, help),
        }
    }

    fn string(&mut self, what: &str, help: &str) -> Result<(&'a str, Span)> {
        let token = self.peek();
        match token.tok {
            Tok::Str(text) => {
                self.take();
                Ok((text, token.span))
            }
            _ => self.expected(what, help),
        }
    }

    /// `{{percent, lower, upper}, ...}`
    fn table(&mut self) -> Result<Value<'a>> {
        const SHAPE: &str = "a table is written {{percent, lower, upper}, {percent, lower, upper}, ...}";
        let first = self.take().span;
        let mut rows = Vec::new();
        loop {
            if !self.eat(Tok::LBrace) {
                return self.expected("a row's `{`", SHAPE);
            }
            let percent = self.number("a percentage", SHAPE)?;
            self.comma(SHAPE)?;
            let lower = self.number("a row's lower bound", SHAPE)?;
            self.comma(SHAPE)?;
            let upper = self.number("a row's upper bound", SHAPE)?;
            if !self.eat(Tok::RBrace) {
                return self.expected("a row's `}`", SHAPE);
            }
            rows.push([percent, lower, upper]);
            let next = self.peek();
            if self.eat(Tok::RBrace) {
                return Ok(Value { kind: ValueKind::Table(rows), span: first.to(next.span) });
            }
            self.comma(SHAPE)?;
        }
    }

    fn comma(&mut self, help: &str) -> Result<()> {
        if self.eat(Tok::Comma) { Ok(()) } else { self.expected("`,`", help) }
    }
}

/// A piece of the file that is short enough for a message.
pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 40;
    if text.chars().count() <= LONGEST {
        return text.escape_debug().to_string();
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{}...", start.escape_debug())
}
