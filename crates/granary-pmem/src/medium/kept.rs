//! [`KeptMedium`]: content that outlives the process: the memory `nvm` of an image.
//!
//! ```text
//!   write ──> page in memory, its lines marked
//!               └──publish (a fence, or much is marked)──> records of whole lines in the redo log
//!                                                            └──a half of the log is full──> the file:
//!                                                                           the page may be forgotten
//!   read ──> page in memory, else from the file
//! ```
//!
//! A line is published with the content that it has then: stores to it that are not fenced yet may be kept,
//! word by word (docs/FAULT_MODEL.md). So however often a line is stored to between two fences, it is one
//! record.
//!
//! Invariants: marked lines are in memory; so are pages that the file does not have yet. Pages that were
//! never written take no memory. It does *not* know which bytes have left the processors' caches.
//!
//! Memory: that of [`RamMedium`] for at most [`MOST`] pages, and for those that the redo log still has.

use super::{Medium, RamMedium};
use granary_redo::ImageError;
use granary_redo::journal::Journal;
use granary_redo::redo::put_lines;
use granary_redo::region::Region;
use granary_redo::wal::FRAME;
use granary_units::{LINE_SIZE, LINES_PER_PAGE, PAGE_SIZE, Page, Payload};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Lines that are published without a fence: 64 KiB.
const MUCH: u32 = 1024;
/// Pages in memory beyond which those are forgotten that the file has: 256 MiB at most.
const MOST: usize = 1 << 16;
/// Pages in a part of [`InFile`].
const PART: u64 = 4096;

/// See the module.
pub struct KeptMedium {
    journal: Arc<Journal>,
    /// The file as it was opened: right for all pages that are not in memory.
    region: Region,
    held: RefCell<Held>,
    /// Lines of each page that were written since the last time that they were published.
    marked: FxHashMap<u64, u64>,
    lines: u32,
    frame: Vec<u8>,
}

/// Pages in memory.
struct Held {
    pages: RamMedium,
    file: InFile,
    /// Published pages, with their tickets: the file may not have them yet.
    published: FxHashMap<u64, u64>,
    /// Pages that the file has, in the order in which they came to memory; or that were published since.
    clean: VecDeque<u64>,
    /// Up to which ticket pages have gone from `published` to `clean`.
    landed: u64,
}

/// Which pages have to be read from the file: one bit for each; nothing allocated where there are none.
struct InFile(Vec<Vec<u64>>);

impl InFile {
    fn is_set(&self, page: u64) -> bool {
        let part = &self.0[(page / PART) as usize];
        let (word, bit) = ((page % PART / 64) as usize, page % 64);
        part.get(word).is_some_and(|bits| bits >> bit & 1 != 0)
    }

    /// All pages of the file.
    fn all(&self) -> impl Iterator<Item = u64> {
        let words = self.0.iter().enumerate().flat_map(|(part, words)| {
            words.iter().enumerate().map(move |(i, word)| (part as u64 * PART + i as u64 * 64, *word))
        });
        words.flat_map(|(first, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| first + bit)
        })
    }

    fn set(&mut self, page: u64, on: bool) {
        let part = &mut self.0[(page / PART) as usize];
        if part.is_empty() {
            if !on {
                return;
            }
            *part = vec![0; (PART / 64) as usize];
        }
        let (word, bit) = ((page % PART / 64) as usize, page % 64);
        part[word] = part[word] & !(1 << bit) | u64::from(on) << bit;
    }
}

fn broken(e: ImageError) -> io::Error {
    match e {
        ImageError::Damaged { .. } => io::Error::new(io::ErrorKind::InvalidData, e.to_string()),
        e => io::Error::other(e.to_string()),
    }
}

impl KeptMedium {
    /// The `pages` pages that `region` has; writes go to `journal`.
    ///
    /// # Errors
    /// Host errors.
    pub fn new(pages: u64, region: Region, journal: Arc<Journal>) -> Result<KeptMedium, ImageError> {
        let mut file = InFile(vec![Vec::new(); pages.div_ceil(PART) as usize]);
        let page = PAGE_SIZE as u64;
        for used in region.used(0..pages * page)? {
            (used.start / page..used.end.div_ceil(page)).for_each(|page| file.set(page, true));
        }
        let held = Held {
            pages: RamMedium::new(pages),
            file,
            published: FxHashMap::default(),
            clean: VecDeque::new(),
            landed: 0,
        };
        let (held, marked) = (RefCell::new(held), FxHashMap::default());
        Ok(KeptMedium { journal, region, held, marked, lines: 0, frame: Vec::new() })
    }

