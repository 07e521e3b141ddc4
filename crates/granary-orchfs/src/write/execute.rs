//! Carrying jobs out: commands to the SSD and stores to the NVM, then a group for each forty blocks.
//!
//! With the engine all commands of a group are under way while the NVM's stores are made on the caller's core; without it the stores
//! come first, then one command after the other (OrchFS section 3.6; slides, Figure 11b).

use super::{Io, Job, Source, Stamp};
use crate::OrchFs;
use crate::geometry::{BLOCK, PAGE, PAGES};
use crate::hrtree::MOST_NEW;
use crate::layout::Area;
use crate::node::{Node, node};
use crate::pools::Taken;
use crate::read::Pages;
use crate::tx::{TreeChanges, Tx};
use crate::unit::Unit;
use granary_device::{Structure, Ticket};
use granary_units::{Lpa, Page, Payload};
use granary_vfs::{Attr, FsError, Inode, Result};
use std::sync::atomic::Ordering::Relaxed;

impl OrchFs {
    /// Carries out the I/Os of jobs; what they stored is durable after the group's first fence.
    pub(crate) fn run(&self, tx: &mut Tx<'_>, jobs: &[Job<'_>], data: Payload<'_>) -> Result<()> {
        let part = |source: Source, from: usize, len: usize| match source {
            Source::Zeros => Payload::Fill { word: 0, len },
            Source::Data(first) => data.part(first + from, len),
        };
        if !self.options.engine {
            self.store_all(tx, jobs, &part)?;
        }
        let threads = if self.options.engine { self.options.ssd_threads } else { 1 };
        // What each address range has under way: the next command for it waits.
        let mut under_way = vec![Ticket::NONE; threads as usize];
        let mut written = Vec::new();
        let mut write = |block: u64, pages: &Pages| -> Result<()> {
            let range = block * PAGES as u64..(block + 1) * PAGES as u64;
            self.cache.forget(range.clone());
            let owner = &mut under_way[(block % threads) as usize];
            self.ssd.wait(*owner);
            *owner = self.ssd.submit_write(Lpa(range.start), pages, Structure::Data)?;
            written.push(range);
            Ok(())
        };
        for io in jobs.iter().flat_map(|job| &job.ios) {
            match io {
                Io::Ssd { block, source } => {
                    let mut pages = Pages::default();
                    for (i, page) in pages.iter_mut().enumerate() {
                        page.write(0, part(*source, i * PAGE as usize, PAGE as usize));
                    }
                    write(*block, &pages)?;
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
                    write(*block, &pages)?;
                }
                _ => {}
            }
        }
        if self.options.engine {
            self.store_all(tx, jobs, &part)?;
        }
        // What the journal names next must be safe first.
        self.ssd.wait_safe(under_way.into_iter().fold(Ticket::NONE, Ticket::and))?;
        written.into_iter().for_each(|range| self.cache.forget(range));
        Ok(())
    }

    /// The stores of jobs.
    fn store_all<'d>(
        &self,
        tx: &mut Tx<'_>,
        jobs: &[Job<'_>],
        part: &dyn Fn(Source, usize, usize) -> Payload<'d>,
    ) -> Result<()> {
        for io in jobs.iter().flat_map(|job| &job.ios) {
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
        }
        Ok(())
    }

    /// Index nodes for new units, as many as the jobs may take.
    fn numbers_for(&self, jobs: &[Job<'_>], node: &Node) -> Result<(Taken<'_>, Vec<u64>)> {
        let mut taken = Taken::new(&self.pools);
        let state = node.state.read();
        let is_new = |job: &&Job<'_>| job.after != Unit::Hole && *state.tree.get(job.block) == Unit::Hole;
        let blocks: Vec<u64> = jobs.iter().filter(is_new).map(|job| job.block).collect();
        drop(state);
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            return Ok((taken, Vec::new()));
        };
        // A level 0 node for each 64 blocks, a fork for each of them, and what one block may take beside.
        let leaves = (last / 64 - first / 64 + 1).min(blocks.len() as u64);
        let only_root = *last == 0;
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
        let (mut taken, mut numbers) = self.numbers_for(&jobs, node)?;
        let mut rest = &mut jobs[..];
        loop {
            let count = rest.len().min(stamp.group);
            let (some, later) = std::mem::take(&mut rest).split_at_mut(count);
            rest = later;
            let mut tx = Tx::new(self);
            self.run(&mut tx, some, data)?;
            let mut state = node.state.write();
            let state = &mut *state;
            let reached = match (rest.is_empty(), some.last()) {
                (false, Some(job)) => Some((job.block + 1) * BLOCK),
                _ => None,
            };
            let attr = (stamp.attr)(reached);
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
            let blocks = state.blocks();
            node.size.store(attr.size, Relaxed);
            inode.update(|a| *a = Attr { blocks, ..attr });
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}
