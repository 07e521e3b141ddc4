//! NVM DIMMs on an image, alone and beside an SSD: nothing fenced or acknowledged is lost, and what is left
//! of a later call implies the earlier ones, whichever device they were made to.

use super::rig::options;
use granary_device::vendor::transactions::Recover;
use granary_device::{Command, Devices, Drive, DriveError, Role, Streamed, Structure};
use granary_image::host::Host;
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image, ImageDevices, ImageError, ImageMeta, OpenOptions};
use granary_mssd::{DriveConfig, Mode};
use granary_pmem::{DimmConfig, Domain};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, Payload, TxId};
use std::collections::BTreeMap;
use std::sync::Arc;

const WHAT: Structure = Structure::Data;
/// Pages of the DIMMs; the last ones are seldom stored to.
const PAGES: u64 = 24;
const WORDS: usize = PAGES as usize * PAGE_SIZE / 8;
const WORDS_PER_LINE: usize = LINE_SIZE / 8;
/// Pages of the SSD that are written.
const BLOCKS: u64 = 40;

/// DIMMs whose caches push lines out soon.
pub fn dimms(domain: Domain) -> DimmConfig {
    DimmConfig {
        dimms: 2,
        capacity: Bytes(PAGES * PAGE_SIZE as u64 / 2),
        domain,
        caches: Bytes(40 * LINE_SIZE as u64),
        ..DimmConfig::optane_dcpmm()
    }
}

/// Allowed contents between one acknowledged call and the next one.
#[derive(Clone)]
struct Point {
    /// Tags of the SSD's pages.
    blocks: Vec<u64>,
    /// Each word of the DIMMs as the last fence made it safe.
    must: Vec<u64>,
    /// The values that it may have instead: stored since, in order.
    also: BTreeMap<usize, Vec<u64>>,
}

struct Rig {
    host: MemoryHost,
    has_ssd: bool,
    domain: Domain,
    options: OpenOptions,
    image: Option<Image>,
    devices: Devices,
    now: Nanos,
    /// Since the last point from which nothing may be lost.
    history: Vec<Point>,
    /// The words as loads see them.
    visible: Vec<u64>,
    /// Of words that have left the caches since the last fence: which of `also` it was.
    left: BTreeMap<usize, usize>,
    tag: u64,
}

fn block(tag: u64) -> Page {
    let mut bytes = [0; PAGE_SIZE];
    bytes.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&tag.to_le_bytes()));
    if !tag.is_multiple_of(3) {
        // No repeated word: content that rides, or goes to `flash`.
        bytes[7] = 1;
    }
    Page::from_bytes(&bytes)
}

impl Rig {
    fn new(ssd: Option<Mode>, domain: Domain, options: OpenOptions) -> Rig {
        let host = MemoryHost::new();
        let ssd = ssd.map(|mode| {
            let mut config = DriveConfig::tiny(mode);
            config.flash.geometry.blocks_per_plane = 14;
            config
        });
        let has_ssd = ssd.is_some();
        let devices = ImageDevices { ssd, nvm: Some(dimms(domain)) };
        Image::create_on(&host, &devices, ImageMeta::default(), false).expect("made");
        let point = Point { blocks: vec![0; BLOCKS as usize], must: vec![0; WORDS], also: BTreeMap::new() };
        Rig {
            host,
            has_ssd,
            domain,
            options,
            image: None,
            devices: Devices::none(),
            now: Nanos::ZERO,
            history: vec![point],
            visible: vec![0; WORDS],
            left: BTreeMap::new(),
            tag: 0,
        }
    }

    fn open(&mut self) -> Result<(), ImageError> {
        let (image, devices) = Image::open_on(Arc::new(self.host.clone()), self.options)?;
        (self.image, self.devices, self.now) = (Some(image), devices, Nanos::ZERO);
        Ok(())
    }

    fn drive(&self, role: Role) -> Arc<dyn Drive> {
        self.devices.get(role).expect("a device").drive().clone()
    }

