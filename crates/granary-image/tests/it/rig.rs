//! A drive on an image in memory, driven by random commands, and what it must hold.

use granary_device::vendor::pebble::{BamNames, BamRead, BamReset, FsWrite, Remap, RemapKeep};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Devices, Drive, DriveError, FileEnd, RemapRange, Role, Streamed, Structure};
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image, ImageDevices, ImageError, ImageMeta, OpenOptions};
use granary_mssd::{BamConfig, DriveConfig, Mode};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Page, Payload, TxId};
use std::collections::BTreeMap;
use std::sync::Arc;

const WHAT: Structure = Structure::Data;

/// Content of the drive once it has recovered.
#[derive(Clone)]
struct Content {
    /// Of every page: committed content.
    pages: Vec<Page>,
    /// Of each page that BAM knows: file and block.
    blocks: BTreeMap<u64, (u64, u32)>,
    /// The command that made it so is carried out whole or not at all.
    whole: bool,
}

/// A drive on an image and its history.
pub struct Rig {
    pub host: MemoryHost,
    pub config: DriveConfig,
    pub durability: Durability,
    pub half: u64,
    /// Pages that ride in the redo log.
    pub riders: usize,
    image: Option<Image>,
    drive: Option<Arc<dyn Drive>>,
    now: Nanos,
    /// Content at the last point from which nothing may be lost, and after each command since.
    history: Vec<Content>,
    /// Lines stored by transactions that have not committed.
    running: BTreeMap<u32, Vec<(u64, [u8; LINE_SIZE])>>,
    next_tx: u32,
    /// Pages that get most of the traffic.
    hot: u64,
    /// Of commands, pages are written and trimmed only, a dozen of them most often: blocks are erased and
    /// programmed again as soon as can be.
    pub dense: bool,
}

/// An image that has been opened, with its SSD.
///
/// # Panics
/// Where it has none.
pub fn with_ssd((image, devices): (Image, Devices)) -> (Image, Arc<dyn Drive>) {
    let port = devices.get(Role::Ssd).expect("an SSD");
    (image, port.drive().clone())
}

/// How tests open images: everything repeatable.
pub fn options(durability: Durability, half: u64) -> OpenOptions {
    OpenOptions { durability, inline_checkpoints: true, wal_half: Some(half), ..OpenOptions::default() }
}

impl Rig {
    pub fn new(mode: Mode, durability: Durability, half: u64, bam: bool) -> Rig {
        let (host, mut config) = (MemoryHost::new(), DriveConfig::tiny(mode));
        // So few blocks that gc is at work most of the time.
        config.flash.geometry.blocks_per_plane = 14;
        config.firmware.bam =
            bam.then(|| BamConfig { entries: 500, files: 7, names: 150, ..BamConfig::default() });
        Image::create_on(&host, &ImageDevices::ssd(config.clone()), ImageMeta::default(), false)
            .expect("made");
        let pages = config.pages() as usize;
        Rig {
            host,
            config,
            durability,
            half,
            riders: 64,
            image: None,
            drive: None,
            now: Nanos::ZERO,
            history: vec![Content { pages: vec![Page::ZERO; pages], blocks: BTreeMap::new(), whole: false }],
            running: BTreeMap::new(),
            next_tx: 1,
            hot: pages as u64 / 3,
            dense: false,
        }
    }

    pub fn open(&mut self) -> Result<(), ImageError> {
        let options = OpenOptions { riders: Some(self.riders), ..options(self.durability, self.half) };
        let opened = Image::open_on(Arc::new(self.host.clone()), options).map(with_ssd)?;
        (self.image, self.drive) = (Some(opened.0), Some(opened.1));
        self.now = Nanos::ZERO;
        Ok(())
    }

    fn drive(&self) -> Arc<dyn Drive> {
        self.drive.clone().expect("open")
    }

    pub fn image(&self) -> &Image {
        self.image.as_ref().expect("open")
    }

    pub fn close(&mut self) {
        self.running.clear();
        self.drive = None;
        self.image.take().expect("open").close().expect("closed");
    }

    /// The process dies or the machine crashes; the remains are a new host.
    pub fn crash(&mut self, rng: &mut Stream) {
        (self.image, self.drive) = (None, None);
        self.host = match self.durability {
            Durability::Process => self.host.after_process_death(),
            Durability::Machine => self.host.after_machine_crash([512, 4096][rng.below(2) as usize], rng),
        };
        self.running.clear();
    }

