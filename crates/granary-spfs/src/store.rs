//! [`Store`]: all of SPFS that is on persistent memory; it knows no lower file system.
//!
//! ```text
//!   create   inode, fence ── name                          the name commits
//!   free     name away, fence ── extents away, fence ── clusters and inode free
//! ```
//!
//! Invariant: an inode counts while a name leads to it that has its identity.

use crate::alloc::Clusters;
use crate::layout::alone::{Alone, NamePlace};
use crate::layout::inode::{self, Identity, Inode};
use crate::layout::{self, Superblock, slot};
use crate::table::{Kind, Table};
use crate::tier::Tier;
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_pm::{Batch, Pm};
use granary_sim::sync::Mutex;

/// See the module.
pub struct Store {
    pub(crate) pm: Pm,
    pub(crate) sb: Superblock,
    pub(crate) clusters: Clusters,
    pub(crate) names: Table,
    pub(crate) usage: Table,
    pub(crate) extents: Table,
    pub(crate) chunk: u32,
    /// Held while the usage table is changed.
    telling: Mutex<()>,
    /// Held while the rename journal is used.
    renaming: Mutex<()>,
}

impl Store {
    /// Opens what lies on the device; nothing is free yet. Splits must have been finished.
    ///
    /// # Errors
    /// `Corrupt`; the device's.
    pub fn open(pm: Pm, sb: Superblock) -> Result<Store> {
        let chunk = sb.chunk();
        let table = |kind| Table::open(&pm, kind, sb.segment, chunk);
        let (names, usage, extents) = (table(Kind::Names)?, table(Kind::Usage)?, table(Kind::Extents)?);
        Ok(Store {
            telling: Mutex::new(()),
            renaming: Mutex::new(()),
            clusters: Clusters::new(&sb),
            names,
            usage,
            extents,
            chunk,
            pm,
            sb,
        })
    }

    /// Directories of tables get no deeper than this.
    pub fn no_deeper(&mut self, bits: u32) {
        [&mut self.names, &mut self.usage, &mut self.extents].into_iter().for_each(|t| t.no_deeper(bits));
    }

    /// The tables.
    pub fn tables(&self) -> [&Table; 3] {
        [&self.names, &self.usage, &self.extents]
    }

    /// Gives a lower file an inode; `made` has everything but extents. When it returns the file is tiered.
    ///
    /// # Errors
    /// `NoSpace`, with nothing changed; the device's.
    pub fn create(&self, made: &Inode) -> Result<Tier> {
        let number = self.clusters.inode().ok_or(FsError::NoSpace)?;
        match self.create_at(number, made, None) {
            Ok(()) => Ok(Tier::new(number, made, true)),
            Err(e) => {
                self.give_inode(number)?;
                Err(e)
            }
        }
    }

    /// Makes an inode of a file that is here alone; `made` has everything but extents. When it returns the
    /// file is there.
    ///
    /// # Errors
    /// `NoSpace`, with nothing changed; the device's.
    pub fn create_alone(&self, made: &Inode, alone: Alone) -> Result<Tier> {
        let number = self.clusters.inode().ok_or(FsError::NoSpace)?;
        match self.create_at(number, made, Some(&alone)) {
            Ok(()) => {
                let mut tier = Tier::new(number, made, true);
                tier.alone = Some((made.identity, alone));
                Ok(tier)
            }
            Err(e) => {
                self.give_inode(number)?;
                Err(e)
            }
        }
    }

    /// Gives a file that is here alone another name: it has the old one or the new one after a power failure.
    ///
    /// # Errors
    /// The device's.
    pub fn rename(&self, number: u64, to: &NamePlace) -> Result<()> {
        let _one = self.renaming.lock();
        layout::journal::rename(&self.pm, number, to)
    }

    fn create_at(&self, number: u64, made: &Inode, alone: Option<&Alone>) -> Result<()> {
        let mut b = self.pm.batch();
        b.put(inode::at(number, 0), &made.bytes(), Structure::Inode)?;
        alone.iter().try_for_each(|alone| alone.put(&mut b, number))?;
        b.fence()?;
        self.tell_usage(number)?;
        self.names.insert(&self.pm, &self.clusters, &mut b, &slot::name(made.identity, number))?;
        b.fence()
    }

    /// The inode of a lower file, if it has one.
    ///
    /// # Errors
    /// The device's.
    pub fn find(&self, of: Identity) -> Result<Option<(u64, Inode)>> {
        let is = |b: &[u8]| slot::read_name(b).0 == of;
        let Some((_, bytes)) = self.names.find(&self.pm, slot::name_place(of), &is)? else { return Ok(None) };
        let number = slot::read_name(&bytes).1;
        let inode = Inode::load(&self.pm, number)?.filter(|i| i.identity == of);
        Ok(inode.map(|inode| (number, inode)))
    }

    /// A file leaves persistent memory: when the first fence has returned it is the lower one's alone.
    ///
    /// # Errors
    /// The device's.
    pub fn free(&self, tier: &mut Tier, of: Identity) -> Result<()> {
        self.load_chain(tier)?;
        let mut b = self.pm.batch();
        let is = |b: &[u8]| slot::read_name(b).0 == of;
        let place = slot::name_place(of);
        if let Some((found, _)) = self.names.find(&self.pm, place, &is)? {
            self.names.remove(&self.pm, &mut b, (found, place), &is)?;
        }
        b.fence()?;
        self.cut(tier, 0)?;
        self.give_spare(tier)?;
        self.give_inode(tier.number)
    }

    fn give_inode(&self, number: u64) -> Result<()> {
        self.clusters.give_inode(number)?;
        self.tell_usage(number)
    }

    /// The usage table says what the map of an inode's cluster is now.
    fn tell_usage(&self, number: u64) -> Result<()> {
        let cluster = (number / 16) as u32;
        // Writers take turns, so that the last one puts the last map.
        let _one = self.telling.lock();
        let mut b = self.pm.batch();
        self.put_usage(&mut b, cluster, self.clusters.map_of(cluster))?;
        b.fence()
    }

    /// Puts the map of a cluster of inodes in the batch; 0: it is none any more.
    pub(crate) fn put_usage(&self, b: &mut Batch<'_>, cluster: u32, map: u16) -> Result<()> {
        let place = slot::cluster_place(cluster);
        let is = |b: &[u8]| slot::read_usage(b).0 == cluster;
        let new = slot::usage(cluster, map);
        match self.usage.find(&self.pm, place, &is)? {
            Some((found, _)) if map == 0 => self.usage.remove(&self.pm, b, (found, place), &is),
            Some((found, _)) => {
                let head = granary_pm::bytes::u64_at(&new, 0);
                self.usage.put_word(&self.pm, b, (found, place), (0, head), &is).map(drop)
            }
            None if map == 0 => Ok(()),
            None => self.usage.insert(&self.pm, &self.clusters, b, &new).map(drop),
        }
    }

    /// Puts fields of an inode, in one fence.
    ///
    /// # Errors
    /// The device's.
    pub fn put_fields(&self, number: u64, fields: &[(u64, u64)]) -> Result<()> {
        let mut b = self.pm.batch();
        for (field, value) in fields {
            b.put_u64(inode::at(number, *field), *value, Structure::Inode)?;
        }
        b.fence()
    }
}