    fn crash(&mut self, rng: &mut Stream) {
        (self.image, self.devices) = (None, Devices::none());
        self.host = match self.options.durability {
            Durability::Process => self.host.after_process_death(),
            Durability::Machine => self.host.after_machine_crash([512, 4096][rng.below(2) as usize], rng),
        };
    }

    /// Changes before the last point can be lost no more.
    fn safe(&mut self) {
        self.history.drain(..self.history.len() - 1);
    }

    fn barrier(&mut self) -> Result<(), ImageError> {
        self.image.as_ref().expect("open").barrier()?;
        self.safe();
        Ok(())
    }

    fn last(&mut self) -> &mut Point {
        self.history.last_mut().expect("history")
    }

    /// A call has made another point, whether or not it was answered.
    fn acknowledged(&mut self, next: Point, done: Result<Nanos, DriveError>) -> Result<(), DriveError> {
        self.history.push(next);
        self.now = done?;
        if self.options.durability == Durability::Process {
            self.safe();
        }
        Ok(())
    }

    /// Some bytes, most of them in few lines.
    fn range(rng: &mut Stream, most: u64) -> (usize, usize) {
        let end = if rng.chance(0.8) { 3 * PAGE_SIZE as u64 } else { PAGES * PAGE_SIZE as u64 };
        let len = 1 + rng.below(most);
        (rng.below(end - len) as usize, len as usize)
    }

    /// These bytes are stored: the words that change.
    fn stored(&mut self, at: usize, data: &[u8]) -> Vec<usize> {
        let words: Vec<usize> = (at / 8..(at + data.len()).div_ceil(8)).collect();
        for &word in &words {
            let mut bytes = self.visible[word].to_le_bytes();
            for (i, byte) in bytes.iter_mut().enumerate() {
                if let Some(new) = (word * 8 + i).checked_sub(at).and_then(|n| data.get(n)) {
                    *byte = *new;
                }
            }
            self.visible[word] = u64::from_le_bytes(bytes);
            let value = self.visible[word];
            self.last().also.entry(word).or_default().push(value);
        }
        words
    }

    /// The lines of these bytes leave the caches.
    fn leave(&mut self, at: usize, len: usize) {
        let first = at / LINE_SIZE * WORDS_PER_LINE;
        let end = (at + len).div_ceil(LINE_SIZE) * WORDS_PER_LINE;
        let point = self.history.last().expect("history");
        for (word, values) in point.also.range(first..end) {
            self.left.insert(*word, values.len() - 1);
        }
    }

    /// With eADR what was stored is safe.
    fn safe_at_once(&mut self, words: &[usize]) -> Point {
        let mut next = self.history.last().expect("history").clone();
        for &word in words {
            next.must[word] = self.visible[word];
            next.also.remove(&word);
        }
        next
    }

