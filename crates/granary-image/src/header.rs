//! `image.toml`: the description of an image: version, identity, file system, the devices' whole
//! configuration.
//!
//! ```text
//!   granary-image = 5                 format version; the first line tells a Granary image from other files
//!   crc32c = "0x1a2b3c4d"             of every byte after this line
//!   [image] uuid, fs, label, testbed, created
//!   [image.host...]                   how it is mounted: the host of the testbed, as there (since format 3)
//!   [drive] link, firmware, flash as in a testbed file           the SSD
//!   [device.nvm]                      NVM DIMMs, as in a testbed file (since format 4); one of both may be
//!                                     missing
//! ```
//!
//! Written when the image is made, whole or not at all; once more when the file system on it is complete
//! (`unfinished`), and when the drive grows.

use crate::devices::ImageDevices;
use granary_mssd::DriveConfig;
use granary_pmem::DimmConfig;
use granary_redo::ImageError;
use granary_redo::files::{FLASH, HEADER, MAGIC, NVM};
use granary_redo::host::Host;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;
use toml::Table;

/// The format that this program writes, the newest that it reads: each file has a label (label.rs).
pub const FORMAT: u32 = 5;
/// The newest without labels, with devices beside the SSD.
const UNLABELLED: u32 = 4;
/// The one with an SSD alone.
const SSD_ALONE: u32 = 3;
/// The oldest that it reads: without the host.
const OLDEST: u32 = 2;
/// A header is smaller than this; anything larger is something else.
const MOST: u64 = 1 << 20;

/// Facts about an image beside its devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageMeta {
    /// Identity, 32 hexadecimal digits; given by [`Image::create`](crate::Image::create) where left empty.
    #[serde(default)]
    pub uuid: String,
    /// Name of the file system, as in the registry.
    #[serde(default)]
    pub fs: String,
    /// A name for people.
    #[serde(default)]
    pub label: String,
    /// The testbed that the devices were taken from.
    #[serde(default)]
    pub testbed: String,
    /// When the image was made, seconds since 1970.
    #[serde(default)]
    pub created: u64,
    /// The file system is still being made, or its making was interrupted: there is nothing to mount. Not
    /// written where it is not so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// The host of that testbed as it was then: how the file system is mounted. This crate does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Table>,
}

/// The header.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Identity.
    pub image: ImageMeta,
    /// The devices.
    pub devices: ImageDevices,
    /// Each file says which image it belongs to: format 5.
    pub labelled: bool,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    image: ImageMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drive: Option<DriveConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<Others>,
}

/// Devices beside the SSD.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Others {
    nvm: DimmConfig,
}

impl Header {
    /// Writes the header.
    pub fn write(&self, host: &dyn Host) -> Result<(), ImageError> {
        let doing = || format!("writing {HEADER}");
        let ImageDevices { ssd, nvm } = self.devices.clone();
        let format = match (self.labelled, &nvm) {
            (true, _) => FORMAT,
            (false, Some(_)) => UNLABELLED,
            (false, None) => SSD_ALONE,
        };
        let device = nvm.map(|nvm| Others { nvm });
        let body = toml::to_string(&Text { image: self.image.clone(), drive: ssd, device })
            .map_err(|e| ImageError::host(doing(), std::io::Error::other(e.to_string())))?;
        let text = format!("{MAGIC}{format}\ncrc32c = \"{:#010x}\"\n{body}", crc32c::crc32c(body.as_bytes()));
        host.replace(HEADER, text.as_bytes()).map_err(|e| ImageError::host(doing(), e))
    }

