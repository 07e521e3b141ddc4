//! From commands to a workload: walks the commands once, then resolves what was defined.
//!
//! ```text
//!   commands in order ──► variables change, definitions are checked and remembered
//!   at `run` (or the end) ──► filesets ──► processes, threads, flowops ──► Workload
//!                             with the variables as they are then
//! ```
//!
//! Filebench never executes the commands after the first `run`. They must parse and are otherwise ignored. A
//! file for Filebench before 1.5 can say the same step by step: `create processes` starts the threads, each
//! `sleep` lets them run, `shutdown processes` ends them. Where there is no `run`, those steps are the run.
//!
//! It does *not* know the flowops; `flowops` does.

use std::collections::{BTreeMap, BTreeSet};

use super::args::{Args, check, warn};
use super::ast::{Command, CommandKind, Composite, Head, Process, Run, Value, ValueKind};
use super::catalog::{COMPOSITE, EVENTGEN, FILE, FILESET, PROCESS, THREAD};
use super::flowops::{Expansion, check_types};
use super::parse::shorten;
use super::run;
use super::source::{Result, Source, Span};
use super::vars::{Fixed, Globals, Held, Scope};
use super::{MAX_MESSAGES, filesets, random, targets};
use crate::spec::{
    FilesetId, FilesetSpec, MAX_THREADS, ProcessSpec, QuitMode, RandomId, RandomVar, RunSpec, Step,
    ThreadSpec, Value as Amount, Warning, Workload,
};

/// The workload that the commands describe; `fixed` are the variables that `set` does not change.
pub(crate) fn lower<'a>(source: &Source<'a>, commands: &[Command<'a>], fixed: Fixed) -> Result<Workload> {
    let mut walk = Walk::new(source, fixed);
    for command in commands {
        match walk.end {
            None => walk.command(command)?,
            Some(End::Run(..) | End::Quit) => {
                if !matches!(command.kind, CommandKind::Nothing | CommandKind::Echo(..) | CommandKind::Quit) {
                    let message = "this has no effect: Filebench ends with its first `run`";
                    warn(source, &mut walk.warnings, command.span, message);
                    break;
                }
            }
            // After `shutdown processes`, statistics are taken and the filesets are shut down.
            Some(End::Shutdown) => {
                let harmless = matches!(
                    command.kind,
                    CommandKind::Nothing
                        | CommandKind::Echo(..)
                        | CommandKind::Quit
                        | CommandKind::Ignored(_)
                        | CommandKind::ShutdownProcesses
                );
                if !harmless {
                    let message = "this has no effect: the processes were shut down before";
                    warn(source, &mut walk.warnings, command.span, message);
                    break;
                }
            }
        }
    }
    walk.finish()
}

/// How the commands ended.
enum End<'c, 'a> {
    Run(&'c Run<'a>, Span),
    /// `shutdown processes` after `create processes` and at least one `sleep`.
    Shutdown,
    Quit,
}

/// The state while the commands are walked.
struct Walk<'c, 'a> {
    source: &'c Source<'a>,
    globals: Globals,
    /// Variables that keep their value.
    fixed: BTreeSet<String>,
    randoms: Vec<RandomVar>,
    random_names: BTreeSet<String>,
    filesets: Vec<(&'c Head<'a>, bool)>,
    processes: Vec<(&'c Process<'a>, Span)>,
    composites: BTreeMap<&'a str, &'c Composite<'a>>,
    event_rate: Option<&'c Head<'a>>,
    prologue: Vec<Step>,
    /// Where each of its steps stands.
    places: Vec<Span>,
    /// Steps before `create processes`.
    started: Option<usize>,
    mode: QuitMode,
    latency_histogram: bool,
    messages: Vec<String>,
    warnings: Vec<Warning>,
    end: Option<End<'c, 'a>>,
}

