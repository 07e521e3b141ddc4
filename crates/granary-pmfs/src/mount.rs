//! mount: the superblock, the journal, the truncate list, then the free lists.
//!
//! ```text
//!   clean     saved lists: free runs; the first inode never used, and the free ones below
//!   unclean   undo what was not committed | finish the truncate list | every inode with links: walk its tree
//! ```
//!
//! Everything may be repeated, so a power failure during recovery is just another one.
//! Source: PMFS section 3.2; reference/baselines.md section 7.4.

use crate::dentries::Dentries;
use crate::fs::{Pmfs, Protocol, Recovery};
use crate::hints::Hints;
use crate::journal::Journal;
use crate::layout::inode::{ITEM, PLACE, SIZE as INODE_SIZE, Tree, bytes, generation, item_at, links, parse};
use crate::layout::journal::Form;
use crate::layout::superblock::{REDO_VERSION, Superblock};
use crate::layout::{LIST_HEAD, MAX_FILE_SIZE};
use crate::options::MountOptions;
use crate::table::{Table, per_piece, read_pieces};
use granary_device::{Port, Structure};
use granary_fs::{
    CachePolicy, Call, Entrance, Features, FileKind, FsError, Ino, Inode, Life, Loaded, Quirks, Result,
};
use granary_kit::Generations;
use granary_pm::bytes::u64_at;
use granary_pm::{BLOCK, FreeLists, Keep, Pm, RedoConfig, RedoLog, Used, corrupt, saved, superblock};
use granary_sim::sync::Mutex;
use granary_units::Page;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Writes the superblock and its copy.
pub fn write_super(pm: &Pm, sb: &Superblock) -> Result<()> {
    superblock::write(pm, sb.blocks - 1, &sb.bytes())
}

fn read_super(pm: &Pm) -> Result<Superblock> {
    let pages = pm.info().pages;
    let sb = superblock::read(pm, (pages > 1).then(|| pages - 1), Superblock::parse)?;
    let sane = sb.blocks == pages
        && sb.journal >= 16
        && Journal::slots(sb.journal as u64) <= 1 << 24
        && (1..=1 << 16).contains(&sb.piece)
        && sb.table() + 2 + (sb.piece as u64) < sb.blocks;
    if sane { Ok(sb) } else { Err(corrupt(format!("the superblock describes an impossible shape: {sb:?}"))) }
}

/// Mounts the file system on a drive, recovering it where it was not unmounted ([`Pmfs::recovery`] tells).
///
/// # Errors
/// `Corrupt` where there is no sound PMFS; the drive's.
pub fn mount(port: Port, _options: &MountOptions) -> Result<Arc<Pmfs>> {
    mount_by(port, |pm, sb| {
        if sb.version == REDO_VERSION {
            return Err(corrupt("a file system of DevFS, which keeps a redo log: mount it as devfs"));
        }
        if sb.form() == Form::Lines && !pm.info().whole_lines {
            return Err(corrupt(
                "its journal relies on whole lines, and this device keeps whole words only: mount it on an SSD's byte window",
            ));
        }
        let (journal, undone) = Journal::recover(&pm, sb.journal as u64, sb.blocks * BLOCK, sb.form())?;
        Ok((pm, Protocol::Undo(journal), undone))
    })
}

/// The same for a file system with a redo log in the journal's place ([`mkfs_redo`](crate::mkfs_redo)), kept
/// as `keep` says, of which up to `budget` bytes need not be at home.
///
/// # Errors
/// As [`mount`].
pub fn mount_redo(port: Port, keep: Keep, budget: u64) -> Result<Arc<Pmfs>> {
    mount_by(port, |pm, sb| {
        if sb.version != REDO_VERSION {
            return Err(corrupt("a file system of PMFS, which has no redo log: mount it as pmfs"));
        }
        let config = RedoConfig { base: BLOCK, bytes: sb.journal as u64 * BLOCK, keep, budget };
        let redo = RedoLog::recover(&pm, config)?;
        let replayed = redo.stats().replayed as u32;
        Ok((pm.logged(redo), Protocol::Redo, replayed))
    })
}

