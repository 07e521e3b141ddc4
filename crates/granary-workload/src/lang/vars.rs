//! Variables: what they hold, where they are looked up, and the values that refer to them.
//!
//! ```text
//!   flowop rmw name=r, $set=bigfileset      Scope ── locals  $set      (inside the composite flowop `rmw`)
//!   └ inside: filesetname=$set                    └─ globals $nfiles, $dir, ...
//! ```
//!
//! A variable holds a number, a boolean, a text or a random variable. Text is shared, not copied, so that no
//! file can make memory grow faster than itself.
//!
//! It does *not* decide when a value is taken (late or at once): its callers do.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::args::Args;
use super::ast::{Arith, CommandKind, Value, ValueKind};
use super::lex::{Tok, Token, in_variable, lex};
use super::parse::{parse, shorten};
use super::source::{Result, Source, Span};
use super::{MAX_STRING, random};
use crate::spec::{RandomId, RandomVar};
use granary_trace::suggest::nearest;

/// Values of a variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Held {
    Int(u64),
    Bool(bool),
    Text(Rc<str>),
    Random(RandomId),
}

impl Held {
    /// For an error: what it is instead of what was wanted.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Int(number) => format!("the number {number}"),
            Self::Bool(value) => format!("the boolean `{value}`"),
            Self::Text(text) => format!("the text `{}`", shorten(text)),
            Self::Random(_) => "a random variable".to_owned(),
        }
    }
}

/// All global variables.
pub(crate) type Globals = BTreeMap<String, Held>;

/// The variables that the user fixed from outside, and the random variables among them.
#[derive(Debug, Default)]
pub(crate) struct Fixed {
    pub(crate) values: Globals,
    pub(crate) randoms: Vec<RandomVar>,
}

/// The local variables of one use of a composite flowop.
#[derive(Debug)]
pub(crate) struct Locals<'a> {
    /// The composite's name.
    pub(crate) of: &'a str,
    /// Each declared name; `None` if neither the definition nor the use gives it a value.
    pub(crate) values: BTreeMap<&'a str, Option<Held>>,
}

/// Where names are looked up: locals first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'v> {
    pub(crate) globals: &'v Globals,
    pub(crate) locals: Option<&'v Locals<'v>>,
}

impl Scope<'_> {
    /// The variable's value, if it has one.
    fn peek(&self, name: &str) -> Option<&Held> {
        match self.locals.and_then(|locals| locals.values.get(name)) {
            Some(held) => held.as_ref(),
            None => self.globals.get(name),
        }
    }

    fn get(&self, source: &Source<'_>, name: &str, span: Span) -> Result<Held> {
        if let Some(held) = self.peek(name) {
            return Ok(held.clone());
        }
        if let Some(locals) = self.locals.filter(|locals| locals.values.contains_key(name)) {
            return source.error(
                span,
                format!("`${name}` of the flowop `{}` has no value here", shorten(locals.of)),
                format!("pass one where it is used: `flowop {} ..., ${name}=...`", shorten(locals.of)),
            );
        }
        let locals = self.locals.iter().flat_map(|l| l.values.keys().copied());
        let known = locals.chain(self.globals.keys().map(String::as_str));
        let help = match nearest(name, known) {
            Some(near) => format!("did you mean `${near}`?"),
            None => format!("set it first: `set ${}=...`", shorten(name)),
        };
        source.error(span, format!("the variable `${}` is never set", shorten(name)), help)
    }

    /// The value, its variables looked up. Tables and random variables are not values of attributes.
    pub(crate) fn eval(&self, source: &Source<'_>, value: &Value<'_>) -> Result<Held> {
        match &value.kind {
            ValueKind::Word("true") => Ok(Held::Bool(true)),
            ValueKind::Word("false") => Ok(Held::Bool(false)),
            ValueKind::Word(word) if word.len() > MAX_STRING => too_long(source, value.span),
            ValueKind::Word(word) => Ok(Held::Text(Rc::from(*word))),
            ValueKind::Str(raw) => Ok(Held::Text(self.text(source, raw, value.span, true)?.into())),
            ValueKind::Int(number) => Ok(Held::Int(*number)),
            ValueKind::Neg(number) => source.error(
                value.span,
                format!("the value -{number} is below zero"),
                "only the period of `psrun` can be negative",
            ),
            ValueKind::Var(name) => self.get(source, name, value.span),
            ValueKind::Arith(operands, op) => self.arith(source, operands, *op, value.span),
            ValueKind::Table(_) => {
                source.error(value.span, "a table is not a value", "only `randtable` takes one")
            }
            ValueKind::Cvar(_) | ValueKind::Randvar(_) => source.error(
                value.span,
                "a random variable needs a name",
                "write `set $name=cvar(...)` and use `$name`",
            ),
        }
    }

    fn arith(&self, source: &Source<'_>, operands: &[Value<'_>; 2], op: Arith, span: Span) -> Result<Held> {
        let number = |operand: &Value<'_>| match self.eval(source, operand)? {
            Held::Int(number) => Ok(number),
            other => source.error(
                operand.span,
                format!("arithmetic needs numbers, but this is {}", other.describe()),
                "use a variable that holds a whole number",
            ),
        };
        let (a, b) = (number(&operands[0])?, number(&operands[1])?);
        let (result, why) = match op {
            Arith::Add => (a.checked_add(b), "the sum is too large"),
            Arith::Mul => (a.checked_mul(b), "the product is too large"),
            Arith::Sub => (a.checked_sub(b), "the difference is below zero"),
            Arith::Div => (a.checked_div(b), "this divides by zero"),
        };
        match result.filter(|&r| r <= i64::MAX as u64) {
            Some(number) => Ok(Held::Int(number)),
            None => source.error(span, why, format!("the operands are {a} and {b}")),
        }
    }

    /// A string with its escapes and variables replaced. Unless `strict`, an unknown variable stands for
    /// itself, as in Filebench's `echo`.
    pub(crate) fn text(&self, source: &Source<'_>, raw: &str, span: Span, strict: bool) -> Result<String> {
        let mut text = String::new();
        let mut rest = raw;
        while let Some(at) = rest.find(['\\', '$']) {
            text.push_str(&rest[..at]);
            let (mark, after) = rest[at..].split_at(1);
            if mark == "\\" {
                let Some(escaped) = after.chars().next() else {
                    rest = "";
                    break;
                };
                match escaped {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    other => text.push(other),
                }
                rest = &after[escaped.len_utf8()..];
                continue;
            }
            let length = after.bytes().take_while(|&b| in_variable(b)).count();
            let (name, after) = after.split_at(length);
            rest = after;
            if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
                text.push('$');
                text.push_str(name);
                continue;
            }
            match self.peek(name) {
                Some(Held::Int(number)) => text.push_str(&number.to_string()),
                Some(Held::Bool(value)) => text.push_str(if *value { "true" } else { "false" }),
                Some(Held::Text(value)) => text.push_str(value),
                Some(Held::Random(_)) if strict => {
                    return source.error(
                        span,
                        format!("`${name}` is a random variable and has no text"),
                        "use a variable that holds a number or a text",
                    );
                }
                Some(Held::Random(_)) => text.push_str("(random)"),
                None if strict => {
                    self.get(source, name, span)?;
                }
                None => {
                    text.push('$');
                    text.push_str(name);
                }
            }
            if text.len() > MAX_STRING {
                return too_long(source, span);
            }
        }
        text.push_str(rest);
        if text.len() > MAX_STRING { too_long(source, span) } else { Ok(text) }
    }
}