    /// The page is in memory from now on.
    fn load(&self, page: u64) -> io::Result<()> {
        let mut held = self.held.borrow_mut();
        if !held.file.is_set(page) {
            return Ok(());
        }
        let mut bytes = [0; PAGE_SIZE];
        self.region.read(page * PAGE_SIZE as u64, &mut bytes).map_err(broken)?;
        held.file.set(page, false);
        held.clean.push_back(page);
        if held.clean.len() + held.published.len() > MOST {
            held.forget(MOST, self.journal.landed(), &self.marked)?;
        }
        held.pages.replace(page, &Page::from_bytes(&bytes))
    }

    /// These bytes of a page have been written.
    fn mark(&mut self, page: u64, from: usize, len: usize) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let (first, last) = (from / LINE_SIZE, (from + len - 1) / LINE_SIZE);
        let mask = (u64::MAX >> (LINES_PER_PAGE - 1 - (last - first))) << first;
        let marked = self.marked.entry(page).or_default();
        self.lines += (mask & !*marked).count_ones();
        *marked |= mask;
        if self.lines < MUCH { Ok(()) } else { self.publish() }
    }

    /// Hands over what is in the frame.
    fn hand_over(&mut self) -> io::Result<u64> {
        let ticket = self.journal.publish_bytes(&mut self.frame).map_err(io::Error::other);
        self.frame.clear();
        self.frame.resize(FRAME, 0);
        ticket
    }
}

impl Held {
    /// Forgets pages that the file has until at most `most` are in memory; everything up to the ticket
    /// `landed` is there.
    fn forget(&mut self, most: usize, landed: u64, marked: &FxHashMap<u64, u64>) -> io::Result<()> {
        if landed > self.landed {
            self.landed = landed;
            let clean = self.published.extract_if(|_, ticket| *ticket <= landed).map(|(page, _)| page);
            let mut clean: Vec<u64> = clean.collect();
            // The order of forgetting shall not depend on a table of hashes.
            clean.sort_unstable();
            self.clean.extend(clean);
        }
        while self.clean.len() + self.published.len() > most
            && let Some(page) = self.clean.pop_front()
        {
            // Written since, or twice in the queue.
            if marked.contains_key(&page) || self.published.contains_key(&page) || self.file.is_set(page) {
                continue;
            }
            self.file.set(page, true);
            self.pages.replace(page, &Page::ZERO)?;
        }
        Ok(())
    }
}

impl Medium for KeptMedium {
    fn pages(&self) -> u64 {
        self.held.borrow().pages.pages()
    }

    fn page(&self, page: u64) -> io::Result<Page> {
        self.load(page)?;
        self.held.borrow().pages.page(page)
    }

    fn read(&self, page: u64, from: usize, out: &mut [u8]) -> io::Result<()> {
        self.load(page)?;
        self.held.borrow().pages.read(page, from, out)
    }

    fn write(&mut self, page: u64, from: usize, data: Payload<'_>) -> io::Result<()> {
        if data.len() < PAGE_SIZE {
            self.load(page)?;
        }
        let held = self.held.get_mut();
        held.file.set(page, false);
        held.pages.write(page, from, data)?;
        self.mark(page, from, data.len())
    }

    fn replace(&mut self, page: u64, content: &Page) -> io::Result<()> {
        let held = self.held.get_mut();
        // Zeros over pages that were never written are no change: making a file system writes many of them.
        if content.is_zero() && !held.file.is_set(page) && held.pages.page(page)?.is_zero() {
            return Ok(());
        }
        held.file.set(page, false);
        held.pages.replace(page, content)?;
        self.mark(page, 0, PAGE_SIZE)
    }

    fn outlives(&self) -> bool {
        true
    }

    fn damaged(&self) -> io::Result<Vec<u64>> {
        let held = self.held.borrow();
        let (mut bytes, mut bad) = ([0; PAGE_SIZE], Vec::new());
        // Pages in memory were read with their checksums, or are newer than the file.
        for page in held.file.all() {
            match self.region.read(page * PAGE_SIZE as u64, &mut bytes) {
                Ok(()) => {}
                Err(ImageError::Damaged { .. }) => bad.push(page),
                Err(e) => return Err(io::Error::other(e.to_string())),
            }
        }
        Ok(bad)
    }

