//! Two areas of blocks, written in turn: number, length and checksum of a tree, and then its bytes.

use granary_device::{Port, Structure};
use granary_fs::Result;
use granary_units::{Lpa, PAGE_SIZE, Page};

/// Bytes before the tree.
const HEADER: usize = 24;

/// Where the tree is kept.
pub struct Media {
    port: Port,
    /// Pages of an area.
    pub half: u64,
    /// The newest tree, and its number.
    pub newest: Vec<u8>,
    number: u64,
}

fn header(number: u64, bytes: &[u8]) -> Vec<u8> {
    let sum = crc32c::crc32c_append(!number as u32, bytes).into();
    [number, bytes.len() as u64, sum].map(u64::to_le_bytes).concat()
}

impl Media {
    /// Writes a new tree over the older one; it is safe on return. A torn tree has a wrong checksum.
    pub fn write(&mut self, bytes: Vec<u8>) -> Result<()> {
        if bytes != self.newest {
            let number = self.number + 1;
            let mut all = [&header(number, &bytes), &bytes[..]].concat();
            all.resize(all.len().next_multiple_of(PAGE_SIZE), 0);
            let pages: Vec<Page> = all.as_chunks().0.iter().map(Page::from_bytes).collect();
            self.port.write(Lpa(number % 2 * self.half), &pages, Structure::Data)?;
            self.port.flush()?;
            (self.newest, self.number) = (bytes, number);
        }
        Ok(())
    }

    /// The newer whole tree; nothing where there is none.
    pub fn open(port: &Port) -> Result<Media> {
        let half = port.info().pages / 2;
        let mut media = Media { port: port.clone(), half, newest: Vec::new(), number: 0 };
        for area in [Lpa(0), Lpa(half)] {
            let mut pages = vec![Page::ZERO];
            port.read(area, &mut pages, Structure::Superblock)?;
            let head = pages[0].to_bytes();
            let [number, len] = [0, 1].map(|i| u64::from_le_bytes(head.as_chunks().0[i]));
            if len.saturating_add(HEADER as u64) <= half * PAGE_SIZE as u64 && number > media.number {
                pages.resize((HEADER + len as usize).div_ceil(PAGE_SIZE), Page::ZERO);
                port.read(area, &mut pages, Structure::Data)?;
                let bytes = pages.iter().flat_map(Page::to_bytes).skip(HEADER).take(len as usize);
                let bytes: Vec<u8> = bytes.collect();
                if head.starts_with(&header(number, &bytes)) {
                    (media.newest, media.number) = (bytes, number);
                }
            }
        }
        Ok(media)
    }
}
