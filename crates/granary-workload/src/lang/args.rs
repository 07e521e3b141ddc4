//! An attribute list that has been checked against its catalog entry, and its values by type.
//!
//! | getter | accepts | without a value |
//! |---|---|---|
//! | [`Args::number`] | a whole number | error |
//! | [`Args::amount`] | a whole number or a random variable | error |
//! | [`Args::flag`] | a boolean or a number | true |
//! | [`Args::text`] | a word, a string or a number | error |
//!
//! It does *not* know what the attributes are for.

use super::ast::{Attr, Head};
use super::catalog::{Attributes, FlowopType, canonical};
use super::parse::shorten;
use super::source::{Result, Source, Span};
use super::vars::{Held, Scope};
use super::{MAX_MESSAGES, MAX_NAME};
use crate::spec::{Value, Warning};
use granary_trace::suggest::{names, nearest};

/// Notes that something has no effect. Beyond [`MAX_MESSAGES`] nothing more is noted.
pub(crate) fn warn(source: &Source<'_>, warnings: &mut Vec<Warning>, span: Span, message: impl Into<String>) {
    if warnings.len() < MAX_MESSAGES {
        let (line, column) = source.position(span.start);
        warnings.push(Warning { line, column, message: message.into() });
    }
}

/// Refuses unknown, repeated and missing attributes of an entity; warns of ignored ones.
pub(crate) fn check(
    source: &Source<'_>,
    head: &Head<'_>,
    allowed: &Attributes,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    check_repeats(source, &head.attrs)?;
    for attr in head.attrs.iter().filter(|a| !a.local) {
        let name = canonical(attr.name);
        if let Some((_, why)) = allowed.ignored.iter().find(|(ignored, _)| *ignored == name) {
            warn(source, warnings, attr.span, format!("`{name}` has no effect: {why}"));
        } else if !allowed.known().any(|known| known == name) {
            return unknown(source, attr, allowed.of, || allowed.known());
        }
    }
    check_required(source, head, allowed.of, allowed.required)
}

/// The same for a built-in flowop.
pub(crate) fn check_flowop(
    source: &Source<'_>,
    head: &Head<'_>,
    flowop: &FlowopType,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    check_repeats(source, &head.attrs)?;
    let of = format!("the flowop `{}`", flowop.name);
    for attr in &head.attrs {
        if attr.local {
            let help = "only a flowop that is made with `define flowop` has variables of its own";
            return source.error(attr.span, format!("{of} has no variables"), help);
        }
        let name = canonical(attr.name);
        if !FlowopType::tolerates(name) {
            return unknown(source, attr, &of, || flowop.known());
        }
        if !flowop.takes(name) {
            warn(source, warnings, attr.span, format!("`{}` has no effect on {of}", attr.name));
        }
    }
    check_required(source, head, &of, &["name"])?;
    check_required(source, head, &of, flowop.required)
}

fn check_repeats(source: &Source<'_>, attrs: &[Attr<'_>]) -> Result<()> {
    let mut seen = std::collections::BTreeMap::new();
    for attr in attrs {
        if let Some(first) = seen.insert((attr.local, canonical(attr.name)), attr.span) {
            let (line, column) = source.position(first.start);
            let help = format!("it was given at {line}:{column}; remove one of the two");
            return source.error(attr.span, format!("`{}` is given twice", shorten(attr.name)), help);
        }
    }
    Ok(())
}

fn unknown<T, I: Iterator<Item = &'static str>>(
    source: &Source<'_>,
    attr: &Attr<'_>,
    of: &str,
    known: impl Fn() -> I,
) -> Result<T> {
    let help = match nearest(attr.name, known()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("its attributes are {}", names(known())),
    };
    source.error(attr.span, format!("{of} has no attribute `{}`", shorten(attr.name)), help)
}

fn check_required(source: &Source<'_>, head: &Head<'_>, of: &str, required: &[&str]) -> Result<()> {
    for &name in required {
        if !head.attrs.iter().any(|a| !a.local && canonical(a.name) == name) {
            let help = format!("add `{name}{}`", if name == "random" { "" } else { "=..." });
            return source.error(head.span, format!("{of} needs the attribute `{name}`"), help);
        }
    }
    Ok(())
}

