//! [`Image`]: a drive on files, which survives the death of the process and, if asked to, a crash of the machine.
//!
//! ```text
//!   IMAGE/                                              who changes it
//!     image.toml     version, identity, configuration   nobody, once it is made
//!     wal            redo log, two halves               every call of the drive (journal.rs, wal.rs)
//!     dram           battery-backed memory              checkpoints: halves of the log that are full (dram.rs)
//!     flash          page contents, at 4096 x ppa       programs (medium.rs), holes where blocks hold nothing (holes.rs)
//!     counters.toml  what was counted until the last close
//!     lock           held while the image is open
//! ```
//!
//! While it is open the drive in memory is the truth; what persists of it leaves as physical redo records. Opening puts the
//! valid part of the redo log into `dram`, makes the drive from it and powers it up: then it is a drive whose power has
//! failed, and RECOVER and the file systems' recovery find what they always find. The files keep what docs/FAULT_MODEL.md
//! calls kept. Bytes that were never written are zeros and mean "as new", so an empty image takes no space.
//!
//! It does *not* keep timelines, the order of use of cache pages, nor counters of a run that did not end cleanly.

use crate::grow;
use crate::header::{Header, ImageMeta};
use granary_device::{Drive, DriveCounters, DriveError};
use granary_mssd::{DriveConfig, Kept, Layout, Mssd};
use granary_redo::files::{COUNTERS, DRAM, FLASH, WAL};
use granary_redo::host::disk::DiskHost;
use granary_redo::host::{Host, HostFile};
use granary_redo::journal::{Journal, JournalCounters, RIDERS};
use granary_redo::redo::{Memory, Record, records};
use granary_redo::region::{Region, Regions};
use granary_redo::wal::{self, Wal, Way};
use granary_redo::{Durability, ImageError, start_thread};
use granary_units::{Bytes, PAGE_SIZE, Page};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The largest half of a redo log: what opening may have to replay twice, and the unit of checkpoints.
const LARGEST_HALF: u64 = 32 << 20;
/// The smallest one.
const SMALLEST_HALF: u64 = 1 << 20;

/// How to open an image.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// What acknowledged changes survive.
    pub durability: Durability,
    /// Nothing is written to the image. The drive takes writes (recovery needs them) and forgets them when it is closed.
    pub read_only: bool,
    /// Checkpoints are taken by whoever fills a half of the redo log, not by a thread: repeatable, for tests.
    pub inline_checkpoints: bool,
    /// Size of a half of the redo log, bytes; chosen by the drive's size where left out.
    pub wal_half: Option<u64>,
    /// Pages whose content goes through the redo log between two barriers of machine mode, before content goes to `flash`
    /// directly; 64 where left out.
    pub riders: Option<usize>,
}

/// What is known of an image without opening it.
#[derive(Clone, Debug)]
pub struct ImageInfo {
    /// Identity and file system.
    pub meta: ImageMeta,
    /// The drive.
    pub drive: DriveConfig,
    /// Closed cleanly: nothing is to be replayed or recovered.
    pub clean: bool,
    /// What was counted until the image was last closed cleanly.
    pub counters: DriveCounters,
    /// Where other users of this machine get at it: that it is so, and what to do.
    pub exposed: Option<String>,
}

/// What opening had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Groups of changes taken from the redo log.
    pub groups: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Flash pages whose content was among them.
    pub pages: u64,
}

impl fmt::Display for Replayed {
    /// For people who wait for a mount.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("recovered after an unclean stop: ")?;
        match self.groups {
            0 => f.write_str("nothing had to be replayed"),
            n => write!(f, "{n} groups of changes ({}) from the redo log", Bytes(self.bytes)),
        }
    }
}

/// An open image.
pub struct Image {
    pub(crate) drive: Arc<Mssd>,
    pub(crate) journal: Arc<Journal>,
    /// Checkpoints; commits.
    threads: Vec<JoinHandle<()>>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) meta: ImageMeta,
    before: DriveCounters,
    replayed: Option<Replayed>,
    pub(crate) read_only: bool,
    /// Held while the drive grows.
    pub(crate) growing: Mutex<()>,
    _lock: Box<dyn Send + Sync>,
}

