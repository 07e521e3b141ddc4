//! Growing an image: the same SSD with more packages. NVM DIMMs do not grow.
//!
//! ```text
//!   redo log into dram and flash ── dram.grown: the zones where the larger drive has them, synced
//!   ── flash longer, synced
//!   ── redo log empty ── image.toml: the larger drive (whole or not at all) ── dram.grown becomes dram
//! ```
//!
//! Planes are added at the end of their numbers ([`granary_flash::FtlConfig::grown`]), so blocks and pages
//! keep theirs and `flash` only gets longer. Only the zones of `dram` move.
//!
//! An image that nobody has open is opened and closed first. While it is open nothing is closed: the drive's
//! lock is held instead, so that nobody changes anything, and its journal goes over to the new memory.
//!
//! Invariant: `image.toml` decides. Before it is replaced, the next opening throws `dram.grown` away and cuts
//! `flash`; after it, the next opening puts `dram.grown` in place: `dram` has another length then.

use crate::devices::ImageDevices;
use crate::header::Header;
use crate::image::{Image, OpenOptions};
use crate::label::{self, Identity, LABEL, LabelState};
use crate::open::open_file;
use granary_mssd::{ConfigError, DriveConfig, Layout};
use granary_redo::ImageError;
use granary_redo::files::{DRAM, FLASH, GROWN, WAL};
use granary_redo::host::Host;
use granary_redo::redo::Memory;
use granary_redo::region::{BLOCK, Region};
use granary_units::Bytes;
use std::sync::Arc;

/// Bytes copied at once.
const CHUNK: u64 = 1 << 20;

impl Image {
    /// Makes the SSD of an image larger: at least `capacity` bytes. Returns the new configuration.
    ///
    /// # Errors
    /// Where the drive cannot be that large, or is not smaller now; host errors.
    pub fn grow_on(host: &Arc<dyn Host>, capacity: Bytes) -> Result<DriveConfig, ImageError> {
        // Nothing is opened that cannot grow.
        ssd_of(&Header::read(&**host)?.devices)?;
        // Everything in its place, the redo log empty.
        Image::open_on(host.clone(), OpenOptions::default())?.0.close()?;
        let lock = host.lock(false)?;
        let header = Header::read(&**host)?;
        let had = ssd_of(&header.devices)?;
        let drive = larger(had, capacity)?;
        let (old, new) = (Layout::new(had), Layout::new(&drive));
        if old == new {
            return Ok(drive);
        }
        let wal = open_file(&**host, WAL, None, true)?;
        if !wal.is_empty().map_err(|e| ImageError::host("reading wal", e))? {
            return Err(ImageError::damaged(WAL, "something was written after the image had been closed"));
        }
        // The same run as the other files: the image was just closed.
        let identity = match header.labelled {
            true => Some(Identity::check(&**host, &header.image.uuid, &[], &*wal)?),
            false => None,
        };
        let label = identity.as_ref().map(|identity| (identity, LabelState::Closed));
        prepare(&**host, old, new, label)?;
        let devices = ImageDevices { ssd: Some(drive.clone()), nvm: header.devices.nvm };
        Header { image: header.image, devices, labelled: header.labelled }.write(&**host)?;
        settle(&**host, new.end + label.map_or(0, |_| LABEL), false)?;
        drop(lock);
        Ok(drive)
    }

    /// The same while the image is open: calls of the drive wait until it is done, and find the larger drive
    /// then.
    ///
    /// # Errors
    /// As [`Image::grow_on`], and [`ImageError::Stopped`] where the image is only read. After an error the
    /// drive goes on with its former size, unless the host failed when the larger one was about to take its
    /// place. Then the drive takes no more changes, as after any failure of the host, and the next opening
    /// finds one or the other.
    pub fn grow_open(&self, capacity: Bytes) -> Result<Arc<DriveConfig>, ImageError> {
        if self.read_only {
            return Err(ImageError::Stopped { reason: "the image was opened to be read only".to_owned() });
        }
        let _one = self.growing.lock();
        let (Some(ssd), Some(had)) = (&self.ssd, self.ssd_config()) else {
            ssd_of(&self.devices())?;
            return Err(ImageError::Stopped { reason: "the image has no SSD".to_owned() });
        };
        let drive = larger(&had, capacity)?;
        let (old, new) = (Layout::new(&had), Layout::new(&drive));
        if old == new {
            return Ok(had);
        }
        let host = &*self.host;
        let label = self.identity.as_ref().map(|identity| (identity, LabelState::Open));
        let extra = label.map_or(0, |_| LABEL);
        let files = || {
            let change = || {
                let devices = ImageDevices { ssd: Some(drive.clone()), nvm: self.nvm.clone() };
                Header { image: self.meta.clone(), devices, labelled: label.is_some() }.write(host)?;
                let memory = settle(host, new.end + extra, false)?;
                let file = open_file(host, memory, Some(new.end + extra), false)?;
                Ok(Region::new(file, Memory::Dram, new.checksums, false))
            };
            let prepare = || {
                prepare(host, old, new, label).inspect_err(|_| {
                    // The remains are thrown away when the image is next opened, if not now.
                    let _ = host.remove(GROWN);
                    let _ = host.open(FLASH, false).and_then(|flash| flash.set_len(old.flash + extra));
                })
            };
            self.journal.renew(prepare, change)?;
            Ok(new)
        };
        // Nobody changes anything while the redo log is begun anew, the DIMMs included.
        match &self.dimm {
            Some(dimm) => dimm.pause(|| ssd.grow(&drive, files))?,
            None => ssd.grow(&drive, files)?,
        }
        Ok(ssd.config())
    }
}

