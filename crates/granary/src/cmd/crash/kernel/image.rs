//! [`Image`]: a sparse file that is made into one crash state after the other.
//!
//! A mount changes the file: it replays logs, and it writes when it ends. So each state compares what the
//! file has with what the state is, and writes what differs: some megabytes are read, and little is written.

use super::states::Overlay;
use super::tape::Base;
use granary_units::{PAGE_SIZE, Page};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE: u64 = PAGE_SIZE as u64;
/// Blocks that are read at once.
const BATCH: u64 = 256;

/// The file.
pub struct Image {
    path: PathBuf,
    file: File,
    blocks: u64,
    buffer: Vec<u8>,
}

impl Image {
    /// A new one of zeros, of `size` bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn new(path: &Path, size: u64) -> io::Result<Image> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(size)?;
        let buffer = vec![0; (BATCH * PAGE) as usize];
        Ok(Image { path: path.to_owned(), file, blocks: size / PAGE, buffer })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it the base with the overlay on it. Nobody may have it mounted.
    ///
    /// # Errors
    /// The system's.
    pub fn become_state(&mut self, base: &Base, overlay: &Overlay) -> io::Result<()> {
        let page = |block: u64| overlay.get(&block).map_or_else(|| base.get(&block), Option::as_ref);
        let mut seen = vec![false; self.blocks as usize];
        let mut at = 0;
        while let Some((first, end)) = self.data_from(at)? {
            for batch in (first..end).step_by(BATCH as usize) {
                let n = BATCH.min(end - batch) as usize;
                let have = &mut self.buffer[..n * PAGE_SIZE];
                self.file.read_exact_at(have, batch * PAGE)?;
                for (block, bytes) in (batch..).zip(have.chunks_exact(PAGE_SIZE)) {
                    seen[block as usize] = true;
                    match page(block) {
                        Some(wanted) => {
                            if !wanted.with_bytes(|wanted| wanted[..] == *bytes) {
                                put(&self.file, block, wanted)?;
                            }
                        }
                        None if bytes.iter().all(|&b| b == 0) => {}
                        None => {
                            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                            fallocate(&self.file, how, block * PAGE, PAGE)?;
                        }
                    }
                }
            }
            at = end;
        }
        let rest = base.keys().filter(|block| !overlay.contains_key(block)).chain(overlay.keys());
        for &block in rest.filter(|&&block| block < self.blocks) {
            if let (false, Some(page)) = (seen[block as usize], page(block)) {
                put(&self.file, block, page)?;
            }
        }
        Ok(())
    }

    /// The next blocks that are not in a hole.
    fn data_from(&self, block: u64) -> io::Result<Option<(u64, u64)>> {
        match seek(&self.file, SeekFrom::Data(block * PAGE)) {
            Ok(first) => {
                let end = seek(&self.file, SeekFrom::Hole(first))?;
                Ok(Some((first / PAGE, end.div_ceil(PAGE).min(self.blocks))))
            }
            Err(Errno::NXIO) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

fn put(file: &File, block: u64, page: &Page) -> io::Result<()> {
    page.with_bytes(|bytes| file.write_all_at(bytes, block * PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_done_to_it_an_image_becomes_the_next_state_wholly() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("image");
        let mut image = Image::new(&path, 64 * PAGE).expect("makes");
        let base = Base::from_iter([(1, Page::word(1)), (2, Page::word(2)), (60, Page::word(60))]);
        let overlay = Overlay::from_iter([(2, None), (3, Some(Page::word(3))), (60, Some(Page::word(61)))]);
        let expect = |image: &Image, expected: &[(usize, u64)]| {
            let bytes = std::fs::read(image.path()).expect("reads");
            assert_eq!(bytes.len() as u64, 64 * PAGE);
            for (block, bytes) in bytes.chunks_exact(PAGE_SIZE).enumerate() {
                let word = expected.iter().find(|(b, _)| *b == block).map_or(0, |(_, word)| *word);
                assert!(Page::word(word).with_bytes(|b| b[..] == *bytes), "block {block}");
            }
        };
        for _ in 0..2 {
            image.become_state(&base, &overlay).expect("becomes");
            expect(&image, &[(1, 1), (3, 3), (60, 61)]);
            image.become_state(&base, &Overlay::default()).expect("becomes");
            expect(&image, &[(1, 1), (2, 2), (60, 60)]);
            image.file.write_all_at(&[7; 3 * PAGE_SIZE], 5 * PAGE + 17).expect("a mount writes");
        }
    }
}
