//! [`Sources`]: the text of a testbed and of those it is based on, and where each key stands.
//!
//! ```text
//!   base:   "name = ...\n[host]\n..."                       spans 0 .. n
//!   file:   "                        base = ...\n[drive...   spans n ..      parsed behind n blanks
//!                                   \__ merged into one tree: a span says text and line
//! ```
//!
//! A file with `base = "NAME"` changes values of another testbed; all others it takes over. Since every text
//! is parsed behind as many blanks as there are bytes before it, one number names file and line of anything,
//! also of a contradiction that is found when all is put together.

use crate::builtin::text;
use crate::error::TestbedError;
use crate::options::{self, FsOptions};
use crate::section::{Section, Wrong};
use crate::testbed::{ELSEWHERE, Testbed};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Testbeds that may be based on each other.
const MOST_BASES: usize = 8;

struct Layer {
    name: String,
    /// The text behind blanks.
    padded: String,
    /// Number of blanks.
    start: usize,
}

/// A testbed's text and those of its bases, the first one based on nothing.
pub(super) struct Sources(Vec<Layer>);

/// Dotted path of each key and section, and where it begins; in the order of the paths.
pub(super) struct Keys(Vec<(String, usize)>);

#[derive(Deserialize)]
struct Head {
    base: Option<String>,
}

/// toml's message about a number or truth value for an option that takes one of some words.
pub const NO_WORD: &str = "invalid type: unit variant, expected string only";
/// The same about a text that it has parsed.
pub const NO_WORD_IN_TEXT: &str = "wanted string or table";
/// Its message about anything but a number from 0 on or a text for [`granary_units::Bytes`].
pub const NO_SIZE: &str = "data did not match any variant of untagged enum Either";

/// toml's message, in other words where it speaks of our types.
pub fn plain(message: &str) -> String {
    match message {
        NO_WORD | NO_WORD_IN_TEXT => "a word in quotes belongs here".to_owned(),
        NO_SIZE => {
            "a size (or bandwidth) belongs here: a whole number of bytes, 0 and more, or a text such as \"16MiB\"".to_owned()
        }
        other => match ELSEWHERE.iter().find(|(key, _)| unknown(other) == Some(*key)) {
            Some((_, why)) => (*why).to_owned(),
            None => with_nearest(other),
        },
    }
}

/// toml's message about an unknown key or word (``unknown field `a`, expected one of `b`, `c` ``), with the
/// one that was meant.
fn with_nearest(message: &str) -> String {
    if !message.starts_with("unknown ") {
        return message.to_owned();
    }
    let mut words = message.split('`').skip(1).step_by(2);
    let (Some(given), known) = (words.next(), words) else { return message.to_owned() };
    match (granary_trace::suggest::nearest(given, known), message.split_once("`,")) {
        (Some(near), Some((head, tail))) => format!("{head}`: did you mean `{near}`?{tail}"),
        _ => message.to_owned(),
    }
}

/// The key that toml says is unknown.
fn unknown(message: &str) -> Option<&str> {
    message.strip_prefix("unknown field `")?.split('`').next()
}

