//! [`LogBypass`]: contents that go straight to `flash` while one call programs many pages, and the thread
//! that takes them there.
//!
//! ```text
//!   the drive   | programs ... | programs ... | programs ... |     each step: contents, and the frame that
//!                                                                  names them
//!                        step 1 ──┐    step 2 ──┐    step 3: waits for 1
//!   the thread                    | contents, sorted, into `flash`; frame into the log | contents ...
//! ```
//!
//! Half of the time of such a call is the host's copying into its page cache: beside the thread the drive
//! goes on with the next step. At most `AHEAD` steps are under way when it hands over another one; each is
//! read here until it is done.
//!
//! Invariants: one thread carries out the steps, in order, and while they are under way it alone writes to
//! the files (but for checkpoints): first all contents of a step, then its frame. So whatever a step frees in
//! the drive's own log is freed when the pages that took its place can be found. After a failure nothing more
//! is written. When the call ends, all steps have.
//!
//! It does *not* decide which contents may go to `flash` (journal.rs), nor what is in a step (medium.rs).

use super::journal::{Change, Journal};
use super::start_thread;
use granary_units::Page;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Steps under way when another one is handed over: one that is being written, and one so that the thread
/// need not wait for the drive. 4 MiB of contents each.
const AHEAD: usize = 2;
/// Pages that are written with one write: 256 KiB.
const RUN: usize = 64;

/// Flash pages and their new contents.
type Contents = FxHashMap<u32, Page>;

/// A step that has been carried out.
pub struct Done {
    /// Which one: they are numbered from 1 on.
    pub number: u64,
    /// The group under which its frame becomes safe.
    pub group: u64,
    /// Newest group that was safe then.
    pub safe: u64,
}

struct Step {
    number: u64,
    contents: Arc<Contents>,
    frame: Vec<u8>,
    change: Change,
}

/// Contents of a step, readable until it is done.
struct UnderWay {
    contents: Arc<Contents>,
    riders: Vec<(u32, Page)>,
}

struct Worker {
    steps: Sender<Step>,
    done: Receiver<Result<Done, String>>,
    thread: JoinHandle<()>,
}

/// See the module.
#[derive(Default)]
pub struct LogBypass {
    many: bool,
    /// Contents since the last step.
    open: Contents,
    under_way: VecDeque<UnderWay>,
    /// Steps handed over since the image was opened.
    handed: u64,
    worker: Option<Worker>,
}

impl LogBypass {
    /// The number of the next step.
    pub fn next(&self) -> u64 {
        self.handed + 1
    }

    /// Whether a call is under way that programs many pages.
    pub fn is_many(&self) -> bool {
        self.many
    }

    /// Contents since the last step.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// This page's content goes to `flash` with the next step.
    pub fn put(&mut self, ppa: u32, content: Page) {
        self.open.insert(ppa, content);
    }

    /// The content of these pages was erased, so the next step need not write it.
    pub fn forget(&mut self, pages: Range<u32>) {
        if !self.open.is_empty() {
            pages.for_each(|ppa| drop(self.open.remove(&ppa)));
        }
    }

    /// The content of a page that may not be in its place yet.
    pub fn find(&self, ppa: u32) -> Option<&Page> {
        self.open.get(&ppa).or_else(|| self.under_way.iter().rev().find_map(|step| step.find(ppa)))
    }

    /// One call is about to program many pages.
    pub fn begin(&mut self) {
        self.many = true;
    }

    /// Puts the contents since the last step into `flash`. Nothing refers to them before they are there.
    ///
    /// # Errors
    /// Why no more changes are taken; then they can still be read.
    pub fn write(&mut self, journal: &Journal) -> Result<(), String> {
        write_contents(journal, &self.open)?;
        self.open.clear();
        Ok(())
    }

