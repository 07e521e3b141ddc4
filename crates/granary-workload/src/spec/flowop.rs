//! One operation of a thread's loop, with its attributes typed.
//!
//! ```text
//!   flowop read name=r1,filesetname=set,iosize=4k,random,iters=3
//!                │            │              │      │      └─ FlowopSpec::iters
//!                │            └─ FileRef     └─ Io::size, Io::random
//!                └─ FlowopSpec::name                 all of it: Op::Read(FileRef, Io)
//! ```
//!
//! A thread has a table of numbered descriptors. A flowop with a fileset picks a file of it and opens it on
//! its `fd`; one without uses what an earlier flowop opened there.
//!
//! It does *not* say how a file is picked; that is the runner's, after Filebench's rules.
//!
//! Source: Filebench 1.5-alpha3, flow operations of its workload model language.

use serde::Serialize;

use super::{FilesetId, Value};

/// One flow operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowopSpec {
    /// Its name, for reports and as a target. Inside a composite it is `composite.inner`.
    pub name: String,
    /// How often it is repeated before the thread goes on; drawn each time the thread arrives.
    pub iters: Value,
    /// Where it stands: the line of the file, from 1; for reports.
    pub line: u32,
    /// Its operation.
    pub op: Op,
}

/// Flags that a file is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct OpenFlags {
    /// `dsync`: each write is durable when it returns (`O_SYNC`, as Filebench opens it).
    pub dsync: bool,
    /// `directio`: bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// `noreadahead`: `POSIX_FADV_RANDOM`.
    pub no_readahead: bool,
}

/// Which file a flowop works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FileRef {
    /// The fileset to pick from, or `None` to use the file that is open on [`fd`](Self::fd).
    pub fileset: Option<FilesetId>,
    /// Slot in the thread's descriptor table; 0 is the slot that a flowop without `fd` uses.
    pub fd: u16,
    /// `opennext`: a fresh slot each time, so that the thread keeps all files of the set open.
    pub rotate: bool,
    /// `indexed`: pick entry `draw * entries / 2` modulo `entries`, where `draw` is this value untruncated,
    /// instead of any entry.
    pub index: Option<Value>,
    /// How to open it, if this flowop opens it.
    pub flags: OpenFlags,
}

/// How much a flowop transfers, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Io {
    /// Bytes per call; 0 means the whole working set in one call.
    pub size: Value,
    /// Bytes at the start of the file that are used; 0 means the whole file. Drawn once per thread.
    pub working_set: Value,
    /// At a random offset, a multiple of `size`; otherwise at the file position.
    pub random: bool,
}

/// Which way data moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// Operations of a flowop.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Op {
    /// `createfile`: create a file that does not exist and leave it open.
    Create(FileRef),
    /// `openfile`: open a file that exists.
    Open(FileRef),
    /// `closefile`.
    Close(FileRef),
    /// `deletefile`: the file that `fd` (if above 0) has or had open, else any that exists; not one that
    /// another thread has open.
    Delete(FileRef),
    /// `statfile`: the open descriptor, else any file that exists.
    Stat(FileRef),
    /// `fsync`.
    Fsync(FileRef),
    /// `fsyncset`: fsync every file of the set that this thread has open.
    FsyncSet(FilesetId),
    /// `readwholefile`: from the start to the end, `Io::size` bytes at a time; one operation.
    ReadWhole(FileRef, Io),
    /// `writewholefile`: as many bytes as the file of `size_from` (or the file itself) was given; one
    /// operation.
    WriteWhole {
        /// The file to write.
        file: FileRef,
        /// Bytes per call.
        io: Io,
        /// `srcfd`: the slot whose file, open or closed since, gives the length; 0 means the file itself.
        size_from: u16,
    },
    /// `read`: one call.
    Read(FileRef, Io),
    /// `write`: one call.
    Write(FileRef, Io),
    /// `appendfile`: `Io::size` bytes at the end.
    Append(FileRef, Io),
    /// `appendfilerand`: a uniformly random number of bytes below `Io::size` at the end.
    AppendRandom(FileRef, Io),
    /// `aiowrite`: start a write at a random offset and do not wait.
    AioWrite(FileRef, Io),
    /// `aiowait`: wait until half of this thread's outstanding writes (at least one) are done.
    AioWait,
    /// `makedir`: make a leaf directory that does not exist.
    MakeDir {
        /// The fileset.
        fileset: FilesetId,
        /// As [`FileRef::index`], over leaf directories.
        index: Option<Value>,
    },
    /// `removedir`: remove a leaf directory that exists.
    RemoveDir {
        /// The fileset.
        fileset: FilesetId,
        /// As [`FileRef::index`], over leaf directories.
        index: Option<Value>,
    },
    /// `listdir`: read all entries of a directory of the tree.
    ListDir(FilesetId),
    /// `hog`: compute; this many stores to one byte of memory.
    Hog(Value),
    /// `delay`: sleep this many seconds.
    Delay(Value),
    /// `eventlimit`: take one event, waiting for it.
    EventLimit,
    /// `opslimit`: one event per I/O operation.
    OpsLimit {
        /// Count only this flowop of the thread (index in [`super::ThreadSpec::flowops`]); `None`: the
        /// process.
        target: Option<usize>,
    },
    /// `iopslimit`: one event per read or write.
    IopsLimit {
        /// As in [`Op::OpsLimit`].
        target: Option<usize>,
    },
    /// `bwlimit`: one event per MiB read or written.
    BwLimit {
        /// As in [`Op::OpsLimit`].
        target: Option<usize>,
    },
    /// `finishoncount`: end the run when the process (or the target) has done at least this many operations.
    FinishOnCount {
        /// Operations; see [`Op::counts`].
        value: u64,
        /// As in [`Op::OpsLimit`].
        target: Option<usize>,
    },
    /// `finishonbytes`: end the run when the process (or the target) has transferred more than this.
    FinishOnBytes {
        /// Bytes.
        value: u64,
        /// As in [`Op::OpsLimit`].
        target: Option<usize>,
    },
    /// `semblock`: wait until `value` posts have arrived.
    SemBlock {
        /// Posts to take.
        value: Value,
        /// Posts that may be pending before a blocking poster waits.
        highwater: u64,
    },
    /// `sempost`: post `value` to every `semblock` named `target`.
    SemPost {
        /// Posts to give.
        value: Value,
        /// Name of the `semblock` flowops, in any thread.
        target: String,
        /// Wait while the target is above its high-water mark.
        blocking: bool,
    },
    /// `block`: wait for a `wakeup`.
    Block,
    /// `wakeup`: wake all threads that wait in `block` flowops named `target`.
    Wakeup {
        /// Name of the `block` flowops, in any thread.
        target: String,
    },
    /// `testrandvar`: draw a number and do nothing with it.
    TestRandom(Value),
    /// `print`: say this.
    Print(String),
    /// A `define flowop`: its own flowops, in order.
    Composite(Vec<FlowopSpec>),
}

