//! [`Store`]: all of SPFS that is on persistent memory; it knows no lower file system.
//!
//! ```text
//!   create   inode, fence ── name                          the name commits
//!   free     name away, fence ── extents away, fence ── clusters and inode free
//! ```
//!
//! Invariant: an inode counts while a name leads to it that has its identity.

use crate::alloc::Clusters;
use crate::layout::inode::{self, Identity, Inode};
use crate::layout::{Superblock, slot};
use crate::table::{Kind, Table};
use crate::tier::Tier;
use granary_device::Structure;
use granary_pm::{Batch, Pm};
use granary_vfs::{FsError, Result};

/// See the module.
pub struct Store {
    pub(crate) pm: Pm,
    pub(crate) sb: Superblock,
    pub(crate) clusters: Clusters,
    pub(crate) names: Table,
    pub(crate) usage: Table,
    pub(crate) extents: Table,
    pub(crate) chunk: u32,
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
        Ok(Store { clusters: Clusters::new(&sb), names, usage, extents, chunk, pm, sb })
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
        let (number, map) = self.clusters.inode().ok_or(FsError::NoSpace)?;
        match self.create_at(number, map, made) {
            Ok(()) => Ok(Tier::new(number, made, true)),
            Err(e) => {
                let map = self.clusters.give_inode(number)?;
                self.tell_usage(number, map)?;
                Err(e)
            }
        }
    }

    fn create_at(&self, number: u64, map: u16, made: &Inode) -> Result<()> {
        let mut b = self.pm.batch();
        b.put(inode::at(number, 0), &made.bytes(), Structure::Inode)?;
        self.put_usage(&mut b, number, map)?;
        b.fence()?;
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
        let map = self.clusters.give_inode(tier.number)?;
        self.tell_usage(tier.number, map)
    }

    fn tell_usage(&self, number: u64, map: u16) -> Result<()> {
        let mut b = self.pm.batch();
        self.put_usage(&mut b, number, map)?;
        b.fence()
    }

    /// Puts the map of an inode's cluster in the batch.
    pub(crate) fn put_usage(&self, b: &mut Batch<'_>, number: u64, map: u16) -> Result<()> {
        let cluster = (number / 16) as u32;
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