    /// A random command; its required outcome goes into the history, even if the drive refuses.
    pub fn step(&mut self, rng: &mut Stream) -> Result<(), DriveError> {
        self.now += Nanos(rng.below(200_000));
        let mut next = self.history.last().expect("history").clone();
        next.whole = false;
        let done = self.command(rng, &mut next);
        self.history.push(next);
        done?;
        if self.durability == Durability::Process {
            self.history.drain(..self.history.len() - 1);
        }
        Ok(())
    }

    /// Nothing of what was done so far may be lost from now on.
    pub fn barrier(&mut self) -> Result<(), ImageError> {
        self.image().barrier()?;
        self.history.drain(..self.history.len() - 1);
        Ok(())
    }

    fn page(&self, rng: &mut Stream) -> u64 {
        let (pages, hot) = (self.config.pages(), if self.dense { 12 } else { self.hot });
        if rng.chance(0.8) { rng.below(hot) } else { rng.below(pages) }
    }

    fn content(rng: &mut Stream) -> Page {
        if rng.chance(0.3) {
            return Page::prefix(rng.next_u64(), rng.below(PAGE_SIZE as u64 + 1) as usize);
        }
        let mut bytes = [0; PAGE_SIZE];
        bytes.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&rng.next_u64().to_le_bytes()));
        Page::from_bytes(&bytes)
    }

    fn command(&mut self, rng: &mut Stream, next: &mut Content) -> Result<(), DriveError> {
        let (drive, now) = (self.drive(), self.now);
        let submit = |command| drive.submit(now, command).map(drop);
        if drive.info().answers("FS_WRITE") && rng.chance(0.3) {
            return self.bam_command(rng, next);
        }
        let kinds = match self.drive().info().answers("COMMIT") {
            _ if self.dense => 4,
            true => 12,
            false => 8,
        };
        match rng.below(kinds) {
            0..3 => {
                let first = self.page(rng);
                let n = (1 + rng.below(4)).min(self.config.pages() - first) as usize;
                let pages: Vec<Page> = (0..n).map(|_| Rig::content(rng)).collect();
                self.part(next, first, n as u64);
                for (i, page) in pages.iter().enumerate() {
                    next.pages[first as usize + i] = page.clone();
                    self.forget_lines(first + i as u64);
                }
                submit(Command::Write { lpa: Lpa(first), pages: &pages, what: WHAT })
            }
            3 => {
                let first = self.page(rng);
                // Now and then so many that whole blocks are empty and stay so.
                let most = if self.dense && rng.chance(0.1) { 120 } else { 6 };
                let count = (1 + rng.below(most)).min(self.config.pages() - first);
                self.part(next, first, count);
                for l in first..first + count {
                    next.drop_page(l);
                    self.forget_lines(l);
                }
                submit(Command::Trim { lpa: Lpa(first), count })
            }
            4 => self.store(rng, None, next),
            5 => self.stream(rng, next),
            6 => {
                let lpa = self.page(rng);
                self.compare(&*drive, lpa)
            }
            7 if rng.chance(0.03) => drive.settle(now).map(drop),
            7 => submit(Command::Flush),
            8 | 9 => {
                let running: Vec<u32> = self.running.keys().copied().collect();
                let tx = if running.len() >= 3 {
                    running[rng.below(running.len() as u64) as usize]
                } else {
                    self.next_tx += 1;
                    self.next_tx
                };
                self.store(rng, Some(tx), next)
            }
            _ => {
                let Some((&tx, _)) = self.running.first_key_value() else { return Ok(()) };
                for (line, data) in self.running.remove(&tx).unwrap_or_default() {
                    put_line(&mut next.pages, line, &data);
                }
                submit(Command::Vendor(&mut Commit { tx: TxId(tx) }))
            }
        }
    }

    /// PebbleSSD's commands.
    fn bam_command(&mut self, rng: &mut Stream, next: &mut Content) -> Result<(), DriveError> {
        let (drive, now) = (self.drive(), self.now);
        let last = self.config.pages();
        match rng.below(20) {
            0..9 => {
                let (first, ino, offset) = (self.page(rng), rng.below(8), rng.below(1000) as u32);
                let n = (1 + rng.below(4)).min(last - first);
                let pages: Vec<Page> = (0..n).map(|_| Rig::content(rng)).collect();
                let command = Command::Vendor(&mut FsWrite {
                    lpa: Lpa(first),
                    pages: pages.to_vec(),
                    ino,
                    offset,
                    end: FileEnd::WHOLE,
                    what: WHAT,
                });
                let names = self.names();
                let done = drive.submit(now, command).map(drop);
                if let Err(DriveError::BamFull(_)) = done {
                    return self.reset(next);
                }
                next.part(&names, first, n);
                // A drive whose host stops in the middle of it has taken some of the pages.
                for (i, page) in (0..).zip(pages) {
                    next.pages[(first + i) as usize] = page;
                    next.blocks.insert(first + i, (ino, offset + i as u32));
                    self.forget_lines(first + i);
                }
                done
            }
            9..12 if drive.info().answers("REMAP keep") => self.keep(rng, next),
            9..19 => {
                // Many at a time now and then, a third of them overlapping.
                let most = if rng.chance(0.1) { last / 3 } else { 5 };
                let count = 1 + rng.below(most);
                let src = self.page(rng).min(last - count);
                let near = src.saturating_sub(2) + rng.below(5);
                let dst = if rng.chance(0.3) { near } else { self.page(rng) }.min(last - count);
                // Before a host moves a page, it has committed or given up the transactions that store there.
                let held = |l: u64| {
                    let mut lines = self.running.values().flatten();
                    lines.any(|(line, _)| line / LINES_PER_PAGE as u64 == l)
                };
                if (src..src + count).chain(dst..dst + count).any(held) {
                    return Ok(());
                }
                // Of a page with an older name, that name keeps the content; only which name is the newest is
                // the drive's to say.
                let names = self.names();
                if (src..src + count)
                    .chain(dst..dst + count)
                    .any(|l| names.iter().any(|n| n.0 == l || n.1 == l))
                {
                    return Ok(());
                }
                next.remap(src, dst, count);
                drive
                    .submit(now, Command::Vendor(&mut Remap { src: Lpa(src), dst: Lpa(dst), count }))
                    .map(drop)
            }
            _ => self.reset(next),
        }
    }

    /// Pages with several names: older, newest.
    fn names(&self) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        if self.drive().info().answers("REMAP keep") {
            // A host that has stopped takes nothing more; the caller learns it from the command itself.
            if let Ok((names, _)) = BamNames::ask(&*self.drive(), self.now) {
                out = names;
            }
        }
        out.into_iter().map(|n| (n.src.0, n.dst.0)).collect()
    }

    /// These pages are about to change.
    fn part(&self, next: &mut Content, first: u64, count: u64) {
        next.part(&self.names(), first, count);
    }

    /// REMAP keep of a few ranges, none of which has to do with another, nor with pages of several names.
    fn keep(&mut self, rng: &mut Stream, next: &mut Content) -> Result<(), DriveError> {
        let (last, names) = (self.config.pages(), self.names());
        let mut taken: Vec<u64> = names.iter().flat_map(|n| [n.0, n.1]).collect();
        let mut ranges = Vec::new();
        for _ in 0..1 + rng.below(4) {
            let most = if rng.chance(0.2) { 60 } else { 4 };
            let count = 1 + rng.below(most);
            let (src, dst) = (self.page(rng).min(last - count), self.page(rng).min(last - count));
            let pages: Vec<u64> = (src..src + count).chain(dst..dst + count).collect();
            if src.abs_diff(dst) < count || pages.iter().any(|l| taken.contains(l)) {
                continue;
            }
            taken.extend(pages);
            ranges.push(RemapRange { src: Lpa(src), dst: Lpa(dst), count });
        }
        for r in &ranges {
            for (src, dst) in (r.src.0..r.src.0 + r.count).zip(r.dst.0..) {
                next.pages[dst as usize] = next.pages[src as usize].clone();
                match next.blocks.remove(&src) {
                    Some(block) => drop(next.blocks.insert(dst, block)),
                    None => drop(next.blocks.remove(&dst)),
                }
            }
        }
        let before = self.history.last().expect("history").clone();
        next.whole = true;
        match self.drive().submit(self.now, Command::Vendor(&mut RemapKeep { ranges: ranges.to_vec() })) {
            Err(DriveError::BamFull(_)) => {
                *next = before;
                self.reset(next)
            }
            done => done.map(drop),
        }
    }

    fn reset(&mut self, next: &mut Content) -> Result<(), DriveError> {
        for (older, _) in self.names() {
            next.pages[older as usize] = Page::ZERO;
        }
        (next.blocks, next.whole) = (BTreeMap::new(), true);
        self.drive().submit(self.now, Command::Vendor(&mut BamReset)).map(drop)
    }

    /// A block write or trim voids what transactions stored there.
    fn forget_lines(&mut self, lpa: u64) {
        for lines in self.running.values_mut() {
            lines.retain(|(line, _)| line / LINES_PER_PAGE as u64 != lpa);
        }
    }

    fn store(&mut self, rng: &mut Stream, tx: Option<u32>, next: &mut Content) -> Result<(), DriveError> {
        let lines = self.config.pages() * LINES_PER_PAGE as u64;
        let first = self.page(rng) * LINES_PER_PAGE as u64 + rng.below(64);
        let n = (1 + rng.below(6)).min(lines - first);
        let taken = |l: u64| {
            self.running.iter().any(|(t, held)| Some(*t) != tx && held.iter().any(|(line, _)| *line == l))
        };
        // Transactions that touch a line are serialised by the host.
        if (first..first + n).any(taken) {
            return Ok(());
        }
        let pages = (first / LINES_PER_PAGE as u64, (first + n - 1) / LINES_PER_PAGE as u64);
        self.part(next, pages.0, pages.1 - pages.0 + 1);
        let mut data = vec![0; n as usize * LINE_SIZE];
        data.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&rng.next_u64().to_le_bytes()));
        for (i, line) in data.chunks_exact(LINE_SIZE).enumerate() {
            let line: [u8; LINE_SIZE] = line.try_into().expect("whole lines");
            match tx {
                Some(tx) => self.running.entry(tx).or_default().push((first + i as u64, line)),
                None => put_line(&mut next.pages, first + i as u64, &line),
            }
        }
        let (drive, at) = (self.drive(), ByteAddr(first * LINE_SIZE as u64));
        drive.store(self.now, at, &data, TxId(tx.unwrap_or(0)), WHAT)?;
        drive.flush_lines(self.now, at, data.len())?;
        drive.verify(self.now).map(drop)
    }

    /// Non-temporal stores to a part of a page, at any byte.
    fn stream(&mut self, rng: &mut Stream, next: &mut Content) -> Result<(), DriveError> {
        let (lpa, from) = (self.page(rng), rng.below(PAGE_SIZE as u64) as usize);
        let len = 1 + rng.below((PAGE_SIZE - from) as u64) as usize;
        let lines = (from / LINE_SIZE..(from + len).div_ceil(LINE_SIZE))
            .map(|line| lpa * LINES_PER_PAGE as u64 + line as u64);
        if lines.into_iter().any(|l| self.running.values().flatten().any(|(held, _)| *held == l)) {
            return Ok(());
        }
        let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        let part = match rng.below(3) {
            0 => Payload::Fill { word: rng.next_u64(), len },
            _ => Payload::Bytes(&bytes),
        };
        self.part(next, lpa, 1);
        next.pages[lpa as usize].write(from, part);
        let drive = self.drive();
        drive.stream(self.now, Lpa(lpa), from, Streamed::Part(part), WHAT)?;
        drive.verify(self.now).map(drop)
    }

    /// The running drive shows the newest content, committed or not.
    fn compare(&self, drive: &dyn Drive, lpa: u64) -> Result<(), DriveError> {
        let mut expected = vec![self.history.last().expect("history").pages[lpa as usize].clone()];
        for (line, data) in self.running.values().flatten() {
            if line / LINES_PER_PAGE as u64 == lpa {
                put_line(&mut expected, line % LINES_PER_PAGE as u64, data);
            }
        }
        let mut out = [Page::ZERO];
        drive.submit(self.now, Command::Read { lpa: Lpa(lpa), out: &mut out, what: WHAT })?;
        assert_eq!(out[0], expected[0], "page {lpa} of a running drive");
        Ok(())
    }

    /// [`Rig::recover`], unless the host stops in the middle of it: then everything may happen, and the next
    /// life looks.
    pub fn recover_unless_stopped(&mut self) {
        if !self.host.has_stopped() {
            self.host.stop_after(u64::MAX / 2, 0);
            self.recover();
        }
    }

    /// RECOVER, which the host may stop.
    pub fn half_recover(&mut self) {
        let drive = self.drive();
        if drive.info().answers("COMMIT") {
            let _ = drive.submit(self.now, Command::Vendor(&mut Recover));
        }
    }

    /// After opening: the drive recovers and holds the content at one point of the history, the command after
    /// that perhaps in part; that content is the history from now on.
    pub fn recover(&mut self) {
        let drive = self.drive();
        self.now = Nanos::from_secs(2);
        drive.check().expect("consistent when opened");
        if drive.info().answers("COMMIT") {
            drive.submit(self.now, Command::Vendor(&mut Recover)).expect("recovered");
        }
        let pages = vec![Page::ZERO; self.config.pages() as usize];
        let mut found = Content { pages, blocks: BTreeMap::new(), whole: false };
        for (l, page) in found.pages.iter_mut().enumerate() {
            let out = std::slice::from_mut(page);
            drive.submit(self.now, Command::Read { lpa: Lpa(l as u64), out, what: WHAT }).expect("readable");
        }
        if drive.info().answers("FS_WRITE") {
            let (entries, _) = BamRead::ask(&*drive, self.now, None).expect("read");
            let pages = entries.len();
            found.blocks = entries.into_iter().map(|e| (e.lpa.0, (e.ino, e.offset))).collect();
            assert_eq!(found.blocks.len(), pages, "two entries of one page");
        }
        drive.check().expect("consistent when recovered");
        let history = std::mem::take(&mut self.history);
        let fits = |k: usize| {
            let after = history.get(k + 1).filter(|next| !next.whole).unwrap_or(&history[k]);
            (0..found.pages.len()).find(|&l| !found.lies_between(&history[k], after, l))
        };
        let misfits: Vec<Option<usize>> = (0..history.len()).map(fits).collect();
        assert!(
            misfits.contains(&None),
            "the drive (BAM: {}) holds no point of its history of {} commands; first wrong page at each: {misfits:?}",
            drive.info().answers("FS_WRITE"),
            history.len()
        );
        self.history = vec![found];
    }
}