    fn step(&mut self, rng: &mut Stream) -> Result<(), DriveError> {
        self.now += Nanos(rng.below(5000));
        if self.has_ssd && rng.chance(0.25) {
            return self.block_write(rng);
        }
        let (dimm, now) = (self.drive(Role::Nvm), self.now);
        match rng.below(10) {
            0..4 => {
                let (at, len) = Rig::range(rng, 300);
                let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                let words = self.stored(at, &data);
                let done = dimm.store(now, ByteAddr(at as u64), &data, TxId::NONE, WHAT);
                if self.domain == Domain::Eadr {
                    let next = self.safe_at_once(&words);
                    return self.acknowledged(next, done);
                }
                self.now = done?;
            }
            4 => {
                let (at, len) = Rig::range(rng, 300);
                let (page, from) = (at / PAGE_SIZE, at % PAGE_SIZE);
                let len = if rng.chance(0.2) { PAGE_SIZE } else { len }.min(PAGE_SIZE - from);
                let data: Vec<u8> = match rng.below(4) {
                    0 => vec![0; len],
                    _ => (0..len).map(|_| rng.next_u64() as u8).collect(),
                };
                let words = self.stored(page * PAGE_SIZE + from, &data);
                self.leave(at, len);
                let whole = Page::from_bytes(data.first_chunk::<PAGE_SIZE>().unwrap_or(&[0; PAGE_SIZE]));
                let streamed = match len {
                    PAGE_SIZE => Streamed::Page(&whole),
                    _ => Streamed::Part(Payload::Bytes(&data)),
                };
                let done = dimm.stream(now, Lpa(page as u64), from, streamed, WHAT);
                if self.domain == Domain::Eadr {
                    let next = self.safe_at_once(&words);
                    return self.acknowledged(next, done);
                }
                self.now = done?;
            }
            5 | 6 => {
                let (at, len) = Rig::range(rng, 2000);
                self.leave(at, len);
                self.now = dimm.flush_lines(now, ByteAddr(at as u64), len)?;
            }
            7 => {
                let (at, len) = Rig::range(rng, 500);
                let mut out = vec![0; len];
                dimm.load(now, ByteAddr(at as u64), &mut out, WHAT)?;
                let expected: Vec<u8> = self.visible.iter().flat_map(|w| w.to_le_bytes()).collect();
                assert_eq!(out, expected[at..at + len], "a load of running DIMMs");
            }
            _ => {
                let mut next = self.history.last().expect("history").clone();
                for (word, nth) in std::mem::take(&mut self.left) {
                    let Some(values) = next.also.get_mut(&word) else { continue };
                    next.must[word] = values[nth];
                    values.drain(..=nth);
                    if values.is_empty() {
                        next.also.remove(&word);
                    }
                }
                let done = dimm.verify(now);
                return self.acknowledged(next, done);
            }
        }
        Ok(())
    }

    fn block_write(&mut self, rng: &mut Stream) -> Result<(), DriveError> {
        self.tag += 1;
        let lpa = rng.below(BLOCKS);
        let mut next = self.history.last().expect("history").clone();
        next.blocks[lpa as usize] = self.tag;
        let pages = [block(self.tag)];
        let command = Command::Write { lpa: Lpa(lpa), pages: &pages, what: WHAT };
        let done = self.drive(Role::Ssd).submit(self.now, command);
        self.acknowledged(next, done)
    }

    /// Content of the devices.
    fn content(devices: &Devices, has_ssd: bool) -> (Vec<Page>, Vec<u64>) {
        let mut blocks = vec![Page::ZERO; if has_ssd { BLOCKS as usize } else { 0 }];
        if let Some(ssd) = devices.get(Role::Ssd).map(|port| port.drive()) {
            if ssd.info().answers("COMMIT") {
                ssd.submit(Nanos::ZERO, Command::Vendor(&mut Recover)).expect("recovered");
            }
            for (lpa, out) in (0..).zip(blocks.iter_mut()) {
                let out = std::slice::from_mut(out);
                ssd.submit(Nanos::from_secs(1), Command::Read { lpa: Lpa(lpa), out, what: WHAT })
                    .expect("read");
            }
        }
        let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
        let mut bytes = vec![0; WORDS * 8];
        dimm.load(Nanos::ZERO, ByteAddr(0), &mut bytes, WHAT).expect("loaded");
        let words = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight")));
        (blocks, words.collect())
    }

    /// Checks that the devices hold their content of one point of the history, which is the only one from now
    /// on.
    fn recover(&mut self, seed: u64) {
        self.devices.check().expect("consistent");
        let (blocks, words) = Rig::content(&self.devices, self.has_ssd);
        let fits = |p: &Point| {
            let page = |tag: u64| if tag == 0 { Page::ZERO } else { block(tag) };
            (!self.has_ssd || p.blocks.iter().zip(&blocks).all(|(tag, found)| page(*tag) == *found))
                && (0..WORDS).all(|w| {
                    words[w] == p.must[w] || p.also.get(&w).is_some_and(|also| also.contains(&words[w]))
                })
        };
        let found = self.history.iter().rev().find(|p| fits(p));
        let found = found.unwrap_or_else(|| panic!("seed {seed}: no point of {}", self.history.len()));
        let blocks = found.blocks.clone();
        self.history = vec![Point { blocks, must: words.clone(), also: BTreeMap::new() }];
        (self.visible, self.left) = (words, BTreeMap::new());
    }