impl Image {
    /// Makes an image of a new drive at `path`: a directory that does not exist, is empty, or (with `force`) holds an image,
    /// which is lost. Takes no space to speak of, whatever the drive's size.
    ///
    /// # Errors
    /// [`ImageError::Exists`], [`ImageError::Foreign`], [`ImageError::Config`], host errors.
    pub fn create(
        path: impl AsRef<Path>,
        config: &DriveConfig,
        meta: ImageMeta,
        force: bool,
    ) -> Result<(), ImageError> {
        Image::create_on(&DiskHost::new(path.as_ref()), config, meta, force)
    }

    /// [`Image::create`] on any host.
    ///
    /// # Errors
    /// As there.
    pub fn create_on(
        host: &dyn Host,
        config: &DriveConfig,
        mut meta: ImageMeta,
        force: bool,
    ) -> Result<(), ImageError> {
        config.validate()?;
        host.create(force)?;
        if meta.uuid.is_empty() {
            meta.uuid = random_uuid();
        }
        let layout = Layout::new(config);
        for (name, len) in [(FLASH, layout.flash), (DRAM, layout.end), (WAL, 0)] {
            let made = host.open(name, false).and_then(|file| {
                file.set_len(0)?;
                file.set_len(len)?;
                file.sync()
            });
            made.map_err(|e| ImageError::host(format!("making {name}"), e))?;
        }
        // Last: without it the directory is no image.
        Header { image: meta, drive: config.clone() }.write(host)
    }

    /// Says in the header of an image that what was `unfinished` is complete. Nobody has it open.
    ///
    /// # Errors
    /// As [`Image::open`]; host errors.
    pub fn finish_on(host: &dyn Host) -> Result<(), ImageError> {
        host.survey(true)?;
        let _held = host.lock(false)?;
        let mut header = Header::read(host)?;
        header.image.unfinished = false;
        header.write(host)
    }

    /// Opens an image: the drive as it was, or as it was when its process died.
    ///
    /// # Errors
    /// Every kind of [`ImageError`] but `Exists` and `Config`.
    pub fn open(
        path: impl AsRef<Path>,
        durability: Durability,
        read_only: bool,
    ) -> Result<(Image, Arc<dyn Drive>), ImageError> {
        let options = OpenOptions { durability, read_only, ..OpenOptions::default() };
        Image::open_on(Arc::new(DiskHost::new(path.as_ref())), options)
    }

    /// [`Image::open`] on any host.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(host: Arc<dyn Host>, options: OpenOptions) -> Result<(Image, Arc<dyn Drive>), ImageError> {
        let OpenOptions { durability, read_only, inline_checkpoints, wal_half, riders: most_riders } =
            options;
        let most_riders = most_riders.unwrap_or(RIDERS);
        host.survey(!read_only)?;
        // What is no image is not locked.
        Header::read(&*host)?;
        let lock = host.lock(read_only)?;
        // What it was before may have grown.
        let Header { image: meta, drive: config } = Header::read(&*host)?;
        let uuid = uuid_bytes(&meta.uuid);
        let layout = Layout::new(&config);
        let open = |name, len| open_file(&*host, name, len, read_only);
        let memory = grow::settle(&*host, &layout, read_only)?;
        let (flash, dram_file, wal_file) =
            (open_flash(&*host, layout.flash, read_only)?, open(memory, Some(layout.end))?, open(WAL, None)?);