impl Op {
    /// Whether Filebench counts it as an operation (`ops/s`, `finishoncount`, `opslimit`).
    pub fn counts(&self) -> bool {
        match self {
            Self::Create(_)
            | Self::Open(_)
            | Self::Close(_)
            | Self::Delete(_)
            | Self::Stat(_)
            | Self::Fsync(_)
            | Self::FsyncSet(_)
            | Self::ReadWhole(..)
            | Self::WriteWhole { .. }
            | Self::Read(..)
            | Self::Write(..)
            | Self::Append(..)
            | Self::AppendRandom(..)
            | Self::AioWrite(..)
            | Self::AioWait
            | Self::MakeDir { .. }
            | Self::RemoveDir { .. }
            | Self::ListDir(_) => true,
            Self::Hog(_)
            | Self::Delay(_)
            | Self::EventLimit
            | Self::OpsLimit { .. }
            | Self::IopsLimit { .. }
            | Self::BwLimit { .. }
            | Self::FinishOnCount { .. }
            | Self::FinishOnBytes { .. }
            | Self::SemBlock { .. }
            | Self::SemPost { .. }
            | Self::Block
            | Self::Wakeup { .. }
            | Self::TestRandom(_)
            | Self::Print(_)
            | Self::Composite(_) => false,
        }
    }

    /// Which way it moves file data (`iopslimit`, `bwlimit`, `finishonbytes`), if it does.
    pub fn direction(&self) -> Option<Direction> {
        match self {
            Self::Read(..) | Self::ReadWhole(..) => Some(Direction::Read),
            Self::Write(..)
            | Self::WriteWhole { .. }
            | Self::Append(..)
            | Self::AppendRandom(..)
            | Self::AioWrite(..) => Some(Direction::Write),
            _ => None,
        }
    }

    /// The name of its type in the language; `composite` for a user-defined one.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Create(_) => "createfile",
            Self::Open(_) => "openfile",
            Self::Close(_) => "closefile",
            Self::Delete(_) => "deletefile",
            Self::Stat(_) => "statfile",
            Self::Fsync(_) => "fsync",
            Self::FsyncSet(_) => "fsyncset",
            Self::ReadWhole(..) => "readwholefile",
            Self::WriteWhole { .. } => "writewholefile",
            Self::Read(..) => "read",
            Self::Write(..) => "write",
            Self::Append(..) => "appendfile",
            Self::AppendRandom(..) => "appendfilerand",
            Self::AioWrite(..) => "aiowrite",
            Self::AioWait => "aiowait",
            Self::MakeDir { .. } => "makedir",
            Self::RemoveDir { .. } => "removedir",
            Self::ListDir(_) => "listdir",
            Self::Hog(_) => "hog",
            Self::Delay(_) => "delay",
            Self::EventLimit => "eventlimit",
            Self::OpsLimit { .. } => "opslimit",
            Self::IopsLimit { .. } => "iopslimit",
            Self::BwLimit { .. } => "bwlimit",
            Self::FinishOnCount { .. } => "finishoncount",
            Self::FinishOnBytes { .. } => "finishonbytes",
            Self::SemBlock { .. } => "semblock",
            Self::SemPost { .. } => "sempost",
            Self::Block => "block",
            Self::Wakeup { .. } => "wakeup",
            Self::TestRandom(_) => "testrandvar",
            Self::Print(_) => "print",
            Self::Composite(_) => "composite",
        }
    }
}