    /// Opens the image read-only. This finds the same content as the next opening for writing, and leaves
    /// everything as it is.
    fn look(&self) -> (Vec<Page>, Vec<u64>) {
        let options = OpenOptions { read_only: true, ..self.options };
        let writes = self.host.writes();
        let (image, devices) = Image::open_on(Arc::new(self.host.clone()), options).expect("opens");
        let content = Rig::content(&devices, self.has_ssd);
        // Its changes are forgotten.
        let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
        let page = Streamed::Page(&Page::ZERO);
        dimm.stream(Nanos::ZERO, Lpa(0), 0, page, WHAT).and_then(|t| dimm.verify(t)).expect("in memory");
        image.close().expect("closed");
        assert_eq!(self.host.writes(), writes);
        content
    }
}

/// Lives of one image, each ended by a crash: anywhere among its calls, at a host write, within a host write,
/// while it is being opened; now and then by a clean close.
fn lives(seed: u64, durability: Durability) {
    let mut rng = Stream::new(seed, "image.nvm");
    let ssd = [None, Some(Mode::Log), Some(Mode::Cache)][rng.below(3) as usize];
    let domain = if rng.chance(0.25) { Domain::Eadr } else { Domain::Adr };
    let half = [32 << 10, 128 << 10, 1 << 20][rng.below(3) as usize];
    // An SSD's call may change more than the smallest takes.
    let half = if ssd.is_some() { half.max(128 << 10) } else { half };
    let riders = Some([0, 3, 64][rng.below(3) as usize]);
    let mut rig = Rig::new(ssd, domain, OpenOptions { riders, ..options(durability, half) });
    let barriers = [0.1, 0.02, 0.003][rng.below(3) as usize];
    for life in 0..4 {
        if rng.chance(0.3) {
            rig.host.stop_after(rng.below(12), rng.below(5000) as usize);
        }
        while let Err(e) = rig.open() {
            assert!(rig.host.has_stopped(), "seed {seed}, life {life}: {e}");
            rig.crash(&mut rng);
        }
        if rig.host.has_stopped() {
            rig.crash(&mut rng);
            continue;
        }
        rig.host.stop_after(u64::MAX / 2, 0);
        rig.recover(seed);
        let steps = rng.below(800);
        if rng.chance(0.7) {
            rig.host.stop_after(rng.below(steps + 1), rng.below(5000) as usize);
        }
        for _ in 0..steps {
            let barrier = durability == Durability::Machine && rng.chance(barriers);
            let failed = match rig.step(&mut rng) {
                Ok(()) => (barrier && rig.barrier().is_err()).then(|| "a barrier".to_owned()),
                Err(e) => Some(e.to_string()),
            };
            if let Some(why) = failed {
                assert!(rig.host.has_stopped(), "seed {seed}, life {life}: {why}");
                break;
            }
        }
        if !rig.host.has_stopped() && rng.chance(0.15) {
            rig.host.stop_after(u64::MAX / 2, 0);
            rig.devices = Devices::none();
            rig.image.take().expect("open").close().expect("closed");
            rig.safe();
        } else {
            rig.crash(&mut rng);
        }
    }
    let seen = rig.look();
    rig.open().expect("opens");
    assert_eq!(Rig::content(&rig.devices, rig.has_ssd), seen, "seed {seed}: who only reads");
    rig.recover(seed);
}

#[test]
fn process_mode_loses_nothing_fenced_or_acknowledged() {
    (0..120).for_each(|seed| lives(seed, Durability::Process));
}

