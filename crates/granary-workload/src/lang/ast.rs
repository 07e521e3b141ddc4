//! The commands of a workload file as they were written, with their places.
//!
//! Names are not checked and variables not resolved: that is `lower`. All text borrows from the file.

use super::source::Span;
use crate::spec::QuitMode;

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value<'a> {
    pub(crate) kind: ValueKind<'a>,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueKind<'a> {
    /// A bare word: a name, a path, `true`.
    Word(&'a str),
    /// Between quotes, still raw.
    Str(&'a str),
    Int(u64),
    /// A negative number's magnitude.
    Neg(u64),
    Var(&'a str),
    /// `{{percent, lower, upper}, ...}`; only for `randtable`.
    Table(Vec<[Value<'a>; 3]>),
    /// `cvar(...)`; only in `set`.
    Cvar(Head<'a>),
    /// `randvar(...)`; only in `set`.
    Randvar(Head<'a>),
    /// `a * b`; only in `set`.
    Arith(Box<[Value<'a>; 2]>, Arith),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arith {
    Add,
    Sub,
    Mul,
    Div,
}

/// `name`, `name=value`, `$local` or `$local=value`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attr<'a> {
    /// Without the `$`.
    pub(crate) name: &'a str,
    /// Written with a `$`: a composite flowop's local variable.
    pub(crate) local: bool,
    /// Of the name.
    pub(crate) span: Span,
    pub(crate) value: Option<Value<'a>>,
}

/// A keyword (or a flowop's type) and the attributes after it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head<'a> {
    /// The place of an error about the whole.
    pub(crate) span: Span,
    pub(crate) attrs: Vec<Attr<'a>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flowop<'a> {
    /// Its type, such as `read`.
    pub(crate) kind: &'a str,
    pub(crate) head: Head<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thread<'a> {
    pub(crate) head: Head<'a>,
    pub(crate) flowops: Vec<Flowop<'a>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Process<'a> {
    pub(crate) head: Head<'a>,
    pub(crate) threads: Vec<Thread<'a>>,
}

/// `define flowop`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Composite<'a> {
    pub(crate) head: Head<'a>,
    pub(crate) flowops: Vec<Flowop<'a>>,
}

/// `run` and `psrun`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run<'a> {
    /// Seconds of the run.
    pub(crate) seconds: Option<Value<'a>>,
    /// It is `psrun`.
    pub(crate) reports: bool,
    /// Seconds between reports (`psrun` only); negative means that counters restart.
    pub(crate) period: Option<Value<'a>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Command<'a> {
    /// The keyword.
    pub(crate) span: Span,
    pub(crate) kind: CommandKind<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CommandKind<'a> {
    DefineFile(Head<'a>),
    DefineFileset(Head<'a>),
    DefineProcess(Process<'a>),
    DefineFlowop(Composite<'a>),
    DefineRandvar(Head<'a>),
    Set {
        name: &'a str,
        value: Value<'a>,
    },
    QuitMode(QuitMode),
    EventGen(Head<'a>),
    CreateFilesets,
    /// `create processes`: starts the threads, as Filebench before 1.5 has it.
    CreateProcesses,
    /// `shutdown processes`: ends them.
    ShutdownProcesses,
    Run(Run<'a>),
    Sleep(Value<'a>),
    System(&'a str, Span),
    Echo(&'a str, Span),
    EnableLatencyHistogram,
    Quit,
    /// Understood, and of no consequence here; nothing need be said about it.
    Nothing,
    /// Understood, and ignored with this reason.
    Ignored(&'static str),
}
