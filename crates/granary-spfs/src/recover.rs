//! Recovery: the work of a mount after a power failure.
//!
//! ```text
//!   1. splits and merges are finished (before the tables are opened), and so is a rename
//!   2. undo records are played back
//!   3. files that the lower file system has no more are dropped, and those that are here alone without a
//!      name; so are names that lead nowhere. A lower file of the name of one that is here alone is what a
//!      move had begun: it is removed
//!   4. limit := min(limit, size); extents behind the size are cut; the lower file is cut to the limit
//!   5. extents whose split was cut short are shortened; slots that no chain reaches are zeroed; pointers
//!      are made to agree with their extents
//!   6. what is free is what nobody reaches; the usage table is made to say so
//! ```
//!
//! Every step may be done again, should the power fail within it. Cost: all segments of the tables, and the
//! changes.

use crate::exthash;
use crate::fs::{Missing, Recovery};
use crate::layout::alone::{self, Alone, NamePlace};
use crate::layout::inode::{self, Identity, Undo};
use crate::layout::slot::Extent;
use crate::store::Store;
use crate::survey::{File, Survey, clusters_of};
use crate::tier::Tier;
use granary_device::Structure;
use granary_fs::{Call, FileKind, FsError, Ino, Result};
use granary_pm::{BLOCK, Used, corrupt};
use granary_units::Payload;
use granary_vfs::{Lower, NodeRef};
use std::collections::{BTreeMap, BTreeSet};

/// Recovers; gives the files that are not below any more. Without `changes_below` the lower file system stays
/// as it is: what would be removed or cut there is not read, as long as nobody changes anything.
///
/// # Errors
/// `Corrupt`; the devices'.
pub fn recover(
    store: &Store,
    lower: &Lower,
    changes_below: bool,
    said: &mut Recovery,
) -> Result<Vec<Missing>> {
    let _step = granary_sim::step("spfs: a mount puts persistent memory in order");
    let (mut survey, call) = (Survey::read(store)?, &Call::kernel(lower.vfs().time()));
    for (number, file) in &survey.files {
        if let Some(undo) = file.inode.undo {
            play_back(store, *number, file, undo)?;
            said.undone += 1;
        }
    }
    let mut b = store.pm.batch();
    let mut gone = Vec::new();
    // First those that are here alone: below, they take the names away that others may have been back under.
    let is_alone = |file: &File| alone::is(file.inode.identity.ino);
    for (number, _) in survey.files.iter().filter(|(_, file)| is_alone(file)) {
        if !has_name(store, lower, *number, changes_below, said)? {
            gone.push(*number);
        }
    }
    for (number, file) in survey.files.iter().filter(|(_, file)| !is_alone(file)) {
        if !is_below(lower, file.inode.identity)? {
            gone.push(*number);
        }
    }
    if changes_below && said.unmoved > 0 {
        // The files here may give their names up from now on: nothing below may be back under them then.
        lower.sync(call)?;
    }
    let lost =
        survey.names.iter().map(|(at, _)| *at).chain(gone.iter().map(|number| survey.files[number].name));
    lost.collect::<Vec<_>>().into_iter().try_for_each(|at| store.names.scrub(&mut b, at))?;
    b.fence()?;
    let removed = gone.iter().filter_map(|number| survey.files.remove(number));
    let dropped = removed.map(|file| Missing::of(&file.inode)).filter(|m| !alone::is(m.ino)).collect();
    said.dropped = gone.len() as u64;
    said.files = survey.files.len() as u64;
    for (number, file) in &mut survey.files {
        if let Some(lcn) = file.broken {
            return Err(corrupt(format!("the chain of extents of inode {number} breaks at cluster {lcn}")));
        }
        trim(store, lower, *number, changes_below, file)?;
    }
    shorten(store, &mut survey)?;
    said.scrubbed = scrub(store, &survey)?;
    let inodes = free_the_rest(store, &survey)?;
    settle_usage(store, &inodes)?;
    store.clusters.set_inodes(inodes);
    let there: BTreeSet<(u64, u32, u32)> = survey
        .slots
        .iter()
        .filter(|(_, s)| is_kept(store, &survey, s))
        .map(|(_, s)| (s.inode, s.lcn, s.key))
        .collect();
    for (number, file) in &survey.files {
        complete_pointers(store, &there, file)?;
        tail(store, *number, file)?;
    }
    Ok(dropped)
}