    /// Reads and checks the header.
    pub fn read(host: &dyn Host) -> Result<Header, ImageError> {
        let path = host.path();
        let doing = || format!("reading {HEADER}");
        let file = host.open(HEADER, true).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Header::absent(host),
            // It may well be there.
            _ => ImageError::host(doing(), e),
        })?;
        let len = file.len().map_err(|e| ImageError::host(doing(), e))?;
        if len > MOST {
            return Err(ImageError::foreign(path, format!("its {HEADER} is {len} bytes long")));
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes).map_err(|e| ImageError::host(doing(), e))?;
        Header::parse(path, &bytes)
    }

    /// The error for a path without a header, by what is there.
    fn absent(host: &dyn Host) -> ImageError {
        let path = host.path();
        if path.is_dir() {
            let interrupted = host.exists(FLASH) || host.exists(NVM);
            let cut = if interrupted { ", perhaps because its making was interrupted" } else { "" };
            ImageError::foreign(path, format!("it has no {HEADER}{cut}"))
        } else if path.exists() {
            ImageError::foreign(path, "an image is a directory")
        } else {
            ImageError::Missing { path: path.to_owned() }
        }
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Header, ImageError> {
        let damaged = |check: &str| ImageError::damaged(HEADER, check);
        let text = String::from_utf8_lossy(bytes);
        let Some(rest) = text.strip_prefix(MAGIC) else {
            return Err(ImageError::foreign(path, format!("its {HEADER} does not begin with `{MAGIC}`")));
        };
        let (version, rest) = rest.split_once('\n').ok_or_else(|| damaged("it ends in the first line"))?;
        let found: u32 = version.trim().parse().map_err(|_| damaged("its format is not a number"))?;
        if found > FORMAT {
            return Err(ImageError::Newer { path: path.to_owned(), found, known: FORMAT });
        }
        if found < OLDEST {
            return Err(ImageError::Older { path: path.to_owned(), found, known: OLDEST });
        }
        let (crc, body) = rest.split_once('\n').ok_or_else(|| damaged("it ends in the second line"))?;
        let stored = crc
            .strip_prefix("crc32c = \"0x")
            .and_then(|c| c.strip_suffix('"'))
            .and_then(|c| u32::from_str_radix(c, 16).ok())
            .ok_or_else(|| damaged("its second line is no checksum"))?;
        let computed = crc32c::crc32c(body.as_bytes());
        if stored != computed {
            return Err(damaged(&format!(
                "its checksum is {computed:#010x}, the second line says {stored:#010x}"
            )));
        }
        let Text { image, drive, device } = toml::from_str(body).map_err(|e| damaged(&e.to_string()))?;
        if found <= SSD_ALONE && device.is_some() {
            return Err(damaged(&format!("format {found} has no [device]")));
        }
        let devices = ImageDevices { ssd: drive, nvm: device.map(|d| d.nvm) };
        devices.validate().map_err(|why| ImageError::Geometry { why })?;
        Ok(Header { image, devices, labelled: found > UNLABELLED })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_mssd::Mode;
    use granary_redo::host::memory::MemoryHost;

    fn header() -> Header {
        let image = ImageMeta { uuid: "00ff".into(), fs: "bytefs".into(), ..ImageMeta::default() };
        Header { image, devices: ImageDevices::ssd(DriveConfig::tiny(Mode::Log)), labelled: true }
    }

    #[test]
    fn a_header_comes_back() {
        let host = MemoryHost::new();
        header().write(&host).expect("written");
        assert_eq!(Header::read(&host).expect("read"), header());
    }

    #[test]
    fn a_header_of_before_the_host_was_in_it_is_read_and_the_host_comes_back() {
        let host = MemoryHost::new();
        header().write(&host).expect("written");
        host.tamper(HEADER, |b| b[16] = b'2');
        assert_eq!(Header::read(&host).expect("read"), Header { labelled: false, ..header() });
        let mut with = header();
        with.image.host = Some(toml::from_str("cores = 3\n[vfs]\natime = 'noatime'").expect("TOML"));
        with.write(&host).expect("written");
        assert_eq!(Header::read(&host).expect("read"), with);
    }

    #[test]
    fn without_labels_the_format_is_the_one_that_the_devices_need() {
        let host = MemoryHost::new();
        let nvm = Some(DimmConfig::optane_dcpmm());
        let ssd = header().devices.ssd;
        for (devices, format) in [
            (ImageDevices { ssd: ssd.clone(), nvm: None }, b'3'),
            (ImageDevices { ssd, nvm: nvm.clone() }, b'4'),
            (ImageDevices { ssd: None, nvm }, b'4'),
        ] {
            for (labelled, format) in [(false, format), (true, b'5')] {
                let header = Header { devices: devices.clone(), labelled, ..header() };
                header.write(&host).expect("written");
                assert_eq!(Header::read(&host).expect("read"), header);
                host.tamper(HEADER, |b| assert_eq!(b[16], format));
            }
        }
        host.tamper(HEADER, |b| b[16] = b'3');
        assert!(matches!(Header::read(&host), Err(ImageError::Damaged { .. })), "no [device] in format 3");
        Header { devices: ImageDevices::default(), ..header() }.write(&host).expect("written");
        assert!(matches!(Header::read(&host), Err(ImageError::Geometry { .. })), "no device");
    }

    #[test]
    fn what_is_wrong_with_a_header_is_told_apart() {
        let host = MemoryHost::new();
        let why = |change: fn(&mut Vec<u8>)| {
            header().write(&host).expect("written");
            host.tamper(HEADER, change);
            Header::read(&host).expect_err("refused")
        };
        assert!(matches!(why(|b| b[0] = b'#'), ImageError::Foreign { .. }));
        assert!(matches!(why(|b| b[16] = b'9'), ImageError::Newer { found: 9, .. }));
        assert!(matches!(why(|b| b[16] = b'1'), ImageError::Older { found: 1, .. }));
        assert!(matches!(why(|b| b.truncate(100)), ImageError::Damaged { .. }));
        assert!(matches!(why(|b| *b.last_mut().expect("bytes") ^= 1), ImageError::Damaged { .. }));
        assert!(matches!(Header::read(&MemoryHost::new()), Err(ImageError::Missing { .. })));
    }
}
