//! The Filebench workload language: from the text of a `.f` file to a [`Workload`].
//!
//! ```text
//!   text ──lex──► tokens ──parse──► commands ──lower──► Workload
//!                 words,            define, set,         variables resolved, names checked,
//!                 numbers,          run, ... with        composite flowops expanded
//!                 $vars, {}         their positions
//! ```
//!
//! Understood: the language of Filebench 1.5-alpha3, and what its shipped personalities still use of 1.4
//! (`define randvar`, `set $a=$b * $c`, `filesizegamma`, `cached`, `usage`). Strict where a file says
//! something that cannot be meant: every error has the line, the column and a sentence of help. Lenient where
//! Filebench accepts something and ignores it: that becomes a warning in [`Workload::warnings`].
//!
//! Variables bind late, as in Filebench: an attribute that names `$nfiles` gets the value that `$nfiles` has
//! at `run`. `set $a=$b`, `echo` and random variables' parameters take the value of the moment.
//!
//! Invariants: reading is total and bounded. No input makes it panic; its work and memory are bounded by the
//! limits below; nothing recurses on the input, except composite flowops, down to [`MAX_DEPTH`].
//!
//! It does *not* run shell commands (`system`), read the environment (`$(HOME)`) or synchronise clients
//! (`domultisync`): results must depend on the file alone.
//!
//! Source: Filebench's "Workload model language" wiki page and the attribute lists of its grammar.

mod args;
mod ast;
mod catalog;
mod filesets;
mod flowops;
mod lex;
mod lower;
mod parse;
mod random;
mod run;
mod source;
mod targets;
mod vars;

pub use source::Diagnostic;

use crate::Error;
use crate::spec::Workload;
use source::Source;

/// Longest workload file, in bytes.
pub const MAX_TEXT: usize = 1 << 20;
/// Longest string (a path, a message with its variables filled in), in bytes.
pub const MAX_STRING: usize = 4096;
/// Longest name of a fileset, process, thread or flowop, in bytes (as in Filebench).
pub const MAX_NAME: usize = 127;
/// Most flowops in a workload, composites expanded.
pub const MAX_FLOWOPS: usize = 16_384;
/// Deepest nesting of composite flowops.
pub const MAX_DEPTH: usize = 8;
/// Most entries or leaf directories in a fileset.
pub const MAX_ENTRIES: u64 = 1 << 31;
/// Highest descriptor number (`fd`, `srcfd`) of a thread.
pub const MAX_FD: u64 = 1023;
/// Most attributes in one list.
pub const MAX_ATTRIBUTES: usize = 64;
/// Most `echo` lines and most warnings that are kept.
pub const MAX_MESSAGES: usize = 1000;

impl Workload {
    /// Reads a workload file as it is on disk: [`Workload::parse`] of its text, which must be UTF-8 (a byte
    /// order mark before it is passed over).
    ///
    /// # Errors
    ///
    /// As [`Workload::parse`]; [`Error::Script`] with the place of the first byte that is no text.
    pub fn parse_bytes(name: &str, bytes: &[u8], overrides: &[(String, String)]) -> Result<Self, Error> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let wrong = match std::str::from_utf8(bytes) {
            Ok(text) => return Self::parse(name, text, overrides),
            Err(wrong) => wrong,
        };
        // Up to the end of the line, as a terminal can show it.
        let valid = wrong.valid_up_to();
        let rest = bytes[valid..].split(|&b| b == b'\n').next().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[..valid + rest.len()]);
        let source = Source::new(name, &text);
        source.check_size()?;
        let message = format!("the byte 0x{:02x} is no UTF-8 text", bytes[valid]);
        let help = "save the file as UTF-8, for example with `iconv -f latin1 -t utf-8`";
        Ok(source.error(source::Span::new(valid, valid + '\u{fffd}'.len_utf8()), message, help)?)
    }

    /// Reads a workload file.
    ///
    /// `name` is the file's name in messages. Each of `overrides` is a variable (with or without its `$`) and
    /// a value in the language's syntax, such as `("nfiles", "50k")`: the variable then has that value
    /// throughout, whatever the file sets it to.
    ///
    /// # Errors
    ///
    /// [`Error::Script`] at the first thing that is wrong with the text or with an override.
    pub fn parse(name: &str, text: &str, overrides: &[(String, String)]) -> Result<Self, Error> {
        let source = Source::new(name, text);
        source.check_size()?;
        let tokens = lex::lex(&source)?;
        let fixed = vars::overrides(&tokens, overrides)?;
        let commands = parse::parse(&source, &tokens)?;
        Ok(lower::lower(&source, &commands, fixed)?)
    }
}