/// Copies the old bytes back.
fn play_back(store: &Store, number: u64, file: &File, undo: Undo) -> Result<()> {
    let (from, len) = (u64::from(undo.from), u64::from(undo.len));
    let end = |cluster: u32| u64::from(cluster) * BLOCK + from + len;
    let within =
        |cluster: u32| u64::from(cluster) >= store.sb.first() && end(cluster) <= store.sb.end() * BLOCK;
    let own = file
        .chain
        .values()
        .any(|e| e.pcn <= undo.target && end(undo.target) <= (u64::from(e.pcn) + u64::from(e.len)) * BLOCK);
    if !within(undo.copy) || !within(undo.target) || !own {
        return Err(corrupt(format!("the undo record of inode {number} is of no extent of it")));
    }
    let mut old = vec![0; len as usize];
    store.pm.load(u64::from(undo.copy) * BLOCK + from, &mut old, Structure::Journal)?;
    let _step = granary_sim::step("spfs: an overwrite is taken back");
    let mut b = store.pm.batch();
    b.stream(u64::from(undo.target) * BLOCK + from, Payload::Bytes(&old), Structure::Data)?;
    b.fence()?;
    b.put_u64(inode::at(number, inode::UNDO_LEN), 0, Structure::Journal)?;
    b.fence()
}

/// Whether a file that is here alone has a name; sees to it that nothing else has it.
fn has_name(
    store: &Store,
    lower: &Lower,
    number: u64,
    changes_below: bool,
    said: &mut Recovery,
) -> Result<bool> {
    let place = match Alone::load(&store.pm, number)? {
        Ok(Alone { place: None, .. }) => return Ok(false),
        Ok(Alone { place, .. }) => place,
        Err(_) => None,
    };
    let call = &Call::kernel(lower.vfs().time());
    if let Some(place) = &place
        && let Some(dir) = directory(lower, place.dir)?
    {
        match lower.lookup(call, &dir, &place.name)? {
            None => return Ok(true),
            Some(node) if !node.is_dir() => {
                drop(node);
                if changes_below {
                    // The directory may have times in the future, which somebody has set.
                    let was = lower.stat(&dir).attr;
                    let time = call.time.max(was.mtime).max(was.ctime);
                    lower.unlink(&Call::kernel(time), &dir, &place.name)?;
                    lower.reap();
                }
                said.unmoved += 1;
                return Ok(true);
            }
            Some(_) => {}
        }
    }
    let place = place_in_root(lower, number)?;
    store.rename(number, &place)?;
    said.found += 1;
    Ok(true)
}

/// Where a file is found whose name or directory is lost: its bytes were acknowledged.
///
/// # Errors
/// The lower file system's.
pub fn place_in_root(lower: &Lower, number: u64) -> Result<NamePlace> {
    let (root, call) = (lower.root(), &Call::kernel(lower.vfs().time()));
    let dir = Identity { ino: root.ino().0, generation: lower.generation(&root) };
    let mut n = 0;
    loop {
        let name = format!("spfs-{number:x}-{n}").into_bytes();
        if lower.lookup(call, &root, &name)?.is_none() {
            return Ok(NamePlace { dir, name });
        }
        n += 1;
    }
}

