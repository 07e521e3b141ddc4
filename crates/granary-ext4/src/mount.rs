//! mount: read the superblock, recover, start the daemons.
//!
//! ```text
//!   superblock (block 0) -> journal inode -> replay -> superblock and descriptors again -> orphans
//!   -> dirty mark
//! ```
//!
//! Orphans with names are cut to their size on media; those without are freed. Both run as ordinary
//! transactions, so a power loss during recovery is just another power loss.

use crate::alloc::Groups;
use crate::fs::{Ext4, Recovery};
use crate::geometry::Geometry;
use crate::journal::{Journal, LogConfig, LogRuns, Replay, replay};
use crate::layout::inode::{INODES_PER_BLOCK, RawInode};
use crate::layout::journal::LogSuper;
use crate::layout::superblock::{CLEAN, CLEAN_LOOSE, DIRTY, Superblock};
use crate::layout::{BLOCKS_PER_GROUP, corrupt, extent};
use crate::mbcache::Known;
use crate::node;
use crate::options::{DataMode, MountOptions};
use crate::orphan::list::Orphans;
use granary_device::{Port, Structure, Ticket};
use granary_fs::{Ino, Inode, Result};
use granary_kit::{Block, BlockCache};
use granary_sim::Daemon;
use granary_sim::sync::Mutex;
use granary_units::{Lpa, Page};
use std::sync::Arc;

fn read_super(port: &Port) -> Result<Superblock> {
    let mut page = [Page::ZERO];
    port.read(Lpa(0), &mut page, Structure::Superblock)?;
    Superblock::parse(&page[0].to_bytes())
}

fn geometry(sb: &Superblock, port: &Port) -> Result<Geometry> {
    let geo = Geometry {
        blocks: sb.blocks.get(),
        groups: sb.groups.get(),
        inodes_per_group: sb.inodes_per_group.get(),
        flex: sb.flex_groups.get(),
    };
    let n = geo.inodes_per_group;
    let sane = geo.blocks <= port.info().pages
        && geo.groups as u64 == geo.blocks.div_ceil(BLOCKS_PER_GROUP as u64)
        && geo.flex > 0
        && geo.groups > 0
        && n > 0
        && n <= BLOCKS_PER_GROUP
        && n.is_multiple_of(INODES_PER_BLOCK)
        && sb.journal_ino.get() > 0
        && sb.journal_ino.get() < n
        && sb.descriptor_blocks.get() == geo.descriptor_blocks();
    if sane {
        Ok(geo)
    } else {
        Err(corrupt(format!("the superblock describes an impossible shape: {geo:?}")))
    }
}

/// Where the journal lies: its runs and its superblock.
fn find_journal(port: &Port, sb: &Superblock, geo: &Geometry) -> Result<(LogRuns, LogSuper)> {
    let cache = BlockCache::new(port.clone(), granary_units::Bytes::mib(1));
    let descs = cache.get(Lpa(1), Structure::Superblock)?;
    let desc = descs.with(|b| crate::layout::group::GroupDesc::parse(b, 0))?;
    let ino = sb.journal_ino.get();
    let lpa = Lpa(desc.inode_table.get() + ((ino - 1) / INODES_PER_BLOCK) as u64);
    let table = cache.get(lpa, Structure::Inode)?;
    let raw = table.with(|b| *RawInode::at(b, node::slot(ino, geo.inodes_per_group)));
    raw.verify(ino)?;
    extent::validate(&raw.root, None)?;
    let mut list: Vec<u8> = raw.root.to_vec();
    if extent::depth(&list) == 1 && extent::count(&list) == 1 {
        let leaf = cache.get(Lpa(extent::entry(&list, 0).start), Structure::DataPointer)?;
        list = leaf.with(|b| b.to_vec());
    }
    extent::validate(&list, Some(0))?;
    let (mut map, mut len) = (Vec::new(), 0);
    for e in (0..extent::count(&list)).map(|i| extent::entry(&list, i)) {
        if e.key != len || e.len == 0 || e.start == 0 || e.start + e.len as u64 > geo.blocks {
            return Err(corrupt(format!("the journal's extent {e:?} after {len} blocks")));
        }
        map.push((e.key, e.start, e.len));
        len += e.len;
    }
    if map.is_empty() {
        return Err(corrupt("the journal has no blocks"));
    }
    let mut page = [Page::ZERO];
    port.read(Lpa(map[0].1), &mut page, Structure::Journal)?;
    let log = LogSuper::parse(&page[0].to_bytes()).ok_or_else(|| corrupt("no journal superblock"))?;
    if log.len != len {
        return Err(corrupt(format!("a journal of {} blocks in {len}", log.len)));
    }
    Ok((map, log))
}

