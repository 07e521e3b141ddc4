//! Flowops: checked where they are written, resolved where a thread uses them.
//!
//! ```text
//!   define flowop name=rmw, $set { flowop openfile name=open,filesetname=$set,fd=1 ... }
//!   thread ... { flowop rmw name=r1, iters=6, $set=bigfileset }
//!                       └──► FlowopSpec r1 x6 = Composite [ r1.open (bigfileset, fd 1), ... ]
//! ```
//!
//! Invariants: a composite is defined before it is used, so none contains itself. The whole workload has at
//! most [`MAX_FLOWOPS`] flowops after expansion. Every target exists and is of the right kind. A flowop that
//! works on an open file has something in its thread that opens one.
//!
//! It does *not* execute them.

mod args;
mod check;

use args::{fd, io, local_target, sized_io, value};
pub(crate) use check::check_types;
use std::collections::{BTreeMap, BTreeSet};

use super::args::{Args, warn};
use super::ast::{Composite, Flowop};
use super::catalog::{FlowopType, Kind, flowop_type};
use super::parse::shorten;
use super::source::{Result, Source, Span};
use super::vars::{Globals, Locals, Scope};
use super::{MAX_DEPTH, MAX_FLOWOPS, MAX_NAME, targets};
use crate::spec::{FileRef, FilesetId, FlowopSpec, Io, Op, OpenFlags, Value as Amount, Warning};
use granary_trace::suggest::{names, nearest};

/// Alignment of direct I/O on Linux: a logical block of the drive, 512 bytes on nearly all (open(2),
/// O_DIRECT).
const DIRECT_BLOCK: u64 = 512;

type Composites<'c, 'a> = BTreeMap<&'a str, &'c Composite<'a>>;

/// Resolves the flowops of one thread after another.
pub(crate) struct Expansion<'e, 'a> {
    source: &'e Source<'a>,
    filesets: &'e BTreeMap<&'e str, FilesetId>,
    composites: &'e Composites<'e, 'a>,
    globals: &'e Globals,
    warnings: &'e mut Vec<Warning>,
    /// Flowops so far.
    count: usize,
    remotes: Vec<targets::Remote>,
}

/// Facts about a thread, gathered while its flowops are resolved.
#[derive(Default)]
struct InThread {
    /// Descriptors that some flowop opens.
    opened: BTreeSet<u16>,
    /// Descriptors that are open after the flowops so far: with which flags, by which flowop, on which line.
    open: BTreeMap<u16, (OpenFlags, String, u32)>,
    /// Descriptors that some flowop expects to be open.
    expected: Vec<(u16, Span)>,
    /// Targets within the thread; a flowop holds the number of its own.
    targets: Vec<targets::Local>,
}

impl<'e, 'a> Expansion<'e, 'a> {
    pub(crate) fn new(
        source: &'e Source<'a>,
        filesets: &'e BTreeMap<&'e str, FilesetId>,
        composites: &'e Composites<'e, 'a>,
        globals: &'e Globals,
        warnings: &'e mut Vec<Warning>,
    ) -> Self {
        Self { source, filesets, composites, globals, warnings, count: 0, remotes: Vec::new() }
    }

    /// The targets that may be in any thread, for [`targets::check`].
    pub(crate) fn remotes(&self) -> &[targets::Remote] {
        &self.remotes
    }

