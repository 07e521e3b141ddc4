//! Labels: each file of an image says which image it belongs to, and of which time it is.
//!
//! ```text
//!   member    | content, as long as the devices make it | label 4096 B |
//!   label     magic "GRNYMEMB" 8, UUID 32, epoch 8, state 4, CRC-32C of all before 4, zeros
//!             twice, 2 KiB apart
//!   `epoch`   UUID and the epoch in which the devices may have changed last
//!
//!   opened for writing in epoch e
//!     1 labels (e + 1, opening)   2 the redo log holds nothing   3 `epoch` says e + 1
//!     4 the log begins, named after e + 1
//!     5 labels (e + 1, open)      6 the devices run ...          7 labels (e + 1, closed)
//!     8 the log is empty
//! ```
//!
//! So a file fits the others if it is of the epoch that `epoch` says, or of the next one and *opening*: then
//! nothing had changed yet when the process died. A file of an older copy, a later one, or another image
//! never fits. A log without bytes is that of a clean close, and so no label says *open* then.
//!
//! Damage is no reason to lose an image whose content is sound. Each label is there twice. Where `epoch` is
//! damaged or missing, labels that all say the same are enough.
//!
//! A copy of a file that was made while the image was open, and is put back after that same run, is not told
//! apart. Images of format 4 and before have no labels; nothing is checked there.

use crate::devices::ImageDevices;
use granary_redo::ImageError;
use granary_redo::files::{EPOCH, WAL};
use granary_redo::host::{Host, HostFile};
use std::io;
use std::sync::Arc;

/// Bytes of a label behind the content of a file.
pub const LABEL: u64 = 4096;
const MAGIC: &[u8; 8] = b"GRNYMEMB";
/// Where the second copy is.
const SECOND: u64 = LABEL / 2;
/// Bytes that mean something.
const USED: usize = 56;

/// A file that has a label: its name, the file, bytes of its content.
pub type Member = (&'static str, Arc<dyn HostFile>, u64);

/// States of the devices in a file's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelState {
    /// About to change: the file's content is of the epoch before.
    Opening = 1,
    /// They may have changed since; the redo log belongs to it.
    Open = 2,
    /// All is in its place.
    Closed = 3,
}

/// The image that a file belongs to.
#[derive(Clone, Debug)]
pub struct Identity {
    uuid: String,
    /// Of the last opening for writing.
    epoch: u64,
}

fn other(file: &'static str, why: impl Into<String>) -> ImageError {
    ImageError::Mixed { file, why: why.into() }
}

fn bytes(uuid: &str, epoch: u64, state: LabelState) -> [u8; LABEL as usize] {
    let mut b = [0; LABEL as usize];
    b[..8].copy_from_slice(MAGIC);
    for (to, from) in b[8..40].iter_mut().zip(uuid.bytes()) {
        *to = from;
    }
    b[40..48].copy_from_slice(&epoch.to_le_bytes());
    b[48..52].copy_from_slice(&(state as u32).to_le_bytes());
    let crc = crc32c::crc32c(&b[..52]);
    b[52..USED].copy_from_slice(&crc.to_le_bytes());
    b.copy_within(..USED, SECOND as usize);
    b
}

/// UUID, epoch and state of a label; `None`: there is none.
fn parse(b: &[u8; USED]) -> Option<(String, u64, LabelState)> {
    let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    if &b[..8] != MAGIC || word(52) != crc32c::crc32c(&b[..52]) {
        return None;
    }
    let state = match word(48) {
        1 => LabelState::Opening,
        2 => LabelState::Open,
        3 => LabelState::Closed,
        _ => return None,
    };
    let uuid = String::from_utf8_lossy(&b[8..40]).trim_end_matches('\0').to_owned();
    Some((uuid, u64::from(word(40)) | u64::from(word(44)) << 32, state))
}

/// Writes the label of one file, whose content is `len` bytes long.
///
/// # Errors
/// Host errors.
pub fn put(file: &dyn HostFile, len: u64, identity: &Identity, state: LabelState) -> io::Result<()> {
    file.write_at(len, &bytes(&identity.uuid, identity.epoch, state))?;
    file.sync()
}

impl Identity {
    /// Of a new image.
    pub fn new(uuid: &str) -> Identity {
        Identity { uuid: uuid.to_owned(), epoch: 0 }
    }