    /// Hands a step over, beside which the drive may go on. Returns the earlier step that was waited for.
    ///
    /// # Errors
    /// Why no more changes are taken. Everything handed over can still be read.
    pub fn hand_over(
        &mut self,
        journal: &Arc<Journal>,
        frame: Vec<u8>,
        change: Change,
    ) -> Result<Option<Done>, String> {
        let contents = Arc::new(std::mem::take(&mut self.open));
        let riders = change.riders.iter().map(|r| (r.ppa, r.page.clone())).collect();
        self.under_way.push_back(UnderWay { contents: contents.clone(), riders });
        self.handed += 1;
        let step = Step { number: self.handed, contents, frame, change };
        let worker = match &mut self.worker {
            Some(worker) => worker,
            none => none.insert(Worker::start(journal)?),
        };
        worker.steps.send(step).map_err(|_| gone(journal))?;
        if self.under_way.len() <= AHEAD {
            return Ok(None);
        }
        let done = worker.done.recv().map_err(|_| gone(journal))??;
        self.under_way.pop_front();
        Ok(Some(done))
    }

    /// The call has programmed its pages: waits until all steps are done, and returns the last one that was
    /// still under way. Contents that could not be written stay readable; the journal knows the reason.
    pub fn finish(&mut self, journal: &Journal) -> Option<Done> {
        self.many = false;
        let Worker { steps, done, thread } = self.worker.take()?;
        drop(steps);
        let mut last = None;
        for step in done.iter().map_while(Result::ok) {
            self.under_way.pop_front();
            last = Some(step);
        }
        if thread.join().is_err() {
            gone(journal);
        }
        if !self.under_way.is_empty() {
            // The drive in memory goes on without the host, and reads them here.
            let newest = std::mem::take(&mut self.open);
            for step in self.under_way.drain(..) {
                self.open.extend(step.contents.iter().map(|(ppa, page)| (*ppa, page.clone())));
                step.riders.into_iter().for_each(|(ppa, _)| drop(self.open.remove(&ppa)));
            }
            self.open.extend(newest);
        }
        last
    }
}

impl UnderWay {
    fn find(&self, ppa: u32) -> Option<&Page> {
        let rider = self.riders.iter().rev().find(|(at, _)| *at == ppa);
        rider.map(|(_, page)| page).or_else(|| self.contents.get(&ppa))
    }
}

impl Worker {
    fn start(journal: &Arc<Journal>) -> Result<Worker, String> {
        let (steps, to_do) = channel();
        let (tell, done) = channel();
        let of_thread = journal.clone();
        let thread = start_thread("granary-flash", move || carry_out(&of_thread, &to_do, &tell));
        let thread = thread.map_err(|e| journal.fail_host("starting the thread granary-flash", e))?;
        Ok(Worker { steps, done, thread })
    }
}

/// The thread has panicked, which has been reported: nothing more is taken. Returns the reason.
fn gone(journal: &Journal) -> String {
    let reason = "the thread that writes flash has failed".to_owned();
    journal.fail(reason.clone());
    journal.failure().unwrap_or(reason)
}

/// The thread: one step after the other, until no more come.
fn carry_out(journal: &Journal, steps: &Receiver<Step>, tell: &Sender<Result<Done, String>>) {
    for Step { number, contents, mut frame, mut change } in steps {
        // Freed by the drive, which still has them: this thread is the one that is waited for.
        let written = write_contents(journal, &contents);
        change.wrote_flash |= !contents.is_empty();
        // After a failure, too: riders have to be found.
        let published = journal.publish(&mut frame, &mut change);
        let done = written.and(published);
        // Nobody listens any more where the drive has given up.
        let _ = tell.send(done.map(|group| Done { number, group, safe: journal.safe_group() }));
    }
}