    /// The flowops of a thread.
    pub(crate) fn thread(&mut self, flowops: &[Flowop<'a>]) -> Result<Vec<FlowopSpec>> {
        let mut thread = InThread::default();
        let mut specs = self.list(flowops, None, "", 0, &mut thread)?;
        for &(fd, span) in &thread.expected {
            if !thread.opened.contains(&fd) {
                let message = format!("nothing in this thread opens a file on descriptor {fd}");
                let help = match thread.opened.iter().next() {
                    Some(open) => format!("did you mean `fd={open}`? Or give it a `filesetname`"),
                    None => "give it a `filesetname`, or open a file before".to_owned(),
                };
                return self.source.error(span, message, help);
            }
        }
        targets::resolve(self.source, &mut specs, &thread.targets)?;
        Ok(specs)
    }

    fn list(
        &mut self,
        flowops: &[Flowop<'a>],
        locals: Option<&Locals<'_>>,
        prefix: &str,
        depth: usize,
        thread: &mut InThread,
    ) -> Result<Vec<FlowopSpec>> {
        let mut specs = Vec::with_capacity(flowops.len());
        for flowop in flowops {
            self.count += 1;
            if self.count > MAX_FLOWOPS {
                let message = format!("the workload has more than {MAX_FLOWOPS} flowops");
                return self.source.error(
                    flowop.head.span,
                    message,
                    "use `iters` instead of repeating flowops",
                );
            }
            let scope = Scope { globals: self.globals, locals };
            let args = Args { source: self.source, head: &flowop.head, scope };
            let name = format!("{prefix}{}", args.name()?);
            if name.len() > MAX_NAME {
                let message = format!("the full name `{}` is longer than {MAX_NAME} bytes", shorten(&name));
                return args.error("name", message, "choose shorter names");
            }
            let mut iters = args.amount("iters")?;
            let op = match flowop_type(flowop.kind) {
                Some(kind) => self.op(kind, args, thread)?,
                None => {
                    let Some(&composite) = self.composites.get(flowop.kind) else {
                        // `check_types` has seen every flowop before.
                        let message = format!("there is no flowop `{}`", shorten(flowop.kind));
                        return self.source.error(flowop.head.span, message, "define it before its use");
                    };
                    if depth == MAX_DEPTH {
                        let message = format!("flowops are nested more than {MAX_DEPTH} deep");
                        return self.source.error(flowop.head.span, message, "write some of them out");
                    }
                    let globals = Scope { globals: self.globals, locals: None };
                    if iters.is_none() {
                        let defined = Args { source: self.source, head: &composite.head, scope: globals };
                        iters = defined.amount("iters")?;
                    }
                    let inner = self.locals(flowop, composite, scope)?;
                    let prefix = format!("{name}.");
                    Op::Composite(self.list(&composite.flowops, Some(&inner), &prefix, depth + 1, thread)?)
                }
            };
            let (line, _) = self.source.position(flowop.head.span.start);
            specs.push(FlowopSpec { name, iters: iters.unwrap_or(Amount::Const(1)), line, op });
        }
        Ok(specs)
    }

    /// The composite's variables: what the use passes, else the definition's default.
    fn locals<'l>(
        &self,
        flowop: &Flowop<'l>,
        composite: &Composite<'l>,
        scope: Scope<'_>,
    ) -> Result<Locals<'l>> {
        let globals = Scope { globals: self.globals, locals: None };
        let mut values = BTreeMap::new();
        for declared in composite.head.attrs.iter().filter(|a| a.local) {
            let passed = flowop.head.attrs.iter().find(|a| a.local && a.name == declared.name);
            let held = match (passed.and_then(|p| p.value.as_ref()), &declared.value) {
                (Some(value), _) => Some(scope.eval(self.source, value)?),
                (None, Some(value)) => Some(globals.eval(self.source, value)?),
                (None, None) => None,
            };
            values.insert(declared.name, held);
        }
        Ok(Locals { of: flowop.kind, values })
    }

