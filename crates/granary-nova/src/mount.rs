//! mount: the superblock, the journals, then the free lists.
//!
//! ```text
//!   clean     saved lists: free runs; per CPU the first inode never used and the free ones below
//!   unclean   roll the journals back | every valid inode: replay its log, mark its blocks
//!             | repair what may be behind: page counts, prepared pages, bytes beyond an end of file
//! ```
//!
//! Everything that recovery repairs may be repaired twice, so a power failure during recovery is just another
//! one. Source: NOVA section 4.6.

use crate::Nova;
use crate::inodes::{Table, read_pieces};
use crate::journal::Journal;
use crate::layout::superblock::Superblock;
use crate::layout::{HEAD_BLOCKS, PAGE_DEAD, PAGE_ENTRIES, PAGE_NEXT, TAIL_BLOCKS};
use crate::node::Body;
use crate::options::{DataMode, MountOptions};
use crate::replay::{MAX_FILE_SIZE, Replayed};
use granary_device::{Port, Structure};
use granary_fs::{CachePolicy, Call, Entrance, Features, FsError, Ino, Inode, Life, Loaded, Quirks, Result};
use granary_kit::Generations;
use granary_pm::{BLOCK, Block, FreeLists, Pm, Used, corrupt, saved, superblock};
use granary_sim::sync::Mutex;
use granary_units::{Page, Payload};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Report of a mount: findings and recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The file system had been unmounted: nothing to do.
    pub clean: bool,
    /// Words that the journals put back.
    pub words: u32,
    /// Inodes whose logs were scanned.
    pub inodes: u64,
    /// Log pages read.
    pub log_pages: u64,
    /// Files that were zeroed beyond their end.
    pub ends_zeroed: u64,
}

/// First block after what mkfs places: journals and the first piece of each inode table.
pub fn first_free(sb: &Superblock) -> u64 {
    HEAD_BLOCKS + sb.cpus as u64 * (1 + sb.piece as u64)
}

/// Writes the superblock and its copy.
pub fn write_super(pm: &Pm, sb: &Superblock) -> Result<()> {
    superblock::write(pm, sb.blocks - 2, &sb.bytes())
}

fn read_super(pm: &Pm) -> Result<Superblock> {
    let pages = pm.info().pages;
    let sb = superblock::read(pm, (pages > 2).then(|| pages - 2), Superblock::parse)?;
    let sane = sb.blocks == pages
        && (1..=64).contains(&sb.cpus)
        && (1..=1 << 16).contains(&sb.piece)
        && first_free(&sb) + TAIL_BLOCKS < sb.blocks;
    if sane { Ok(sb) } else { Err(corrupt(format!("the superblock describes an impossible shape: {sb:?}"))) }
}

/// Mounts the file system on a drive, recovering it where it was not unmounted ([`Nova::recovery`] tells).
///
/// # Errors
/// `Corrupt` where there is no sound NOVA; the drive's.
pub fn mount(port: Port, options: &MountOptions) -> Result<Arc<Nova>> {
    let pm = Pm::new(port);
    let mut sb = read_super(&pm)?;
    let (cpus, first, end) = (sb.cpus as usize, first_free(&sb), sb.blocks - TAIL_BLOCKS);
    let words = if sb.clean { Some(saved::read(&pm, sb.saved)?) } else { None };
    let (was_in_place, mut recovery) = (sb.in_place, Recovery { clean: sb.clean, ..Recovery::default() });
    sb.mounts += 1;
    (sb.clean, sb.saved) = (false, 0);
    sb.in_place = options.data == DataMode::InPlace || (was_in_place && !recovery.clean);
    write_super(&pm, &sb)?;

    let (mut journals, mut tables) = (Vec::new(), Vec::new());
    for cpu in 0..cpus {
        let (journal, words) = Journal::recover(&pm, cpu, HEAD_BLOCKS, sb.blocks * BLOCK)?;
        recovery.words += words;
        journals.push(Mutex::new(journal));
        let piece = sb.piece as u64;
        let pieces = read_pieces(&pm, HEAD_BLOCKS + cpus as u64 + cpu as u64 * piece, piece, end)?;
        tables.push(Mutex::new(Table { pieces, next: 1, free: Vec::new() }));
    }
    // The reserve is for truncations. Each frees at least the page that its entry needs, so that page is
    // there for the next one. The reserve suffices for every CPU to truncate at the same time, and takes at
    // most a fiftieth of a small drive. Unlinks, and changes that free nothing, need no reserve
    // (in_place.rs).
    let reserve = (4 * cpus as u64).min((end - first) / 50);
    let nova = Nova {
        free: FreeLists::new(first, end, cpus, reserve),
        pm,
        blocks: sb.blocks,
        data_end: end,
        cpus,
        piece: sb.piece as u64,
        journals,
        tables,
        used_inodes: Default::default(),
        nodes: Default::default(),
        generations: Generations::of_mount(sb.mounts),
        superblock: sb,
        options: options.clone(),
        recovery,
        cleanings: Default::default(),
    };
    let nova = match words {
        Some(words) => nova.load_lists(&words)?,
        None => nova.scan(was_in_place)?,
    };
    Ok(Arc::new(nova))
}

