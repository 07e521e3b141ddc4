//! stdout and stderr: the only way to them. `out!` and `outln!` print as `print!` and `println!` do,
//! `say!` as `eprintln!`.
//!
//! A reader that went away (`granary ls IMAGE | head -1`) is nothing to complain of: what is printed from
//! then on is dropped, and the command ends as it would have ended, with images closed and its own exit code.
//! Commands that print without an end ask [`is_open`]. Any other trouble (a full disk) is remembered, and
//! [`finish`] has it. Talk that nobody can hear is no trouble at all: `eprintln!` would end the command in
//! the middle of its work.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// The first error. Nothing is printed after it.
static TROUBLE: Mutex<Option<io::Error>> = Mutex::new(None);

fn with(work: impl FnOnce(&mut io::Stdout) -> io::Result<()>) {
    let mut trouble = TROUBLE.lock().unwrap_or_else(PoisonError::into_inner);
    if trouble.is_none() {
        #[allow(clippy::disallowed_methods, reason = "this is the way")]
        let mut stdout = io::stdout();
        *trouble = work(&mut stdout).err();
    }
}

/// For `out!` and `outln!`.
pub fn print(text: Arguments<'_>) {
    with(|out| out.write_fmt(text));
}

/// Prints bytes as they are.
pub fn bytes(bytes: &[u8]) {
    with(|out| out.write_all(bytes));
}

/// Hands on what was printed so far.
pub fn flush() {
    with(Write::flush);
}

/// Whether somebody may still read.
pub fn is_open() -> bool {
    TROUBLE.lock().unwrap_or_else(PoisonError::into_inner).is_none()
}

/// Whether it is a terminal.
#[allow(clippy::disallowed_methods, reason = "this is the way")]
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Hands on the rest.
///
/// # Errors
/// The first error on the way, but for a reader that went away.
pub fn finish() -> io::Result<()> {
    flush();
    match TROUBLE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(e) if e.kind() != ErrorKind::BrokenPipe => Err(e),
        _ => Ok(()),
    }
}

/// For `say!`: a line on stderr, if it can be written.
pub fn say(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// `print!`, by `print`.
macro_rules! out {
    ($($arg:tt)*) => { $crate::out::print(format_args!($($arg)*)) };
}

/// `println!`, by `print`.
macro_rules! outln {
    () => { $crate::out::print(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::out::print(format_args!("{}\n", format_args!($($arg)*))) };
}

/// `eprintln!`, by `say!`.
macro_rules! say {
    ($($arg:tt)*) => { $crate::out::say(format_args!($($arg)*)) };
}
