//! mount: find the newest checkpoint, read its state, recover, start the daemons.
//!
//! ```text
//!   superblock -> two packs, the newer whole one -> SIT and journals -> logs -> orphans -> roll forward
//!   -> checkpoint
//! ```
//!
//! Every mount ends with a checkpoint of its own. Nodes that an interrupted life left in the log must never
//! be taken for those of this one. (The kernel writes it only where it recovered something.)

use crate::cache::LogicalCache;
use crate::checkpoint::JOURNAL_AT;
use crate::flush::Flusher;
use crate::fs::{F2fs, LastCheckpoint, Memory, Recovery, Space, Stats};
use crate::geometry::Geometry;
use crate::layout::checkpoint::{COMPACT, Checkpoint, UMOUNT, parse_orphans};
use crate::layout::nat::{NAT_ENTRY, NAT_JOURNAL, NatEntry};
use crate::layout::node::{Footer, ROOT_INO};
use crate::layout::sit::{SIT_ENTRIES, SIT_ENTRY, SIT_JOURNAL, SitEntry};
use crate::layout::summary::{COMPACT_FIRST, COMPACT_NEXT, JOURNAL_BYTES, SUMMARY, Summary, set_kind};
use crate::layout::{BLOCK_SIZE, BlockBytes, bit, corrupt, le16, le32, superblock};
use crate::nat::Nat;
use crate::options::MountOptions;
use crate::segs::{Seg, Segs};
use crate::{discard, gc};
use granary_device::vendor::pebble::{Bam, REMAP_KEEP};
use granary_device::{DriveError, Port, Structure, Ticket};
use granary_fs::Result;
use granary_kit::{BlockCache, Generations};
use granary_sim::sync::{Mutex, RwLock};
use granary_sim::{Daemon, Signal, now};
use granary_units::{Bytes, Lpa, Nanos, Page};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Locks of inodes; two inodes that share one wait for each other now and then.
const STRIPES: usize = 4096;

fn read(port: &Port, lpa: u64) -> Result<Box<BlockBytes>> {
    let mut page = [Page::ZERO];
    port.read(Lpa(lpa), &mut page, Structure::Superblock)?;
    Ok(Box::new(page[0].to_bytes()))
}

/// A superblock.
///
/// # Errors
/// `Corrupt` where it is none; the drive's.
pub(crate) fn read_super(port: &Port, lpa: u64) -> Result<Geometry> {
    superblock::parse(&*read(port, lpa)?, port.info().pages)
}

/// The shape, from whichever superblock can be read; the first is written again where it cannot, as by the
/// kernel (`f2fs_fill_super`: "Try to recover").
fn find_super(port: &Port) -> Result<Geometry> {
    read_super(port, 0).or_else(|first| {
        let geo = read_super(port, 1).map_err(|_| first)?;
        port.write(Lpa(0), &[Page::from_bytes(&superblock::encode(&geo))], Structure::Superblock)?;
        Ok(geo)
    })
}

fn read_pack(port: &Port, geo: &Geometry, n: usize) -> Result<Checkpoint> {
    let start = geo.pack(n);
    let mut head = Checkpoint::parse(&*read(port, start)?)?;
    if !(3..=geo.seg_blocks).contains(&head.pack_blocks) {
        return Err(corrupt(format!("a checkpoint pack of {} blocks", head.pack_blocks)));
    }
    if Checkpoint::parse(&*read(port, start + head.pack_blocks as u64 - 1)?)? != head {
        return Err(corrupt("a checkpoint whose head and foot differ"));
    }
    let bytes = |blocks: u32| blocks.div_ceil(8) as usize;
    let main = geo.main_segs as u64 * geo.seg_blocks as u64;
    let sane = head.payload == geo.payload
        && head.sit_copies.len() == bytes(geo.sit_blocks)
        && head.nat_copies.len() == bytes(geo.nat_blocks)
        && head.user_blocks <= main
        && head.valid_blocks <= main
        && head.reserved < geo.main_segs
        && head.version < u64::MAX / 2
        && head.elapsed < u64::MAX / 2
        && head.orphan_blocks < head.pack_blocks
        && head.payload < head.pack_blocks;
    if !sane {
        return Err(corrupt(format!("an impossible checkpoint: {head:?}")));
    }
    read_payload(port, geo, n, &mut head)?;
    Ok(head)
}

