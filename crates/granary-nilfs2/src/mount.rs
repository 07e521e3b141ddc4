//! Mounting, and recovery after a power failure.
//!
//! ```text
//!   superblocks, the newer -> logs from there on -> newest super root -> DAT, cpfile, sufile -> checkpoint
//!   -> ifile -> superblock: one mount more -> data of later logs -> inodes without names
//!   -> a log with all that -> superblock
//! ```
//!
//! The number of the mount is in the serial numbers of its logs. So no log of an interrupted life is taken
//! for one of this. Recovery changes nothing on media until its own log is whole, so it can be interrupted
//! and begins again.

use crate::buffers::Buffers;
use crate::clean::cleaner_loop;
use crate::construct::{constructor_loop, write_one};
use crate::dat::{Dat, Virtual};
use crate::fs::{Held, Nilfs2, Recovery, Stats};
use crate::layout::checkpoint::SNAPSHOT;
use crate::layout::inode::DiskInode;
use crate::layout::summary::Part;
use crate::layout::superblock::{CLEAN, Superblock};
use crate::layout::usage::{self, USAGE, Usage};
use crate::layout::{CPFILE_INO, DAT_INO, FIRST_INO, LINK_MAX, MAX_FILE_SIZE, ROOT_INO, SUFILE_INO, corrupt};
use crate::log::Kind;
use crate::media::Media;
use crate::options::MountOptions;
use crate::recover::{Chain, follow};
use crate::remap::settle_names;
use crate::segments::Segments;
use crate::state::{INODES, State, ifile_of};
use crate::tree::Tree;
use granary_device::vendor::pebble::Bam;
use granary_device::{Port, Structure};
use granary_fs::{
    CachePolicy, Call, DirtyPages, Entrance, Features, FsError, Ino, Inode, Life, Loaded, Quirks, Result,
    Time,
};
use granary_kit::Generations;
use granary_sim::sync::{Mutex, RwLock};
use granary_sim::{Daemon, now};
use granary_units::{Lpa, Page};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

fn read_super(port: &Port, copy: usize) -> Result<Superblock> {
    let pages = port.info().pages;
    let mut last = [0, pages.saturating_sub(1)];
    // The second one is at the end of the file system, which may be smaller than the drive.
    if copy == 1
        && let Ok(first) = read_super(port, 0)
    {
        last[1] = first.geo.blocks - 1;
    }
    let mut page = [Page::ZERO];
    port.read(Lpa(last[copy]), &mut page, Structure::Superblock)?;
    Superblock::parse(&page[0].to_bytes(), copy, pages)
}

/// The superblocks, the newer one first.
///
/// # Errors
/// `Corrupt` where neither is one.
pub(crate) fn supers(port: &Port) -> Result<Vec<Superblock>> {
    let (first, second) = (read_super(port, 0), read_super(port, 1));
    let mut all: Vec<Superblock> =
        [&first, &second].into_iter().filter_map(|s| s.as_ref().ok().copied()).collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.writes));
    match all.is_empty() {
        true => first.map(|_| all),
        false => Ok(all),
    }
}

fn meta_file(inode: &DiskInode, ino: u64, what: Structure) -> Result<Buffers> {
    Ok(Buffers::new(ino, Tree::parse(&inode.map, inode.blocks)?, what))
}

fn read_usages(media: &Media, dat: &mut Dat, sufile: &mut Buffers) -> Result<(Vec<Usage>, u64)> {
    let mut all = Vec::new();
    for seg in 0..media.geo.segments {
        let (block, at) = usage::place(seg);
        let page = sufile.block(block, &mut Virtual { media, dat })?;
        all.push(page.with_bytes(|b| Usage::parse(&b[at..at + USAGE])));
        if all.last().is_some_and(|u| u.blocks as u64 > media.geo.seg_blocks) {
            return Err(corrupt(format!(
                "segment {seg} is said to have {} blocks",
                all[seg as usize].blocks
            )));
        }
    }
    let header = sufile.block(0, &mut Virtual { media, dat })?.with_bytes(|b| usage::header(b));
    Ok((all, header.2))
}