/// Neighbours together.
fn write_contents(journal: &Journal, contents: &Contents) -> Result<(), String> {
    if let Some(reason) = journal.failure() {
        return Err(reason);
    }
    let mut places: Vec<u32> = contents.keys().copied().collect();
    places.sort_unstable();
    let mut pages = Vec::with_capacity(RUN);
    for run in places.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(RUN)) {
        pages.clear();
        pages.extend(run.iter().map(|ppa| contents[ppa].as_bytes().expect("words are in their entries")));
        journal.write_flash(run[0], &pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Durability;
    use super::super::host::{Host, memory::MemoryHost};
    use super::super::redo::Memory;
    use super::super::region::{Region, Regions, file_len};
    use super::super::wal::{FRAME, Wal, Way};
    use super::*;
    use granary_units::PAGE_SIZE;

    fn journal(host: &MemoryHost) -> Arc<Journal> {
        const LEN: u64 = 64 << 12;
        let file = |name, len| {
            let file = host.open(name, false).expect("file");
            file.set_len(len).expect("length");
            file
        };
        let mut regions = Regions::default();
        regions.put(Region::new(file("dram", file_len(LEN)), Memory::Dram, LEN, false));
        let wal = Wal::start(file("wal", 0), [1; 16], 64 << 10, Way::Shared).expect("begun");
        let flash = file("flash", 1 << 20);
        Arc::new(Journal::new(Durability::Process, true, 64 << 10, 4, flash, Some(wal), regions))
    }

    fn page(n: u8) -> Page {
        let mut bytes = [n; PAGE_SIZE];
        bytes[0] = !n;
        Page::from_bytes(&bytes)
    }

    fn step(
        direct: &mut LogBypass,
        journal: &Arc<Journal>,
        riders: &[(u32, Page)],
    ) -> Result<Option<Done>, String> {
        let mut frame = vec![0; FRAME];
        frame.extend_from_slice(&(4096 | 1u64 << 40).to_le_bytes());
        frame.push(1);
        let sum = |p: &Page| crate::sum::page(p.as_bytes().expect("bytes"));
        let riders = riders.iter().map(|(ppa, p)| journal.rider(*ppa, 1, p, sum(p))).collect();
        direct.hand_over(journal, frame, Change { riders, ..Change::default() })
    }

    #[test]
    fn what_is_under_way_is_read_as_it_will_be_and_is_in_flash_in_the_end() {
        let (host, mut direct) = (MemoryHost::new(), LogBypass::default());
        let journal = journal(&host);
        direct.begin();
        // Programmed by two steps: straight, then riding; and straight twice.
        [(5, 1), (6, 2), (7, 3)].into_iter().for_each(|(ppa, n)| direct.put(ppa, page(n)));
        assert!(step(&mut direct, &journal, &[]).expect("taken").is_none());
        direct.put(6, page(4));
        assert!(step(&mut direct, &journal, &[(5, page(5))]).expect("taken").is_none());
        direct.put(8, page(6));
        direct.forget(8..9);
        let found = [5, 6, 7, 8].map(|ppa| direct.find(ppa).map(|p| p.to_bytes()[1]));
        assert_eq!(found, [Some(5), Some(4), Some(3), None]);
        let last = direct.finish(&journal).expect("steps were under way");
        assert_eq!((last.number, direct.find(7).is_none(), direct.is_empty()), (2, true, true));
        let in_flash = |ppa: u64| {
            let mut bytes = [0; PAGE_SIZE];
            journal.flash().read_at(ppa * PAGE_SIZE as u64, &mut bytes).expect("read");
            bytes[1]
        };
        assert_eq!([in_flash(6), in_flash(7)], [4, 3]);
        assert!(journal.held(5).expect("read").is_some_and(|p| p.to_bytes()[1] == 5));
    }

    #[test]
    fn what_a_failed_host_did_not_take_can_be_read_on() {
        let (host, mut direct) = (MemoryHost::new(), LogBypass::default());
        let journal = journal(&host);
        // The first step's contents and frame, and a part of the second one's contents.
        host.stop_after(2, 100);
        direct.begin();
        let mut refused = None;
        for n in 1..20u8 {
            direct.put(n as u32 * 2, page(n));
            refused = step(&mut direct, &journal, &[]).err().or(refused);
        }
        direct.put(100, page(100));
        direct.finish(&journal);
        assert!(refused.is_some_and(|why| why.contains("the host has stopped")) && !direct.is_many());
        assert!(direct.find(2).is_none(), "it is in flash");
        assert!((2..20u8).all(|n| direct.find(n as u32 * 2).is_some_and(|p| p.to_bytes()[1] == n)));
        assert!(direct.find(100).is_some() && direct.write(&journal).is_err() && direct.find(100).is_some());
    }
}
