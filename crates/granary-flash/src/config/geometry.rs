//! [`Geometry`]: how many channels, ways, dies, planes, blocks and pages, and how they are numbered.
//!
//! ```text
//!   plane number p  = ((plane * dies + die) * ways + way) * channels + channel
//!   block number b  = p * blocks_per_plane + block
//!   Ppa             = b * pages_per_block + page
//!   die number      = p modulo (channels * ways * dies)
//! ```
//!
//! Numbering is fixed; the order in which consecutive writes visit the planes is not ([`super::Striping`]).

use super::{config, product};
use crate::error::FlashError;
use granary_units::{Bytes, PAGE_SIZE, Ppa};
use serde::{Deserialize, Serialize};

/// Shape of the flash array. Pages are 4 KiB. At most 2^32 - 2 pages (16 TiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Channels: buses between controller and dies.
    pub channels: u32,
    /// Ways: packages that share a channel.
    pub ways: u32,
    /// Dies in a package.
    #[serde(default = "one")]
    pub dies: u32,
    /// Planes in a die; how they share it is [`super::PlaneMode`].
    #[serde(default = "one")]
    pub planes: u32,
    /// Erase blocks in a plane.
    pub blocks_per_plane: u32,
    /// Pages in an erase block, 1 to 32767.
    pub pages_per_block: u32,
}

fn one() -> u32 {
    1
}

impl Geometry {
    /// Planes of the whole array: the number of operations that can go on at once.
    pub const fn plane_count(&self) -> u32 {
        self.channels * self.ways * self.dies * self.planes
    }

    /// Dies of the whole array. Plane p belongs to die p modulo this number.
    pub const fn die_count(&self) -> u32 {
        self.channels * self.ways * self.dies
    }

    /// Erase blocks of the whole array.
    pub const fn blocks(&self) -> u32 {
        self.plane_count() * self.blocks_per_plane
    }

    /// Flash pages of the whole array (raw capacity).
    pub const fn pages(&self) -> u64 {
        self.blocks() as u64 * self.pages_per_block as u64
    }

    /// Raw capacity.
    pub const fn raw(&self) -> Bytes {
        Bytes(self.pages() * PAGE_SIZE as u64)
    }

    /// Plane number of a block.
    #[inline]
    pub const fn plane_of(&self, block: u32) -> u32 {
        block / self.blocks_per_plane
    }

    /// Channel of a plane.
    pub const fn channel_of(&self, plane: u32) -> u32 {
        plane % self.channels
    }

    /// Block number, and page within the block.
    #[inline]
    pub const fn split(&self, ppa: Ppa) -> (u32, u32) {
        let block = ppa.0 / self.pages_per_block;
        (block, ppa.0 - block * self.pages_per_block)
    }

    pub(super) fn validate(&self) -> Result<(), FlashError> {
        let parts = [
            ("channels", self.channels),
            ("ways", self.ways),
            ("dies", self.dies),
            ("planes", self.planes),
            ("blocks_per_plane", self.blocks_per_plane),
            ("pages_per_block", self.pages_per_block),
        ];
        if let Some((name, _)) = parts.iter().find(|(_, n)| *n == 0) {
            return config(format!("{name} must be at least 1"));
        }
        if self.pages_per_block > MAX_PAGES_PER_BLOCK {
            return config(format!("pages_per_block must be at most {MAX_PAGES_PER_BLOCK}"));
        }
        let pages = product(parts.iter().map(|&(_, n)| n));
        if pages >= u32::MAX as u64 {
            return config(format!(
                "{pages} pages do not fit 32-bit page numbers: at most {} pages (16 TiB)",
                u32::MAX - 1
            ));
        }
        Ok(())
    }
}

/// Valid counts keep one bit of a `u16` for themselves.
const MAX_PAGES_PER_BLOCK: u32 = 0x7fff;