/// The bitmap that the header of pack `n` has no room for, where that is so.
///
/// # Errors
/// `Corrupt`; the drive's.
pub(crate) fn read_payload(port: &Port, geo: &Geometry, n: usize, head: &mut Checkpoint) -> Result<()> {
    if head.payload == 0 {
        return Ok(());
    }
    let mut pages = vec![Page::ZERO; head.payload as usize];
    port.read(Lpa(geo.pack(n) + 1), &mut pages, Structure::Superblock)?;
    let blocks: Vec<BlockBytes> = pages.iter().map(Page::to_bytes).collect();
    head.take_payload(blocks.iter())
}

/// The body of a pack.
struct Body {
    orphans: Vec<u32>,
    nat: Vec<(u32, NatEntry)>,
    sit: Vec<(u32, SitEntry)>,
    /// Summary blocks of the data logs, and of the node logs where they were written.
    sums: Vec<Box<BlockBytes>>,
}

/// Entries of the two journals.
type Entries = (Vec<(u32, NatEntry)>, Vec<(u32, SitEntry)>);

fn parse_journals(nat: &[u8], sit: &[u8]) -> Result<Entries> {
    let (n, s) = (le16(nat, 0) as usize, le16(sit, 0) as usize);
    if n > NAT_JOURNAL || s > SIT_JOURNAL {
        return Err(corrupt(format!("journals of {n} and {s} entries")));
    }
    let nat = (0..n).map(|i| 2 + i * (4 + NAT_ENTRY)).map(|at| (le32(nat, at), NatEntry::read(nat, at + 4)));
    let sit = (0..s).map(|i| 2 + i * (4 + SIT_ENTRY)).map(|at| (le32(sit, at), SitEntry::read(sit, at + 4)));
    Ok((nat.collect(), sit.collect()))
}

fn read_body(port: &Port, geo: &Geometry, n: usize, cp: &Checkpoint) -> Result<Body> {
    let mut pages = vec![Page::ZERO; cp.pack_blocks as usize - 2];
    port.read(Lpa(geo.pack(n) + 1), &mut pages, Structure::Superblock)?;
    let mut blocks = pages.iter().skip(cp.payload as usize).map(|p| Box::new(p.to_bytes()));
    let mut orphans = Vec::new();
    for _ in 0..cp.orphan_blocks {
        orphans.extend(parse_orphans(&*blocks.next().ok_or_else(short)?)?);
    }
    let used = |l: usize| {
        let place = cp.logs[l];
        if place.ssr { geo.seg_blocks as usize } else { (place.next as u32).min(geo.seg_blocks) as usize }
    };
    let mut sums: Vec<Box<BlockBytes>> = Vec::new();
    let journals;
    if cp.flags & COMPACT != 0 {
        let total: usize = (0..3).map(used).sum();
        let first = blocks.next().ok_or_else(short)?;
        journals = parse_journals(&first[..JOURNAL_BYTES], &first[JOURNAL_BYTES..2 * JOURNAL_BYTES])?;
        let mut list = Vec::with_capacity(total);
        let take = |b: &BlockBytes, base: usize, room: usize, list: &mut Vec<Summary>| {
            let n = room.min(total - list.len());
            list.extend((0..n).map(|i| Summary::read(b, base + i * SUMMARY)));
        };
        take(&first, 2 * JOURNAL_BYTES, COMPACT_FIRST, &mut list);
        while list.len() < total {
            let next = blocks.next().ok_or_else(short)?;
            take(&next, 0, COMPACT_NEXT, &mut list);
        }
        let mut list = list.into_iter();
        for l in 0..3 {
            let mut b = Box::new([0; BLOCK_SIZE]);
            list.by_ref().take(used(l)).enumerate().for_each(|(i, s)| s.put(&mut b, i as u32));
            set_kind(&mut b, l as u8);
            sums.push(b);
        }
    } else {
        sums.extend(blocks.by_ref().take(3));
        if sums.len() < 3 {
            return Err(short());
        }
        let journal = |b: &BlockBytes| b[JOURNAL_AT..JOURNAL_AT + JOURNAL_BYTES].to_vec();
        journals = parse_journals(&journal(&sums[0]), &journal(&sums[2]))?;
        for b in &mut sums {
            b[JOURNAL_AT..JOURNAL_AT + JOURNAL_BYTES].fill(0);
        }
    }
    if cp.flags & UMOUNT != 0 {
        sums.extend(blocks.by_ref().take(3));
        if sums.len() < 6 {
            return Err(short());
        }
    }
    let (nat, sit) = journals;
    Ok(Body { orphans, nat, sit, sums })
}