    fn publish(&mut self) -> io::Result<()> {
        if self.marked.is_empty() {
            return Ok(());
        }
        let mut pages: Vec<(u64, u64)> = self.marked.iter().map(|(page, lines)| (*page, *lines)).collect();
        pages.sort_unstable();
        let most = self.journal.most_bytes();
        self.frame.clear();
        self.frame.resize(FRAME, 0);
        let mut ticket = 0;
        for (page, lines) in &pages {
            let content = self.held.get_mut().pages.page(*page)?;
            if self.frame.len() > FRAME && self.frame.len() + 2 * PAGE_SIZE > most {
                ticket = self.hand_over()?;
            }
            let frame = &mut self.frame;
            content.with_bytes(|bytes| {
                for (first, n) in crate::caches::runs(*lines) {
                    let line = page * LINES_PER_PAGE as u64 + first as u64;
                    put_lines(line, &bytes[first * LINE_SIZE..(first + n) * LINE_SIZE], frame);
                }
            });
        }
        ticket = self.hand_over()?.max(ticket);
        self.marked.clear();
        self.lines = 0;
        let held = self.held.get_mut();
        held.published.extend(pages.into_iter().map(|(page, _)| (page, ticket)));
        let landed = self.journal.landed();
        if held.clean.len() + held.published.len() > MOST && landed > held.landed {
            held.forget(MOST, landed, &self.marked)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_redo::Durability;
    use granary_redo::files::{NVM, WAL};
    use granary_redo::host::{Absent, Host, memory::MemoryHost};
    use granary_redo::redo::Memory;
    use granary_redo::region::{Regions, file_len};
    use granary_redo::wal::{Wal, Way};

    const PAGES: u64 = 5000;

    /// A medium on new files, and what it is to hold.
    fn medium(host: &MemoryHost) -> KeptMedium {
        let len = PAGES * PAGE_SIZE as u64;
        let file = host.open(NVM, false).expect("file");
        file.set_len(file_len(len)).expect("length");
        let region = |read_only| Region::new(file.clone(), Memory::Nvm, len, read_only);
        let wal = host.open(WAL, false).expect("file");
        let half = 64 << 10;
        let wal = Wal::start(wal, [1; 16], half, Way::Shared).expect("begun");
        let mut regions = Regions::default();
        regions.put(region(false));
        let journal = Journal::new(Durability::Process, true, half, 0, Arc::new(Absent), Some(wal), regions);
        KeptMedium::new(PAGES, region(true), Arc::new(journal)).expect("a medium")
    }

    #[test]
    fn what_was_forgotten_comes_back_from_the_file_and_what_the_log_has_is_not_forgotten() {
        let mut m = medium(&MemoryHost::new());
        for n in 1..=100u64 {
            let page = n * 37 % PAGES;
            m.write(page, 100, Payload::Bytes(&n.to_le_bytes())).expect("written");
            m.publish().expect("published");
            // Frames of about 90 bytes: many to a half. A page of bytes now and then fills them.
            m.replace(4000 + n, &Page::from_bytes(&[n as u8; PAGE_SIZE])).expect("written");
            m.publish().expect("published");
        }
        let landed = m.journal.landed();
        assert!(landed > 0, "halves were moved to the file");
        let held = m.held.get_mut();
        let waits = held.published.values().filter(|t| **t > landed).count();
        assert!(waits > 0, "the log still has some");
        held.forget(0, landed, &m.marked).expect("forgotten");
        assert_eq!(m.held.get_mut().published.len(), waits);
        assert!(m.held.get_mut().clean.is_empty());
        for n in 1..=100u64 {
            let mut out = [0; 8];
            m.read(n * 37 % PAGES, 100, &mut out).expect("read");
            assert_eq!(u64::from_le_bytes(out), n);
            assert_eq!(m.page(4000 + n).expect("read"), Page::from_bytes(&[n as u8; PAGE_SIZE]));
        }
        assert!(!m.held.get_mut().clean.is_empty(), "some came from the file");
        // A part of a page that was forgotten.
        let landed = m.journal.landed();
        m.held.get_mut().forget(0, landed, &FxHashMap::default()).expect("forgotten");
        m.write(4001, 8, Payload::Bytes(&[9; 4])).expect("written");
        let mut out = [0; 16];
        m.read(4001, 0, &mut out).expect("read");
        assert_eq!(out, [1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 9, 9, 1, 1, 1, 1]);
    }

    #[test]
    fn a_line_that_is_stored_to_often_is_one_record_and_zeros_over_nothing_are_none() {
        let mut m = medium(&MemoryHost::new());
        for n in 0..100u8 {
            m.write(7, 64 + n as usize % 60, Payload::Bytes(&[n])).expect("written");
        }
        (0..PAGES).for_each(|page| {
            if page != 7 {
                m.replace(page, &Page::ZERO).expect("written")
            }
        });
        m.publish().expect("published");
        let c = m.journal.counters();
        assert_eq!(c.groups, 1);
        assert!(c.bytes <= FRAME as u64 + 8 + 64, "{c:?}");
        m.publish().expect("nothing to do");
        assert_eq!(m.journal.counters().groups, 1);
    }

    #[test]
    fn much_is_published_without_a_fence_in_frames_that_fit() {
        let mut m = medium(&MemoryHost::new());
        (0..64u64).for_each(|page| {
            m.replace(page, &Page::from_bytes(&[page as u8 + 1; PAGE_SIZE])).expect("written");
        });
        let c = m.journal.counters();
        assert!(c.groups >= 32 && c.bytes > 200 << 10, "{c:?}");
        assert!(m.lines < MUCH);
    }
}
