//! Commands, one by one: everything but what `define` makes.
//!
//! It does *not* check names or values.

use super::{Parser, shorten};
use crate::lang::ast::{Arith, Command, CommandKind, Run, Value, ValueKind};
use crate::lang::catalog;
use crate::lang::lex::Tok;
use crate::lang::source::{Result, Span};
use crate::spec::QuitMode;
use granary_trace::suggest::nearest;

/// Every command, for suggestions.
const COMMANDS: &[&str] = &[
    "create", "debug", "define", "echo", "enable", "eventgen", "exit", "list", "psrun", "quit", "run", "set",
    "shutdown", "sleep", "stats", "system", "usage", "version",
];

/// Commands that Filebench has or had and that cannot mean anything here, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("domultisync", "there is one client here; remove it"),
    ("foreach", "Filebench dropped it; run the workload once per value, overriding the variable"),
    ("fscheck", "file systems are checked by `granary` itself; remove it"),
    ("fsflush", "write `system \"sync\"` if caches should be written back before the run"),
    ("help", "it belongs to Filebench's old command prompt; remove it"),
    ("load", "put everything into one file"),
    ("log", "write `echo \"...\"`"),
    ("vars", "it belongs to Filebench's old command prompt; remove it"),
    ("warmup", "Filebench dropped it; what `create files` writes is in the caches when the run begins"),
];