#[test]
fn machine_mode_loses_nothing_before_the_last_barrier_and_keeps_the_order_of_devices() {
    (0..120).for_each(|seed| lives(seed, Durability::Machine));
}

fn both(mode: Mode) -> ImageDevices {
    ImageDevices { nvm: Some(dimms(Domain::Adr)), ..ImageDevices::ssd(DriveConfig::tiny(mode)) }
}

fn put(dimm: &dyn Drive, at: u64, data: &[u8]) -> Result<Nanos, DriveError> {
    dimm.store(Nanos::ZERO, ByteAddr(at), data, TxId::NONE, WHAT)?;
    dimm.flush_lines(Nanos::ZERO, ByteAddr(at), data.len())?;
    dimm.verify(Nanos::ZERO)
}

fn get(dimm: &dyn Drive, at: u64) -> [u8; 8] {
    let mut out = [0; 8];
    dimm.load(Nanos::ZERO, ByteAddr(at), &mut out, WHAT).expect("loaded");
    out
}

#[test]
fn dimms_come_back_from_their_directory_with_their_counters_and_are_locked() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("img");
    let config = ImageDevices::nvm(dimms(Domain::Adr));
    Image::create(&path, &config, ImageMeta::default(), false).expect("made");
    for round in 0..4u64 {
        let (image, devices) = Image::open(&path, Durability::Process, false).expect("opens");
        assert!(matches!(Image::open(&path, Durability::Process, true), Err(ImageError::InUse { .. })));
        let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
        assert!(devices.get(Role::Ssd).is_none());
        if let Some(before) = round.checked_sub(1) {
            assert_eq!(get(&**dimm, before * 5000), [before as u8 + 1; 8]);
        }
        put(&**dimm, round * 5000, &[round as u8 + 1; 8]).expect("stored");
        // The others die.
        if round % 2 == 1 {
            image.close().expect("closed");
        }
    }
    let info = Image::describe(&path).expect("an image");
    assert!(info.clean && info.devices == config);
    assert_eq!(info.counters.nvm.dimm.fences, 2, "of the lives that were closed");
    let mut files: Vec<String> = std::fs::read_dir(&path)
        .expect("a directory")
        .map(|f| f.expect("entry").file_name().into_string().expect("a name"))
        .collect();
    files.sort();
    assert_eq!(files, ["counters.toml", "epoch", "image.toml", "lock", "nvm", "wal"]);
}

#[test]
fn damage_to_the_content_is_an_error_of_its_page_and_a_whole_store_heals_it() {
    let host = MemoryHost::new();
    Image::create_on(&host, &ImageDevices::nvm(dimms(Domain::Adr)), ImageMeta::default(), false)
        .expect("made");
    let open =
        || Image::open_on(Arc::new(host.clone()), options(Durability::Process, 64 << 10)).expect("opens");
    let (image, devices) = open();
    let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
    put(&**dimm, 4096, &[7; 100]).expect("stored");
    put(&**dimm, 8192, &[8; 100]).expect("stored");
    image.close().expect("closed");
    assert!(host.tamper("nvm", |bytes| bytes[4100] ^= 1));
    let (image, devices) = open();
    let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
    let load = |at| dimm.load(Nanos::ZERO, ByteAddr(at), &mut [0; 8], WHAT);
    assert_eq!(load(4096), Err(DriveError::Unreadable(1)));
    assert_eq!(get(&**dimm, 8192), [8; 8]);
    dimm.stream(Nanos::ZERO, Lpa(1), 0, Streamed::Page(&Page::word(5)), WHAT).expect("stored");
    dimm.verify(Nanos::ZERO).expect("fenced");
    assert_eq!(get(&**dimm, 4096), 5u64.to_le_bytes());
    image.close().expect("closed");
}

