//! [`Medium`]: where the content of the flash lives; consumed by the NAND array.
//!
//! ```text
//!   block b:  header { programmed, erases, bad }
//!             page 0: [ 4096 B content | Oob: lpa, seq ]
//!             page 1: [ 4096 B content | Oob: lpa, seq ]     pages 0..programmed hold something
//!             ...
//! ```
//!
//! The NAND array calls in keeping with the NAND's rules (it checks them itself), so a medium needs no checks
//! of its own. Everything that survives power loss is in the medium: a NAND array can be opened on a filled
//! one.
//!
//! It does *not* know time, mapping or faults.

mod no_data;
mod ram;

use granary_units::Page;
pub use no_data::NoData;
pub use ram::RamMedium;
use std::io;

/// Number of an erase block, 0 to blocks - 1 over the whole array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNo(pub u32);

/// Out-of-band area of a flash page: which logical page it holds, and when it was programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob {
    /// Program sequence number, counted over the drive's life; of two copies of a page the higher is the
    /// newer.
    pub seq: u64,
    /// Logical page, or [`Oob::NO_LPA`].
    pub lpa: u32,
}

impl Oob {
    /// The page holds no logical page: its program failed.
    pub const NO_LPA: u32 = u32::MAX;
}

/// State of an erase block that survives power loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHeader {
    /// Pages programmed since the last erase.
    pub programmed: u32,
    /// Times erased.
    pub erases: u32,
    /// Marked bad: never to be programmed or erased again.
    pub bad: bool,
}

/// Stores flash pages with their OOB.
///
/// All methods may fail with the error of the file behind the medium; one in memory never does. Blocks and
/// pages are given by number and lie within the geometry that the medium was made for.
pub trait Medium {
    /// The geometry that the medium was made for: (blocks, pages in each).
    fn shape(&self) -> (u32, u32);

    /// State of `block`.
    fn header(&self, block: BlockNo) -> io::Result<BlockHeader>;

    /// Content and OOB of a programmed page.
    fn read(&self, block: BlockNo, page: u32) -> io::Result<(Page, Oob)>;

    /// Content of a programmed page that should hold logical page `lpa`, and what its OOB says that it holds.
    /// A medium without content may take the caller's word for it.
    #[inline]
    fn fetch(&self, block: BlockNo, page: u32, lpa: u32) -> io::Result<(Page, u32)> {
        let _ = lpa;
        self.read(block, page).map(|(content, oob)| (content, oob.lpa))
    }

    /// Content of a programmed page, and the logical page that its OOB names.
    #[inline]
    fn content(&self, block: BlockNo, page: u32) -> io::Result<(Page, u32)> {
        self.read(block, page).map(|(content, oob)| (content, oob.lpa))
    }

    /// The logical page that the OOB of a programmed page names.
    #[inline]
    fn lpa(&self, block: BlockNo, page: u32) -> io::Result<u32> {
        self.oob(block, page).map(|oob| oob.lpa)
    }

    /// A programmed page will be read soon: brings what [`Medium::fetch`] looks up into the processor's
    /// cache.
    #[inline]
    fn touch(&self, block: BlockNo, page: u32) {
        std::hint::black_box(self.oob(block, page).is_ok());
    }

    /// The OOB of `n` pages from `page` on will be asked for soon: fetches them into the processor's cache.
    #[inline]
    fn prefetch_oob(&self, block: BlockNo, page: u32, n: u32) {
        let _ = (block, page, n);
    }

    /// OOB of a programmed page.
    fn oob(&self, block: BlockNo, page: u32) -> io::Result<Oob>;

    /// Stores the next page of `block`: `page` is its header's `programmed`, which grows by one.
    fn program(&mut self, block: BlockNo, page: u32, content: &Page, oob: Oob) -> io::Result<()>;

    /// Programs every page of an erased block: page i holds logical page `first.lpa + i * step`, with
    /// sequence number `first.seq + i * step` and what `content` says of that logical page. The same as as
    /// many calls of [`Medium::program`].
    fn program_block(
        &mut self,
        block: BlockNo,
        first: Oob,
        step: u32,
        mut content: impl FnMut(u32) -> Page,
    ) -> io::Result<()> {
        let mut oob = first;
        for page in 0..self.shape().1 {
            self.program(block, page, &content(oob.lpa), oob)?;
            oob = Oob { lpa: oob.lpa.wrapping_add(step), seq: oob.seq + step as u64 };
        }
        Ok(())
    }

    /// Erases `block`: no page is programmed, `erases` grows by one.
    fn erase(&mut self, block: BlockNo) -> io::Result<()>;

    /// Marks `block` bad for good.
    fn mark_bad(&mut self, block: BlockNo) -> io::Result<()>;

    /// Replaces the content of a programmed page, keeping its OOB. Real NAND cannot; power-fail modelling
    /// uses it to undo a program that the power loss prevented.
    fn replace(&mut self, block: BlockNo, page: u32, content: &Page) -> io::Result<()>;

    /// A programmed page holds logical page `lpa` from now on, says the P2L table: its OOB cannot. A medium
    /// that keeps the map has to know.
    fn rename(&mut self, block: BlockNo, page: u32, lpa: u32) {
        let _ = (block, page, lpa);
    }

    /// A hint: the content of this programmed page is stale and may be dropped, at the latest when
    /// [`Medium::sync`] is called (its OOB stays).
    fn forget(&mut self, block: BlockNo, page: u32) {
        let _ = (block, page);
    }

    /// This programmed page is stale, and its block is to be erased presently: nothing is gained by dropping
    /// its content, but a medium that keeps the map has to know.
    fn doomed(&mut self, block: BlockNo, page: u32) {
        let _ = (block, page);
    }

    /// Makes everything durable on the machine that runs the emulation, and content that was to be forgotten
    /// is gone.
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