    fn op(&mut self, kind: &FlowopType, args: Args<'_, 'a>, thread: &mut InThread) -> Result<Op> {
        Ok(match kind.kind {
            Kind::Create => Op::Create(self.opens(args, thread)?),
            Kind::Open => Op::Open(self.opens(args, thread)?),
            Kind::Close => {
                let file = self.needs_open(args, thread)?;
                thread.open.remove(&file.fd);
                Op::Close(file)
            }
            Kind::Delete => Op::Delete(self.picks(args, thread)?),
            Kind::Stat => Op::Stat(self.picks(args, thread)?),
            Kind::Fsync => Op::Fsync(self.needs_open(args, thread)?),
            Kind::FsyncSet => Op::FsyncSet(self.fileset(args)?),
            Kind::ReadWhole => {
                let (file, io) = self.moves(args, thread, io)?;
                Op::ReadWhole(file, io)
            }
            Kind::WriteWhole => {
                let (file, io) = self.moves(args, thread, io)?;
                let size_from = fd(args, "srcfd")?;
                if size_from != 0 {
                    thread.expected.push((size_from, args.span("srcfd")));
                }
                Op::WriteWhole { file, io, size_from }
            }
            Kind::Read => {
                let (file, io) = self.moves(args, thread, sized_io)?;
                Op::Read(file, io)
            }
            Kind::Write => {
                let (file, io) = self.moves(args, thread, sized_io)?;
                Op::Write(file, io)
            }
            Kind::Append => {
                let (file, io) = self.moves(args, thread, sized_io)?;
                Op::Append(file, io)
            }
            Kind::AppendRandom => {
                let (file, io) = self.moves(args, thread, sized_io)?;
                Op::AppendRandom(file, io)
            }
            Kind::AioWrite => {
                let io = sized_io(args)?;
                if !io.random {
                    return args.error(
                        "random",
                        "`aiowrite` writes at random offsets only",
                        "write `random`, or use `write`",
                    );
                }
                // The writer opens the file anew, with the flags of this flowop.
                let file = self.opens_or_has_open(args, thread)?;
                self.warn_of_unaligned(args, io, file.flags);
                Op::AioWrite(file, io)
            }
            Kind::AioWait => Op::AioWait,
            Kind::MakeDir => Op::MakeDir { fileset: self.fileset(args)?, index: args.amount("indexed")? },
            Kind::RemoveDir => Op::RemoveDir { fileset: self.fileset(args)?, index: args.amount("indexed")? },
            Kind::ListDir => Op::ListDir(self.fileset(args)?),
            Kind::Hog => Op::Hog(value(args)?),
            Kind::Delay => Op::Delay(value(args)?),
            Kind::EventLimit => Op::EventLimit,
            Kind::OpsLimit => Op::OpsLimit { target: local_target(args, false, thread)? },
            Kind::IopsLimit => Op::IopsLimit { target: local_target(args, true, thread)? },
            Kind::BwLimit => Op::BwLimit { target: local_target(args, true, thread)? },
            Kind::FinishOnCount => Op::FinishOnCount {
                value: args.number("value")?.unwrap_or(0),
                target: local_target(args, false, thread)?,
            },
            Kind::FinishOnBytes => Op::FinishOnBytes {
                value: args.number("value")?.unwrap_or(0),
                target: local_target(args, true, thread)?,
            },
            Kind::SemBlock => {
                Op::SemBlock { value: value(args)?, highwater: args.number("highwater")?.unwrap_or(1) }
            }
            Kind::SemPost => Op::SemPost {
                value: value(args)?,
                target: self.remote(args, "semblock")?,
                blocking: args.flag("blocking")?,
            },
            Kind::Block => Op::Block,
            Kind::Wakeup => Op::Wakeup { target: self.remote(args, "block")? },
            Kind::TestRandom => Op::TestRandom(value(args)?),
            Kind::Print => Op::Print(args.text("value")?.unwrap_or_default()),
        })
    }

    /// A flowop that moves data: its file, and the I/O that `io` reads from its attributes.
    fn moves(
        &mut self,
        args: Args<'_, 'a>,
        thread: &mut InThread,
        io: impl FnOnce(Args<'_, '_>) -> Result<Io>,
    ) -> Result<(FileRef, Io)> {
        let file = self.opens_if_named(args, thread)?;
        let io = io(args)?;
        let open = if file.rotate { None } else { thread.open.get(&file.fd) };
        self.warn_of_unaligned(args, io, open.map_or(file.flags, |(flags, ..)| *flags));
        Ok((file, io))
    }

    fn warn_of_unaligned(&mut self, args: Args<'_, 'a>, io: Io, open: OpenFlags) {
        if let Amount::Const(size) = io.size
            && size % DIRECT_BLOCK != 0
            && open.direct
        {
            let message = format!(
                "an I/O of {size} bytes with `directio`: on Linux block file systems refuse what is no multiple of \
                 {DIRECT_BLOCK}; here they read and write the pages around it"
            );
            self.warn_once(args.span("iosize"), message);
        }
    }

    fn find_fileset(&self, args: Args<'_, 'a>) -> Result<Option<FilesetId>> {
        let Some(name) = args.text("filesetname")? else { return Ok(None) };
        if let Some(&id) = self.filesets.get(name.as_str()) {
            return Ok(Some(id));
        }
        let help = match nearest(&name, self.filesets.keys().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.filesets.len() > 20 => "define it with `define fileset`".to_owned(),
            None => format!("the filesets are {}", names(self.filesets.keys().copied())),
        };
        args.error("filesetname", format!("there is no fileset `{}`", shorten(&name)), help)
    }