        let mut dram = Regions::default();
        dram.put(Region::new(dram_file, Memory::Dram, layout.checksums, read_only));
        // Only a clean close leaves it empty: one that is there and holds nothing is that of a process which died.
        let clean = wal_file.is_empty().map_err(|e| ImageError::host("reading wal", e))?;
        let (replayed, riders) = replay(&*wal_file, &uuid, &mut dram)?;
        let replayed = (!clean).then_some(replayed);
        let kept = match dram.get(Memory::Dram) {
            Some(memory) => Kept::load(&config, memory)?,
            None => return Err(ImageError::damaged(DRAM, "the file is missing")),
        };
        let wanted = riders.into_iter().filter(|(ppa, (seq, _))| kept.sequence(*ppa) == Some(*seq));
        let mut wanted: Vec<(u32, u64, Page)> = wanted.map(|(ppa, (seq, page))| (ppa, seq, page)).collect();
        wanted.sort_unstable_by_key(|w| w.0);
        let half = wal_half
            .unwrap_or_else(|| (layout.flash / 32).next_multiple_of(1 << 20))
            .clamp(SMALLEST_HALF.min(wal_half.unwrap_or(SMALLEST_HALF)), LARGEST_HALF);
        let wal = if read_only {
            None
        } else {
            settle(&*flash, &mut dram, &wanted, durability)?;
            let way = match durability {
                Durability::Process => Way::Shared,
                Durability::Machine => Way::Written,
            };
            let started = Wal::start(wal_file, uuid, half, way);
            Some(started.map_err(|e| ImageError::host("beginning wal", e))?)
        };
        let journal =
            Arc::new(Journal::new(durability, inline_checkpoints, half, most_riders, flash, wal, dram));
        if read_only {
            // Nothing will be written, so nothing needs their checksums.
            wanted.iter().for_each(|(ppa, seq, page)| journal.hold(&journal.rider(*ppa, *seq, page, 0)));
        }
        let (drive, unfinished) = kept.start(&journal)?;
        let drive = Arc::new(drive);
        let mut threads = Vec::new();
        if !read_only && !inline_checkpoints {
            let mut start = |name, body: fn(&Journal)| {
                let journal = journal.clone();
                let started = start_thread(name, move || body(&journal));
                let failed = |e| ImageError::host(format!("starting the thread {name}"), e);
                started.map(|thread| threads.push(thread)).map_err(failed)
            };
            start("granary-checkpoint", Journal::run_checkpoints)?;
            if durability == Durability::Machine {
                start("granary-commit", Journal::run_commits)?;
            }
        }
        let before = read_counters(&*host);
        let opened = drive.clone();
        let growing = Mutex::new(());
        let image =
            Image { drive, journal, threads, host, meta, before, replayed, read_only, growing, _lock: lock };
        if let Some(rest) = unfinished {
            // Where it fails the drive is left as if its process had died.
            opened.finish_remap(rest).map_err(|e| match e {
                DriveError::ReadOnly(reason) => ImageError::Stopped { reason },
                e => ImageError::damaged(FLASH, format!("a REMAP that was under way cannot go on: {e}")),
            })?;
        }
        Ok((image, opened))
    }

    /// What an image says about itself, without opening it; works while another process has it open.
    ///
    /// # Errors
    /// As [`Image::open`], but for `InUse`.
    pub fn describe(path: impl AsRef<Path>) -> Result<ImageInfo, ImageError> {
        Image::describe_on(&DiskHost::new(path.as_ref()))
    }

    /// [`Image::describe`] on any host.
    ///
    /// # Errors
    /// As there.
    pub fn describe_on(host: &dyn Host) -> Result<ImageInfo, ImageError> {
        host.survey(false)?;
        let Header { image: meta, drive } = Header::read(host)?;
        let wal = open_file(host, WAL, None, true)?;
        let clean = wal.is_empty().map_err(|e| ImageError::host("reading wal", e))?;
        Ok(ImageInfo { meta, drive, clean, counters: read_counters(host), exposed: host.exposed() })
    }

    /// Returns when everything that the drive acknowledged before the call is safe from a crash of the machine (machine
    /// mode; otherwise at once). Callers at the same time share one sync. To be called outside of any lock of the file
    /// system that others need.
    ///
    /// # Errors
    /// [`ImageError::Stopped`]: the host failed.
    pub fn barrier(&self) -> Result<(), ImageError> {
        self.journal.barrier().map_err(|reason| ImageError::Stopped { reason })
    }

    /// As [`Image::barrier`], without waiting where others have barriers under way, too: `done` is called, by any thread,
    /// with what that would have returned.
    pub fn barrier_then(&self, done: impl FnOnce(Result<(), ImageError>) + Send + 'static) {
        let told = |r: Result<(), String>| done(r.map_err(|reason| ImageError::Stopped { reason }));
        self.journal.barrier_then(Box::new(told));
    }

    /// Ends: everything reaches its place and is synced, the redo log is emptied. The drive takes no more changes.
    ///
    /// # Errors
    /// Host errors: the image is then as if the process had died, and nothing acknowledged is lost.
    pub fn close(mut self) -> Result<(), ImageError> {
        // The last group may need a free half of the log: that takes the thread which is stopped then.
        let safe = self.barrier();
        self.stop_threads();
        if self.read_only {
            return Ok(());
        }
        safe?;
        self.save_counters()?;
        self.journal.close().map_err(|reason| ImageError::Stopped { reason })?;
        self.drive.punch();
        Ok(())
    }

    /// Writes down what was counted so far.
    ///
    /// # Errors
    /// Host errors.
    pub fn save_counters(&self) -> Result<(), ImageError> {
        let text = toml::to_string(&self.counters())
            .map_err(|e| ImageError::host("writing counters.toml", std::io::Error::other(e.to_string())))?;
        self.host.replace(COUNTERS, text.as_bytes()).map_err(|e| ImageError::host("writing counters.toml", e))
    }

    /// What the drive counted over its life: until its last clean close, and since it was opened.
    pub fn counters(&self) -> DriveCounters {
        self.before.plus(&Drive::counters(&*self.drive))
    }

    /// What the image itself did since it was opened.
    pub fn journal_counters(&self) -> JournalCounters {
        self.journal.counters()
    }

    /// Identity and file system.
    pub fn meta(&self) -> &ImageMeta {
        &self.meta
    }

    /// The directory that the image is in, wherever it has been moved since it was opened; `None` on a host without directories.
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.host.directory()
    }

    /// Where other users of this machine get at the image: that it is so, and what to do.
    pub fn exposed(&self) -> Option<String> {
        self.host.exposed()
    }

    /// Puts an empty file beside those of the image, durable on return: what its user has to remember of it. Cheap where it is
    /// there already.
    ///
    /// # Errors
    /// Host errors.
    pub fn note(&self, name: &'static str) -> Result<(), ImageError> {
        if self.has_note(name) {
            return Ok(());
        }
        self.host.replace(name, b"").map_err(|e| ImageError::host(format!("writing {name}"), e))
    }

    /// Whether [`Image::note`] has put a file of this name there.
    pub fn has_note(&self, name: &'static str) -> bool {
        self.host.exists(name)
    }

    /// The drive's configuration.
    pub fn config(&self) -> Arc<DriveConfig> {
        self.drive.config()
    }

    /// What opening found in the redo log, which may be nothing; `None` after a clean close.
    pub fn replayed(&self) -> Option<Replayed> {
        self.replayed
    }

    /// Why the image takes no more changes, if a failure of the host made it so.
    pub fn failure(&self) -> Option<String> {
        self.journal.failure()
    }

    /// From now on no change is taken; reads go on. What the drive has answered is safe as if the process died now, and closing
    /// is an error. For a caller whose own state has become doubtful.
    pub fn freeze(&self, reason: &str) {
        self.journal.fail(reason.to_owned());
    }

    fn stop_threads(&mut self) {
        self.journal.stop();
        for thread in self.threads.drain(..) {
            // The threads keep their failures in the journal; a panic in one has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Image {
    /// Without [`Image::close`] the image is left as if the process had died; the drive takes no more changes.
    fn drop(&mut self) {
        self.stop_threads();
        self.journal.fail("the image has been closed".to_owned());
    }
}

pub(crate) fn open_file(
    host: &dyn Host,
    name: &'static str,
    len: Option<u64>,
    read_only: bool,
) -> Result<Arc<dyn HostFile>, ImageError> {
    if !host.exists(name) {
        return Err(ImageError::damaged(name, "the file is missing"));
    }
    let doing = || format!("opening {name}");
    let file = host.open(name, read_only).map_err(|e| ImageError::host(doing(), e))?;
    let found = file.len().map_err(|e| ImageError::host(doing(), e))?;
    match len {
        Some(len) if len != found => Err(ImageError::damaged(
            name,
            format!("it is {found} bytes long, the drive's configuration makes it {len}"),
        )),
        _ => Ok(file),
    }
}

/// The file of page contents. One that is longer was about to grow: what is behind the end has never been used.
fn open_flash(host: &dyn Host, len: u64, read_only: bool) -> Result<Arc<dyn HostFile>, ImageError> {
    let file = open_file(host, FLASH, None, read_only)?;
    let doing = |e| ImageError::host("opening flash", e);
    if file.len().map_err(doing)? <= len {
        return open_file(host, FLASH, Some(len), read_only);
    }
    if !read_only {
        file.set_len(len).map_err(doing)?;
    }
    Ok(file)
}

/// Contents of flash pages that rode in the redo log: the newest of each.
type Riders = FxHashMap<u32, (u64, Page)>;

/// Puts the redo log into memory. Contents of flash pages are returned: which of them still count is known at the end.
fn replay(
    file: &dyn HostFile,
    uuid: &[u8; 16],
    dram: &mut Regions,
) -> Result<(Replayed, Riders), ImageError> {
    let (mut done, mut riders) = (Replayed::default(), Riders::default());
    done.groups = wal::replay(file, uuid, |group| {
        done.bytes += group.len() as u64;
        let put = records(group, |r| match r {
            Record::Bytes { memory, at, bytes } => {
                dram.apply(memory, at, bytes).map_err(|e| match e.kind() {
                    std::io::ErrorKind::InvalidData => ImageError::damaged(WAL, e.to_string()),
                    _ => ImageError::host("replaying wal", e),
                })
            }
            Record::Content { ppa, seq, bytes, .. } => {
                let bytes: &[u8; PAGE_SIZE] = bytes.try_into().expect("records carry whole pages");
                done.pages += 1;
                riders.insert(ppa, (seq, Page::from_bytes(bytes)));
                Ok(())
            }
        });
        put.map_err(|e| e.unwrap_or_else(|| ImageError::damaged(WAL, "a malformed record")))
    })?;
    Ok((done, riders))
}

/// Everything replayed reaches its place, so that the redo log may be emptied.
fn settle(
    flash: &dyn HostFile,
    dram: &mut Regions,
    riders: &[(u32, u64, Page)],
    durability: Durability,
) -> Result<(), ImageError> {
    for (ppa, _, page) in riders {
        let written = flash.write_at(*ppa as u64 * PAGE_SIZE as u64, &page.to_bytes());
        written.map_err(|e| ImageError::host("writing flash", e))?;
    }
    dram.flush()?;
    if durability == Durability::Machine {
        // Also what an earlier run in process mode left to the host.
        flash.sync().map_err(|e| ImageError::host("syncing flash", e))?;
        dram.sync()?;
    }
    Ok(())
}

/// Counters are for people: without a readable file they begin at zero.
fn read_counters(host: &dyn Host) -> DriveCounters {
    let read = || {
        let file = host.exists(COUNTERS).then(|| host.open(COUNTERS, true).ok()).flatten()?;
        let mut bytes = vec![0; usize::try_from(file.len().ok()?.min(1 << 20)).ok()?];
        file.read_at(0, &mut bytes).ok()?;
        toml::from_str(std::str::from_utf8(&bytes).ok()?).ok()
    };
    read().unwrap_or_default()
}

/// 32 hexadecimal digits that no other image has, from the random seed that the standard library takes from the host.
fn random_uuid() -> String {
    use std::hash::{BuildHasher, RandomState};
    let half = |n: u64| RandomState::new().hash_one((n, std::process::id()));
    format!("{:016x}{:016x}", half(1), half(2))
}

/// The redo log's name for an image.
fn uuid_bytes(uuid: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&crc32c::crc32c(uuid.as_bytes()).to_le_bytes());
    for (to, from) in out[4..].iter_mut().zip(uuid.bytes()) {
        *to = from;
    }
    out
}
