//! Mounting: tables opened, splits finished; after an unmount the bitmap is read, after a power failure
//! everything is recovered.

use crate::children::Children;
use crate::fs::{Counts, Recovery, Spfs};
use crate::layout::alone::{self, Alone};
use crate::layout::inode::{Identity, Inode};
use crate::layout::{CLEAN, Superblock, journal, slot, word};
use crate::options::MountOptions;
use crate::recover;
use crate::store::Store;
use crate::{demote, entry, survey, table};
use granary_device::{Port, Structure};
use granary_fs::{FsError, Result};
use granary_pm::{Pm, corrupt};
use granary_sim::sync::{Mutex, RwLock};
use granary_vfs::{Lower, Vfs};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Changes that a mount may make. The vfs refuses calls that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    Write,
    /// Nothing, neither now nor at the unmount. One that would have to be recovered is refused.
    Read,
    /// Nothing below. Persistent memory keeps nothing of what is written to it, as on an image that is opened
    /// for reading: what has to be recovered is, there.
    Look,
}

/// Mounts SPFS on this persistent memory and on a lower file system that is mounted, which it unmounts with
/// itself.
///
/// # Errors
/// `Invalid` for impossible options; `Corrupt`; the devices'. The lower file system stays mounted then.
pub fn mount(port: Port, lower: Arc<Vfs>, options: &MountOptions) -> Result<Arc<Spfs>> {
    mount_as(port, lower, options, Access::Write)
}

/// The same, changing no more than `access` says.
///
/// # Errors
/// As [`mount`]; with [`Access::Read`] `Mismatch` where it was not unmounted, so that it would have to be
/// recovered.
pub fn mount_as(port: Port, lower: Arc<Vfs>, options: &MountOptions, access: Access) -> Result<Arc<Spfs>> {
    if options.refusal().is_some() {
        return Err(FsError::Invalid);
    }
    let clean = is_clean(&port)?;
    let pm = Pm::new(port).stopping();
    let sb = Superblock::read(&pm)?;
    let lower = Lower::new(lower);
    let mut recovery = Recovery { clean, ..Recovery::default() };
    if access == Access::Read && !clean {
        return Err(FsError::Mismatch(
            "the persistent memory was not unmounted and has to be recovered: mount it for writing once"
                .to_owned(),
        ));
    }
    if access != Access::Read {
        recovery.splits = u64::from(table::recover(&pm, sb.segment)?);
        recovery.renamed = u64::from(journal::recover(&pm)?);
    }
    let mut store = Store::open(pm, sb)?;
    store.no_deeper(options.directory_bits);
    crate::pair::check(&store, &lower)?;
    let mut dropped = Vec::new();
    if clean {
        store.clusters.read_bitmap(&store.pm, &store.sb)?;
        let maps = survey::usage(&store)?;
        let within = |cluster: &u32| (store.sb.first()..store.sb.end()).contains(&u64::from(*cluster));
        if let Some(cluster) = maps.keys().find(|cluster| !within(cluster)) {
            return Err(corrupt(format!("the usage table has cluster {cluster}, which is none of inodes")));
        }
        store.clusters.set_inodes(maps);
    } else {
        let changes_below = access == Access::Write;
        dropped = recover::recover(&store, &lower, changes_below, &mut recovery)?;
    }
    // From here on the bitmap does not count.
    let read_only = access != Access::Write;
    if !read_only {
        let mut b = store.pm.batch();
        b.put_u64(CLEAN, 0, Structure::Superblock)?;
        b.fence()?;
        for table in store.tables() {
            recovery.merged += table.merge_sparse(&store.pm, &store.clusters)?;
        }
    }
    let index = index(&store)?;
    let children = children(&store, &index)?;
    let last = index.keys().filter(|of| alone::is(of.ino)).map(|of| alone::nth(of.ino)).max();
    let name = entry::stacked_name(lower.vfs().fs().name());
    let fs = Arc::new(Spfs {
        paired: Mutex::new(!index.is_empty()),
        read_only,
        index: parking_lot::Mutex::new(index),
        lower,
        store,
        options: options.clone(),
        nodes: parking_lot::Mutex::default(),
        children: parking_lot::Mutex::new(children),
        leftovers: parking_lot::Mutex::default(),
        directories: RwLock::new(()),
        made_alone: AtomicU64::new(last.map_or(0, |last| last + 1)),
        loading: RwLock::new(()),
        dead: parking_lot::Mutex::default(),
        daemon: Mutex::new(None),
        at_work: Mutex::new(()),
        recovery,
        dropped,
        counts: Counts::default(),
        name,
    });
    if !read_only {
        fs.next_run(&fs.kernel())?;
    }
    if fs.options.demotion && !read_only {
        *fs.daemon.lock() = Some(demote::start(&fs));
    }
    Ok(fs)
}

/// Whether what is on persistent memory was unmounted.
///
/// # Errors
/// The device's.
pub fn is_clean(port: &Port) -> Result<bool> {
    Ok(word(&Pm::new(port.clone()), CLEAN, Structure::Superblock)? == 1)
}

/// The names of files in persistent memory alone.
fn children(store: &Store, index: &BTreeMap<Identity, (u64, u64)>) -> Result<Children> {
    let mut children = Children::default();
    for (of, (number, _)) in index.iter().filter(|(of, _)| alone::is(of.ino)) {
        let bad = |what: &str| corrupt(format!("the name in inode {number} {what}"));
        let alone = Alone::load(&store.pm, *number)?.map_err(|_| bad("is damaged"))?;
        if !alone.place.is_none_or(|place| children.enter(&place, of.ino)) {
            return Err(bad("is another one's, too"));
        }
    }
    Ok(children)
}

/// All inodes.
fn index(store: &Store) -> Result<BTreeMap<Identity, (u64, u64)>> {
    let mut names = Vec::new();
    store.names.for_each(&store.pm, &mut |_, b| {
        names.push(slot::read_name(b));
        Ok(())
    })?;
    let mut all = BTreeMap::new();
    for (of, number) in names {
        if let Some(inode) = Inode::load(&store.pm, number)?.filter(|i| i.identity == of) {
            all.insert(of, (number, inode.factor));
        }
    }
    Ok(all)
}