/// Mounts; `protocol` recovers the journal or the log and says how changes are made from then on.
fn mount_by(
    port: Port,
    protocol: impl FnOnce(Pm, &Superblock) -> Result<(Pm, Protocol, u32)>,
) -> Result<Arc<Pmfs>> {
    let pm = Pm::new(port);
    let mut sb = read_super(&pm)?;
    let (first, end) = (sb.table() + 1, sb.blocks - 1);
    let words = if sb.clean { Some(saved::read(&pm, sb.saved)?) } else { None };
    let mut recovery = Recovery { clean: sb.clean, ..Recovery::default() };
    sb.mounts += 1;
    (sb.clean, sb.saved) = (false, 0);
    write_super(&pm, &sb)?;
    let (pm, protocol, undone) = protocol(pm, &sb)?;
    recovery.undone = undone;
    let pieces = read_pieces(&pm, sb.table(), sb.piece as u64, end)?;
    let pmfs = Pmfs {
        dentries: matches!(protocol, Protocol::Redo).then(Dentries::default),
        free: FreeLists::new(first, end, 1, 0),
        pm,
        data_end: end,
        protocol,
        table: Mutex::new(Table { pieces, next: 2, free: Vec::new() }),
        list: Mutex::default(),
        broken: AtomicBool::new(false),
        nodes: Default::default(),
        generations: Generations::of_mount(sb.mounts),
        hints: Hints::default(),
        superblock: sb,
        recovery,
    };
    let pmfs = match words {
        Some(words) => pmfs.load_lists(&words)?,
        None => pmfs.recover()?,
    };
    Ok(Arc::new(pmfs))
}

impl Pmfs {
    fn load_lists(self, words: &[u64]) -> Result<Pmfs> {
        let bad = || corrupt("the saved lists end early");
        let mut words = words.iter().copied();
        let mut next = || words.next().ok_or_else(bad);
        for _ in 0..next()? {
            let (start, count) = (next()?, next()?);
            self.free.give(start, count)?;
        }
        {
            let mut t = self.table.lock();
            t.next = next()?;
            for _ in 0..next()? {
                let ino = next()?;
                if ino < 2 || ino >= t.next || t.free.len() as u64 >= t.next - 2 {
                    return Err(corrupt(format!("the saved lists have inode {ino} of {} free", t.next)));
                }
                t.free.push(ino);
            }
            if t.next < 2 || t.next > t.pieces.len() as u64 * per_piece(self.piece()) {
                return Err(corrupt(format!("the saved lists have {} inodes", t.next)));
            }
        }
        Ok(self)
    }

    /// Saves the lists for the next mount; returns where.
    pub(crate) fn save_lists(&self) -> Result<Option<u64>> {
        let runs = self.free.runs();
        let mut words = vec![runs.len() as u64];
        words.extend(runs.iter().flat_map(|(start, n)| [*start, *n]));
        let t = self.table.lock();
        words.extend([t.next, t.free.len() as u64]);
        words.extend(&t.free);
        saved::write(&self.pm.bare(), &self.free, &words)
    }

    /// Finishes what the truncate list has.
    fn finish_list(&self, recovery: &mut Recovery) -> Result<()> {
        let mut head = [0; 8];
        self.pm.load(LIST_HEAD, &mut head, Structure::Inode)?;
        let (mut ino, mut steps) = (u64_at(&head, 0), 0);
        let most = self.table.lock().pieces.len() as u64 * per_piece(self.piece());
        if ino == 0 {
            return Ok(());
        }
        let _step = granary_sim::step("pmfs: the truncate list is finished");
        while ino != 0 {
            steps += 1;
            if ino >= most || steps > most {
                return Err(corrupt(format!("the truncate list leads to inode {ino}")));
            }
            let addr = self.inode_addr(Ino(ino))?;
            let mut place = [0; PLACE as usize];
            self.pm.load(addr, &mut place, Structure::Inode)?;
            let next = u64_at(&place, ITEM as usize);
            if links(&place) > 0 {
                let (attr, tree) = parse(&place, Ino(ino))?;
                let mut attr = item_at(&place, attr);
                let mut b = self.pm.batch();
                let left = self.cut_tree(&mut b, tree, attr.size.div_ceil(BLOCK), &mut Vec::new())?;
                self.zero_behind(&mut b, left, attr.size)?;
                attr.blocks = 0;
                b.fence()?;
                self.walk(left, &mut |_, _, height| {
                    attr.blocks += u64::from(height == 0) * (BLOCK / 512);
                    Ok(true)
                })?;
                b.put(addr, &bytes(&attr, left)[..64], Structure::Inode)?;
                b.fence()?;
                recovery.cut += 1;
            } else {
                recovery.freed += 1;
            }
            ino = next;
        }
        let mut b = self.pm.batch();
        b.put_u64(LIST_HEAD, 0, Structure::Inode)?;
        b.fence()
    }