impl Nova {
    /// The words that [`Nova::save_lists`] saved.
    fn load_lists(self, words: &[u64]) -> Result<Nova> {
        let bad = || corrupt("the saved lists end early");
        let mut words = words.iter().copied();
        let mut next = || words.next().ok_or_else(bad);
        for _ in 0..next()? {
            let (start, count) = (next()?, next()?);
            self.free.give(start, count)?;
        }
        let mut used = 0;
        for table in &self.tables {
            let mut t = table.lock();
            (t.next, t.free) = (next()?, Vec::new());
            for _ in 0..next()? {
                let index = next()?;
                if index == 0 || index >= t.next {
                    return Err(corrupt(format!("the saved lists have inode {index} of {} free", t.next)));
                }
                t.free.push(index);
            }
            if t.next == 0 || t.next > t.pieces.len() as u64 * crate::inodes::per_piece(self.piece) {
                return Err(corrupt(format!("the saved lists have {} inodes", t.next)));
            }
            used += (t.next - 1).saturating_sub(t.free.len() as u64);
        }
        self.used_inodes.store(used, Relaxed);
        Ok(self)
    }

    /// Saves the lists for the next mount; returns where.
    pub(crate) fn save_lists(&self) -> Result<Option<u64>> {
        let runs = self.free.runs();
        let mut words = vec![runs.len() as u64];
        words.extend(runs.iter().flat_map(|(start, n)| [*start, *n]));
        for table in &self.tables {
            let t = table.lock();
            words.extend([t.next, t.free.len() as u64]);
            words.extend(&t.free);
        }
        saved::write(&self.pm, &self.free, &words)
    }

    /// Every inode that exists: (number, address), CPU by CPU.
    pub(crate) fn all_slots(&self) -> Vec<(Ino, u64)> {
        let mut all = Vec::new();
        let n = crate::inodes::per_piece(self.piece);
        for (cpu, table) in self.tables.iter().enumerate() {
            let t = table.lock();
            for index in 1..t.pieces.len() as u64 * n {
                if let Some(slot) = t.slot(index, self.piece) {
                    all.push((Ino(index * self.cpus as u64 + cpu as u64), slot));
                }
            }
        }
        all
    }

    fn scan(mut self, in_place: bool) -> Result<Nova> {
        let _step = granary_sim::step("nova: logs are repaired at a mount");
        let mut used = Used::new(self.data_end);
        used.mark(0, first_free(&self.superblock), "head")?;
        for table in &self.tables {
            for piece in table.lock().pieces.iter().skip(1) {
                used.mark(*piece, self.piece, "inode table")?;
            }
        }
        let mut recovery = self.recovery;
        let mut valid = vec![Vec::new(); self.cpus];
        for (ino, slot) in self.valid_slots()? {
            let Some(r) = self.replay(ino, slot, false)? else { continue };
            for (block, n) in r.state.blocks() {
                used.mark(block, n, &ino.to_string())?;
            }
            recovery.inodes += 1;
            recovery.log_pages += r.state.pages.len() as u64;
            recovery.ends_zeroed += u64::from(self.repair(&r, in_place)?);
            valid[(ino.0 % self.cpus as u64) as usize].push(ino.0 / self.cpus as u64);
        }
        for (table, valid) in self.tables.iter().zip(&valid) {
            let mut t = table.lock();
            t.next = valid.last().map_or(1, |last| last + 1);
            let next = t.next;
            let mut it = valid.iter().peekable();
            // Highest first, so that the lowest is taken first.
            let free: Vec<u64> = (1..next).filter(|i| it.next_if(|v| **v == *i).is_none()).collect();
            t.free = free.into_iter().rev().collect();
        }
        self.used_inodes.store(recovery.inodes, Relaxed);
        for (start, n) in used.free_runs() {
            self.free.give(start, n)?;
        }
        self.recovery = recovery;
        Ok(self)
    }

