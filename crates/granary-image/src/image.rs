//! [`Image`]: devices on files, which survive the death of the process and, if asked to, a crash of the
//! machine.
//!
//! ```text
//!   IMAGE/                                              who changes it
//!     image.toml     version, identity, configuration   nobody, once it is made
//!     wal            redo log, two halves               every call of the SSD, every fence of the DIMMs
//!     dram           SSD: battery-backed memory         checkpoints: halves of the log that are full
//!     flash          SSD: page contents, at 4096 x ppa  programs, holes where blocks hold nothing
//!     nvm            DIMMs: their bytes                 checkpoints
//!     counters.toml  what was counted until the last close
//!     lock           held while the image is open
//! ```
//!
//! While it is open the devices in memory are the truth. Their persistent changes leave as physical redo
//! records, in one log for all devices: a change that one device acknowledged before another one's call is
//! kept if that call is. Opening puts the valid part of the redo log into `dram` and `nvm`, makes the devices
//! from them and powers them up. To RECOVER and to the file systems' recovery they are devices whose power
//! has failed. The files keep what docs/FAULT_MODEL.md calls kept. Bytes that were never written are zeros
//! and mean "as new", so an empty image takes no space.
//!
//! It does *not* keep timelines, the order of use of cache pages, nor counters of a run that did not end
//! cleanly.

use crate::counters::{ImageCounters, NvmCounters};
use crate::devices::ImageDevices;
use crate::header::{Header, ImageMeta};
use crate::label::{self, Identity, LABEL, LabelState};
use crate::open::open_file;
use granary_device::Drive;
use granary_mssd::{DriveConfig, Mssd};
use granary_pmem::{Dimm, DimmConfig, KeptMedium};
use granary_redo::files::WAL;
use granary_redo::host::Host;
use granary_redo::host::disk::DiskHost;
use granary_redo::journal::{Journal, JournalCounters};
use granary_redo::{Durability, ImageError};
use granary_units::Bytes;
use parking_lot::Mutex;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// How to open an image.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// The failures that acknowledged changes survive.
    pub durability: Durability,
    /// Nothing is written to the image. The drive takes writes (recovery needs them) and forgets them when it
    /// is closed.
    pub read_only: bool,
    /// Checkpoints are taken by the caller that fills a half of the redo log, not by a thread: repeatable,
    /// for tests.
    pub inline_checkpoints: bool,
    /// Size of a half of the redo log, bytes; chosen by the drive's size where left out.
    pub wal_half: Option<u64>,
    /// Pages whose content goes through the redo log between two barriers of machine mode, before content
    /// goes to `flash` directly; 64 where left out.
    pub riders: Option<usize>,
    /// The SSD does all at the same instants as one in memory. It is for images of power failures: changes
    /// that die with the process are not on the image.
    pub paced: bool,
}

/// Facts about an image, known without opening it.
#[derive(Clone, Debug)]
pub struct ImageInfo {
    /// Identity and file system.
    pub meta: ImageMeta,
    /// The devices.
    pub devices: ImageDevices,
    /// Closed cleanly: nothing is to be replayed or recovered.
    pub clean: bool,
    /// Counters at the last clean close of the image.
    pub counters: ImageCounters,
    /// Where other users of this machine get at it: that it is so, and what to do.
    pub exposed: Option<String>,
}

/// The work of an opening.
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
    pub(crate) ssd: Option<Arc<Mssd>>,
    pub(crate) dimm: Option<Arc<Dimm<KeptMedium>>>,
    pub(crate) nvm: Option<DimmConfig>,
    pub(crate) journal: Arc<Journal>,
    /// Checkpoints; commits.
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) meta: ImageMeta,
    pub(crate) before: ImageCounters,
    pub(crate) replayed: Option<Replayed>,
    pub(crate) read_only: bool,
    /// The identity in the labels of its files; `None`: they have no labels, or the image is only read.
    pub(crate) identity: Option<Identity>,
    /// Held while the SSD grows.
    pub(crate) growing: Mutex<()>,
    pub(crate) _lock: Box<dyn Send + Sync>,
}

impl Image {
    /// Makes an image of new devices at `path`: a directory that does not exist, is empty, or (with `force`)
    /// holds an image, which is lost. Takes no space to speak of, whatever their size.
    ///
    /// # Errors
    /// [`ImageError::Exists`], [`ImageError::Foreign`], [`ImageError::Config`], host errors.
    pub fn create(
        path: impl AsRef<Path>,
        devices: &ImageDevices,
        meta: ImageMeta,
        force: bool,
    ) -> Result<(), ImageError> {
        Image::create_on(&DiskHost::new(path.as_ref()), devices, meta, force)
    }

    /// [`Image::create`] on any host.
    ///
    /// # Errors
    /// As there.
    pub fn create_on(
        host: &dyn Host,
        devices: &ImageDevices,
        mut meta: ImageMeta,
        force: bool,
    ) -> Result<(), ImageError> {
        devices.validate().map_err(ImageError::Config)?;
        host.create(force)?;
        if meta.uuid.is_empty() {
            meta.uuid = random_uuid();
        }
        let identity = Identity::new(&meta.uuid);
        for (name, len) in devices.files().into_iter().chain([(WAL, 0)]) {
            let made = host.open(name, false).and_then(|file| {
                file.set_len(0)?;
                file.set_len(len)?;
                if name != WAL {
                    file.set_len(len + LABEL)?;
                    label::put(&*file, len, &identity, LabelState::Closed)?;
                }
                file.sync()
            });
            made.map_err(|e| ImageError::host(format!("making {name}"), e))?;
        }
        identity.write_epoch(host)?;
        // Last: without it the directory is no image.
        Header { image: meta, devices: devices.clone(), labelled: true }.write(host)
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

    /// Facts about an image, without opening it; works while another process has it open.
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
        let Header { image: meta, devices, .. } = Header::read(host)?;
        let wal = open_file(host, WAL, None, true)?;
        let clean = wal.is_empty().map_err(|e| ImageError::host("reading wal", e))?;
        Ok(ImageInfo { meta, devices, clean, counters: ImageCounters::read(host), exposed: host.exposed() })
    }