/// The lower directory of this identity.
///
/// # Errors
/// The lower file system's.
pub fn directory(lower: &Lower, of: Identity) -> Result<Option<NodeRef>> {
    match lower.node(Ino(of.ino)) {
        Ok(node) => Ok(Some(node).filter(|n| n.is_dir() && lower.generation(n) == of.generation)),
        Err(FsError::Stale | FsError::NoEntry | FsError::Corrupt(_)) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether the lower file system has the file.
pub(crate) fn is_below(lower: &Lower, of: Identity) -> Result<bool> {
    let there = match lower.node(Ino(of.ino)) {
        Ok(node) => node.kind() == FileKind::File && lower.generation(&node) == of.generation,
        // A number that leads to no inode is of a file that is gone.
        Err(FsError::Stale | FsError::NoEntry | FsError::Corrupt(_)) => false,
        Err(e) => return Err(e),
    };
    lower.reap();
    Ok(there)
}

/// Cuts a file at its size, on persistent memory and below.
fn trim(store: &Store, lower: &Lower, number: u64, changes_below: bool, file: &mut File) -> Result<()> {
    let end = clusters_of(file.inode.size);
    if file.inode.limit > file.inode.size {
        file.inode.limit = file.inode.size;
        store.put_fields(number, &[(inode::LIMIT, file.inode.limit)])?;
    }
    let behind = file.chain.split_off(&end);
    if !behind.is_empty() {
        file.inode.last = file.chain.keys().next_back().copied();
        store.put_fields(number, &[(inode::LAST, inode::last_word(file.inode.last))])?;
    }
    if alone::is(file.inode.identity.ino) || !changes_below {
        return Ok(());
    }
    let node = lower.node(Ino(file.inode.identity.ino))?;
    // Nobody has changed it now: its time of change stays.
    let call = &Call::kernel(file.inode.ctime.max(lower.stat(&node).attr.ctime));
    if lower.stat(&node).attr.size > file.inode.limit {
        lower.truncate(call, &node, file.inode.limit)?;
    }
    drop(node);
    lower.reap();
    Ok(())
}

/// Extents that the next one of their file ends say so themselves.
fn shorten(store: &Store, survey: &mut Survey) -> Result<()> {
    let mut b = store.pm.batch();
    for (at, slot) in &mut survey.slots {
        let Some(file) = survey.files.get(&slot.inode).filter(|file| file.overlong.contains(&slot.lcn))
        else {
            continue;
        };
        if let Some(e) = file.chain.get(&slot.lcn).filter(|e| e.key == slot.key && slot.prev == e.prev) {
            slot.len = e.len;
            b.put_u64(*at, slot.head(), Structure::DataPointer)?;
        }
    }
    b.fence()
}

/// Zeroes every slot that is neither an extent of a chain nor a pointer that agrees with one; says how many.
fn scrub(store: &Store, survey: &Survey) -> Result<u64> {
    let (mut b, mut n) = (store.pm.batch(), 0);
    let mut seen = BTreeSet::new();
    for (at, slot) in &survey.slots {
        if !is_kept(store, survey, slot) || !seen.insert((slot.inode, slot.lcn / store.chunk, slot.key)) {
            store.extents.scrub(&mut b, *at)?;
            n += 1;
        }
    }
    b.fence()?;
    Ok(n)
}

/// Whether a slot is one of those of an extent that a chain reaches.
fn is_kept(store: &Store, survey: &Survey, slot: &Extent) -> bool {
    let own = survey.files.get(&slot.inode).and_then(|f| f.chain.get(&slot.lcn));
    own.is_some_and(|e| agrees(store, e, slot))
}

/// Whether a slot is one of those of an extent.
pub fn agrees(store: &Store, e: &Extent, slot: &Extent) -> bool {
    let start = e.lcn % store.chunk;
    let is_start = slot.key == start;
    (slot.pcn, slot.len) == (e.pcn, e.len)
        && if is_start {
            slot.prev == e.prev
        } else {
            exthash::pointers(start, e.len).any(|key| key == slot.key)
        }
}

/// Frees the clusters that nobody reaches. Returns the maps of the clusters of inodes.
fn free_the_rest(store: &Store, survey: &Survey) -> Result<BTreeMap<u32, u16>> {
    let (used, inodes) = reached(store, survey)?;
    for (first, n) in used.free_runs() {
        let (from, to) = (first.max(store.sb.first()), (first + n).min(store.sb.end()));
        if from < to {
            store.clusters.give(from, to - from)?;
        }
    }
    Ok(inodes)
}

/// The clusters that are reached, and the maps of those with inodes.
///
/// # Errors
/// `Corrupt` where one is reached twice.
pub fn reached(store: &Store, survey: &Survey) -> Result<(Used, BTreeMap<u32, u16>)> {
    let mut used = Used::new(store.sb.clusters);
    used.mark(0, store.sb.first(), "the superblock and the bitmap")?;
    used.mark(store.sb.end(), 1, "the superblock's copy")?;
    for table in store.tables() {
        table.occupies().into_iter().try_for_each(|(at, n)| used.mark(at, n, "a table"))?;
    }
    let mut inodes: BTreeMap<u32, u16> = BTreeMap::new();
    for (number, file) in &survey.files {
        *inodes.entry((number / 16) as u32).or_insert(0) |= 0b11 << (number % 16);
        for e in file.chain.values().filter(|e| e.pcn != 0) {
            used.mark(e.pcn.into(), e.len.into(), &format!("inode {number}"))?;
        }
    }
    inodes.keys().try_for_each(|cluster| used.mark((*cluster).into(), 1, "inodes"))?;
    Ok((used, inodes))
}

/// The usage table says what the inodes say.
fn settle_usage(store: &Store, inodes: &BTreeMap<u32, u16>) -> Result<()> {
    let known = crate::survey::usage(store)?;
    let mut b = store.pm.batch();
    let wrong = inodes.iter().filter(|(c, map)| known.get(c) != Some(map)).map(|(c, map)| (*c, *map));
    let gone = known.keys().filter(|c| !inodes.contains_key(c)).map(|c| (*c, 0));
    for (cluster, map) in wrong.chain(gone) {
        store.put_usage(&mut b, cluster, map)?;
        b.fence()?;
    }
    Ok(())
}

/// The last extent ends with the file, and zeros follow the last byte.
fn tail(store: &Store, number: u64, file: &File) -> Result<()> {
    let mut t = Tier::new(number, &file.inode, false);
    store.cut(&mut t, clusters_of(file.inode.size))?;
    store.zero_tail(&t)
}

/// Enters the pointers of extents that are missing.
fn complete_pointers(store: &Store, there: &BTreeSet<(u64, u32, u32)>, file: &File) -> Result<()> {
    let mut b = store.pm.batch();
    for e in file.chain.values() {
        for key in exthash::pointers(e.lcn % store.chunk, e.len).skip(1) {
            if !there.contains(&(e.inode, e.lcn, key)) {
                store.extents.insert(&store.pm, &store.clusters, &mut b, &Extent { key, ..*e }.bytes())?;
            }
        }
    }
    b.fence()
}