    /// The name of the redo log that belongs to these files: CRC-32C of the UUID's text, its first four
    /// characters, the epoch.
    pub fn log_name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        name[..4].copy_from_slice(&crc32c::crc32c(self.uuid.as_bytes()).to_le_bytes());
        for (to, from) in name[4..8].iter_mut().zip(self.uuid.bytes()) {
            *to = from;
        }
        name[8..].copy_from_slice(&self.epoch.to_le_bytes());
        name
    }

    /// Reads `epoch`, and checks the label of each of these files: its name, the file, the length of its
    /// content.
    ///
    /// # Errors
    /// [`ImageError::Mixed`] for the first file that does not fit; host errors.
    pub fn check(
        host: &dyn Host,
        uuid: &str,
        files: &[Member],
        log: &dyn HostFile,
    ) -> Result<Identity, ImageError> {
        let mut labels = Vec::new();
        for (name, file, len) in files {
            let found = read(&**file, *len)
                .map_err(|e| ImageError::host(format!("reading the label of {name}"), e))?;
            let Some((whose, epoch, state)) = found else {
                let why = "it has no sound label: it is no file of this image, or its end is damaged";
                return Err(other(name, why));
            };
            if whose != uuid {
                return Err(other(
                    name,
                    format!("it is of the image with the UUID {whose}, this one is {uuid}"),
                ));
            }
            labels.push((*name, epoch, state));
        }
        let epoch = match read_epoch(host, uuid)? {
            Some(epoch) => epoch,
            // The oldest: the others have to be of the same run.
            None => labels.iter().map(|(_, epoch, _)| *epoch).min().unwrap_or(0),
        };
        let identity = Identity { uuid: uuid.to_owned(), epoch };
        for (name, epoch, state) in &labels {
            let fits =
                *epoch == identity.epoch || *state == LabelState::Opening && *epoch == identity.epoch + 1;
            if !fits {
                let age =
                    if *epoch < identity.epoch { "an older copy" } else { "of a later time than the rest" };
                return Err(other(
                    name,
                    format!(
                        "it is {age}: its label is of run {epoch} of this image, the last run was {}",
                        identity.epoch
                    ),
                ));
            }
        }
        let open = labels.iter().any(|(_, _, state)| *state == LabelState::Open);
        if open && log.is_empty().map_err(|e| ImageError::host("reading wal", e))? {
            return Err(other(
                WAL,
                "it is empty, but the image was not closed: what the log held is missing",
            ));
        }
        identity.check_log(log)?;
        Ok(identity)
    }

    /// Whether the redo log is of this image and run.
    fn check_log(&self, log: &dyn HostFile) -> Result<(), ImageError> {
        let reading = |e| ImageError::host("reading wal", e);
        let half = log.len().map_err(reading)? / 2;
        for at in [0, half] {
            let mut header = [0; 64];
            if half < 64 {
                break;
            }
            log.read_at(at, &mut header).map_err(reading)?;
            if let Some(name) = granary_redo::wal::name_of(&header)
                && name != self.log_name()
            {
                let epoch = u64::from_le_bytes(name[8..].try_into().expect("eight bytes"));
                let why = match name[..8] == self.log_name()[..8] {
                    true => format!("it is of run {epoch} of this image, the last run was {}", self.epoch),
                    false => "it is the redo log of another image".to_owned(),
                };
                return Err(other(WAL, why));
            }
        }
        Ok(())
    }

    /// Steps 1 to 3 of an opening: everything is in its place, and the next epoch begins.
    ///
    /// # Errors
    /// Host errors; the image can be opened again then.
    pub fn begin(&mut self, host: &dyn Host, files: &[Member], log: &dyn HostFile) -> Result<(), ImageError> {
        self.epoch += 1;
        self.put_all(files, LabelState::Opening)?;
        // Zeros, not no bytes: those would say that the image was closed.
        let emptied = log.len().and_then(|len| {
            log.set_len(0)?;
            log.set_len(len.max(1 << 20))
        });
        emptied.map_err(|e| ImageError::host("emptying wal", e))?;
        self.write_epoch(host)
    }

    /// Writes the labels of all files.
    ///
    /// # Errors
    /// Host errors.
    pub fn put_all(&self, files: &[Member], state: LabelState) -> Result<(), ImageError> {
        files.iter().try_for_each(|(name, file, len)| {
            put(&**file, *len, self, state).map_err(|e| ImageError::host(format!("labelling {name}"), e))
        })
    }

    /// Writes `epoch`.
    ///
    /// # Errors
    /// Host errors.
    pub fn write_epoch(&self, host: &dyn Host) -> Result<(), ImageError> {
        let body = format!("{} {}", self.uuid, self.epoch);
        let text = format!("{body} {:08x}\n", crc32c::crc32c(body.as_bytes()));
        host.replace(EPOCH, text.as_bytes()).map_err(|e| ImageError::host(format!("writing {EPOCH}"), e))
    }
}

/// The label of a file.
fn read(file: &dyn HostFile, len: u64) -> io::Result<Option<(String, u64, LabelState)>> {
    if file.len()? < len + LABEL {
        return Ok(None);
    }
    for copy in [0, SECOND] {
        let mut b = [0; USED];
        file.read_at(len + copy, &mut b)?;
        if let Some(label) = parse(&b) {
            return Ok(Some(label));
        }
    }
    Ok(None)
}

/// The epoch that the file of that name says; `None`: it is missing, or damaged.
fn read_epoch(host: &dyn Host, uuid: &str) -> Result<Option<u64>, ImageError> {
    let reading = |e| ImageError::host(format!("reading {EPOCH}"), e);
    if !host.exists(EPOCH) {
        return Ok(None);
    }
    let file = host.open(EPOCH, true).map_err(reading)?;
    let mut b = vec![0; file.len().map_err(reading)?.min(128) as usize];
    file.read_at(0, &mut b).map_err(reading)?;
    let text = String::from_utf8_lossy(&b);
    let words: Vec<&str> = text.split_whitespace().collect();
    let [whose, epoch, crc] = words[..] else { return Ok(None) };
    let sum = format!("{:08x}", crc32c::crc32c(format!("{whose} {epoch}").as_bytes()));
    match epoch.parse() {
        Ok(epoch) if sum == crc && whose == uuid => Ok(Some(epoch)),
        Ok(_) if sum == crc => {
            Err(other(EPOCH, format!("it is of the image with the UUID {whose}, this one is {uuid}")))
        }
        _ => Ok(None),
    }
}

/// The files of an image's devices, with the lengths of their content.
///
/// # Errors
/// Host errors.
pub fn files_of(host: &dyn Host, devices: &ImageDevices) -> Result<Vec<Member>, ImageError> {
    let open = |(name, len)| match host.open(name, false) {
        Ok(file) => Ok((name, file, len)),
        Err(e) => Err(ImageError::host(format!("opening {name}"), e)),
    };
    devices.files().into_iter().map(open).collect()
}