#[test]
fn a_full_disk_of_the_host_ends_fences_and_loses_nothing_fenced() {
    let host = MemoryHost::new();
    Image::create_on(&host, &ImageDevices::nvm(dimms(Domain::Adr)), ImageMeta::default(), false)
        .expect("made");
    let open =
        || Image::open_on(Arc::new(host.clone()), options(Durability::Process, 64 << 10)).expect("opens");
    let (image, devices) = open();
    host.limit_space(Some(20 << 10));
    let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
    let mut n = 0u64;
    let refused = loop {
        match put(&**dimm, n % 100 * 64, &n.to_le_bytes()) {
            Ok(_) => n += 1,
            Err(e) => break e,
        }
        assert!(n < 10_000, "the disk is never full");
    };
    assert!(matches!(&refused, DriveError::ReadOnly(why) if why.contains("no space left")), "{refused}");
    assert!(image.failure().is_some() && image.close().is_err());
    host.limit_space(None);
    let (_image, devices) = open();
    let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
    (n - 90..n).for_each(|n| assert_eq!(get(&**dimm, n % 100 * 64), n.to_le_bytes()));
}

#[test]
fn the_ssd_of_an_image_grows_beside_dimms_in_use_and_dimms_alone_do_not() {
    for mode in [Mode::Log, Mode::Cache] {
        let host = MemoryHost::new();
        Image::create_on(&host, &both(mode), ImageMeta::default(), false).expect("made");
        let open = |host: &MemoryHost| {
            Image::open_on(Arc::new(host.clone()), options(Durability::Process, 256 << 10)).expect("opens")
        };
        let (image, devices) = open(&host);
        let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
        put(&**dimm, 64, &[1; 8]).expect("stored");
        let before = devices.get(Role::Ssd).expect("an SSD").info().pages;
        let grown = image.grow_open(Bytes(2 * before * PAGE_SIZE as u64)).expect("grown");
        assert!(grown.pages() >= 2 * before);
        put(&**dimm, 128, &[2; 8]).expect("stored");
        // Dies.
        drop((image, devices));
        let host = host.after_process_death();
        let all: Arc<dyn Host> = Arc::new(host.clone());
        let grown = Image::grow_on(&all, Bytes(3 * before * PAGE_SIZE as u64)).expect("grown");
        let (_image, devices) = open(&host);
        assert_eq!(devices.get(Role::Ssd).expect("an SSD").info().pages, grown.pages());
        let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
        assert_eq!((get(&**dimm, 64), get(&**dimm, 128)), ([1; 8], [2; 8]));
    }
    let host = MemoryHost::new();
    Image::create_on(&host, &ImageDevices::nvm(dimms(Domain::Adr)), ImageMeta::default(), false)
        .expect("made");
    let all: Arc<dyn Host> = Arc::new(host.clone());
    let why = Image::grow_on(&all, Bytes::gib(1)).expect_err("refused").to_string();
    assert!(why.contains("do not grow") && why.contains("granary mkfs"), "{why}");
    let (image, _devices) = Image::open_on(all, options(Durability::Process, 64 << 10)).expect("opens");
    assert!(image.grow_open(Bytes::gib(1)).is_err_and(|e| e.to_string().contains("do not grow")));
}

#[test]
fn a_small_image_of_large_dimms_takes_no_space() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("img");
    let config = ImageDevices::nvm(DimmConfig::optane_dcpmm().interleaved(6));
    Image::create(&path, &config, ImageMeta::default(), false).expect("made");
    let (image, devices) = Image::open(&path, Durability::Process, false).expect("opens");
    let dimm = devices.get(Role::Nvm).expect("DIMMs").drive();
    // The last line of more than half a terabyte.
    let last = dimm.info().pages * PAGE_SIZE as u64 - 8;
    put(&**dimm, last, &[3; 8]).expect("stored");
    image.close().expect("closed");
    let taken = path.join("nvm").metadata().expect("there").blocks() * 512;
    assert!(taken <= 64 << 10, "{taken} bytes");
    let (_image, devices) = Image::open(&path, Durability::Process, true).expect("opens");
    assert_eq!(get(&**devices.get(Role::Nvm).expect("DIMMs").drive(), last), [3; 8]);
}
