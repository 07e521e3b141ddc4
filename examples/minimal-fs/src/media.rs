//! Two areas of blocks: page 0 of each is its header (magic, number, length, checksum), the tree's bytes follow.

use granary_device::{Port, Structure};
use granary_units::{Lpa, PAGE_SIZE, Page};
use granary_vfs::{FsError, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"granmini");

/// Where the tree is kept.
pub(crate) struct Media {
    port: Port,
    /// Number of the newest area.
    number: u64,
}

fn header(number: u64, bytes: &[u8]) -> [u64; 4] {
    [MAGIC, number, bytes.len() as u64, crc32c::crc32c_append(number as u32, bytes).into()]
}

impl Media {
    /// Media without a tree.
    pub(crate) fn erased(port: &Port) -> Result<Media> {
        let media = Media { port: port.clone(), number: 0 };
        if media.room() < PAGE_SIZE as u64 {
            return Err(FsError::NoSpace);
        }
        (0..2).try_for_each(|n| port.write(media.area(n), &[Page::ZERO], Structure::Superblock))?;
        Ok(media)
    }

    /// Bytes that a tree may have.
    pub(crate) fn room(&self) -> u64 {
        (self.port.info().pages / 2).saturating_sub(1) * PAGE_SIZE as u64
    }

    fn area(&self, number: u64) -> Lpa {
        Lpa(number % 2 * (self.port.info().pages / 2))
    }

    /// Writes a tree over the older area; it is safe on return. What a power failure tears has a wrong checksum.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let number = self.number + 1;
        let mut all = header(number, bytes).map(u64::to_le_bytes).concat();
        all.resize(PAGE_SIZE, 0);
        all.extend(bytes);
        all.resize(all.len().next_multiple_of(PAGE_SIZE), 0);
        let pages: Vec<Page> = all.as_chunks().0.iter().map(Page::from_bytes).collect();
        self.port.write(self.area(number), &pages, Structure::Data)?;
        self.port.flush()?;
        self.number = number;
        Ok(())
    }

    /// The newer whole area, and its tree.
    pub(crate) fn newest(port: &Port) -> Result<(Media, Vec<u8>)> {
        let (mut media, mut newest) = (Media { port: port.clone(), number: 0 }, Vec::new());
        for area in 0..2 {
            let mut first = [Page::ZERO];
            port.read(media.area(area), &mut first, Structure::Superblock)?;
            let first = first[0].to_bytes();
            let words: [u64; 4] = std::array::from_fn(|i| u64::from_le_bytes(first.as_chunks().0[i]));
            let [magic, number, len, _] = words;
            if magic != MAGIC || len > media.room() || number <= media.number {
                continue;
            }
            let mut pages = vec![Page::ZERO; len.div_ceil(PAGE_SIZE as u64) as usize];
            port.read(media.area(area).offset(1), &mut pages, Structure::Data)?;
            let mut bytes: Vec<u8> = pages.iter().flat_map(Page::to_bytes).collect();
            bytes.truncate(len as usize);
            if header(number, &bytes) == words {
                (media.number, newest) = (number, bytes);
            }
        }
        if media.number == 0 {
            Err(FsError::Corrupt("no tree is whole".to_owned()))
        } else {
            Ok((media, newest))
        }
    }
}