/// Whether `message` blames the key with this path: it begins with the path, or names the key by its last
/// part, which is of several words (`gc_stop`; a `read` may be any).
pub fn blames(message: &str, path: &str) -> bool {
    let last = |path: &'_ str| path.rsplit('.').next().map(str::to_owned);
    let first = message.split_whitespace().next().unwrap_or("");
    if first.contains('.') && (first == path || last(first) == last(path)) {
        return first == path;
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let key = last(path).filter(|key| key.contains('_'));
    key.is_some_and(|key| message.split(|c| !is_part(c)).any(|word| word == key))
}

impl Sources {
    /// Reads the testbed `name` (built in, or a file) and its bases.
    ///
    /// # Errors
    /// Unknown names, unreadable files, text that is no TOML, bases in a circle.
    pub fn collect(name: &str) -> Result<Sources, TestbedError> {
        let mut texts = vec![(name.to_owned(), text(name)?)];
        loop {
            let (file, last) = texts.last().expect("one is there");
            let head: Head = toml::from_str(last).map_err(|e| {
                let line = e.span().map(|s| line_of(last, s.start));
                bad(file, line, e.message())
            })?;
            let Some(base) = head.base else { break };
            if texts.len() == MOST_BASES {
                return Err(bad(name, None, "its bases are based on each other, without an end"));
            }
            let base_text = text(&base)?;
            texts.push((base, base_text));
        }
        let mut start = 0;
        let layers = texts.into_iter().rev().map(|(name, text)| {
            let layer = Layer { name, padded: " ".repeat(start) + &text, start };
            start = layer.padded.len();
            layer
        });
        Ok(Sources(layers.collect()))
    }

    /// The testbed, not validated, and where its keys stand.
    ///
    /// # Errors
    /// Unknown or missing keys and wrong types, with their line.
    pub fn parse(&self) -> Result<(Testbed, Keys), TestbedError> {
        let mut tree: Option<Spanned<DeTable<'_>>> = None;
        for layer in &self.0 {
            let mut table = DeTable::parse(&layer.padded)
                .map_err(|e| self.bad(e.span().map(|s| s.start), e.message()))?;
            table.get_mut().remove("base");
            modernise(table.get_mut());
            match &mut tree {
                None => tree = Some(table),
                Some(tree) => merge(tree.get_mut(), table.into_inner()),
            }
        }
        let mut tree = tree.expect("at least one layer");
        let mut keys = Vec::new();
        list(tree.get_ref(), "", &mut keys);
        let fs = tree.get_mut().remove("fs");
        let mut testbed = Testbed::deserialize(toml::Deserializer::from(tree))
            .map_err(|e| self.bad(e.span().map(|s| s.start), e.message()))?;
        if let Some(fs) = fs {
            self.options(fs, &keys, &mut testbed.fs)?;
        }
        Ok((testbed, Keys(keys)))
    }

    /// The sections of file systems, each read by whom it is for.
    fn options(
        &self,
        fs: Spanned<DeValue<'_>>,
        keys: &[(String, usize)],
        out: &mut FsOptions,
    ) -> Result<(), TestbedError> {
        let place = |path: &str| keys.iter().find(|(key, _)| key == path).map(|(_, at)| *at);
        let at = fs.span().start;
        let DeValue::Table(sections) = fs.into_inner() else {
            return Err(self.bad(Some(at), "fs holds sections, one for each file system"));
        };
        for (name, section) in sections {
            let at = name.span().start;
            let of = options::find(name.get_ref()).map_err(|e| self.bad(Some(at), &e))?;
            let span = section.span();
            let DeValue::Table(table) = section.into_inner() else {
                return Err(self.bad(Some(at), &format!("fs.{} is a section", of.section)));
            };
            let read = Section::read(of, toml::Deserializer::from(Spanned::new(span, table)));
            let wrong = |e: Wrong| {
                let place = place(&format!("fs.{}.{}", of.section, e.key)).unwrap_or(at);
                self.bad(Some(place), &e.message)
            };
            out.put(of, read.map_err(wrong)?);
        }
        Ok(())
    }

    /// An error about what begins at `at`.
    pub fn bad(&self, at: Option<usize>, message: &str) -> TestbedError {
        let (file, line) = self.place(at.unwrap_or(usize::MAX));
        bad(file, at.map(|_| line), &plain(message))
    }

    /// An error about a contradiction. Of keys that contradict each other the one is named that stands in the
    /// testbed itself, not in one that it is based on.
    pub fn contradiction(&self, keys: &Keys, message: &str) -> TestbedError {
        let own = self.0.last().map_or(0, |layer| layer.start);
        let named = keys.named_in(message).map(|(_, at)| at);
        let in_own =
            || keys.0.iter().find(|(path, at)| *at >= own && blames(message, path)).map(|(_, at)| *at);
        let at = named.filter(|at| *at >= own).or_else(in_own).or(named);
        self.bad(at, message)
    }

    /// File and line of a place.
    pub fn place(&self, at: usize) -> (&str, usize) {
        let layer = self.0.iter().rev().find(|l| l.start <= at).expect("the first one starts at 0");
        (&layer.name, line_of(&layer.padded, at))
    }
}

impl Keys {
    /// Where the key with this dotted path stands, if the text has it (it may have been left at its default).
    pub fn find(&self, path: &str) -> Option<usize> {
        self.0.iter().find(|(p, _)| p == path).map(|(_, at)| *at)
    }

    /// The key that a message about a contradiction speaks of first: the whole path with which the message
    /// begins, or the last part of its path is a word of the message. Else the innermost section that it
    /// names.
    pub fn named_in(&self, message: &str) -> Option<(&str, usize)> {
        let first = message.split_whitespace().next();
        // A word alone is a key where the testbed itself has it: `name`.
        let first = first.filter(|word| word.contains('.') || ["name", "description"].contains(word));
        if let Some((path, at)) = self.0.iter().find(|(path, _)| Some(path.as_str()) == first) {
            return Some((path, *at));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let names = |path: &str, word: &str| {
            let last = path.rsplit('.').next().unwrap_or(path);
            last == word || last.strip_suffix("_ns") == Some(word)
        };
        let sections = ["host.", "fs.", "device.", "inside."];
        let part = sections.into_iter().find(|part| message.starts_with(part)).unwrap_or("drive.");
        let is_section = |path: &str| self.0.iter().any(|(p, _)| p.starts_with(&format!("{path}.")));
        let words: Vec<&str> = message.split(|c| !is_part(c)).filter(|w| !w.is_empty()).collect();
        [false, true].into_iter().find_map(|section| {
            let mut found = words.iter().filter_map(|word| {
                let mut keys = self.0.iter().filter(|(p, _)| p.starts_with(part));
                let hit = keys.find(|(p, _)| names(p, word) && is_section(p) == section);
                hit.map(|(p, at)| (p.as_str(), *at))
            });
            if section { found.next_back() } else { found.next() }
        })
    }
}

fn bad(file: &str, line: Option<usize>, message: &str) -> TestbedError {
    let message = match line {
        Some(line) => format!("line {line}: {message}"),
        None => message.to_owned(),
    };
    TestbedError::BadTestbed { file: file.to_owned(), message }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&b| b == b'\n').count()
}

/// Other ways to write sections, in this one: `[device.ssd]` is `[drive]`; file systems' options were
/// sections of the host.
fn modernise(table: &mut DeTable<'_>) {
    if let Some(DeValue::Table(devices)) = table.get_mut("device").map(Spanned::get_mut)
        && let Some((key, ssd)) = devices.remove_entry("ssd")
    {
        insert(table, Spanned::new(key.span(), "drive".into()), ssd);
    }
    let Some(DeValue::Table(host)) = table.get_mut("host").map(Spanned::get_mut) else { return };
    let old: Vec<_> = options::sections().filter_map(|of| host.remove_entry(of.section)).collect();
    for (key, section) in old {
        let (at, mut fs) = (key.span(), DeTable::new());
        fs.insert(key, section);
        insert(table, Spanned::new(at.clone(), "fs".into()), Spanned::new(at, DeValue::Table(fs)));
    }
}

/// The whole path of a key, or the end of one, as it is written now.
pub(super) fn modern(path: &str) -> String {
    if let Some(end) = path.strip_prefix("device.ssd.") {
        return format!("drive.{end}");
    }
    let of_host = path.strip_prefix("host.").and_then(|end| end.split('.').next());
    match of_host.filter(|name| options::sections().any(|of| of.section == *name)) {
        Some(_) => path.replacen("host.", "fs.", 1),
        None => path.to_owned(),
    }
}

/// Puts a section into a table, on top of what it has under this name.
fn insert<'i>(table: &mut DeTable<'i>, key: Spanned<DeString<'i>>, value: Spanned<DeValue<'i>>) {
    let mut over = DeTable::new();
    over.insert(key, value);
    merge(table, over);
}

/// Puts `over` on top of `under`; the keys of both sections of a name are merged.
fn merge<'i>(under: &mut DeTable<'i>, over: DeTable<'i>) {
    for (key, value) in over {
        let name: &str = key.get_ref();
        let both = match (under.get_mut(name).map(Spanned::get_mut), value.get_ref()) {
            (Some(DeValue::Table(old)), DeValue::Table(_)) => Some(old),
            _ => None,
        };
        match (both, value) {
            (Some(old), value) => {
                if let DeValue::Table(new) = value.into_inner() {
                    merge(old, new);
                }
            }
            (None, value) => {
                // The key with it: it knows its line.
                under.remove(name);
                under.insert(key, value);
            }
        }
    }
}

fn list(table: &DeTable<'_>, prefix: &str, out: &mut Vec<(String, usize)>) {
    for (key, value) in table {
        let path =
            if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        out.push((path.clone(), key.span().start));
        if let DeValue::Table(t) = value.get_ref() {
            list(t, &path, out);
        }
    }
}
