//! Opening an image: files, redo log, devices, in this order.
//!
//! ```text
//!   header ── lock ── header ── files ── wal into dram and nvm ── SSD from its dram
//!                                          └─ contents of flash pages: those that the SSD says still count
//!   ── all of it to the files, wal begun anew
//!   ── journal ── devices run ── a vendor command that was under way goes on
//! ```
//!
//! An opening that was interrupted, at any step, is done once more by the next one: until the log is begun
//! anew nothing is gone from it.

use crate::counters::ImageCounters;
use crate::devices::nvm_bytes;
use crate::grow;
use crate::header::Header;
use crate::image::{Image, OpenOptions, Replayed};
use crate::label::{Identity, LABEL, LabelState, Member};
use granary_device::{Devices, Drive, DriveError, Role};
use granary_mssd::{Kept, Layout};
use granary_pmem::{Dimm, KeptMedium};
use granary_redo::files::{DRAM, FLASH, NVM, WAL};
use granary_redo::host::disk::DiskHost;
use granary_redo::host::{Absent, Host, HostFile};
use granary_redo::journal::{Journal, RIDERS};
use granary_redo::redo::{Memory, Record, records};
use granary_redo::region::{Region, Regions, file_len};
use granary_redo::wal::{self, Wal, Way};
use granary_redo::{Durability, ImageError, start_thread};
use granary_units::{PAGE_SIZE, Page};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The largest half of a redo log: opening may have to replay two of them; also the unit of checkpoints.
const LARGEST_HALF: u64 = 32 << 20;
/// The smallest one.
const SMALLEST_HALF: u64 = 1 << 20;

impl Image {
    /// Opens an image: the devices as they were, or as they were when their process died.
    ///
    /// # Errors
    /// Every kind of [`ImageError`] but `Exists` and `Config`.
    pub fn open(
        path: impl AsRef<Path>,
        durability: Durability,
        read_only: bool,
    ) -> Result<(Image, Devices), ImageError> {
        let options = OpenOptions { durability, read_only, ..OpenOptions::default() };
        Image::open_on(Arc::new(DiskHost::new(path.as_ref())), options)
    }

    /// [`Image::open`] on any host.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(host: Arc<dyn Host>, options: OpenOptions) -> Result<(Image, Devices), ImageError> {
        let OpenOptions { durability, read_only, inline_checkpoints, wal_half, riders: most_riders, paced } =
            options;
        host.survey(!read_only)?;
        // A directory that is no image is not locked.
        Header::read(&*host)?;
        let lock = host.lock(read_only)?;
        // The image may have grown before it was locked.
        let Header { image: meta, devices: config, labelled } = Header::read(&*host)?;
        let label = if labelled { LABEL } else { 0 };
        let layout = config.ssd.as_ref().map(Layout::new);
        let nvm = config.nvm.as_ref().map(nvm_bytes);

        let mut labels: Vec<Member> = Vec::new();
        let mut memories = Regions::default();
        let mut flash: Arc<dyn HostFile> = Arc::new(Absent);
        if let Some(layout) = &layout {
            let memory = grow::settle(&*host, layout.end + label, read_only)?;
            flash = open_flash(&*host, layout.flash + label, read_only)?;
            let file = open_file(&*host, memory, Some(layout.end + label), read_only)?;
            labels.push((DRAM, file.clone(), layout.end));
            labels.push((FLASH, flash.clone(), layout.flash));
            memories.put(Region::new(file, Memory::Dram, layout.checksums, read_only));
        }
        if let Some(len) = nvm {
            let file = open_file(&*host, NVM, Some(file_len(len) + label), read_only)?;
            labels.push((NVM, file.clone(), file_len(len)));
            memories.put(Region::new(file, Memory::Nvm, len, read_only));
        }
        let wal_file = open_file(&*host, WAL, None, read_only)?;
        // Only a clean close leaves it empty: one that is there and holds nothing is that of a process which
        // died.
        let clean = wal_file.is_empty().map_err(|e| ImageError::host("reading wal", e))?;
        let mut identity = match labelled {
            true => Some(Identity::check(&*host, &meta.uuid, &labels, &*wal_file)?),
            false => None,
        };
        let name_of_log = |identity: &Option<Identity>| match identity {
            Some(identity) => identity.log_name(),
            None => uuid_bytes(&meta.uuid),
        };
        let uuid = name_of_log(&identity);
        let (replayed, riders) = replay(&*wal_file, &uuid, &mut memories)?;
        let replayed = (!clean).then_some(replayed);
        let kept = match (&config.ssd, memories.get(Memory::Dram)) {
            (Some(ssd), Some(dram)) => Some(Kept::load(ssd, dram)?),
            _ if riders.is_empty() => None,
            _ => {
                let why = "it has contents of flash pages, and the image has no SSD";
                return Err(ImageError::damaged(WAL, why));
            }
        };
        let counts = |ppa, seq| kept.as_ref().and_then(|kept| kept.sequence(ppa)) == Some(seq);
        let wanted = riders.into_iter().filter(|(ppa, (seq, _))| counts(*ppa, *seq));
        let mut wanted: Vec<(u32, u64, Page)> = wanted.map(|(ppa, (seq, page))| (ppa, seq, page)).collect();
        wanted.sort_unstable_by_key(|w| w.0);