impl<'c, 'a> Walk<'c, 'a> {
    fn new(source: &'c Source<'a>, fixed: Fixed) -> Self {
        Self {
            source,
            fixed: fixed.values.keys().cloned().collect(),
            globals: fixed.values,
            random_names: fixed.randoms.iter().map(|r| r.name.clone()).collect(),
            randoms: fixed.randoms,
            filesets: Vec::new(),
            processes: Vec::new(),
            composites: BTreeMap::new(),
            event_rate: None,
            prologue: Vec::new(),
            places: Vec::new(),
            started: None,
            mode: QuitMode::default(),
            latency_histogram: false,
            messages: Vec::new(),
            warnings: Vec::new(),
            end: None,
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope { globals: &self.globals, locals: None }
    }

    fn args<'h>(&'h self, head: &'h Head<'a>) -> Args<'h, 'a> {
        Args { source: self.source, head, scope: self.scope() }
    }

    fn check(&mut self, head: &Head<'a>, allowed: &super::catalog::Attributes) -> Result<()> {
        check(self.source, head, allowed, &mut self.warnings)?;
        match head.attrs.iter().find(|a| a.local) {
            None => Ok(()),
            Some(attr) => self.source.error(
                attr.span,
                format!("{} has no variables", allowed.of),
                "attributes are written without `$`; only their values may be variables",
            ),
        }
    }

    fn command(&mut self, command: &'c Command<'a>) -> Result<()> {
        match &command.kind {
            CommandKind::DefineFile(head) => {
                self.check(head, &FILE)?;
                self.filesets.push((head, true));
            }
            CommandKind::DefineFileset(head) => {
                self.check(head, &FILESET)?;
                self.filesets.push((head, false));
            }
            CommandKind::DefineProcess(process) => {
                self.check(&process.head, &PROCESS)?;
                for thread in &process.threads {
                    self.check(&thread.head, &THREAD)?;
                    check_types(self.source, &thread.flowops, &self.composites, &mut self.warnings)?;
                }
                self.processes.push((process, command.span));
            }
            CommandKind::DefineFlowop(composite) => self.composite(composite)?,
            CommandKind::DefineRandvar(head) => {
                let Some(Value { kind: ValueKind::Var(name), .. }) =
                    self.args(head).find("name").and_then(|a| a.value.as_ref())
                else {
                    let span = self.args(head).span("name");
                    return self.source.error(
                        span,
                        "a `randvar` is named like a variable",
                        "write `name=$variable`",
                    );
                };
                let name: &'a str = name;
                self.define_random(name, false, head)?;
            }
            CommandKind::Set { name, value } => self.set(name, value)?,
            CommandKind::QuitMode(mode) => self.mode = *mode,
            CommandKind::EventGen(head) => {
                self.check(head, &EVENTGEN)?;
                self.event_rate = Some(head);
            }
            CommandKind::CreateFilesets => self.step(command.span, Step::CreateFilesets)?,
            CommandKind::CreateProcesses => self.started = self.started.or(Some(self.prologue.len())),
            CommandKind::ShutdownProcesses if self.has_slept() => self.end = Some(End::Shutdown),
            CommandKind::ShutdownProcesses => {
                let message = "`shutdown` has no effect before the run, and the run ends by itself";
                warn(self.source, &mut self.warnings, command.span, message);
            }
            CommandKind::Run(run) => self.end = Some(End::Run(run, command.span)),
            CommandKind::Quit => self.end = Some(End::Quit),
            CommandKind::Sleep(value) => {
                let seconds = run::seconds(self.source, self.scope(), value)?;
                self.step(command.span, Step::Sleep { seconds })?;
            }
            CommandKind::System(text, span) => {
                let text = self.scope().text(self.source, text, *span, true)?;
                for step in run::shell(self.source, &text, *span)? {
                    self.step(*span, step)?;
                }
            }
            CommandKind::Echo(text, span) => {
                let text = self.scope().text(self.source, text, *span, false)?;
                if self.messages.len() < MAX_MESSAGES {
                    self.messages.push(text);
                }
            }
            CommandKind::EnableLatencyHistogram => self.latency_histogram = true,
            CommandKind::Nothing => {}
            CommandKind::Ignored(why) => warn(self.source, &mut self.warnings, command.span, *why),
        }
        Ok(())
    }