fn short() -> granary_fs::FsError {
    corrupt("a checkpoint pack is too short")
}

fn segment(geo: &Geometry, segno: u32, e: &SitEntry) -> Result<Seg> {
    let bits: u32 = e.map.iter().map(|w| w.count_ones()).sum();
    let beyond = (geo.seg_blocks..512).any(|n| e.map[n as usize / 64] >> (n % 64) & 1 == 1);
    if bits != e.valid as u32 || beyond || e.log >= 6 || e.mtime > u64::MAX / 2 {
        return Err(corrupt(format!(
            "segment {segno} has {} valid blocks, {bits} bits, log {}",
            e.valid, e.log
        )));
    }
    Ok(Seg { valid: e.valid, log: e.log, map: e.map, keep: e.map, mtime: e.mtime })
}

fn read_sit(port: &Port, geo: &Geometry, cp: &Checkpoint, journal: &[(u32, SitEntry)]) -> Result<Vec<Seg>> {
    let mut pages = vec![Page::ZERO; geo.sit_blocks as usize];
    let (mut ticket, mut n) = (Ticket::NONE, 0);
    while n < geo.sit_blocks {
        let copy = bit(&cp.sit_copies, n as usize);
        let run = (n..geo.sit_blocks).take_while(|i| bit(&cp.sit_copies, *i as usize) == copy).count();
        let part = &mut pages[n as usize..n as usize + run];
        ticket = ticket.and(port.submit_read(Lpa(geo.sit(n, copy)), part, Structure::Bitmap)?);
        n += run as u32;
    }
    port.wait(ticket);
    let mut segs = vec![Seg::default(); geo.main_segs as usize];
    for (n, page) in pages.iter().enumerate().filter(|(_, p)| !p.is_zero()) {
        let b = page.to_bytes();
        for i in 0..SIT_ENTRIES {
            let segno = n * SIT_ENTRIES + i;
            if segno < segs.len() && !journal.iter().any(|(s, _)| *s as usize == segno) {
                segs[segno] = segment(geo, segno as u32, &SitEntry::read(&b, i * SIT_ENTRY))?;
            }
        }
    }
    for (segno, e) in journal {
        if *segno >= geo.main_segs {
            return Err(corrupt(format!("a journal names segment {segno}")));
        }
        segs[*segno as usize] = segment(geo, *segno, e)?;
    }
    Ok(segs)
}

/// The summaries of a node log's segment, from the nodes themselves.
fn node_summaries(port: &Port, geo: &Geometry, seg: &Seg, segno: u32, log: u8) -> Result<Box<BlockBytes>> {
    let mut pages = vec![Page::ZERO; geo.seg_blocks as usize];
    port.read(Lpa(geo.start(segno) as u64), &mut pages, Structure::Inode)?;
    let mut sum = Box::new([0; BLOCK_SIZE]);
    for n in (0..geo.seg_blocks).filter(|n| seg.is_valid(*n)) {
        let nid = Footer::read(&pages[n as usize].to_bytes()).nid;
        Summary { nid, version: 0, ofs: 0 }.put(&mut sum, n);
    }
    set_kind(&mut sum, log);
    Ok(sum)
}

