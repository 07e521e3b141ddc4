//! A drive that gets more packages while it works: its planes are added behind the others
//! ([`FtlConfig::grown`]).
//!
//! ```text
//!   planes   0 1 2 3 | 4 5 6 7       blocks, pages and planes keep their numbers; the new ones are erased
//!   l2p      as it was | unmapped                  p2l, where it is kept: as it was | nobody's
//! ```
//!
//! New data spreads over all planes from here on. It does *not* move old data to the new planes: gc copies
//! within a plane, so they fill as the host writes.

use super::Ftl;
use crate::config::FtlConfig;
use crate::error::FlashError;
use crate::medium::Medium;

impl<M: Medium> Ftl<M> {
    /// Takes up a larger `config` of the same drive, for which the medium has its blocks already.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`] at the end of life; [`FlashError::Config`] where `config` is not this drive
    /// with more planes; errors of the medium. Nothing has changed then.
    pub fn grow(&mut self, config: &FtlConfig) -> Result<(), FlashError> {
        self.writable()?;
        config.validate()?;
        let (old, new) = (self.config.geometry, config.geometry);
        let had = old.plane_count();
        let same = FtlConfig { geometry: old, ..*config } == self.config
            && (old.channels, old.blocks_per_plane, old.pages_per_block)
                == (new.channels, new.blocks_per_plane, new.pages_per_block);
        if !same || new.plane_count() < had {
            return Err(FlashError::Config("a drive grows by whole planes and in nothing else".to_owned()));
        }
        self.nand.grow(config)?;
        self.config = *config;
        self.l2p.resize(config.capacity_pages() as usize, 0);
        if !self.p2l.is_empty() {
            self.p2l.resize(new.pages() as usize, 0);
        }
        self.live.grow(new.pages());
        self.valid.grow(new.blocks());
        if !self.youngest.is_empty() {
            self.youngest.resize(new.blocks() as usize, 0);
        }
        self.order = config.striping.order(&new);
        for plane in had..new.plane_count() {
            let plane = self.plane_from_headers(plane, &[]);
            self.planes.push(plane);
        }
        Ok(())
    }
}