    fn step(&mut self, span: Span, step: Step) -> Result<()> {
        if self.prologue.len() >= MAX_MESSAGES {
            let message = format!("there are more than {MAX_MESSAGES} steps before the run");
            return self.source.error(span, message, "remove some");
        }
        self.prologue.push(step);
        self.places.push(span);
        Ok(())
    }

    /// There is a `sleep` after `create processes`.
    fn has_slept(&self) -> bool {
        let after = |started: usize| self.prologue[started..].iter().any(|s| matches!(s, Step::Sleep { .. }));
        self.started.is_some_and(after)
    }

    /// The run of the threads that `create processes` has started: as long as the `sleep`s after it.
    fn slept(&mut self) -> Result<RunSpec> {
        let started = self.started.unwrap_or(self.prologue.len());
        let mut seconds = 0;
        for (step, span) in self.prologue.split_off(started).into_iter().zip(self.places.split_off(started)) {
            match step {
                Step::Sleep { seconds: more } => seconds = run::longer(self.source, span, seconds, more)?,
                _ => {
                    let message =
                        "this has no effect while the processes run: put it before `create processes`";
                    warn(self.source, &mut self.warnings, span, message);
                }
            }
        }
        // `sleep 0` waits until a flowop ends the run.
        Ok(RunSpec { seconds: Some(seconds).filter(|&s| s > 0), period: None, reset_each_period: false })
    }

    fn set(&mut self, name: &str, value: &Value<'a>) -> Result<()> {
        match &value.kind {
            ValueKind::Cvar(head) => self.define_random(name, true, head),
            ValueKind::Randvar(head) => self.define_random(name, false, head),
            _ if self.fixed.contains(name) => Ok(()),
            _ => {
                let held = self.scope().eval(self.source, value)?;
                self.globals.insert(name.to_owned(), held);
                Ok(())
            }
        }
    }

    fn define_random(&mut self, name: &str, custom: bool, head: &Head<'a>) -> Result<()> {
        if self.fixed.contains(name) {
            return Ok(());
        }
        let mut warnings = std::mem::take(&mut self.warnings);
        let variable = random::variable(name, custom, self.args(head), &mut warnings);
        self.warnings = warnings;
        let id = self.add_random(variable?);
        self.globals.insert(name.to_owned(), Held::Random(id));
        Ok(())
    }

    /// Keeps the variable under a name that no other has: streams are derived from names.
    fn add_random(&mut self, mut variable: RandomVar) -> RandomId {
        let id = self.randoms.len();
        while !self.random_names.insert(variable.name.clone()) {
            variable.name = format!("{}#{id}", variable.name);
        }
        self.randoms.push(variable);
        RandomId(id)
    }

