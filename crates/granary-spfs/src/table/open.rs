//! An empty table, and one that is there: directory, headers and overflow pages are read and put beside each
//! other.

use super::{Dir, Header, Kind, MAGIC, MAX_DEPTH, Table, directory_clusters, header_at};
use crate::layout::word;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::bytes::u32_at;
use granary_pm::{BLOCK, Pm, corrupt};
use granary_sim::sync::RwLock;
use parking_lot::Mutex;
use std::collections::BTreeMap;

impl Table {
    /// Writes an empty table whose segment and directory are these clusters; the root comes last.
    ///
    /// # Errors
    /// The device's.
    pub fn create(pm: &Pm, kind: Kind, segment: (u64, u64), directory: u64) -> Result<()> {
        let mut b = pm.batch();
        for cluster in segment.0..segment.0 + segment.1 {
            b.stream_page(cluster, &granary_units::Page::ZERO, kind.what())?;
        }
        b.fence()?;
        let header = Header { depth: 0, pattern: 0 };
        b.put(header_at(segment.0, segment.1), &header.bytes(), kind.what())?;
        b.put_u32(directory * BLOCK, segment.0 as u32, kind.what())?;
        b.fence()?;
        b.put_u64(kind.root(), directory, Structure::Superblock)?;
        b.fence()
    }

    /// Reads directory and headers.
    ///
    /// # Errors
    /// `Corrupt`; the device's.
    pub fn open(pm: &Pm, kind: Kind, segment: u64, chunk: u32) -> Result<Table> {
        let root = word(pm, kind.root(), Structure::Superblock)?;
        let (depth, cluster) = ((root >> 56) as u32, root & 0xffff_ffff);
        let bad = |what: &str| corrupt(format!("the directory of table {kind:?} {what}"));
        if depth > MAX_DEPTH || cluster == 0 || cluster + directory_clusters(depth) > pm.info().pages {
            return Err(bad("is not there"));
        }
        let mut bytes = vec![0; 4 << depth];
        pm.load(cluster * BLOCK, &mut bytes, kind.what())?;
        let segments: Vec<u32> = bytes.chunks_exact(4).map(|c| u32_at(c, 0)).collect();
        let mut headers = BTreeMap::new();
        for (i, &s) in segments.iter().enumerate() {
            if s == 0 || u64::from(s) + segment > pm.info().pages {
                return Err(bad("leads out of the device"));
            }
            if headers.contains_key(&s) {
                continue;
            }
            let mut b = [0; 16];
            pm.load(header_at(s.into(), segment), &mut b, kind.what())?;
            let header = Header { depth: u32_at(&b, 12), pattern: u32_at(&b, 8) };
            if u32_at(&b, 0) != MAGIC
                || header.depth > depth
                || i as u32 >> (depth - header.depth) != header.pattern
            {
                return Err(bad(&format!("leads to cluster {s}, which is no segment of it")));
            }
            headers.insert(s, header);
        }
        // Each segment has all the entries that its pattern says.
        let whole = |(i, s): (usize, &u32)| headers[s].pattern == i as u32 >> (depth - headers[s].depth);
        if !segments.iter().enumerate().all(whole) {
            return Err(bad("does not agree with its segments"));
        }
        let overflow = super::overflow::all(pm, kind, segment, &headers)?;
        let dir = RwLock::new(Dir { depth, cluster, segments, headers, overflow, epoch: 0 });
        Ok(Table { kind, segment, chunk, deepest: MAX_DEPTH, dir, claimed: Mutex::default() })
    }

    /// Its directory gets no deeper than this, but for what it has.
    pub fn no_deeper(&mut self, bits: u32) {
        self.deepest = bits.min(MAX_DEPTH);
    }
}