/// Typed access to a checked attribute list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'c, 'a> {
    pub(crate) source: &'c Source<'a>,
    pub(crate) head: &'c Head<'a>,
    pub(crate) scope: Scope<'c>,
}

impl<'c, 'a> Args<'c, 'a> {
    /// The attribute, by its canonical name.
    pub(crate) fn find(&self, name: &str) -> Option<&'c Attr<'a>> {
        self.head.attrs.iter().find(|a| !a.local && canonical(a.name) == name)
    }

    /// Where the attribute stands, for an error about it.
    pub(crate) fn span(&self, name: &str) -> Span {
        match self.find(name) {
            Some(Attr { value: Some(value), .. }) => value.span,
            Some(attr) => attr.span,
            None => self.head.span,
        }
    }

    /// An error about an attribute.
    pub(crate) fn error<T>(
        &self,
        name: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Result<T> {
        self.source.error(self.span(name), message, help)
    }

    fn held(&self, name: &str, what: &str) -> Result<Option<Held>> {
        match self.find(name) {
            None => Ok(None),
            Some(Attr { value: Some(value), .. }) => self.scope.eval(self.source, value).map(Some),
            Some(attr) => self.source.error(
                attr.span,
                format!("`{}` needs a value", attr.name),
                format!("write `{}=...` with {what}", attr.name),
            ),
        }
    }

    fn mismatch<T>(&self, name: &str, what: &str, held: &Held) -> Result<T> {
        let help = match held {
            Held::Random(_) => "a random variable cannot be used here",
            Held::Text(_) => {
                "numbers may end in k, m or g; if this is a variable's name, put a `$` before it"
            }
            _ => "look at where the value comes from",
        };
        let message = format!("`{name}` needs {what}, but this is {}", held.describe());
        self.error(name, message, help)
    }

    /// A constant number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        match self.held(name, "a whole number")? {
            None => Ok(None),
            Some(Held::Int(number)) => Ok(Some(number)),
            Some(other) => self.mismatch(name, "a whole number", &other),
        }
    }

    /// A constant number in a range.
    pub(crate) fn within(&self, name: &str, from: u64, to: u64) -> Result<Option<u64>> {
        match self.number(name)? {
            Some(number) if !(from..=to).contains(&number) => self.error(
                name,
                format!("`{name}` cannot be {number}"),
                format!("give a number from {from} to {to}"),
            ),
            number => Ok(number),
        }
    }

    /// A number that may be random.
    pub(crate) fn amount(&self, name: &str) -> Result<Option<Value>> {
        match self.held(name, "a number")? {
            None => Ok(None),
            Some(Held::Int(number)) => Ok(Some(Value::Const(number))),
            Some(Held::Random(id)) => Ok(Some(Value::Random(id))),
            Some(other) => self.mismatch(name, "a number", &other),
        }
    }

    /// A boolean; present without a value means true, absent means false.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        let Some(attr) = self.find(name) else { return Ok(false) };
        let Some(value) = &attr.value else { return Ok(true) };
        match self.scope.eval(self.source, value)? {
            Held::Bool(value) => Ok(value),
            Held::Int(number) => Ok(number != 0),
            other => self.mismatch(name, "`true` or `false`", &other),
        }
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        match self.held(name, "a word")? {
            None => Ok(None),
            Some(Held::Text(text)) => Ok(Some(text.as_ref().to_owned())),
            Some(Held::Int(number)) => Ok(Some(number.to_string())),
            Some(Held::Bool(value)) => Ok(Some(value.to_string())),
            Some(other) => self.mismatch(name, "a word", &other),
        }
    }

    /// The `name` attribute (which [`check`] requires), of bounded length and without what a path cannot
    /// hold.
    pub(crate) fn name(&self) -> Result<String> {
        let name = self.text("name")?.unwrap_or_default();
        if name.is_empty() || name.len() > MAX_NAME {
            return self.error(
                "name",
                format!("a name has 1 to {MAX_NAME} bytes, this one has {}", name.len()),
                "choose another",
            );
        }
        Ok(name)
    }
}
