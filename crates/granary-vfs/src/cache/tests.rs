//! Properties of the page caches: both give the same answers, and neither loses what was written.

use super::*;
use crate::vfs::nodes;
use change::lines;
use granary_sim::rng::Stream;
use std::collections::BTreeMap;
use std::sync::Arc;

#[test]
fn lines_are_those_that_bytes_touch() {
    for from in 0..200usize {
        for to in from..300 {
            let expected = (0..64).filter(|l| from < to && l * 64 < to && (l + 1) * 64 > from);
            assert_eq!(lines(from, to), expected.fold(0, |m, l| m | 1 << l), "{from}..{to}");
        }
    }
    assert_eq!(lines(0, 4096), u64::MAX);
}

/// Files beside a cache: their sizes, what media hold, and what is right.
struct Files<'a> {
    cache: &'a dyn PageCache,
    nodes: Vec<Arc<Node>>,
    media: BTreeMap<(usize, u64), Page>,
    right: Vec<Vec<u8>>,
    /// In write-back.
    out: Vec<Batch>,
}

impl Files<'_> {
    fn new(cache: &dyn PageCache, count: usize) -> Files<'_> {
        Files {
            cache,
            nodes: nodes(count),
            media: BTreeMap::new(),
            right: vec![Vec::new(); count],
            out: vec![Batch::new(); count],
        }
    }

    /// Reads a missing page of media into the cache.
    fn fill(&self, of: usize, page: u64) {
        let node = &self.nodes[of];
        let count = self.cache.begin_fill(node, page, 1);
        assert_eq!((count, self.cache.is_filling(node, page)), (1, true));
        let pages = vec![self.media.get(&(of, page)).cloned().unwrap_or(Page::ZERO)];
        self.cache.end_fill(node, page, 1, Some(pages), self.right[of].len() as u64);
    }

    /// As the vfs has it: writers wait until no more than this is dirty. A page that is read for them could
    /// push out another one for ever otherwise.
    fn throttle(&mut self, dirty: u64) {
        for of in 0..self.nodes.len() {
            if self.cache.dirty() > dirty {
                self.write_back(of, 0..u64::MAX, usize::MAX);
                self.land(of);
            }
        }
    }

    fn write(&mut self, of: usize, pos: usize, data: &[u8], through_mapping: bool) -> u64 {
        let old = self.right[of].len();
        if old < pos && !through_mapping {
            // As the vfs does: the gap is written with zeros.
            self.write(of, old, &vec![0; pos - old], false);
        }
        let (node, old) = (self.nodes[of].clone(), self.right[of].len());
        let duplicates = loop {
            let (at, payload) = (pos as u64, Payload::Bytes(data));
            let done = match through_mapping {
                true => self.cache.store(&node, at, payload),
                false => self.cache.write(&node, at, payload, old as u64),
            };
            match done {
                Ok(duplicates) => break duplicates,
                Err(page) => self.fill(of, page),
            }
        };
        let end = (pos + data.len()).max(old);
        self.right[of].resize(end, 0);
        self.right[of][pos..pos + data.len()].copy_from_slice(data);
        node.update(|attr| attr.size = end as u64);
        duplicates
    }

    /// Takes dirty pages; those taken before are on media then.
    fn write_back(&mut self, of: usize, pages: Range<u64>, max: usize) -> (Vec<(u64, usize, u64)>, u64) {
        self.land(of);
        let (node, size, mut batch) = (&self.nodes[of], self.right[of].len() as u64, Batch::new());
        let compared = self.cache.gather(node, pages, max, size, &mut batch);
        let told = batch.iter().map(|page| (page.index, page.valid, page.lines)).collect();
        self.out[of] = batch;
        (told, compared)
    }

    /// Pages in write-back get to media, by their lines alone.
    fn land(&mut self, of: usize) {
        let batch = std::mem::take(&mut self.out[of]);
        for taken in &batch {
            let page = self.media.entry((of, taken.index)).or_insert(Page::ZERO);
            for line in (0..64).filter(|line| taken.lines & 1 << line != 0) {
                let mut bytes = [0; 64];
                taken.page.copy_out(line * 64, &mut bytes);
                page.write(line * 64, Payload::Bytes(&bytes));
            }
        }
        self.cache.written(&self.nodes[of], &batch);
    }

    fn truncate(&mut self, of: usize, size: usize) {
        self.land(of);
        if size < self.right[of].len() {
            self.right[of].truncate(size);
            self.nodes[of].update(|attr| attr.size = size as u64);
            self.cache.truncate(&self.nodes[of], size as u64);
            self.media.retain(|(file, page), _| *file != of || *page * PAGE < size as u64);
            if let Some(last) = self.media.get_mut(&(of, size as u64 / PAGE)) {
                last.zero_from(size % PAGE_SIZE);
            }
        }
    }

    /// A page as the cache has it.
    fn look(&self, of: usize, page: u64) -> Option<Vec<u8>> {
        let mut out = [Page::ZERO];
        let found = self.cache.look(&self.nodes[of], page, &mut out);
        let mut bytes = vec![0; PAGE_SIZE];
        out[0].copy_out(0, &mut bytes);
        (found == Look::Found(1)).then_some(bytes)
    }

    /// Everything is as it was written, here or on media.
    fn compare(&self) {
        for (of, right) in self.right.iter().enumerate() {
            for page in 0..(right.len() as u64).div_ceil(PAGE) {
                let want = &right[(page * PAGE) as usize..right.len().min(((page + 1) * PAGE) as usize)];
                if self.look(of, page).is_none() {
                    self.fill(of, page);
                }
                let have = self.look(of, page).expect("filled");
                assert_eq!(have[..want.len()], *want, "file {of}, page {page}");
                assert!(have[want.len()..].iter().all(|byte| *byte == 0), "file {of}, page {page}, its rest");
            }
        }
    }
}