fn too_long<T>(source: &Source<'_>, span: Span) -> Result<T> {
    source.error(span, format!("a text has at most {MAX_STRING} bytes"), "make it shorter")
}

/// Reads the overrides; `tokens` are the file's, to check that it knows the variables.
pub(crate) fn overrides(tokens: &[Token<'_>], overrides: &[(String, String)]) -> Result<Fixed> {
    let mut fixed = Fixed::default();
    if overrides.is_empty() {
        return Ok(fixed);
    }
    let known: BTreeSet<&str> =
        tokens.iter().filter_map(|t| if let Tok::Var(name) = t.tok { Some(name) } else { None }).collect();
    for (name, value) in overrides {
        let name = name.strip_prefix('$').unwrap_or(name);
        // An override is read as the `set` that it stands for, so that errors can point into it.
        let text = format!("set ${name}={value}");
        // Where it comes from, instead of a file and a line.
        let from = format!("--var {}", shorten(name));
        let source = Source::of_argument(&from, &text);
        let named = Span::new("set $".len(), "set $".len() + name.len());
        if !known.contains(name) {
            let help = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `${near}`?"),
                None => "an override changes a variable that the workload uses".to_owned(),
            };
            return source.error(named, format!("the workload has no variable `${}`", shorten(name)), help);
        }
        source.check_size()?;
        let commands = parse(&source, &lex(&source)?)?;
        let [command] = &commands[..] else {
            let from = commands.get(1).map_or(named, |c| c.span);
            return source.error(
                from,
                "an override is one value",
                "put a text with blanks between double quotes",
            );
        };
        let CommandKind::Set { value, .. } = &command.kind else {
            return source.error(named, "an override is a variable and its value", "write `name=value`");
        };
        let scope = Scope { globals: &fixed.values, locals: None };
        let held = match &value.kind {
            ValueKind::Cvar(head) | ValueKind::Randvar(head) => {
                let custom = matches!(value.kind, ValueKind::Cvar(_));
                // A warning about an override would have no place in the file; only `seed` could cause one.
                let variable =
                    random::variable(name, custom, Args { source: &source, head, scope }, &mut Vec::new())?;
                fixed.randoms.push(variable);
                Held::Random(RandomId(fixed.randoms.len() - 1))
            }
            _ => scope.eval(&source, value)?,
        };
        fixed.values.insert(name.to_owned(), held);
    }
    Ok(fixed)
}