/// Mounts the file system on a drive, recovering it ([`F2fs::recovery`] tells).
///
/// # Errors
/// `Corrupt` where there is no sound F2FS; the drive's.
pub fn mount(port: Port, options: &MountOptions) -> Result<Arc<F2fs>> {
    if options.remap_cleaning && !port.offers(REMAP_KEEP) {
        return Err(DriveError::Unsupported("REMAP keep command").into());
    }
    if options.fs_write_fsync && port.vendor::<Bam>().is_none() {
        return Err(DriveError::Unsupported("FS_WRITE command").into());
    }
    let geo = find_super(&port)?;
    let (pack, cp) = match (read_pack(&port, &geo, 0), read_pack(&port, &geo, 1)) {
        (Ok(a), Ok(b)) if b.version > a.version => (1, b),
        (Ok(a), _) => (0, a),
        (Err(_), Ok(b)) => (1, b),
        (Err(e), Err(_)) => return Err(e),
    };
    let body = read_body(&port, &geo, pack, &cp)?;
    let third = Bytes(options.metadata_cache.0 / 3);
    let tables = Arc::new(BlockCache::new(port.clone(), third));
    let list = read_sit(&port, &geo, &cp, &body.sit)?;
    let mut sums = body.sums;
    for l in sums.len()..6 {
        let segno = cp.logs[l].segno;
        let Some(seg) = list.get(segno as usize) else {
            return Err(corrupt(format!("a log is said to be in segment {segno}")));
        };
        sums.push(node_summaries(&port, &geo, seg, segno, l as u8)?);
    }
    let mut segs = Segs::new(geo, Arc::clone(&tables), list, cp.elapsed, 2 * cp.reserved);
    segs.victim_search = options.victim_search.max(1);
    for (place, sum) in cp.logs.iter().zip(sums) {
        segs.restore(*place, sum)?;
    }
    // Time in this world may have gone on since it began.
    segs.elapsed = segs.elapsed.saturating_sub(now().0 / 1_000_000_000).max(cp.elapsed);
    let nat_ok = body.nat.iter().all(|(nid, _)| (ROOT_INO..geo.nids()).contains(nid));
    if !nat_ok {
        return Err(corrupt("the NAT journal names impossible nodes"));
    }
    let space = Space {
        valid: cp.valid_blocks,
        user: cp.user_blocks,
        nodes: cp.valid_nodes,
        inodes: cp.valid_inodes,
        since: 0,
        at_checkpoint: cp.valid_blocks,
    };
    let pages = (third.0 / BLOCK_SIZE as u64) as usize;
    let stripes = || (0..STRIPES).map(|_| Mutex::new(())).collect::<Vec<_>>().into_boxed_slice();
    // F2FS_IPU_FORCE on small volumes: SMALL_VOLUME_SEGMENTS, 16 GiB.
    let force_in_place = geo.main_segs as u64 * geo.seg_blocks as u64 <= 8192 * 512;
    let mut fs = F2fs {
        nat: Nat::new(geo, Arc::clone(&tables), body.nat, cp.nat_copies.clone(), cp.next_nid),
        port,
        geo,
        options: options.clone(),
        force_in_place,
        tables,
        nodes: LogicalCache::new(pages),
        dents: LogicalCache::new(pages),
        segs: Mutex::new(segs),
        space: parking_lot::Mutex::new(space),
        checkpoint_lock: RwLock::new(()),
        gc_lock: Mutex::new(()),
        inode_locks: stripes(),
        grow_locks: stripes(),
        chain: Mutex::new(Nanos::ZERO),
        flusher: Flusher::default(),
        in_place: Default::default(),
        dirty_inodes: parking_lot::Mutex::default(),
        memory: parking_lot::Mutex::new(Memory::default()),
        stats: parking_lot::Mutex::new(Stats::default()),
        generations: Generations::of_mount(cp.version),
        last: parking_lot::Mutex::new(LastCheckpoint {
            version: cp.version,
            pack,
            sit_copies: cp.sit_copies.clone(),
            sit_journal: body.sit.iter().map(|(s, _)| *s).collect::<BTreeSet<u32>>(),
            reserved: cp.reserved,
            overprovision: cp.overprovision,
            at: now(),
        }),
        broken: AtomicBool::new(false),
        busy: AtomicU64::new(now().0),
        recovery: Recovery::default(),
        daemons: Mutex::new(Vec::new()),
        recovering: AtomicBool::new(true),
        due: AtomicBool::new(false),
    };
    fs.inode_node(ROOT_INO)?;
    fs.recovery = fs.recover(cp.flags & UMOUNT != 0, &body.orphans)?;
    *fs.recovering.get_mut() = false;
    *fs.stats.get_mut() = Stats::default();
    let fs = Arc::new(fs);
    let (a, b, c) = (Arc::downgrade(&fs), Arc::downgrade(&fs), Arc::downgrade(&fs));
    let mut daemons = vec![
        Daemon::start("f2fs_ckpt", move |stop| {
            let Some(pause) = a.upgrade().map(|f| f.options.idle_interval) else { return };
            while stop.pause(pause) != Signal::Stop {
                match a.upgrade() {
                    Some(fs) => fs.checkpoint_if_due(),
                    None => return,
                }
            }
        }),
        Daemon::start("f2fs_gc", move |stop| gc::gc_loop(&b, stop)),
    ];
    if fs.options.discard {
        daemons.push(Daemon::start("f2fs_discard", move |stop| discard::discard_loop(&c, stop)));
    }
    *fs.daemons.lock() = daemons;
    Ok(fs)
}