    /// Returns when everything that the devices acknowledged before the call is safe from a crash of the
    /// machine (machine mode; otherwise at once). Callers at the same time share one sync. To be called
    /// outside of any lock of the file system that others need.
    ///
    /// # Errors
    /// [`ImageError::Stopped`]: the host failed.
    pub fn barrier(&self) -> Result<(), ImageError> {
        self.journal.barrier().map_err(|reason| ImageError::Stopped { reason })
    }

    /// As [`Image::barrier`], without waiting where others have barriers under way, too: `done` is called, by
    /// any thread, with what that would have returned.
    pub fn barrier_then(&self, done: impl FnOnce(Result<(), ImageError>) + Send + 'static) {
        let told = |r: Result<(), String>| done(r.map_err(|reason| ImageError::Stopped { reason }));
        self.journal.barrier_then(Box::new(told));
    }

    /// Ends: everything reaches its place and is synced, the redo log is emptied. The devices take no more
    /// changes.
    ///
    /// # Errors
    /// Host errors: the image is then as if the process had died, and nothing acknowledged is lost.
    pub fn close(mut self) -> Result<(), ImageError> {
        let left = self.dimm.as_ref().map_or(Ok(()), |dimm| dimm.keep());
        // The last group may need a free half of the log: that takes the thread which is stopped then.
        let safe = self.barrier();
        self.stop_threads();
        if self.read_only {
            return Ok(());
        }
        safe?;
        left.map_err(|e| ImageError::Stopped { reason: e.to_string() })?;
        self.save_counters()?;
        if let Some(identity) = &self.identity {
            // Before the log is empty: no label says that it has something then.
            identity.put_all(&label::files_of(&*self.host, &self.devices())?, LabelState::Closed)?;
        }
        self.journal.close().map_err(|reason| ImageError::Stopped { reason })?;
        if let Some(ssd) = &self.ssd {
            ssd.punch();
        }
        Ok(())
    }

    /// Writes down what was counted so far.
    ///
    /// # Errors
    /// Host errors.
    pub fn save_counters(&self) -> Result<(), ImageError> {
        self.counters().write(&*self.host, self.dimm.is_some())
    }

    /// Counters of the devices over their life: until their last clean close, and since they were opened.
    pub fn counters(&self) -> ImageCounters {
        let mut since = ImageCounters::default();
        if let Some(ssd) = &self.ssd {
            since.ssd = ssd.counters();
        }
        if let Some(dimm) = &self.dimm {
            since.nvm = NvmCounters { drive: dimm.counters(), dimm: dimm.dimm_counters() };
        }
        self.before.plus(&since)
    }

    /// Counters of the image's own work since it was opened.
    pub fn journal_counters(&self) -> JournalCounters {
        self.journal.counters()
    }

    /// Identity and file system.
    pub fn meta(&self) -> &ImageMeta {
        &self.meta
    }

    /// The directory that the image is in, wherever it has been moved since it was opened; `None` on a host
    /// without directories.
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.host.directory()
    }

    /// Where other users of this machine get at the image: that it is so, and what to do.
    pub fn exposed(&self) -> Option<String> {
        self.host.exposed()
    }

    /// Puts an empty file beside those of the image, durable on return: a mark that the image's user wants to
    /// keep. Cheap where it is there already.
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

    /// The devices' configuration.
    pub fn devices(&self) -> ImageDevices {
        ImageDevices { ssd: self.ssd_config().map(|c| (*c).clone()), nvm: self.nvm.clone() }
    }

    /// The configuration of the SSD, if there is one.
    pub fn ssd_config(&self) -> Option<Arc<DriveConfig>> {
        self.ssd.as_ref().map(|ssd| ssd.config())
    }

    /// The content of the redo log at opening, which may be nothing; `None` after a clean close.
    pub fn replayed(&self) -> Option<Replayed> {
        self.replayed
    }

    /// Why the image takes no more changes, if a failure of the host made it so.
    pub fn failure(&self) -> Option<String> {
        self.journal.failure()
    }

    /// From now on no change is taken; reads go on. Acknowledged changes are as safe as if the process died
    /// now, and closing is an error. For a caller whose own state has become doubtful.
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
    /// Without [`Image::close`] the image is left as if the process had died; the devices take no more
    /// changes.
    fn drop(&mut self) {
        self.stop_threads();
        self.journal.fail("the image has been closed".to_owned());
    }
}

/// 32 hexadecimal digits that no other image has, from the random seed that the standard library takes from
/// the host.
fn random_uuid() -> String {
    use std::hash::{BuildHasher, RandomState};
    let half = |n: u64| RandomState::new().hash_one((n, std::process::id()));
    format!("{:016x}{:016x}", half(1), half(2))
}
