//! The three ways to map a file's clusters that the slides compare ("Extent Hashing: Evaluation"), on the
//! same persistent memory.
//!
//! ```text
//!   ExtentHash   the extent table of SPFS: a slot for each carved extent, or at each pointer; a search
//!                probes log2 of the extent
//!   BlockHash    the same table, a slot for each cluster: stride 1, one probe (as HashFS)
//!   ExtentTree   a B+tree for each file, FAST&FAIR's nodes of 512 B, an entry for each extent
//! ```
//!
//! Not used by the file system: this is for measurements, on code that the file system runs. An insert is
//! durable when it returns.

mod tree;

use crate::alloc::Clusters;
use crate::exthash::{self, Form};
use crate::layout::Superblock;
use crate::layout::slot::{self, Extent};
use crate::options::MkfsOptions;
use crate::store::Store;
use crate::table;
use granary_device::Port;
use granary_fs::Result;
use granary_pm::{BLOCK, Pm, Used};
use std::collections::BTreeMap;
use tree::Tree;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The extent table.
    ExtentHash(Form),
    /// The extent table, each cluster by itself.
    BlockHash,
    /// A B+tree for each file.
    ExtentTree,
}

/// A mapping of clusters of many files.
pub struct Mapping {
    store: Store,
    structure: Structure,
    trees: BTreeMap<u64, Tree>,
    /// Clusters that were free in the beginning.
    free: u64,
}

impl Mapping {
    /// An empty one on this device: everything on it is lost.
    ///
    /// # Errors
    /// `NoSpace` where it is too small; the device's.
    pub fn new(port: &Port, structure: Structure, segment: u32) -> Result<Mapping> {
        let form = if let Structure::ExtentHash(form) = structure { form } else { Form::Carved };
        crate::mkfs(port, &MkfsOptions { form, segment })?;
        let pm = Pm::new(port.clone());
        let sb = Superblock::read(&pm)?;
        table::recover(&pm, sb.segment)?;
        let mut store = Store::open(pm, sb)?;
        store.clusters = Clusters::new(&sb);
        let mut used = Used::new(sb.clusters);
        used.mark(0, sb.first(), "the superblock and the bitmap")?;
        used.mark(sb.end(), 1, "the superblock's copy")?;
        for table in store.tables() {
            table.occupies().into_iter().try_for_each(|(at, n)| used.mark(at, n, "a table"))?;
        }
        used.free_runs().into_iter().try_for_each(|(at, n)| store.clusters.give(at, n))?;
        let free = store.clusters.available();
        Ok(Mapping { store, structure, trees: BTreeMap::new(), free })
    }

    /// Enters a run of clusters of a file, which nothing is entered for; within a chunk ([`Mapping::chunk`]).
    /// `file` is even, as inodes' numbers are.
    ///
    /// # Errors
    /// `NoSpace`; the device's.
    pub fn insert(&mut self, file: u64, lcn: u32, len: u32, pcn: u32) -> Result<()> {
        let store = &self.store;
        let key = |lcn: u32| lcn % store.chunk;
        let entry = |lcn, len, pcn| Extent { pcn, len, lcn, prev: None, inode: file, key: key(lcn) };
        let mut b = store.pm.batch();
        match self.structure {
            Structure::ExtentHash(form) => {
                for (at, n) in exthash::extents(form, key(lcn), len, store.chunk) {
                    let by = at - key(lcn);
                    store.enter(&mut b, entry(lcn + by, n, pcn + by))?;
                }
                b.fence()
            }
            Structure::BlockHash => {
                for by in 0..len {
                    let bytes = entry(lcn + by, 1, pcn + by).bytes();
                    store.extents.insert(&store.pm, &store.clusters, &mut b, &bytes)?;
                }
                b.fence()
            }
            Structure::ExtentTree => {
                let tree = match self.trees.entry(file) {
                    std::collections::btree_map::Entry::Occupied(tree) => tree.into_mut(),
                    std::collections::btree_map::Entry::Vacant(place) => place.insert(Tree::new(store)?),
                };
                tree.insert(store, lcn, (len, pcn))
            }
        }
    }

    /// Where a cluster of a file lies.
    ///
    /// # Errors
    /// The device's.
    pub fn lookup(&self, file: u64, lcn: u32) -> Result<Option<u32>> {
        let within = |e: &Extent| lcn >= e.lcn && lcn - e.lcn < e.len;
        let hit = match self.structure {
            Structure::ExtentHash(_) => self.store.search(file, lcn)?,
            Structure::BlockHash => {
                let store = &self.store;
                let key = lcn % store.chunk;
                let place = slot::extent_place(file, lcn / store.chunk, key);
                let is = |b: &[u8]| Extent::read(b).is_some_and(|e| (e.inode, e.lcn) == (file, lcn));
                let found = store.extents.find(&store.pm, place, &is)?;
                found.and_then(|(_, bytes)| Extent::read(&bytes))
            }
            Structure::ExtentTree => {
                let Some(tree) = self.trees.get(&file) else { return Ok(None) };
                let found = tree.find(&self.store, lcn)?;
                return Ok(found.filter(|(at, len, _)| lcn - at < *len).map(|(at, _, pcn)| pcn + lcn - at));
            }
        };
        Ok(hit.filter(within).map(|e| e.pcn + lcn - e.lcn))
    }