/// Loads the state on media into memory.
fn load(media: &Media, sb: &Superblock, options: &MountOptions) -> Result<(State, Chain)> {
    let chain = follow(media, sb, options.go_back)?;
    let [dat, cpfile, sufile] = &chain.root.inodes;
    let mut dat = Dat::new(meta_file(dat, DAT_INO, Structure::DataPointer)?, media.geo.blocks);
    let cpfile = meta_file(cpfile, CPFILE_INO, Structure::Superblock)?;
    let mut sufile = meta_file(sufile, SUFILE_INO, Structure::Bitmap)?;
    let (mut usages, last) = read_usages(media, &mut dat, &mut sufile)?;
    for (seg, blocks) in &chain.written {
        usages[*seg as usize] = Usage { age: chain.root.age, blocks: *blocks as u32, flags: usage::DIRTY };
    }
    let mut segs = Segments::new(media.geo, usages, chain.cursor, last, sb.last_seq)?;
    segs.touched.extend(chain.written.keys());
    // A recovery would read them again.
    segs.remember(media.geo.segment(chain.at.at), chain.at.seq);
    chain.written.keys().for_each(|seg| segs.remember(*seg, chain.at.seq));
    let none = Buffers::new(crate::layout::IFILE_INO, Tree::default(), Structure::Inode);
    let mut s = State::with(dat, none, cpfile, sufile, segs);
    s.cno = chain.root.cno + 1;
    s.root = chain.at;
    // The clock of this world may have gone on since it began.
    s.born = chain.root.age.saturating_sub(now().0);
    let wanted = options.cp.unwrap_or(chain.root.cno);
    let entry = s.checkpoint(wanted, media)?;
    let entry = match (entry, options.cp) {
        (Some(e), None) => e,
        (Some(e), Some(_)) if e.flags & SNAPSHOT != 0 => e,
        (_, Some(_)) => {
            return Err(FsError::Mismatch(format!(
                "checkpoint {wanted} is no snapshot, or is not there any more: `granary lscp IMAGE` lists them"
            )));
        }
        (None, None) => return Err(corrupt(format!("checkpoint {wanted} is not in the cpfile"))),
    };
    s.ifile = ifile_of(&entry.ifile)?;
    (s.inodes, s.live) = (entry.inodes, entry.blocks);
    s.read_snapshots(media)?;
    Ok((s, chain))
}

impl State {
    /// Puts data of later logs back where it was on its way to; how many blocks.
    fn roll_forward(&mut self, chain: &Chain, media: &Media) -> Result<u32> {
        let mut rolled = 0;
        for (at, e) in &chain.data {
            let Part::Data(index) = e.part else { continue };
            match self.node(e.ino, media) {
                Ok(_) => {}
                Err(FsError::Stale) => continue,
                Err(e) => return Err(e),
            }
            let page = media.read(*at, Structure::Data)?;
            self.stage(e.ino, index, page);
            rolled += 1;
        }
        for (ino, (mtime, ctime)) in &chain.times {
            if let Some(node) = self.nodes.get_mut(ino) {
                (node.attr.mtime, node.attr.ctime) = (Time(*mtime), Time(*ctime));
                node.attr_dirty = true;
            }
        }
        for (ino, size) in &chain.grown {
            let size = (*size).min(MAX_FILE_SIZE);
            if let Some(node) = self.nodes.get_mut(ino) {
                node.media_size = node.media_size.max(size);
                node.attr.size = node.attr.size.max(size);
                node.attr_dirty = true;
            }
        }
        Ok(rolled)
    }

    /// Frees inodes without names.
    fn free_orphans(&mut self, media: &Media) -> Result<u32> {
        let mut gone = Vec::new();
        for ino in FIRST_INO..INODES.most * crate::groups::GROUP {
            let group = ino / crate::groups::GROUP;
            let mut from = Virtual { media, dat: &mut self.dat };
            if ino % crate::groups::GROUP == 0 && INODES.used(&mut self.ifile, group, &mut from)? == 0 {
                break;
            }
            if !INODES.is_used(&mut self.ifile, ino, &mut from)? {
                continue;
            }
            let known = self.nodes.contains_key(&ino);
            if self.node(ino, media)?.attr.nlink == 0 {
                gone.push(ino);
            } else if !known {
                self.nodes.remove(&ino);
            }
        }
        for ino in &gone {
            self.cut(*ino, 0, media)?;
            self.forget(*ino);
        }
        Ok(gone.len() as u32)
    }
}