    /// The fileset of a flowop that cannot do without one.
    fn fileset(&self, args: Args<'_, 'a>) -> Result<FilesetId> {
        match self.find_fileset(args)? {
            Some(id) => Ok(id),
            None => args.error("filesetname", "this flowop needs a fileset", "add `filesetname=...`"),
        }
    }

    fn file(&self, args: Args<'_, 'a>) -> Result<FileRef> {
        Ok(FileRef {
            fileset: self.find_fileset(args)?,
            fd: fd(args, "fd")?,
            rotate: args.flag("opennext")?,
            index: args.amount("indexed")?,
            flags: OpenFlags {
                dsync: args.flag("dsync")?,
                direct: args.flag("directio")?,
                no_readahead: args.flag("noreadahead")?,
            },
        })
    }

    /// A flowop that opens a file of its fileset.
    fn opens(&mut self, args: Args<'_, 'a>, thread: &mut InThread) -> Result<FileRef> {
        let mut file = FileRef { fileset: Some(self.fileset(args)?), ..self.file(args)? };
        if file.rotate && file.fd != 0 {
            let message = "`opennext` has no effect: `fd` says which descriptor to use";
            warn(self.source, self.warnings, args.span("opennext"), message);
            file.rotate = false;
        }
        if !file.rotate {
            thread.opened.insert(file.fd);
            let (line, _) = args.source.position(args.head.span.start);
            thread.open.entry(file.fd).or_insert((file.flags, args.name()?, line));
        }
        Ok(file)
    }

    /// A flowop that opens a file if it names a fileset and none is open, and else needs an open one: it
    /// cannot change how that was opened.
    fn opens_if_named(&mut self, args: Args<'_, 'a>, thread: &mut InThread) -> Result<FileRef> {
        let file = self.opens_or_has_open(args, thread)?;
        if file.rotate {
            return Ok(file);
        }
        // Where it opens the file itself, it has just been entered with these flags.
        let open = thread.open.get(&file.fd);
        let had = open.map_or(OpenFlags::default(), |(flags, ..)| *flags);
        for (attribute, given, had) in
            [("dsync", file.flags.dsync, had.dsync), ("directio", file.flags.direct, had.direct)]
        {
            let Some(attr) = args.find(attribute).filter(|_| given && !had) else { continue };
            let by = open.map_or(String::new(), |(_, name, line)| {
                format!(", by `{}` (line {line}): give it there", shorten(name))
            });
            let message = format!("`{attribute}` has no effect here: fd {} is open already{by}", file.fd);
            self.warn_once(attr.span, message);
        }
        Ok(file)
    }

    /// Warns of a place once, however many threads and composite flowops use it.
    fn warn_once(&mut self, span: Span, message: String) {
        let (line, column) = self.source.position(span.start);
        if !self.warnings.contains(&Warning { line, column, message: message.clone() }) {
            warn(self.source, self.warnings, span, message);
        }
    }

    fn opens_or_has_open(&mut self, args: Args<'_, 'a>, thread: &mut InThread) -> Result<FileRef> {
        if args.find("filesetname").is_some() {
            self.opens(args, thread)
        } else {
            self.needs_open(args, thread)
        }
    }

    /// A flowop that needs an open file.
    fn needs_open(&mut self, args: Args<'_, 'a>, thread: &mut InThread) -> Result<FileRef> {
        // Filebench lets `closefile` and `fsync` carry a fileset and does not look at it.
        let mut file = FileRef { fileset: None, ..self.file(args)? };
        if std::mem::take(&mut file.rotate) {
            let message = "`opennext` has no effect: there is no fileset to rotate through";
            warn(self.source, self.warnings, args.span("opennext"), message);
        }
        let span = if args.find("fd").is_some() { args.span("fd") } else { args.head.span };
        thread.expected.push((file.fd, span));
        Ok(file)
    }

    /// A flowop that uses the open file if there is one, and else picks one.
    fn picks(&mut self, args: Args<'_, 'a>, thread: &mut InThread) -> Result<FileRef> {
        if args.find("filesetname").is_some() { self.file(args) } else { self.needs_open(args, thread) }
    }

    /// A target anywhere in the workload; checked when all threads are known.
    fn remote(&mut self, args: Args<'_, 'a>, wanted: &'static str) -> Result<String> {
        let name = args.text("target")?.unwrap_or_default();
        self.remotes.push(targets::Remote { name: name.clone(), span: args.span("target"), wanted });
        Ok(name)
    }
}
