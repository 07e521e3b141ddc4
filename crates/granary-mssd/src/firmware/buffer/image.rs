//! State outside the process: pages on an image, and changes that the image has not been told yet.

use super::{AHEAD, Backend};
use crate::firmware::store::Store;
use crate::saved::medium::ImageMedium;
use granary_device::DriveError;
use granary_flash::{BlockNo, FlashError, Ftl, FtlConfig, Medium, Oob};
use granary_units::{Bytes, Lpa, Nanos, Ppa};

impl Backend {
    /// An empty buffer in front of the flash of an image. Every page is given to the FTL when it comes, so
    /// that its content is in the image at once; then the buffer has nothing of its own to keep. Of an image
    /// that was opened read-only, it keeps what worn-out flash refuses: mounting writes, and must not fail
    /// where only reading is wanted.
    ///
    /// # Errors
    /// [`FlashError::Config`], [`FlashError::Corrupt`].
    pub fn on_image(flash: &FtlConfig, size: Bytes, medium: ImageMedium) -> Result<Backend, FlashError> {
        let fleeting = medium.is_read_only();
        let live = |store: &Store, block, page| match store {
            Store::Image(m) => m.is_live(block, page),
            Store::Ram(_) | Store::NoData(_) => false,
        };
        let ftl = Ftl::with_saved_map(flash, Store::Image(Box::new(medium)), live)?;
        Ok(Backend { fleeting, ..Backend::over(ftl, size, usize::MAX) })
    }

    /// On an image: pages wait here for their planes, as in memory, so that all comes at the same instants. A
    /// page that waits is on the image once the power has failed ([`Backend::land_all`]), and not before.
    pub fn hold_back(&mut self, planes: u32) {
        self.ahead = planes as usize * AHEAD;
    }

    /// The power has failed: what an image does not have yet goes there; the drive's battery would keep it.
    pub fn land_all(&mut self, now: Nanos) {
        if self.is_on_image() && self.ahead < usize::MAX {
            self.drain(now);
        }
    }

    /// The image that the flash lies on, if it does.
    #[inline]
    pub fn image(&mut self) -> Option<&mut ImageMedium> {
        match self.ftl.nand_mut().medium_mut() {
            Store::Ram(_) | Store::NoData(_) => None,
            Store::Image(m) => Some(m),
        }
    }

    /// Before a clone: the content of the flash is in common from now on, until it changes.
    pub fn share(&mut self) {
        if let Store::Ram(medium) = self.ftl.nand_mut().medium_mut() {
            medium.share();
        }
    }

    /// Whether the flash lies on an image.
    pub fn is_on_image(&self) -> bool {
        matches!(self.ftl.nand().medium(), Store::Image(_))
    }

    /// Hands what changed to the image: the flash's changes and those that `gather` adds.
    ///
    /// # Errors
    /// Read-only, because the image takes no more changes.
    pub fn publish(&mut self, gather: impl FnOnce(&mut Vec<u8>)) -> Result<(), DriveError> {
        let Some(image) = self.image() else { return Ok(()) };
        image.publish(gather).map_err(|reason| {
            self.refused.get_or_insert_with(|| reason.clone());
            DriveError::ReadOnly(reason)
        })
    }

    /// Whether long work should hand over what it changed so far.
    #[inline]
    pub fn is_publish_due(&mut self) -> bool {
        self.image().is_some_and(|image| image.is_publish_due())
    }

    /// The map that the image keeps, one bit for each flash page, is the one that the FTL has.
    pub(super) fn check_saved_map(&self, image: &ImageMedium) -> Vec<String> {
        let n = self.ftl.config().geometry.pages_per_block;
        let wrong = |ppa: &u32| {
            let (block, page) = (BlockNo(ppa / n), ppa % n);
            let lpa = image.lpa(block, page).unwrap_or(Oob::NO_LPA);
            image.is_live(block, page) != (self.ftl.location(Lpa(lpa as u64)) == Some(Ppa(*ppa)))
        };
        let programmed = (0..self.ftl.config().geometry.blocks())
            .flat_map(|b| (0..self.ftl.nand().header(BlockNo(b)).programmed).map(move |page| b * n + page));
        programmed
            .filter(wrong)
            .take(8)
            .map(|ppa| {
                let (block, page) = (BlockNo(ppa / n), ppa % n);
                let (lpa, live) = (image.lpa(block, page).unwrap_or(Oob::NO_LPA), image.is_live(block, page));
                let mapped = self.ftl.location(Lpa(lpa as u64));
                format!("image: flash page {ppa}, page {lpa}, which is mapped to {mapped:?}, is saved with current = {live}")
            })
            .collect()
    }
}