/// Mounts the file system on a drive, recovering it where it was not unmounted ([`Ext4::recovery`] tells).
///
/// # Errors
/// `Corrupt` where there is no sound ext4; the drive's.
pub fn mount(port: Port, options: &MountOptions) -> Result<Arc<Ext4>> {
    let sb = read_super(&port)?;
    let geo = geometry(&sb, &port)?;
    let (map, log) = find_journal(&port, &sb, &geo)?;
    let replaying = (log.start != 0).then(|| granary_sim::step("ext4: the log is replayed"));
    let found: Replay = replay(&port, &map, &log, geo.blocks)?;
    let mut recovery = Recovery {
        clean: matches!(sb.state.get(), CLEAN | CLEAN_LOOSE),
        transactions: found.transactions,
        blocks: found.blocks,
        revoked: found.revoked,
        ..Recovery::default()
    };
    if log.start != 0 {
        let page = LogSuper { len: log.len, sequence: found.next_tid, start: 0 }.page();
        port.write(Lpa(map[0].1), &[page], Structure::Journal)?;
        port.flush()?;
    }
    drop(replaying);
    let cache = Arc::new(BlockCache::new(port.clone(), options.metadata_cache));
    let superblock = cache.get(Lpa(0), Structure::Superblock)?;
    superblock.pin();
    let sb = superblock.with(Superblock::parse)?;
    let groups = Arc::new(load_groups(&cache, geo, options)?);
    let config = LogConfig {
        map,
        len: log.len,
        next_tid: found.next_tid,
        commit_interval: options.commit_interval,
        barrier: options.barrier,
        expire: options.dirty_expire,
        wake: options.writeback_interval,
        data: options.data == DataMode::Journal,
        share: options.max_transaction,
    };
    let release: crate::journal::Release = {
        let (groups, port, discard) = (Arc::clone(&groups), port.clone(), options.discard);
        Box::new(move |freed| {
            if discard {
                // A trim that fails costs space on the drive, nothing else. One in flight is not ordered with
                // the next owner's writes (`ext4_process_freed_data` waits, too).
                let done = freed.iter().flat_map(|(start, len)| port.trim(Lpa(*start), *len as u64));
                port.wait(done.fold(Ticket::NONE, Ticket::and));
            }
            groups.release(freed);
        })
    };
    let journal = Arc::new(Journal::new(port.clone(), Arc::clone(&cache), config, release)?);
    let (a, b) = (Arc::clone(&journal), Arc::clone(&journal));
    let daemons = vec![
        Daemon::start("jbd2", move |_| a.commit_loop()),
        Daemon::start("flush", move |_| b.flush_loop()),
    ];
    let mut fs = Ext4 {
        port,
        cache,
        groups,
        journal,
        superblock,
        hash_seed: sb.hash_seed.get(),
        options: options.clone(),
        orphans: Mutex::new(Orphans::default()),
        shared: Mutex::new(Known::default()),
        recovery,
        loose: sb.state.get() != CLEAN,
        daemons: Mutex::new(daemons),
        pages: parking_lot::Mutex::new(None),
    };
    fs.finish_orphans(sb.last_orphan.get(), &mut recovery)?;
    fs.recovery = recovery;
    fs.write_superblock(DIRTY)?;
    let fs = Arc::new(fs);
    let weak = Arc::downgrade(&fs);
    fs.journal.write_cut_by(Box::new(move |cut| weak.upgrade().map_or(Ticket::NONE, |fs| fs.write_cut(cut))));
    Ok(fs)
}

fn load_groups(cache: &Arc<BlockCache>, geo: Geometry, options: &MountOptions) -> Result<Groups> {
    let n = geo.descriptor_blocks() as u64;
    let mut blocks: Vec<Arc<Block>> = Vec::with_capacity(n as usize);
    for lpa in 1..=n {
        let block = cache.get_window(Lpa(lpa), 1..n + 1, Structure::Superblock)?;
        block.pin();
        blocks.push(block);
    }
    Groups::load(geo, Arc::clone(cache), blocks, options.cpus as usize)
}

impl Ext4 {
    /// Finishes what the orphan list says was begun.
    fn finish_orphans(&self, head: u32, recovery: &mut Recovery) -> Result<()> {
        let _step = granary_sim::step("ext4: orphans are removed");
        let (mut list, mut at) = (Vec::new(), head);
        while at != 0 {
            if list.contains(&at) {
                return Err(corrupt(format!("the orphan list runs in a circle at inode {at}")));
            }
            let block = self.inode_block(at)?;
            let slot = node::slot(at, self.groups.geo.inodes_per_group);
            list.push(at);
            at = block.with(|b| RawInode::at(b, slot).next_orphan.get());
        }
        self.orphans.lock().adopt(&list);
        for ino in list {
            let inode = Inode::new(Ino(ino as u64), self.load(Ino(ino as u64))?);
            if inode.attr().nlink == 0 {
                self.end_inode(&inode)?;
                recovery.orphans_freed += 1;
            } else {
                self.cut(&inode, inode.size())?;
                recovery.orphans_cut += 1;
            }
        }
        self.journal.commit_all()
    }
}
