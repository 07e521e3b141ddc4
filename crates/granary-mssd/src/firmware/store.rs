//! [`Store`]: the storage of the drive's flash, memory or an image.

use crate::saved::medium::ImageMedium;
use granary_flash::{BlockHeader, BlockNo, Medium, NoData, Oob, RamMedium};
use granary_units::Page;
use std::io;

/// A medium chosen at run time. Memory is the one that must be fast.
pub enum Store {
    /// Memory: gone with the process.
    Ram(RamMedium),
    /// Memory without content: raw benches of large drives.
    NoData(NoData),
    /// An image on the host's disk.
    Image(Box<ImageMedium>),
}

impl Clone for Store {
    /// # Panics
    /// Of an image: two drives cannot write to the same files. [`crate::Mssd`] asks first.
    fn clone(&self) -> Store {
        match self {
            Store::Ram(m) => Store::Ram(m.clone()),
            Store::NoData(m) => Store::NoData(m.clone()),
            Store::Image(_) => panic!("the flash of an image has no second copy"),
        }
    }
}

macro_rules! each {
    ($self:expr, $m:ident => $call:expr) => {
        match $self {
            Store::Ram($m) => $call,
            Store::NoData($m) => $call,
            Store::Image($m) => $call,
        }
    };
}

impl Medium for Store {
    fn shape(&self) -> (u32, u32) {
        each!(self, m => m.shape())
    }

    fn header(&self, block: BlockNo) -> io::Result<BlockHeader> {
        each!(self, m => m.header(block))
    }

    #[inline]
    fn read(&self, block: BlockNo, page: u32) -> io::Result<(Page, Oob)> {
        each!(self, m => m.read(block, page))
    }

    #[inline]
    fn fetch(&self, block: BlockNo, page: u32, lpa: u32) -> io::Result<(Page, u32)> {
        each!(self, m => m.fetch(block, page, lpa))
    }

    #[inline]
    fn content(&self, block: BlockNo, page: u32) -> io::Result<(Page, u32)> {
        each!(self, m => m.content(block, page))
    }

    #[inline]
    fn lpa(&self, block: BlockNo, page: u32) -> io::Result<u32> {
        each!(self, m => m.lpa(block, page))
    }

    #[inline]
    fn prefetch_oob(&self, block: BlockNo, page: u32, n: u32) {
        each!(self, m => m.prefetch_oob(block, page, n))
    }

    #[inline]
    fn touch(&self, block: BlockNo, page: u32) {
        each!(self, m => m.touch(block, page))
    }

    #[inline]
    fn oob(&self, block: BlockNo, page: u32) -> io::Result<Oob> {
        each!(self, m => m.oob(block, page))
    }

    #[inline]
    fn program(&mut self, block: BlockNo, page: u32, content: &Page, oob: Oob) -> io::Result<()> {
        each!(self, m => m.program(block, page, content, oob))
    }

    fn program_block(
        &mut self,
        block: BlockNo,
        first: Oob,
        step: u32,
        content: impl FnMut(u32) -> Page,
    ) -> io::Result<()> {
        each!(self, m => m.program_block(block, first, step, content))
    }

    fn erase(&mut self, block: BlockNo) -> io::Result<()> {
        each!(self, m => m.erase(block))
    }

    fn mark_bad(&mut self, block: BlockNo) -> io::Result<()> {
        each!(self, m => m.mark_bad(block))
    }

    fn replace(&mut self, block: BlockNo, page: u32, content: &Page) -> io::Result<()> {
        each!(self, m => m.replace(block, page, content))
    }

    fn rename(&mut self, block: BlockNo, page: u32, lpa: u32) {
        each!(self, m => m.rename(block, page, lpa))
    }

    #[inline]
    fn forget(&mut self, block: BlockNo, page: u32) {
        each!(self, m => m.forget(block, page))
    }

    #[inline]
    fn doomed(&mut self, block: BlockNo, page: u32) {
        each!(self, m => m.doomed(block, page))
    }

    fn sync(&mut self) -> io::Result<()> {
        each!(self, m => m.sync())
    }
}