        let size = layout.map_or(0, |l| l.flash) + nvm.unwrap_or(0);
        let half = wal_half
            .unwrap_or_else(|| (size / 32).next_multiple_of(1 << 20))
            .clamp(SMALLEST_HALF.min(wal_half.unwrap_or(SMALLEST_HALF)), LARGEST_HALF);
        let wal = if read_only {
            None
        } else {
            settle(&*flash, &mut memories, &wanted, durability)?;
            let way = match durability {
                Durability::Process => Way::Shared,
                Durability::Machine => Way::Written,
            };
            if let Some(identity) = &mut identity {
                identity.begin(&*host, &labels, &*wal_file)?;
            }
            let started = Wal::start(wal_file, name_of_log(&identity), half, way);
            let started = started.map_err(|e| ImageError::host("beginning wal", e))?;
            if let Some(identity) = &identity {
                identity.put_all(&labels, LabelState::Open)?;
            }
            Some(started)
        };
        // The DIMMs read the file, or, where the image is only read, the file with the redo log applied in
        // memory.
        let nvm_memory = match memories.get(Memory::Nvm) {
            Some(_) if read_only => memories.take(Memory::Nvm),
            Some(region) => Some(region.reader()),
            None => None,
        };
        let most_riders = most_riders.unwrap_or(RIDERS);
        let journal =
            Arc::new(Journal::new(durability, inline_checkpoints, half, most_riders, flash, wal, memories));
        if read_only {
            // Nothing will be written, so nothing needs their checksums.
            wanted.iter().for_each(|(ppa, seq, page)| journal.hold(&journal.rider(*ppa, *seq, page, 0)));
        }
        let mut devices = Devices::none();
        let ssd = match kept {
            Some(kept) => {
                let kept = if paced { kept.paced() } else { kept };
                Some(Arc::new(kept.start(&journal)?))
            }
            None => None,
        };
        let dimm = match (&config.nvm, nvm_memory) {
            (Some(config), Some(memory)) => {
                let medium = KeptMedium::new(config.pages(), memory, journal.clone())?;
                Some(Arc::new(Dimm::over(config, medium)?))
            }
            _ => None,
        };
        for (role, drive) in [
            (Role::Ssd, ssd.clone().map(|d| d as Arc<dyn Drive>)),
            (Role::Nvm, dimm.clone().map(|d| d as Arc<dyn Drive>)),
        ] {
            if let Some(drive) = drive {
                devices = devices.with(role, drive);
            }
        }
        let threads =
            if read_only || inline_checkpoints { Vec::new() } else { start_threads(&journal, durability)? };
        let before = ImageCounters::read(&*host);
        let growing = Mutex::new(());
        let image = Image {
            ssd,
            dimm,
            nvm: config.nvm,
            journal,
            threads,
            host,
            meta,
            before,
            replayed,
            read_only,
            identity: identity.filter(|_| !read_only),
            growing,
            _lock: lock,
        };
        if let Some(ssd) = &image.ssd {
            // Where it fails the drive is left as if its process had died.
            ssd.resume().map_err(|e| match e {
                DriveError::ReadOnly(reason) => ImageError::Stopped { reason },
                e => ImageError::damaged(
                    FLASH,
                    format!("a vendor command that was under way cannot go on: {e}"),
                ),
            })?;
        }
        Ok((image, devices))
    }
}

/// The threads that serve an image: checkpoints; commits.
fn start_threads(journal: &Arc<Journal>, durability: Durability) -> Result<Vec<JoinHandle<()>>, ImageError> {
    let start = |name, body: fn(&Journal)| {
        let journal = journal.clone();
        let failed = |e| ImageError::host(format!("starting the thread {name}"), e);
        start_thread(name, move || body(&journal)).map_err(failed)
    };
    let mut threads = vec![start("granary-checkpoint", Journal::run_checkpoints)?];
    if durability == Durability::Machine {
        threads.push(start("granary-commit", Journal::run_commits)?);
    }
    Ok(threads)
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
            format!("it is {found} bytes long, the configuration makes it {len}"),
        )),
        _ => Ok(file),
    }
}

/// The file of page contents. One that is longer was about to grow: the part behind the end has never been
/// used.
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

/// Puts the redo log into the memories. Contents of flash pages are returned: which of them still count is
/// known at the end.
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

/// The redo log's name for an image.
fn uuid_bytes(uuid: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&crc32c::crc32c(uuid.as_bytes()).to_le_bytes());
    for (to, from) in out[4..].iter_mut().zip(uuid.bytes()) {
        *to = from;
    }
    out
}