    fn recover(mut self) -> Result<Pmfs> {
        let mut recovery = self.recovery;
        self.finish_list(&mut recovery)?;
        let mut used = Used::new(self.data_end);
        self.mark_fixed(&mut used)?;
        let mut in_use = Vec::new();
        for (ino, place) in self.inodes_in_use()? {
            let (attr, tree) = parse(&place, ino)?;
            let mut end = 0;
            self.walk(tree, &mut |block, page, _| {
                end = end.max(page + 1);
                used.mark(block, 1, &ino.to_string()).map(|()| true)
            })?;
            if end > attr.size.div_ceil(BLOCK) {
                recovery.zeroed += self.zero_beyond(tree, attr.size)?;
            }
            in_use.push(ino.0);
        }
        recovery.inodes = in_use.len() as u64;
        {
            let mut t = self.table.lock();
            t.next = in_use.last().map_or(2, |last| last + 1).max(2);
            let next = t.next;
            let mut it = in_use.iter().peekable();
            // Highest first, so that the lowest is taken first.
            let free: Vec<u64> = (1..next).filter(|i| it.next_if(|v| *v == i).is_none()).collect();
            t.free = free.into_iter().rev().collect();
        }
        for (start, n) in used.free_runs() {
            self.free.give(start, n)?;
        }
        self.recovery = recovery;
        Ok(self)
    }

    /// Zeroes blocks beyond a file's end (fallocate.rs); says how many.
    fn zero_beyond(&self, tree: Tree, size: u64) -> Result<u32> {
        let blocks = self.not_zero_beyond(tree, size)?;
        let mut b = self.pm.batch();
        self.store_fresh(&mut b, blocks.iter().map(|block| (*block, &Page::ZERO)), Structure::Data)?;
        b.fence()?;
        Ok(blocks.len() as u32)
    }

    /// Marks what mkfs and the inode table take.
    pub(crate) fn mark_fixed(&self, used: &mut Used) -> Result<()> {
        used.mark(0, self.superblock.table() + 1, "head")?;
        let pieces = self.table.lock().pieces.clone();
        pieces.iter().try_for_each(|piece| used.mark(*piece, self.piece(), "inode table"))
    }

    /// All inodes with links, as they lie on media.
    pub(crate) fn inodes_in_use(&self) -> Result<Vec<(Ino, [u8; INODE_SIZE])>> {
        let mut all = Vec::new();
        let pieces = self.table.lock().pieces.clone();
        let n = per_piece(self.piece());
        let per_block = BLOCK / PLACE;
        for (i, piece) in pieces.iter().enumerate() {
            for block in 0..self.piece() {
                let bytes = self.pm.load_block(piece + block, Structure::Inode)?;
                for (j, place) in bytes.chunks_exact(PLACE as usize).enumerate() {
                    let ino = i as u64 * n + block * per_block + j as u64;
                    if ino > 0 && links(place) > 0 {
                        let mut inode = [0; INODE_SIZE];
                        inode.copy_from_slice(&place[..INODE_SIZE]);
                        all.push((Ino(ino), inode));
                    }
                }
            }
        }
        Ok(all)
    }
}

impl Life for Pmfs {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory, attach, drop_caches);

    fn name(&self) -> &'static str {
        "pmfs"
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
        Ino(1)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let addr = self.inode_addr(ino)?;
        let mut place = [0; PLACE as usize];
        self.pm.load(addr, &mut place[..80], Structure::Inode)?;
        if links(&place) == 0 {
            return Err(FsError::Stale);
        }
        let (attr, tree) = parse(&place, ino)?;
        self.checked(tree.root)?;
        if attr.size > MAX_FILE_SIZE || (attr.kind == FileKind::Symlink && attr.size >= BLOCK) {
            return Err(granary_pm::corrupt(format!("{ino}: a size of {}", attr.size)));
        }
        let parent = if attr.kind == FileKind::Dir {
            let dotdot = self.find(tree, attr.size.min(BLOCK), b"..")?;
            dotdot.ok_or_else(|| granary_pm::corrupt(format!("{ino}: a directory without \"..\"")))?.ino
        } else {
            0
        };
        Ok(self.loaded((ino, generation(&place)), addr, attr, tree, parent))
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
        self.pm.settle()?;
        // An error of the drive has left a removal or a cut undone: the next mount finishes it.
        if self.working().is_err() || !self.list.lock().is_empty() {
            return Ok(());
        }
        let Some(saved) = self.save_lists()? else {
            // No block is free for the lists: the next mount scans.
            return Ok(());
        };
        let mut sb = self.superblock;
        (sb.clean, sb.saved) = (true, saved);
        write_super(&self.pm.bare(), &sb)
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}