    fn composite(&mut self, composite: &'c Composite<'a>) -> Result<()> {
        check(self.source, &composite.head, &COMPOSITE, &mut self.warnings)?;
        let named = self.args(&composite.head).find("name").and_then(|a| a.value.as_ref());
        // Uses name it before any variable is known, so its name must be a plain word.
        let Some(&Value { kind: ValueKind::Word(name), span }) = named else {
            let span = self.args(&composite.head).span("name");
            return self.source.error(
                span,
                "a flowop is named by a plain word",
                "write `define flowop name=word`",
            );
        };
        if super::catalog::flowop_type(name).is_some() {
            let message = format!("`{name}` is a flowop of the language");
            return self.source.error(span, message, "choose another name");
        }
        check_types(self.source, &composite.flowops, &self.composites, &mut self.warnings)?;
        if self.composites.insert(name, composite).is_some() {
            let message = format!("the flowop `{}` is defined twice", shorten(name));
            return self.source.error(span, message, "choose another name");
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Workload> {
        let end = Span::new(self.source.text.len(), self.source.text.len());
        let (run, at, by_default) = match self.end.take() {
            Some(End::Run(run, at)) => {
                let spec = run::spec(self.source, self.scope(), run, self.mode)?;
                (spec.run, at, spec.by_default)
            }
            Some(End::Shutdown | End::Quit) | None if self.has_slept() => (self.slept()?, end, false),
            Some(End::Shutdown | End::Quit) | None => {
                let message = "there is no `run` before the end (nor `create processes` and `sleep`): Filebench would run nothing; here \
                               it is run as if `run` stood here";
                warn(self.source, &mut self.warnings, end, message);
                let bare = Run { seconds: None, reports: false, period: None };
                let spec = run::spec(self.source, self.scope(), &bare, self.mode)?;
                (spec.run, end, spec.by_default)
            }
        };
        let event_rate = match self.event_rate {
            Some(head) => self.args(head).number("rate")?.unwrap_or(0),
            None => 0,
        };
        let filesets = self.resolve_filesets()?;
        let processes = self.resolve_processes(&filesets, end)?;
        run::warn_if_endless(self.source, at, run, by_default, &processes, &mut self.warnings);
        Ok(Workload {
            name: self.source.name().to_owned(),
            randoms: self.randoms,
            filesets,
            processes,
            prologue: self.prologue,
            run,
            mode: self.mode,
            event_rate,
            fio: Vec::new(),
            fiu: None,
            latency_histogram: self.latency_histogram,
            messages: self.messages,
            warnings: self.warnings,
        })
    }

    fn resolve_filesets(&mut self) -> Result<Vec<FilesetSpec>> {
        let mut specs: Vec<FilesetSpec> = Vec::with_capacity(self.filesets.len());
        let mut taken = BTreeSet::new();
        for (head, single) in std::mem::take(&mut self.filesets) {
            let mut warnings = std::mem::take(&mut self.warnings);
            let spec = filesets::spec(self.args(head), single, &mut warnings);
            self.warnings = warnings;
            let (mut spec, random_size) = spec?;
            if let Some(random) = random_size {
                spec.size = Amount::Random(self.add_random(random));
            }
            if spec.dirwidth == Amount::Const(0) {
                let message = "there is no `dirwidth`: every entry gets a directory of its own";
                warn(self.source, &mut self.warnings, head.span, message);
            }
            if !taken.insert(spec.name.clone()) {
                let message = format!("the fileset `{}` is defined twice", shorten(&spec.name));
                return self.args(head).error("name", message, "choose another name");
            }
            specs.push(spec);
        }
        Ok(specs)
    }

    fn resolve_processes(&mut self, filesets: &[FilesetSpec], end: Span) -> Result<Vec<ProcessSpec>> {
        let names: BTreeMap<&str, FilesetId> =
            filesets.iter().enumerate().map(|(i, set)| (set.name.as_str(), FilesetId(i))).collect();
        let processes = std::mem::take(&mut self.processes);
        let mut expansion =
            Expansion::new(self.source, &names, &self.composites, &self.globals, &mut self.warnings);
        let mut specs = Vec::with_capacity(processes.len());
        let mut total: u64 = 0;
        for (process, span) in &processes {
            let args = |head| Args {
                source: self.source,
                head,
                scope: Scope { globals: &self.globals, locals: None },
            };
            let of = args(&process.head);
            let (name, instances) = (of.name()?, instances(of)?);
            let mut threads = Vec::with_capacity(process.threads.len());
            for thread in &process.threads {
                let of = args(&thread.head);
                let spec = ThreadSpec {
                    name: of.name()?,
                    instances: self::instances(of)?,
                    memsize: of.number("memsize")?.unwrap_or(0),
                    flowops: expansion.thread(&thread.flowops)?,
                };
                total += u64::from(instances) * u64::from(spec.instances);
                threads.push(spec);
            }
            if total > u64::from(MAX_THREADS) {
                let message = format!("the workload has more than {MAX_THREADS} threads");
                return self.source.error(*span, message, "give fewer instances");
            }
            specs.push(ProcessSpec { name, instances, threads });
        }
        targets::check(self.source, &specs, expansion.remotes())?;
        if total == 0 {
            let message = "the workload has no thread";
            return self.source.error(
                end,
                message,
                "add `define process` with at least one thread, and instances above 0",
            );
        }
        Ok(specs)
    }
}

fn instances(args: Args<'_, '_>) -> Result<u32> {
    Ok(args.within("instances", 0, u64::from(MAX_THREADS))?.unwrap_or(1) as u32)
}