/// Mounts the file system on a drive, recovering it ([`Nilfs2::recovery`] tells).
///
/// # Errors
/// `Corrupt` where there is no sound NILFS2; `Mismatch` where `cp` names no snapshot; the drive's.
pub fn mount(port: Port, options: &MountOptions) -> Result<Arc<Nilfs2>> {
    let all = supers(&port)?;
    let mut sb = all[0];
    let media = Media::new(port, sb.geo);
    let (mut state, chain) = match load(&media, &sb, options) {
        Err(e) if options.go_back && !matches!(e, FsError::Mismatch(_)) => {
            let other = all.get(1).filter(|s| s.geo == sb.geo).ok_or(e)?;
            load(&media, other, options)?
        }
        loaded => loaded?,
    };
    let changes = options.cp.is_none();
    let mut recovery = Recovery {
        clean: sb.flags & CLEAN != 0 && chain.logs == 0,
        cno: state.cno - 1,
        logs: chain.logs,
        ..Recovery::default()
    };
    let recovering =
        (changes && !recovery.clean).then(|| granary_sim::step("nilfs2: a mount rolls logs forward"));
    if changes {
        sb.mounts = all.iter().map(|s| s.mounts).max().unwrap_or(0) + 1;
        sb.flags = 0;
        (sb.last_log, sb.last_seq, sb.last_serial) = (chain.at.at, chain.at.seq, chain.at.serial);
        write_one(&media.port, &mut sb)?;
        media.port.flush()?;
        // Now no recovery reads logs whose blocks were renamed.
        if !recovery.clean || options.remap_cleaning || options.fs_write_fsync {
            settle_names(&media, &state.segs)?;
        }
        state.mounts = sb.mounts;
        state.segs.super_seq = sb.last_seq;
        recovery.blocks = state.roll_forward(&chain, &media)?;
        let entry = state.checkpoint(state.cno - 1, &media)?;
        if entry.is_some_and(|e| e.orphans > 0) {
            recovery.orphans = state.free_orphans(&media)?;
        }
    }
    let media_has_bam = media.port.vendor::<Bam>().is_some();
    let fs = Arc::new(Nilfs2 {
        media,
        generations: Generations::of_mount(state.cno),
        state: Mutex::new(state),
        ops: RwLock::new(()),
        syncing: parking_lot::Mutex::new(Vec::new()),
        options: options.clone(),
        pages: parking_lot::Mutex::new(None),
        super_block: parking_lot::Mutex::new((sb, now())),
        unflushed: AtomicBool::new(true),
        flushing: granary_sim::sync::Mutex::new(()),
        cleaning: AtomicBool::new(false),
        bam_used: AtomicBool::new(media_has_bam && (options.remap_cleaning || options.fs_write_fsync)),
        said_why: AtomicBool::new(false),
        recovering: AtomicBool::new(true),
        broken: parking_lot::Mutex::new(None),
        stats: parking_lot::Mutex::new(Stats::default()),
        daemons: Mutex::new(Vec::new()),
        recovery,
    });
    fs.state.lock().node(crate::layout::ROOT_INO, &fs.media)?;
    if changes {
        if recovery.blocks > 0 || recovery.orphans > 0 || chain.logs > 0 {
            fs.construct()?;
            fs.write_super(0)?;
        }
        fs.reset_bam()?;
        drop(recovering);
        *fs.stats.lock() = Stats::default();
        fs.recovering.store(false, std::sync::atomic::Ordering::Relaxed);
        let (a, b) = (Arc::downgrade(&fs), Arc::downgrade(&fs));
        *fs.daemons.lock() = vec![
            Daemon::start("segctord", move |stop| constructor_loop(&a, stop)),
            Daemon::start("nilfs_cleanerd", move |stop| cleaner_loop(&b, stop)),
        ];
    }
    Ok(fs)
}

impl Life for Nilfs2 {
    granary_fs::file_system_lacks!(opened, closed, drop_clean, process_ended, memory);

    fn name(&self) -> &'static str {
        "nilfs2"
    }

    fn features(&self) -> Features {
        Features {
            cache: CachePolicy::ALL,
            entrance: Entrance::Kernel,
            max_file_size: MAX_FILE_SIZE,
            max_links: LINK_MAX,
            many_subdirs: false,
            direct_io: false,
            quirks: Quirks::NONE,
        }
    }

    fn attach(&self, pages: Weak<dyn DirtyPages>) {
        *self.pages.lock() = Some(pages);
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO)
    }

    fn load_inode(&self, _call: &Call<'_>, ino: Ino) -> Result<Loaded> {
        let mut s = self.state.lock();
        let node = s.node(ino.0, &self.media)?;
        node.held = true;
        let (mut attr, generation) = (node.attr, node.generation);
        attr.size = attr.size.max(node.media_size);
        Ok(Loaded { attr, private: Arc::new(Held { ino: ino.0, generation }) })
    }

    fn evict(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        if self.options.cp.is_some() { Ok(()) } else { self.end_inode(inode) }
    }

    fn release(&self, _call: &Call<'_>, inode: &Inode) -> Result<()> {
        let ino = inode.private::<Held>().ino;
        let mut s = self.state.lock();
        let Some(node) = s.nodes.get_mut(&ino) else { return Ok(()) };
        node.held = false;
        if node.is_dirty() || s.dirty.contains(&ino) {
            s.unheld.insert(ino);
        } else {
            s.nodes.remove(&ino);
        }
        Ok(())
    }

    fn drop_caches(&self, _call: &Call<'_>) {
        self.state.lock().evict(0);
    }

    fn sync(&self, _call: &Call<'_>) -> Result<()> {
        self.working()?;
        if self.options.cp.is_none() {
            self.construct_if(&mut |s| s.dirty_since.map(|_| Kind::Full))?;
        }
        self.flush()
    }

    fn unmount(&self, call: &Call<'_>) -> Result<()> {
        let daemons = std::mem::take(&mut *self.daemons.lock());
        daemons.into_iter().for_each(granary_sim::Daemon::stop);
        if self.options.cp.is_some() {
            return Ok(());
        }
        self.sync(call)?;
        self.write_super(CLEAN)
    }

    fn check(&self, _call: &Call<'_>) -> Result<Vec<String>> {
        self.check_all()
    }
}
