//! [`Clusters`]: which clusters are free, in host memory, and which inode places of metadata clusters are.
//!
//! ```text
//!   data  ->                free clusters                <- segments, directories, clusters of inodes
//! ```
//!
//! A group for each 512 MB has a list of its own (released code). The last 2 % are for metadata, so that
//! splits and new inodes find room when data does not. After a power failure the free clusters are recomputed
//! from the reachable ones; an unmount writes the bitmap.

use crate::layout::inode;
use crate::layout::{BITMAP, Superblock};
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::{BLOCK, FreeLists, From, Pm};
use granary_units::{Payload, bits};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Clusters of a group: 512 MB.
const GROUP: u64 = (512 << 20) / BLOCK;
/// Most groups.
const GROUPS: u64 = 64;
/// One part in so many is kept for metadata: 2 %.
const RESERVE: u64 = 50;
/// Inode places of a cluster that are all taken.
const ALL_PLACES: u16 = u16::MAX;

/// See the module.
pub struct Clusters {
    lists: FreeLists,
    groups: usize,
    total: u64,
    /// Clusters of inodes: which of their sixteen blocks are taken. All of them, also full ones.
    inodes: Mutex<BTreeMap<u32, u16>>,
}

/// The two bits of an inode's blocks in its cluster's map.
fn bits(number: u64) -> u16 {
    0b11 << (number % 16)
}

impl Clusters {
    /// Of a file system, with nothing free yet.
    pub fn new(sb: &Superblock) -> Clusters {
        let total = sb.end() - sb.first();
        let groups = (total / GROUP).clamp(1, GROUPS) as usize;
        let lists = FreeLists::new(sb.first(), sb.end(), groups, (total / RESERVE).max(1));
        Clusters { lists, groups, total, inodes: Mutex::default() }
    }

    /// Clusters for data in one run, at most `want`.
    pub fn data(&self, want: u64) -> Option<(u64, u64)> {
        self.lists.take(granary_sim::cpu_id(self.groups), want, From::Below, false)
    }

    /// A run of exactly `n` for data.
    pub fn data_run(&self, n: u64) -> Option<u64> {
        let cpu = granary_sim::cpu_id(self.groups);
        self.lists.take_at_least(cpu, n, n, From::Below, false).map(|(at, _)| at)
    }

    /// A run of exactly `n` for metadata.
    pub fn metadata(&self, n: u64) -> Option<u64> {
        let cpu = granary_sim::cpu_id(self.groups);
        self.lists.take_at_least(cpu, n, n, From::Above, true).map(|(at, _)| at)
    }

    /// Gives clusters back.
    ///
    /// # Errors
    /// `Corrupt` where they are free already.
    pub fn give(&self, first: u64, count: u64) -> Result<()> {
        self.lists.give(first, count)
    }

    /// A free inode place.
    pub fn inode(&self) -> Option<u64> {
        let mut inodes = self.inodes.lock();
        let partly = inodes.iter().find(|(_, map)| **map != ALL_PLACES).map(|(c, _)| *c);
        let cluster = match partly {
            Some(cluster) => cluster,
            None => self.metadata(1)? as u32,
        };
        let map = inodes.entry(cluster).or_insert(0);
        let place = (0..inode::IN_CLUSTER).find(|i| *map >> (2 * i) & 1 == 0)?;
        *map |= bits(2 * place);
        Some(u64::from(cluster) * 16 + 2 * place)
    }

    /// The map of a cluster of inodes; 0 where it is none.
    pub fn map_of(&self, cluster: u32) -> u16 {
        self.inodes.lock().get(&cluster).copied().unwrap_or(0)
    }

    /// Gives an inode place back, and its cluster where that was the last.
    ///
    /// # Errors
    /// As [`Clusters::give`].
    pub fn give_inode(&self, number: u64) -> Result<()> {
        let cluster = (number / 16) as u32;
        let map = {
            let mut inodes = self.inodes.lock();
            let map = inodes.get(&cluster).copied().unwrap_or(0) & !bits(number);
            if map == 0 {
                inodes.remove(&cluster)
            } else {
                inodes.insert(cluster, map)
            };
            map
        };
        if map == 0 { self.give(cluster.into(), 1) } else { Ok(()) }
    }

    /// Takes over the clusters of inodes, at the mount.
    pub fn set_inodes(&self, maps: BTreeMap<u32, u16>) {
        *self.inodes.lock() = maps;
    }

    /// The clusters of inodes.
    pub fn inodes(&self) -> BTreeMap<u32, u16> {
        self.inodes.lock().clone()
    }

    /// Free clusters for data.
    pub fn available(&self) -> u64 {
        self.lists.available()
    }

    /// Clusters that can be used for anything.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Used share, percent; the reserve counts as used.
    pub fn used_percent(&self) -> u32 {
        (100 - self.available() * 100 / self.total.max(1)) as u32
    }

    /// All free runs, ascending.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        self.lists.runs()
    }

    /// Writes the bitmap: a bit for each cluster, set where it is used.
    ///
    /// # Errors
    /// The device's.
    pub fn write_bitmap(&self, pm: &Pm, sb: &Superblock) -> Result<()> {
        let mut map = vec![u64::MAX; (sb.bitmap() * BLOCK / 8) as usize];
        for (first, n) in self.runs() {
            bits::words(first, n).for_each(|(word, mask)| map[word] &= !mask);
        }
        let bytes: Vec<u8> = map.into_iter().flat_map(u64::to_le_bytes).collect();
        let mut b = pm.batch();
        b.stream(BITMAP * BLOCK, Payload::Bytes(&bytes), Structure::Bitmap)?;
        b.fence()
    }

    /// Takes over the bitmap of an unmount.
    ///
    /// # Errors
    /// The device's.
    pub fn read_bitmap(&self, pm: &Pm, sb: &Superblock) -> Result<()> {
        let (mut map, mut block) =
            (Vec::with_capacity((sb.bitmap() * BLOCK / 8) as usize), [0; BLOCK as usize]);
        for i in 0..sb.bitmap() {
            pm.load((BITMAP + i) * BLOCK, &mut block, Structure::Bitmap)?;
            map.extend(block.as_chunks().0.iter().copied().map(u64::from_le_bytes));
        }
        bits::clear_runs(&map, sb.first()..sb.end()).try_for_each(|(first, n)| self.give(first, n))
    }
}
