//! Writing: the I/Os of the partition, then one group for each forty blocks.
//!
//! ```text
//!   1 numbers are taken for all blocks         nothing is changed when some are missing
//!   2 SSD commands submitted, NVM stores       bytes in place that are not seen yet, or that the write
//!                                              changes
//!   3 commands waited for, fence
//!   4 group: entries, words, size and times    the write counts
//!   5 the tree in memory
//! ```
//!
//! Rules (OrchFS section 4): O1 an entry is seen only after its bytes are fenced. O2 an entry that hides
//! bytes of the SSD goes only after the SSD has the new ones. O3 a chunk is merged by storing the body first:
//! bytes outside the old header are not seen, bytes inside may tear. O4 an entry is one record. O5 a size is
//! in the group of the units below it.
//!
//! NVM full: the part is read, merged and written to the SSD as a whole block by the host, which is slow and
//! right. SSD full: whole blocks go to NVM pages. `NoSpace` only where both are.
//!
//! `data_atomicity`: with `redo` no visible bytes are overwritten; a new page or block takes the old one's
//! place in the group. With `undo` the old bytes are kept first ([`crate::undo`]).
//!
//! Bytes of a file's last block behind its end may be anything; blocks behind that one are holes or
//! unwritten. So the operation that makes a file grow zeroes the bytes that it grows over.

mod execute;
mod grow;
mod plan;

use crate::fs::OrchFs;
use crate::geometry::{BLOCK, PAGES, Part, parts};
use crate::layout::Area;
use crate::node::node;
use crate::options::{DataAtomicity, Partition};
use crate::pools::{Claim, Taken};
use crate::ranges::Use;
use crate::unit::{Base, Unit};
use crate::upage::Header;
use granary_fs::{Attr, Call, Data, DirtyPage, FsError, Inode, Result, WriteBackCause};
use granary_pm::pages;
use granary_sim::{costs, cpu};
use granary_units::{Dest, Page, Payload};

/// Blocks of a write in one group: 1 MiB and 10 %, the largest of the paper's fixed sizes, is one.
const GROUP: usize = 40;

/// The same where old pages are kept: an undo slot has room for eight of each block.
const UNDO_GROUP: usize = crate::undo::ENTRIES / PAGES - 1;

/// Where bytes come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Zeros.
    Zeros,
    /// The caller's, from this byte of them on.
    Data(usize),
}

/// Bytes for a part of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub part: Part,
    pub source: Source,
}

/// One I/O, with the numbers that it is for.
enum Io {
    /// An NVM page's bytes go to another page, but for these.
    Copy { old: u64, page: u64, from: u16, to: u16 },
    /// A page of the SSD with an Upage's chunks over it, and these bytes over them, goes back to the SSD.
    WriteBack { base: Base, index: usize, page: u64, header: Header, from: u16, to: u16, source: Source },
    /// Bytes of an NVM page; `whole`: the rest of it below `end` becomes zero.
    Store { page: u64, from: u16, to: u16, source: Source, whole: Option<u16> },
    /// Gaps of an Upage, from the SSD's page.
    Fill { page: u64, base: Base, index: usize, gaps: Vec<(u16, u16)> },
    /// A block of the SSD as a whole.
    Ssd { block: u64, source: Source },
    /// A block of the SSD as a whole: what there is, with these segments over it.
    Merge { block: u64, old: Unit, segments: Vec<Segment> },
}

/// Plan for one block.
pub(crate) struct Job<'a> {
    pub block: u64,
    pub after: Unit,
    ios: Vec<Io>,
    taken: Taken<'a>,
}

