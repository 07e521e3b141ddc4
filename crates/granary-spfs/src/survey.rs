//! [`Survey`]: everything on persistent memory, read and put beside each other; changes nothing. Recovery and
//! check work on it.

use crate::layout::inode::{Identity, Inode};
use crate::layout::slot::{self, Extent};
use crate::store::Store;
use granary_fs::Result;
use granary_pm::BLOCK;
use std::collections::BTreeMap;

/// An inode with its name, and its extents as the chain has them.
pub struct File {
    /// Where its name's slot is.
    pub name: u64,
    /// The inode.
    pub inode: Inode,
    /// Extents by first cluster. Where one is longer than the next lets it be, it ends there: a split was cut
    /// short.
    pub chain: BTreeMap<u32, Extent>,
    /// The extents of the chain that are longer on persistent memory.
    pub overlong: Vec<u32>,
    /// Where the chain leads to no extent.
    pub broken: Option<u32>,
}

/// See the module.
pub struct Survey {
    /// By inode number.
    pub files: BTreeMap<u64, File>,
    /// Names that lead to no inode that agrees: address, identity.
    pub names: Vec<(u64, Identity)>,
    /// All whole slots of extents: address, content.
    pub slots: Vec<(u64, Extent)>,
}

impl Survey {
    /// Reads everything.
    ///
    /// # Errors
    /// The device's.
    pub fn read(store: &Store) -> Result<Survey> {
        let (mut entered, mut slots) = (Vec::new(), Vec::new());
        store.names.for_each(&store.pm, &mut |at, b| {
            entered.push((at, slot::read_name(b)));
            Ok(())
        })?;
        store.extents.for_each(&store.pm, &mut |at, b| {
            slots.extend(Extent::read(b).map(|e| (at, e)));
            Ok(())
        })?;
        let mut starts: BTreeMap<(u64, u32), Extent> = BTreeMap::new();
        for (_, e) in slots.iter().filter(|(_, e)| e.key == e.lcn % store.chunk) {
            starts.insert((e.inode, e.lcn), *e);
        }
        let (mut files, mut names) = (BTreeMap::new(), Vec::new());
        for (at, (of, number)) in entered {
            match Inode::load(&store.pm, number)?.filter(|i| i.identity == of && number % 2 == 0) {
                Some(inode) if !files.contains_key(&number) => {
                    let mut file =
                        File { name: at, inode, chain: BTreeMap::new(), overlong: Vec::new(), broken: None };
                    file.broken = file.follow(store, &starts, number);
                    files.insert(number, file);
                }
                _ => names.push((at, of)),
            }
        }
        Ok(Survey { files, names, slots })
    }
}

impl File {
    /// Follows the chain; says where it leads to no extent.
    fn follow(&mut self, store: &Store, starts: &BTreeMap<(u64, u32), Extent>, number: u64) -> Option<u32> {
        let (mut at, mut next) = (self.inode.last, None::<Extent>);
        while let Some(lcn) = at {
            let Some(mut e) = starts.get(&(number, lcn)).copied() else { return at };
            let data = e.pcn == 0
                || u64::from(e.pcn) >= store.sb.first()
                    && u64::from(e.pcn) + u64::from(e.len) <= store.sb.end();
            if e.len > store.chunk - lcn % store.chunk || !data || e.prev.is_some_and(|prev| prev >= lcn) {
                return at;
            }
            if let Some(next) = next.filter(|next| e.len > next.lcn - lcn) {
                // Split off are the same clusters, or zeros as well.
                let same = if e.pcn == 0 { next.pcn == 0 } else { next.pcn == e.pcn + (next.lcn - lcn) };
                if !same {
                    return at;
                }
                e.len = next.lcn - lcn;
                self.overlong.push(lcn);
            }
            self.chain.insert(lcn, e);
            (next, at) = (Some(e), e.prev);
        }
        None
    }
}

/// Clusters that a file of this size has.
pub fn clusters_of(size: u64) -> u32 {
    size.div_ceil(BLOCK).min(u64::from(u32::MAX)) as u32
}

/// The maps of all clusters of inodes.
pub fn usage(store: &Store) -> Result<BTreeMap<u32, u16>> {
    let mut maps = BTreeMap::new();
    store.usage.for_each(&store.pm, &mut |_, b| {
        let (cluster, map) = slot::read_usage(b);
        maps.insert(cluster, map);
        Ok(())
    })?;
    Ok(maps)
}
