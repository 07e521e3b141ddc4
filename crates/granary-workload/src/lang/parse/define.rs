//! `define`: files, filesets, processes with their threads, composite flowops.
//!
//! It does *not* check names or values.

use super::{Parser, shorten};
use crate::lang::ast::{CommandKind, Composite, Flowop, Head, Process, Thread};
use crate::lang::catalog;
use crate::lang::lex::Tok;
use crate::lang::source::{Result, Span};
use granary_trace::suggest::nearest;

impl<'a> Parser<'_, 'a> {
    pub(super) fn define(&mut self) -> Result<CommandKind<'a>> {
        const WHAT: &str = "`define` makes a `file`, a `fileset`, a `process`, a `flowop` or a `randvar`";
        let entity = self.peek();
        let Tok::Word(word) = entity.tok else {
            return self.expected("what to define", WHAT);
        };
        let span = entity.span;
        match word {
            "file" | "files" => {
                self.take();
                Ok(CommandKind::DefineFile(self.head(span)?))
            }
            "fileset" | "filesets" => {
                self.take();
                Ok(CommandKind::DefineFileset(self.head(span)?))
            }
            "randvar" => {
                self.take();
                Ok(CommandKind::DefineRandvar(self.head(span)?))
            }
            "process" | "processes" => {
                self.take();
                self.process(span).map(CommandKind::DefineProcess)
            }
            "flowop" => {
                self.take();
                let head = self.head(span)?;
                let flowops = self.flowops("a composite flowop")?;
                Ok(CommandKind::DefineFlowop(Composite { head, flowops }))
            }
            "thread" => self.source.error(
                span,
                "threads are defined inside their process",
                "write `define process ... { thread ... { flowop ... } }`",
            ),
            _ => {
                let known = ["file", "fileset", "process", "flowop", "randvar"];
                let help = match nearest(word, known.into_iter()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => WHAT.to_owned(),
                };
                self.source.error(span, format!("a `{}` cannot be defined", shorten(word)), help)
            }
        }
    }

    fn process(&mut self, span: Span) -> Result<Process<'a>> {
        let head = self.head(span)?;
        let open = self.open_brace("the threads of the process")?;
        let mut threads = Vec::new();
        loop {
            let token = self.peek();
            match token.tok {
                Tok::Word("thread") => {
                    self.take();
                    let head = self.head(token.span)?;
                    let flowops = self.flowops("a thread")?;
                    threads.push(Thread { head, flowops });
                }
                Tok::RBrace if !threads.is_empty() => {
                    self.take();
                    return Ok(Process { head, threads });
                }
                Tok::End => return self.unclosed(open),
                Tok::RBrace => return self.expected("a `thread`", "a process has at least one thread"),
                _ => return self.expected("`thread` or `}`", "a process holds threads and nothing else"),
            }
        }
    }

    /// `{ flowop ... }`
    fn flowops(&mut self, of: &str) -> Result<Vec<Flowop<'a>>> {
        let open = self.open_brace(&format!("the flowops of {of}"))?;
        let mut flowops = Vec::new();
        loop {
            match self.peek().tok {
                Tok::Word("flowop") => {
                    self.take();
                    flowops.push(self.flowop()?);
                }
                Tok::RBrace if !flowops.is_empty() => {
                    self.take();
                    return Ok(flowops);
                }
                Tok::End => return self.unclosed(open),
                Tok::RBrace => return self.expected("a `flowop`", format!("{of} has at least one flowop")),
                Tok::Word(word) if catalog::is_attribute(word) => {
                    let help =
                        format!("attributes are separated by commas: is there one missing before `{word}`?");
                    return self.expected("`flowop` or `}`", help);
                }
                _ => return self.expected("`flowop` or `}`", format!("{of} holds flowops and nothing else")),
            }
        }
    }

    fn flowop(&mut self) -> Result<Flowop<'a>> {
        let token = self.peek();
        let Tok::Word(kind) = token.tok else {
            return self.expected("a flowop's type", "write `flowop read name=...`");
        };
        self.take();
        let bare = matches!(self.peek().tok, Tok::RBrace | Tok::Word("flowop"));
        let attrs = if bare { Vec::new() } else { self.attrs()? };
        Ok(Flowop { kind, head: Head { span: token.span, attrs } })
    }

    fn open_brace(&mut self, of: &str) -> Result<Span> {
        let token = self.peek();
        if !self.eat(Tok::LBrace) {
            let help = match token.tok {
                Tok::Word(word) if catalog::is_attribute(word) => {
                    format!("attributes are separated by commas: is there one missing before `{word}`?")
                }
                _ => format!("{of} stand between `{{` and `}}`"),
            };
            return self.expected("`{`", help);
        }
        Ok(token.span)
    }

    fn unclosed<T>(&self, open: Span) -> Result<T> {
        let (line, column) = self.source.position(open.start);
        self.expected("`}`", format!("the `{{` at {line}:{column} has no `}}`"))
    }
}
