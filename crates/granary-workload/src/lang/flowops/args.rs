//! Arguments of flowops.

use super::InThread;
use crate::lang::args::Args;
use crate::lang::source::Result;
use crate::lang::{MAX_FD, targets};
use crate::spec::{Io, Value as Amount};

/// A target in the same thread: for now its number in `thread.targets`.
pub(super) fn local_target(
    args: Args<'_, '_>,
    moves_data: bool,
    thread: &mut InThread,
) -> Result<Option<usize>> {
    let Some(name) = args.text("target")? else { return Ok(None) };
    thread.targets.push(targets::Local { name, span: args.span("target"), moves_data });
    Ok(Some(thread.targets.len() - 1))
}

pub(super) fn fd(args: Args<'_, '_>, name: &str) -> Result<u16> {
    Ok(args.within(name, 0, MAX_FD)?.unwrap_or(0) as u16)
}

pub(super) fn value(args: Args<'_, '_>) -> Result<Amount> {
    Ok(args.amount("value")?.unwrap_or(Amount::Const(0)))
}

pub(super) fn io(args: Args<'_, '_>) -> Result<Io> {
    Ok(Io {
        size: args.amount("iosize")?.unwrap_or(Amount::Const(0)),
        working_set: args.amount("workingset")?.unwrap_or(Amount::Const(0)),
        random: args.flag("random")?,
    })
}

/// The same for a flowop that must transfer something.
pub(super) fn sized_io(args: Args<'_, '_>) -> Result<Io> {
    let io = io(args)?;
    if io.size == Amount::Const(0) {
        return args.error("iosize", "an I/O size of 0 transfers nothing", "give a size such as `iosize=4k`");
    }
    if let (Amount::Const(size), Amount::Const(set)) = (io.size, io.working_set)
        && io.random
        && set != 0
        && size > set
    {
        return args.error(
            "workingset",
            format!("the working set of {set} bytes is smaller than one I/O of {size}"),
            "make it larger, or `workingset=0` for the whole file",
        );
    }
    Ok(io)
}