    /// The inodes that are valid on media; reads the tables block by block.
    pub(crate) fn valid_slots(&self) -> Result<Vec<(Ino, u64)>> {
        let mut valid = Vec::new();
        let mut loaded: Option<(u64, Block)> = None;
        for (ino, slot) in self.all_slots() {
            let block = slot / BLOCK;
            if loaded.as_ref().is_none_or(|(b, _)| *b != block) {
                loaded = Some((block, self.pm.load_block(block, Structure::Inode)?));
            }
            if let Some((_, bytes)) = &loaded
                && bytes[(slot % BLOCK) as usize] == 1
            {
                valid.push((ino, slot));
            }
        }
        Ok(valid)
    }

    /// Repairs what no tail protects; says whether bytes beyond the end were zeroed.
    fn repair(&self, r: &Replayed, in_place: bool) -> Result<bool> {
        let mut b = self.pm.batch();
        for (page, (entries, dead)) in r.state.pages.iter().zip(&r.counts) {
            let at = page.block * BLOCK;
            if (page.entries, page.dead) != (*entries, *dead) {
                b.put_u32(at + PAGE_ENTRIES, page.entries, Structure::Log)?;
                b.put_u32(at + PAGE_DEAD, page.dead, Structure::Log)?;
            }
        }
        if let Some(last) = r.state.pages.last().filter(|_| r.next != 0) {
            b.put_u64(last.block * BLOCK + PAGE_NEXT, 0, Structure::Log)?;
        }
        let mut zeroed = false;
        if let Body::File(map) = &r.state.body
            && in_place
        {
            for block in self.not_zero_beyond(map, r.attr.size)? {
                b.stream_page(block, &Page::ZERO, Structure::Data)?;
                zeroed = true;
            }
        }
        if let Body::File(map) = &r.state.body
            && (r.was_cut || in_place)
            && !r.attr.size.is_multiple_of(BLOCK)
            && let Some((block, _)) = map.block(r.attr.size / BLOCK)
        {
            let from = (r.attr.size % BLOCK) as usize;
            let mut page = [Page::ZERO];
            let at = block * BLOCK + from as u64;
            self.pm.load_pages(at, BLOCK as usize - from, &mut page, Structure::Data)?;
            if page[0].to_bytes()[from..].iter().any(|x| *x != 0) {
                let zeros = Payload::Fill { word: 0, len: BLOCK as usize - from };
                b.stream(at, zeros, Structure::Data)?;
                zeroed = true;
            }
        }
        b.fence()?;
        Ok(zeroed)
    }
}

impl Life for Nova {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory, attach, drop_caches);

    fn name(&self) -> &'static str {
        "nova"
    }

    fn features(&self) -> Features {
        Features {
            cache: CachePolicy::NONE,
            entrance: Entrance::Kernel,
            max_file_size: MAX_FILE_SIZE,
            max_links: 65000,
            many_subdirs: false,
            direct_io: true,
            quirks: Quirks { zero_beyond_end: true, ..Quirks::NONE },
        }
    }

    fn root(&self) -> Ino {
        self.root_ino()
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let slot = self.slot(ino)?;
        let r = self.replay(ino, slot, true)?.ok_or(FsError::Stale)?;
        Ok(self.loaded((ino, r.generation), r.attr, r.state, r.parent))
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.evict_node(inode)
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        self.nodes.lock().remove(&inode.ino().0);
        Ok(())
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        self.pm.batch().fence()
    }

    fn unmount(&self, _call: &Call<'_>) -> Result<()> {
        self.pm.batch().fence()?;
        let Some(saved) = self.save_lists()? else {
            // No block is free for the lists: the next mount scans.
            return Ok(());
        };
        let mut sb = self.superblock;
        (sb.clean, sb.saved) = (true, saved);
        write_super(&self.pm, &sb)
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}