impl<'a> Job<'a> {
    /// A block that becomes something without any I/O.
    pub fn change(fs: &'a OrchFs, process: u32, block: u64, after: Unit) -> Job<'a> {
        Job { block, after, ios: Vec::new(), taken: Taken::new(&fs.pools, process, Claim::Data) }
    }

    /// Its numbers are in use from now on.
    pub fn keep(&mut self) {
        self.taken.keep();
    }

    /// Old pages and blocks that are overwritten in place, each once.
    pub fn overwrites(&self) -> Vec<(Area, u64)> {
        let of = |io: &Io| {
            match io {
                Io::Store { page, whole: None, .. } | Io::Fill { page, .. } => (Area::Page, *page),
                Io::Ssd { block, .. } | Io::Merge { block, .. } => (Area::Block, *block),
                Io::WriteBack { base, .. } => (Area::Block, base.block),
                Io::Store { .. } | Io::Copy { .. } => return None,
            }
            .into()
        };
        let mut all: Vec<(Area, u64)> =
            self.ios.iter().filter_map(of).filter(|(area, number)| !self.taken.has(*area, *number)).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Changes of the inode by an execution of jobs.
pub(crate) struct Stamp<'a> {
    /// Attributes, of those that the inode has now, when the blocks up to this byte of the file are done; the
    /// last time when all are.
    pub attr: &'a dyn Fn(Attr, Option<u64>) -> Attr,
    /// Attributes change beside size and times of a write.
    pub head: bool,
    /// Blocks in a group.
    pub group: usize,
}

impl OrchFs {
    /// Takes a number that belongs to a job.
    pub(crate) fn take_for<'a>(&'a self, job: &mut Job<'a>, area: Area) -> Result<u64> {
        self.take(&mut job.taken, area)
    }
}

impl Data for OrchFs {
    granary_fs::file_system_lacks!(reserve, wrote, rewrites_cut_page, flush_on_close);

    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        pages::read(self, call, inode, first, out)
    }

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        pages::write(self, call, inode, pages)
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.read_file(node(inode), pos, dest)
    }

    /// Writes `data` at `pos`; size and times with it.
    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let (node, old) = (node(inode), inode.attr());
        let end = pos + data.len() as u64;
        let size = old.size.max(end);
        // An append may change what the old last block is.
        let first = pos.min(old.size) / BLOCK;
        let how = if end > old.size { Use::Resize } else { Use::Write };
        let _held = node.ranges.lock(first, (end - 1) / BLOCK, how);
        let unit = |block: u64| node.state.read().tree.get(block).clone();
        let mut jobs = Vec::new();
        let mut gap = Vec::new();
        if pos > old.size && old.size % BLOCK != 0 {
            let tail = unit(old.size / BLOCK);
            gap = self.gap(&tail, old.size, pos);
            if old.size / BLOCK < pos / BLOCK && !gap.is_empty() {
                jobs.push(self.grown(call.process, old.size / BLOCK, &tail, &gap, size)?);
                gap.clear();
            }
        }
        for part in parts(pos, data.len() as u64) {
            let source = Source::Data((part.start() - pos) as usize);
            let mut segments = std::mem::take(&mut gap);
            segments.push(Segment { part, source });
            let below = unit(part.block);
            jobs.push(match self.options.partition {
                Partition::Phfs if data.len() as u64 >= BLOCK => {
                    let c = costs();
                    cpu(c.page * part.pages().count() as u64 + c.copy(part.len()));
                    match self.merge_on_ssd(call.process, part.block, &below, &segments) {
                        // The SSD is full: what `statfs` counts on the NVM takes it.
                        Err(FsError::NoSpace) => {
                            self.prepare(call.process, part.block, &below, &segments, size)?
                        }
                        job => job?,
                    }
                }
                _ => self.prepare(call.process, part.block, &below, &segments, size)?,
            });
        }
        let attr = |now: Attr, reached: Option<u64>| Attr {
            size: now.size.max(reached.map_or(end, |reached| reached.min(end))),
            // A write that began later may have counted before this one: then its times stay.
            mtime: if now.ctime > call.time { now.mtime } else { call.time },
            ctime: now.ctime.max(call.time),
            ..now
        };
        let group = if self.options.data_atomicity == DataAtomicity::Undo { UNDO_GROUP } else { GROUP };
        self.execute(call.process, inode, jobs, data, &Stamp { attr: &attr, head: false, group })
    }

    fn fsync(&self, _call: &Call<'_>, _inode: &Inode, _data_only: bool) -> Result<()> {
        // Every call is durable when it returns.
        self.check_alive()?;
        self.pm.batch().fence()
    }
}