    /// Clusters of a file that one insert may cover: it lies within a multiple of it.
    pub fn chunk(&self) -> u32 {
        self.store.chunk
    }

    /// Bytes of persistent memory that it has taken beside its empty tables.
    pub fn memory(&self) -> u64 {
        (self.free - self.store.clusters.available()) * BLOCK
    }
}

/// Clusters that are entered at once: 256 KiB, what a promotion copies ([`crate::MountOptions::piece`]).
const RUN: u32 = 64;
/// Clusters of a file: 256 MB (slides).
const FILE: u32 = 65_536;
/// Clusters that are looked up.
const LOOKUPS: u64 = 20_000;

/// Costs of a structure, on some device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Nanoseconds to enter a run of 64 clusters.
    pub insert: f64,
    /// Nanoseconds to find a cluster.
    pub lookup: f64,
    /// Bytes of persistent memory for each file.
    pub memory: f64,
}

/// Bytes that a device has to have for so many files.
pub fn size_for(files: u64) -> granary_units::Bytes {
    // BlockHash has 32 B for each cluster, in segments that split before they are full: [choice] six times
    // that. And the empty tables.
    granary_units::Bytes((files * u64::from(FILE) * 32 * 6).next_multiple_of(BLOCK) + (96 << 20))
}

/// Files of 256 MB that grow together, 256 KiB of each in turns, so that no run of a file ends where the next
/// begins; then clusters at random. In virtual time.
///
/// # Errors
/// `NoSpace`; the device's.
pub fn measure(port: &Port, structure: Structure, files: u64) -> Result<Measured> {
    let mut mapping = Mapping::new(port, structure, MkfsOptions::default().segment)?;
    let begin = granary_sim::now();
    for run in 0..FILE / RUN {
        for file in 0..files {
            mapping.insert(2 * file, run * RUN, RUN, 1 + run * RUN)?;
        }
    }
    let entered = granary_sim::now();
    let mut random = granary_sim::rng::Stream::new(1, "mapping");
    for _ in 0..LOOKUPS {
        let (file, lcn) = (2 * random.below(files), random.below(FILE.into()) as u32);
        if mapping.lookup(file, lcn)? != Some(1 + lcn) {
            return Err(granary_pm::corrupt(format!("{structure:?} has lost cluster {lcn} of file {file}")));
        }
    }
    let found = granary_sim::now();
    let per = |from: granary_units::Nanos, to: granary_units::Nanos, n: u64| {
        to.saturating_sub(from).0 as f64 / n as f64
    };
    Ok(Measured {
        insert: per(begin, entered, files * u64::from(FILE / RUN)),
        lookup: per(entered, found, LOOKUPS),
        memory: mapping.memory() as f64 / files as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_pmem::{Dimm, DimmConfig};
    use granary_sim::rng::Stream;
    use granary_suite::suite::run;
    use granary_units::Bytes;
    use std::sync::Arc;

    /// Runs of clusters of some files, entered in any order: each structure finds each cluster, and nothing
    /// in the holes.
    #[test]
    fn each_structure_finds_what_was_entered_and_nothing_else() {
        for structure in [
            Structure::ExtentHash(Form::Carved),
            Structure::ExtentHash(Form::Pointers),
            Structure::BlockHash,
            Structure::ExtentTree,
        ] {
            run(move || {
                let config = DimmConfig::optane_dcpmm().with_capacity(Bytes::mib(48));
                let port = Port::new(Arc::new(Dimm::new(&config).expect("a DIMM")));
                let mut mapping = Mapping::new(&port, structure, 4).expect("made");
                let mut random = Stream::new(1, "mapping");
                let (mut model, chunk) = (BTreeMap::new(), mapping.chunk());
                for step in 0..3_000u32 {
                    let file = 2 * random.below(3);
                    let lcn = random.below(20 * u64::from(chunk)) as u32;
                    let longest = 1 + random.below(24) as u32;
                    let fits = |n: &u32| {
                        let at = lcn + n;
                        at / chunk == lcn / chunk && !model.contains_key(&(file, at))
                    };
                    let len = (0..longest).take_while(fits).count() as u32;
                    if len == 0 {
                        continue;
                    }
                    mapping.insert(file, lcn, len, step * 32).expect("there is room");
                    model.extend((0..len).map(|n| ((file, lcn + n), step * 32 + n)));
                }
                for file in [0, 2, 4] {
                    for lcn in 0..20 * chunk {
                        assert_eq!(
                            mapping.lookup(file, lcn),
                            Ok(model.get(&(file, lcn)).copied()),
                            "{structure:?}: file {file}, cluster {lcn}"
                        );
                    }
                }
                assert!(mapping.memory() > 0);
            });
        }
    }
}