/// One random step; returns its answer.
fn step(files: &mut Files<'_>, rng: &mut Stream) -> String {
    const SPAN: u64 = 48 * PAGE;
    let of = rng.below(files.nodes.len() as u64) as usize;
    let (node, size) = (files.nodes[of].clone(), files.right[of].len());
    let pages = rng.below(50)..rng.below(50);
    match rng.below(12) {
        0..=3 => {
            let len = if rng.chance(0.2) { rng.below(3 * PAGE) } else { rng.below(200) } as usize + 1;
            let data: Vec<u8> = (0..len).map(|i| (rng.below(3) * (i as u64 + 1)) as u8).collect();
            format!("{:?}", files.write(of, rng.below(SPAN) as usize, &data, false))
        }
        4 if size > 0 => {
            let pos = rng.below(size as u64) as usize;
            let data = vec![rng.below(4) as u8; (rng.below(300) as usize + 1).min(size - pos)];
            format!("{:?}", files.write(of, pos, &data, true))
        }
        5 | 6 => format!("{:?}", files.write_back(of, pages, rng.below(9) as usize + 1)),
        7 => format!("{:?}", files.land(of)),
        8 if rng.chance(0.3) => format!("{:?}", files.truncate(of, rng.below(SPAN) as usize)),
        9 => {
            let there = rng.chance(0.5);
            format!("{:?} {:?}", files.cache.next(&node, pages.clone(), there), files.look(of, pages.end))
        }
        10 => {
            let taken = files.cache.take_dirty(None);
            files.cache.requeue(&node);
            format!("{taken:?} {:?}", files.cache.dirty_inodes())
        }
        11 if rng.chance(0.1) => format!("{:?}", files.cache.drop_clean_of(&node)),
        _ => String::new(),
    }
}

fn config(pages: u64, replacement: Replacement, tracking: crate::Tracking) -> VfsConfig {
    let page_cache = granary_units::Bytes(pages * PAGE);
    VfsConfig { page_cache, replacement, tracking, ..VfsConfig::default() }
}

/// With room for everything each call has one right answer.
#[test]
fn both_caches_give_the_same_answers() {
    for (seed, tracking) in [(1, crate::Tracking::Mask), (2, crate::Tracking::Xor)] {
        let caches = [Replacement::Clock, Replacement::TwoQueues].map(|r| make(&config(10_000, r, tracking)));
        let mut files = [0, 1].map(|i| Files::new(&*caches[i], 3));
        let mut streams = [0, 1].map(|_| Stream::new(seed, "caches"));
        for at in 0..6_000 {
            let [a, b] = [0, 1].map(|i| step(&mut files[i], &mut streams[i]));
            assert_eq!(a, b, "seed {seed}, step {at}");
            let [a, b] = [0, 1].map(|i| files[i].cache.stats());
            assert_eq!(a, b, "seed {seed}, step {at}");
        }
        files.iter().for_each(Files::compare);
    }
}

/// Without room pages leave, and nothing is lost.
#[test]
fn what_was_written_is_here_or_on_media() {
    for replacement in [Replacement::Clock, Replacement::TwoQueues] {
        for (seed, tracking) in [(3, crate::Tracking::Mask), (4, crate::Tracking::Xor)] {
            let cache = make(&config(20, replacement, tracking));
            let mut files = Files::new(&*cache, 3);
            let mut rng = Stream::new(seed, "caches");
            for _ in 0..6_000 {
                step(&mut files, &mut rng);
                files.throttle(4);
            }
            assert!(cache.stats().evicted > 100, "{replacement:?}: {:?}", cache.stats());
            files.compare();
        }
    }
}