impl<'a> Parser<'_, 'a> {
    pub(super) fn command(&mut self) -> Result<Command<'a>> {
        let keyword = self.peek();
        let Tok::Word(word) = keyword.tok else {
            return self
                .expected("a command", "commands begin with a word, such as `define`, `set` or `run`");
        };
        self.take();
        let span = keyword.span;
        let kind = match word {
            "define" => self.define()?,
            "set" => self.set()?,
            "eventgen" => CommandKind::EventGen(self.head(span)?),
            "create" => self.create()?,
            "shutdown" => self.shutdown()?,
            "run" => CommandKind::Run(Run { seconds: self.optional_number(), reports: false, period: None }),
            "psrun" => {
                let period = self.optional_number();
                let seconds = if period.is_some() { self.optional_number() } else { None };
                CommandKind::Run(Run { seconds, reports: true, period })
            }
            "sleep" => CommandKind::Sleep(self.number("the seconds to sleep", "write `sleep 5`")?),
            "system" => {
                let (text, at) = self.string("a command to run", "write `system \"sync\"`")?;
                CommandKind::System(text, at)
            }
            "echo" => {
                let (text, at) = self.string("a message", "write `echo \"...\"`")?;
                CommandKind::Echo(text, at)
            }
            "usage" => {
                self.string("a message", "write `usage \"...\"`")?;
                CommandKind::Nothing
            }
            "enable" => self.enable()?,
            "debug" => {
                self.number("a debug level", "write `debug 1`, or remove it")?;
                CommandKind::Ignored("`debug` has no effect: there is nothing of Filebench's to debug here")
            }
            "list" => self.list()?,
            "stats" => self.stats()?,
            "version" => CommandKind::Nothing,
            "quit" | "exit" => CommandKind::Quit,
            _ => return self.unknown_command(word, span),
        };
        Ok(Command { span, kind })
    }

    fn unknown_command<T>(&self, word: &str, span: Span) -> Result<T> {
        if let Some((_, why)) = REFUSED.iter().find(|(name, _)| *name == word) {
            return self.source.error(span, format!("`{word}` is not supported"), *why);
        }
        let shown = shorten(word);
        if catalog::is_attribute(word) {
            let help = "attributes are separated by commas: is there one missing before this?";
            return self.source.error(span, format!("`{shown}` is an attribute, not a command"), help);
        }
        let message = format!("there is no command `{shown}`");
        match nearest(word, COMMANDS.iter().copied()) {
            Some(name) => self.source.error(span, message, format!("did you mean `{name}`?")),
            None => {
                self.source.error(span, message, "a comment begins with `#`; a string is put between quotes")
            }
        }
    }

    fn set(&mut self) -> Result<CommandKind<'a>> {
        let token = self.peek();
        let name = match token.tok {
            Tok::Var(name) => name,
            Tok::Word("mode") => {
                self.take();
                return self.mode();
            }
            Tok::Word(word) => {
                let help = format!("variables are written with a `$`: `set ${}=...`", shorten(word));
                return self.expected("a variable", help);
            }
            _ => return self.expected("a variable", "write `set $name=value`"),
        };
        self.take();
        if let Tok::Word(field) = self.peek().tok
            && field.starts_with('.')
        {
            return self.source.error(
                self.peek().span,
                "single parameters of a random variable cannot be set",
                format!("set the whole variable: `set ${name}=randvar(type=..., mean=...)`"),
            );
        }
        if !self.eat(Tok::Eq) {
            return self.expected("`=`", format!("write `set ${name}=value`"));
        }
        let value = self.set_value()?;
        Ok(CommandKind::Set { name, value })
    }

    fn set_value(&mut self) -> Result<Value<'a>> {
        let first = self.value()?;
        let next = self.peek().tok;
        if let (ValueKind::Word(word), Tok::LParen) = (&first.kind, next) {
            let word = *word;
            let custom = match word {
                "cvar" => true,
                "randvar" | "random" => false,
                _ => {
                    let help =
                        "random numbers are written `cvar(type=..., parameters=...)` or `randvar(type=...)`";
                    return self.source.error(
                        first.span,
                        format!("`{}` makes no value", shorten(word)),
                        help,
                    );
                }
            };
            self.take();
            let head = self.head(first.span)?;
            let close = self.peek().span;
            if !self.eat(Tok::RParen) {
                return self.expected("`,` or `)`", format!("the `(` after `{word}` is still open"));
            }
            let kind = if custom { ValueKind::Cvar(head) } else { ValueKind::Randvar(head) };
            return Ok(Value { kind, span: first.span.to(close) });
        }
        let op = match next {
            Tok::Plus => Arith::Add,
            Tok::Star => Arith::Mul,
            Tok::Word("-") => Arith::Sub,
            Tok::Word("/") => Arith::Div,
            _ => return Ok(first),
        };
        self.take();
        let second = self.value()?;
        let span = first.span.to(second.span);
        if matches!(self.peek().tok, Tok::Plus | Tok::Star | Tok::Word("-" | "/")) {
            return self
                .expected("the end of the command", "there can be one operator; use another variable");
        }
        Ok(Value { kind: ValueKind::Arith(Box::new([first, second]), op), span })
    }

    fn mode(&mut self) -> Result<CommandKind<'a>> {
        const HELP: &str = "the modes are `quit alldone`, `quit firstdone`, `quit timeout` and `nousestats`";
        let mode = self.peek().tok;
        match mode {
            Tok::Word("quit") => {
                self.take();
                let mode = match self.peek().tok {
                    Tok::Word("alldone") => QuitMode::AllDone,
                    Tok::Word("firstdone") => QuitMode::FirstDone,
                    Tok::Word("timeout") => QuitMode::Timeout,
                    _ => return self.expected("`alldone`, `firstdone` or `timeout`", HELP),
                };
                self.take();
                Ok(CommandKind::QuitMode(mode))
            }
            Tok::Word("nousestats" | "noousage" | "nousage") => {
                self.take();
                Ok(CommandKind::Nothing)
            }
            _ => self.expected("a mode", HELP),
        }
    }

    fn create(&mut self) -> Result<CommandKind<'a>> {
        let kind = match self.peek().tok {
            Tok::Word("file" | "files" | "fileset" | "filesets") => CommandKind::CreateFilesets,
            Tok::Word("process" | "processes") => CommandKind::CreateProcesses,
            _ => return self.expected("`files`, `filesets` or `processes`", "write `create filesets`"),
        };
        self.take();
        Ok(kind)
    }

    fn shutdown(&mut self) -> Result<CommandKind<'a>> {
        let kind = match self.peek().tok {
            Tok::Word("process" | "processes") => CommandKind::ShutdownProcesses,
            Tok::Word("file" | "files" | "fileset" | "filesets" | "thread") => {
                CommandKind::Ignored("`shutdown` has no effect: the run ends by itself")
            }
            _ => {
                return self
                    .expected("`processes` or `filesets`", "write `shutdown processes`, or remove it");
            }
        };
        self.take();
        Ok(kind)
    }

    fn enable(&mut self) -> Result<CommandKind<'a>> {
        let token = self.peek();
        match token.tok {
            Tok::Word("lathist") => {
                self.take();
                Ok(CommandKind::EnableLatencyHistogram)
            }
            Tok::Word("multi") => self.source.error(
                token.span,
                "`enable multi` is not supported",
                "there is one client here; remove it and `domultisync`",
            ),
            _ => self.expected("`lathist`", "write `enable lathist`"),
        }
    }

    fn list(&mut self) -> Result<CommandKind<'a>> {
        // Filebench lists filesets or flowops; the reports here always do.
        if let Tok::Word("fileset" | "filesets" | "flowop" | "cvar") = self.peek().tok {
            self.take();
        }
        Ok(CommandKind::Nothing)
    }

    fn stats(&mut self) -> Result<CommandKind<'a>> {
        let verb = self.peek().tok;
        let Tok::Word("clear" | "snap" | "command" | "directory" | "dump" | "xmldump" | "multidump") = verb
        else {
            return self
                .expected("`clear`, `snap` or `dump`", "`stats` has no effect here; you can remove it");
        };
        self.take();
        if !matches!(verb, Tok::Word("clear" | "snap")) {
            match self.peek().tok {
                Tok::Str(_) | Tok::Var(_) => self.take(),
                Tok::Word(word) if !COMMANDS.contains(&word) => self.take(),
                _ => {
                    return self
                        .expected("a file name or command", "`stats` has no effect here; you can remove it");
                }
            };
        }
        Ok(CommandKind::Ignored("`stats` has no effect: results are collected over the measured phase"))
    }
}
