//! Carrying jobs out: commands to the SSD and stores to the NVM, then a group for each forty blocks.
//!
//! With the engine all commands of a group are given to its threads while the NVM's stores are made on the
//! caller's core. Without it the stores come first, then one command after the other (OrchFS section 3.6;
//! slides, Figure 11b). Stores are fenced once for each address range of the NVM, before its thread goes on
//! to another request.

use super::{Io, Job, Source, Stamp};
use crate::engine::{Group, Work};
use crate::fs::OrchFs;
use crate::geometry::Pages;
use crate::geometry::{BLOCK, PAGE, PAGES, Part};
use crate::hrtree::MOST_NEW;
use crate::layout::Area;
use crate::node::{Node, node};
use crate::options::DataAtomicity;
use crate::pools::{Claim, Taken};
use crate::tx::{TreeChanges, Tx};
use crate::undo::Kept;
use crate::unit::{Base, Unit, Word};
use granary_device::Structure;
use granary_fs::{Attr, FsError, Inode, Result};
use granary_units::{Lpa, Page, Payload};
use std::sync::atomic::Ordering::Relaxed;

impl OrchFs {
    /// Carries out the I/Os of jobs; their stores are durable after the group's first fence.
    pub(crate) fn run(&self, tx: &mut Tx<'_>, jobs: &[Job<'_>], data: Payload<'_>) -> Result<()> {
        let part = |source: Source, from: usize, len: usize| match source {
            Source::Zeros => Payload::Fill { word: 0, len },
            Source::Data(first) => data.part(first + from, len),
        };
        if !self.options.engine {
            self.store_all(tx, jobs, &part)?;
        }
        let mut group = Group::default();
        let written = self.write_all(jobs, &part, &mut group);
        let stored = if self.options.engine { self.store_all(tx, jobs, &part) } else { Ok(()) };
        // Even after a failure no I/O of this request is under way on return.
        self.engine.wait(&group).and(written).and(stored)?;
        let on_ssd = |io: &Io| matches!(io, Io::Ssd { .. } | Io::Merge { .. } | Io::WriteBack { .. });
        if jobs.iter().flat_map(|job| &job.ios).any(on_ssd) {
            // Blocks that the journal names next must be safe first.
            self.ssd.make_safe()?;
        }
        Ok(())
    }

    /// Submits the writes of jobs; without the engine each is waited for.
    fn write_all<'d>(
        &self,
        jobs: &[Job<'_>],
        part: &dyn Fn(Source, usize, usize) -> Payload<'d>,
        group: &mut Group,
    ) -> Result<()> {
        for io in jobs.iter().flat_map(|job| &job.ios) {
            let (block, pages) = match io {
                Io::Ssd { block, source } => {
                    let mut pages = Pages::default();
                    for (i, page) in pages.iter_mut().enumerate() {
                        page.write(0, part(*source, i * PAGE as usize, PAGE as usize));
                    }
                    (*block, pages)
                }
                Io::Merge { block, old, segments } => {
                    let mut pages = match segments.last() {
                        Some(last) if last.part.is_whole() => Pages::default(),
                        _ => self.read_block(old)?,
                    };
                    for segment in segments {
                        for (page, from, to) in segment.part.pages() {
                            let at = page * PAGE as usize + from as usize - segment.part.from as usize;
                            let bytes = part(segment.source, at, (to - from) as usize);
                            pages[page].write(from as usize, bytes);
                        }
                    }
                    (*block, pages)
                }
                Io::WriteBack { base, index, page, header, from, to, source } => {
                    let mut pages = self.read_page_of(*base, *index)?;
                    let body = self.load(*page, 0, PAGE as u16)?.to_bytes();
                    for (f, t) in header.chunks() {
                        pages.write(f as usize, Payload::Bytes(&body[f as usize..t as usize]));
                    }
                    pages.write(*from as usize, part(*source, 0, (*to - *from) as usize));
                    let work = Work::Write { block: base.block, first: *index, pages: vec![pages] };
                    self.write_ssd(work, group)?;
                    continue;
                }
                _ => continue,
            };
            self.write_ssd(Work::block_write(block, pages), group)?;
        }
        Ok(())
    }

    fn write_ssd(&self, work: Work, group: &mut Group) -> Result<()> {
        match self.options.engine {
            true => self.engine.submit(work, Some(group)),
            false => return self.engine.run(&work),
        }
        Ok(())
    }

    /// A page of an SSD block.
    fn read_page_of(&self, base: Base, index: usize) -> Result<Page> {
        let from = (index as u64 * PAGE) as u32;
        let part = Part { block: 0, from, to: from + PAGE as u32 };
        let mut pages = [Pages::default()];
        self.read_ssd(&[Unit::Block(base)], &[part], &mut pages)?;
        Ok(pages[0][index].clone())
    }

    /// The stores of jobs.
    fn store_all<'d>(
        &self,
        tx: &mut Tx<'_>,
        jobs: &[Job<'_>],
        part: &dyn Fn(Source, usize, usize) -> Payload<'d>,
    ) -> Result<()> {
        let stores = jobs.iter().flat_map(|job| &job.ios);
        let mut all: Vec<(u64, &Io)> = stores
            .filter_map(|io| match io {
                Io::Store { page, .. } | Io::Fill { page, .. } | Io::Copy { page, .. } => {
                    Some((self.layout.at(Area::Page, *page), io))
                }
                _ => None,
            })
            .collect();
        // Those of one address range together, in their order.
        all.sort_by_key(|(at, _)| self.engine.nvm_owner(*at));
        for run in all.chunk_by(|(a, _), (b, _)| self.engine.nvm_owner(*a) == self.engine.nvm_owner(*b)) {
            let _thread = self.engine.nvm_thread(run[0].0).filter(|_| self.options.engine);
            run.iter().try_for_each(|(_, io)| self.store(tx, io, part))?;
            tx.batch.fence()?;
        }
        Ok(())
    }

    fn store<'d>(
        &self,
        tx: &mut Tx<'_>,
        io: &Io,
        part: &dyn Fn(Source, usize, usize) -> Payload<'d>,
    ) -> Result<()> {
        match io {
            Io::Store { page, from, to, source, whole: None } => {
                tx.stream(*page, u64::from(*from), part(*source, 0, (*to - *from) as usize))?;
            }
            Io::Store { page, from, to, source, whole: Some(end) } => {
                let mut content = Page::ZERO;
                content.write(*from as usize, part(*source, 0, (*to - *from) as usize));
                let bytes = content.to_bytes();
                match content.as_word() {
                    Some((word, len)) if u64::from(*end) == PAGE && len as u64 == PAGE => {
                        tx.stream(*page, 0, Payload::Fill { word, len })?;
                    }
                    _ => tx.stream(*page, 0, Payload::Bytes(&bytes[..*end as usize]))?,
                }
            }
            Io::Copy { old, page, from, to } => {
                let body = self.load(*old, 0, PAGE as u16)?.to_bytes();
                for (f, t) in [(0, *from), (*to, PAGE as u16)].into_iter().filter(|(f, t)| f < t) {
                    tx.stream(*page, u64::from(f), Payload::Bytes(&body[f as usize..t as usize]))?;
                }
            }
            Io::Fill { page, base, index, gaps } => {
                let mut below = [Page::ZERO];
                if !base.unwritten {
                    let lpa = Lpa(base.block * PAGES as u64 + *index as u64);
                    self.ssd.read(lpa, &mut below, Structure::Data)?;
                }
                let bytes = below[0].to_bytes();
                for (from, to) in gaps {
                    let gap = Payload::Bytes(&bytes[*from as usize..*to as usize]);
                    tx.stream(*page, u64::from(*from), gap)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Index nodes for new units, as many as the jobs may take.
    ///
    /// # Errors
    /// `NoSpace`, with nothing taken.
    pub(crate) fn numbers_for(
        &self,
        process: u32,
        jobs: &[Job<'_>],
        node: &Node,
    ) -> Result<(Taken<'_>, Vec<u64>)> {
        let mut taken = Taken::new(&self.pools, process, Claim::Data);
        let state = node.state.read();
        let is_new = |job: &&Job<'_>| job.after != Unit::Hole && *state.tree.get(job.block) == Unit::Hole;
        let blocks: Vec<u64> = jobs.iter().filter(is_new).map(|job| job.block).collect();
        let has_nodes = matches!(state.tree.root(), Word::Index(_));
        drop(state);
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            return Ok((taken, Vec::new()));
        };
        // A level 0 node for each 64 blocks, a fork for each of them, and what one block may take beside.
        let leaves = (last / 64 - first / 64 + 1).min(blocks.len() as u64);
        // Somebody may write another block meanwhile, if the file has another; one far behind its end may be
        // reserved.
        let only_root = *last == 0 && !has_nodes && node.size.load(Relaxed) <= BLOCK;
        let most = if only_root { 0 } else { 2 * leaves as usize + MOST_NEW };
        let mut numbers = Vec::new();
        for _ in 0..most {
            match self.take(&mut taken, Area::Index) {
                Ok(number) => numbers.push(number),
                Err(e) => return Err(e),
            }
        }
        numbers.reverse();
        Ok((taken, numbers))
    }

    /// Carries out jobs in ascending order of their blocks, group by group. The caller holds their range.
    pub(crate) fn execute(
        &self,
        process: u32,
        inode: &Inode,
        mut jobs: Vec<Job<'_>>,
        data: Payload<'_>,
        stamp: &Stamp<'_>,
    ) -> Result<()> {
        self.check_alive()?;
        self.check_lease(inode.ino().0)?;
        self.last_call.store(granary_sim::now().0, Relaxed);
        let node = node(inode);
        let (mut taken, mut numbers) = self.numbers_for(process, &jobs, node)?;
        let mut rest = &mut jobs[..];
        loop {
            let count = rest.len().min(stamp.group);
            let (some, later) = std::mem::take(&mut rest).split_at_mut(count);
            rest = later;
            let kept = match self.options.data_atomicity {
                DataAtomicity::Undo => self.keep_old(process, node, some)?,
                _ => None,
            };
            let mut tx = Tx::new(self);
            self.run(&mut tx, some, data)?;
            let mut state = node.state.write();
            let state = &mut *state;
            let reached = match (rest.is_empty(), some.last()) {
                (false, Some(job)) => Some((job.block + 1) * BLOCK),
                _ => None,
            };
            let attr = (stamp.attr)(inode.attr(), reached);
            if let Some(kept) = &kept {
                node.undo.store(kept.number, Relaxed);
            }
            // From here on memory is ahead of the NVM: what fails now ends all changes.
            let fail = |e: FsError| self.failed.lock().get_or_insert(e).clone();
            let mut changes = TreeChanges::default();
            for job in some.iter_mut() {
                let after = std::mem::take(&mut job.after);
                self.touch(node.ino.0, job.block, &after);
                tx.set_unit((node, state), job.block, after, &mut numbers, &mut changes).map_err(fail)?;
                job.taken.keep();
            }
            taken.keep_but(Area::Index, &numbers);
            tx.put_tree(node, state, &changes).map_err(fail)?;
            match changes.root || stamp.head {
                true => tx.put_inode(node, state, &attr),
                false => tx.put_stamps(node, state, &attr),
            }
            tx.commit(process)?;
            kept.map_or(Ok(()), Kept::let_go)?;
            let blocks = state.blocks();
            node.size.store(attr.size, Relaxed);
            inode.update(|a| *a = Attr { blocks, ..attr });
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}
