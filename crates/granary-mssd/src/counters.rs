//! What moved over the host link: bytes by direction, interface and data structure.

use crate::structure::Structure;

/// Bytes over the host link since power-on. Block transfers count whole pages; byte transfers count whole lines,
/// because the link carries lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTraffic {
    /// Byte interface, drive to host, by [`Structure`].
    pub byte_read: [u64; Structure::COUNT],
    /// Byte interface, host to drive.
    pub byte_write: [u64; Structure::COUNT],
    /// Block interface, drive to host.
    pub block_read: [u64; Structure::COUNT],
    /// Block interface, host to drive.
    pub block_write: [u64; Structure::COUNT],
}

impl LinkTraffic {
    /// What moved after `earlier` was taken.
    pub fn since(&self, earlier: &LinkTraffic) -> LinkTraffic {
        let minus =
            |a: &[u64; Structure::COUNT], b: &[u64; Structure::COUNT]| std::array::from_fn(|i| a[i] - b[i]);
        LinkTraffic {
            byte_read: minus(&self.byte_read, &earlier.byte_read),
            byte_write: minus(&self.byte_write, &earlier.byte_write),
            block_read: minus(&self.block_read, &earlier.block_read),
            block_write: minus(&self.block_write, &earlier.block_write),
        }
    }

    /// All bytes from drive to host.
    pub fn read(&self) -> u64 {
        self.byte_read.iter().chain(&self.block_read).sum()
    }

    /// All bytes from host to drive.
    pub fn written(&self) -> u64 {
        self.byte_write.iter().chain(&self.block_write).sum()
    }
}