/// The SSD of an image.
fn ssd_of(devices: &ImageDevices) -> Result<&DriveConfig, ImageError> {
    devices.ssd.as_ref().ok_or_else(|| {
        ImageError::Config(
            "the image has NVM DIMMs alone, and those do not grow: make a larger image (`granary mkfs IMAGE`) and copy the files"
                .to_owned(),
        )
    })
}

/// The configuration of the same drive with at least `capacity` bytes.
fn larger(drive: &DriveConfig, capacity: Bytes) -> Result<DriveConfig, ImageError> {
    let flash = drive.flash.grown(capacity).map_err(ConfigError::from)?;
    let drive = drive.on_larger_flash(flash);
    drive.validate()?;
    Ok(drive)
}

/// Everything that can be done before the larger drive takes the place of the other.
fn prepare(host: &dyn Host, old: Layout, new: Layout, label: Label<'_>) -> Result<(), ImageError> {
    copy_dram(host, old, new, label)?;
    let flash = open_file(host, FLASH, None, false)?;
    // The label of the smaller drive stays where it is, in a page that nothing has been written to.
    let longer = flash.set_len(new.flash + label.map_or(0, |_| LABEL)).and_then(|()| match label {
        Some((identity, state)) => label::put(&*flash, new.flash, identity, state),
        None => flash.sync(),
    });
    longer.map_err(|e| ImageError::host("extending flash", e))
}

/// The label of the larger drive's files, where those of the image have labels.
type Label<'a> = Option<(&'a Identity, LabelState)>;

fn copy_dram(host: &dyn Host, old: Layout, new: Layout, label: Label<'_>) -> Result<(), ImageError> {
    let writing = |e| ImageError::host("writing dram.grown", e);
    let extra = label.map_or(0, |_| LABEL);
    let from =
        Region::new(open_file(host, DRAM, Some(old.end + extra), true)?, Memory::Dram, old.checksums, true);
    let file = host.open(GROWN, false).map_err(writing)?;
    // An interrupted growth may have left something in it.
    file.set_len(0).and_then(|()| file.set_len(new.end + extra)).map_err(writing)?;
    if let Some((identity, state)) = label {
        label::put(&*file, new.end, identity, state).map_err(writing)?;
    }
    let mut to = Region::new(file, Memory::Dram, new.checksums, false);
    let mut bytes = Vec::new();
    for (zone, place) in old.moves(&new) {
        for used in from.used(zone.clone())? {
            let mut at = used.start;
            while at < used.end {
                bytes.resize((used.end - at).min(CHUNK) as usize, 0);
                from.read(at, &mut bytes)?;
                to.apply(place + at - zone.start, &bytes).map_err(writing)?;
                at += bytes.len() as u64;
            }
        }
    }
    debug_assert!(new.checksums.is_multiple_of(BLOCK));
    to.flush().and_then(|()| to.sync()).map_err(writing)
}

/// Puts the remains of an interrupted growth in place or throws them away. Returns the name of the memory's
/// file. `len`: of that file, label included.
pub(crate) fn settle(host: &dyn Host, len: u64, read_only: bool) -> Result<&'static str, ImageError> {
    if !host.exists(GROWN) {
        return Ok(DRAM);
    }
    let doing = |e| ImageError::host("putting dram.grown in place", e);
    let found = |name| host.open(name, true).and_then(|file| file.len());
    let done = host.exists(DRAM) && found(DRAM).map_err(doing)? == len;
    match (done, read_only) {
        (true, true) => return Ok(DRAM),
        (false, true) => return Ok(GROWN),
        (true, false) => host.remove(GROWN),
        (false, false) => host.rename(GROWN, DRAM),
    }
    .map_err(doing)?;
    Ok(DRAM)
}