impl Content {
    /// These pages change: what BAM knows of the newest of two names goes to the other one with the content.
    fn part(&mut self, names: &[(u64, u64)], first: u64, count: u64) {
        for (older, newest) in names.iter().filter(|n| (first..first + count).contains(&n.1)) {
            // Where the run has both, the first of them to change leaves it to the other.
            if (!(first..first + count).contains(older) || newest < older)
                && let Some(block) = self.blocks.remove(newest)
            {
                self.blocks.insert(*older, block);
            }
        }
    }

    fn drop_page(&mut self, l: u64) {
        self.pages[l as usize] = Page::ZERO;
        self.blocks.remove(&l);
    }

    fn remap(&mut self, src: u64, dst: u64, count: u64) {
        self.whole = true;
        if src == dst {
            return;
        }
        let before = self.clone();
        (src..src + count).chain(dst..dst + count).for_each(|l| self.drop_page(l));
        for i in 0..count {
            self.pages[(dst + i) as usize] = before.pages[(src + i) as usize].clone();
            if let Some(block) = before.blocks.get(&(src + i)) {
                self.blocks.insert(dst + i, *block);
            }
        }
    }

    /// Whether page `l` is as it was, as it became, or, where it stayed the same block of the same file,
    /// between the two.
    fn lies_between(&self, before: &Content, after: &Content, l: usize) -> bool {
        let of = |c: &Content| c.blocks.get(&(l as u64)).copied();
        let (block, page) = (of(self), &self.pages[l]);
        if of(before) == of(after) {
            return block == of(before) && lies_between(page, &before.pages[l], &after.pages[l]);
        }
        (block == of(before) && *page == before.pages[l]) || (block == of(after) && *page == after.pages[l])
    }
}

fn put_line(content: &mut [Page], line: u64, data: &[u8; LINE_SIZE]) {
    let (lpa, at) = (line / LINES_PER_PAGE as u64, line % LINES_PER_PAGE as u64);
    content[lpa as usize].write(at as usize * LINE_SIZE, Payload::Bytes(data));
}

/// Whether each line of a page is the one before or the one after.
fn lies_between(found: &Page, before: &Page, after: &Page) -> bool {
    if found == before || found == after {
        return true;
    }
    let (f, b, a) = (found.to_bytes(), before.to_bytes(), after.to_bytes());
    let lines = |i: usize| i * LINE_SIZE..(i + 1) * LINE_SIZE;
    (0..LINES_PER_PAGE).all(|i| f[lines(i)] == b[lines(i)] || f[lines(i)] == a[lines(i)])
}
