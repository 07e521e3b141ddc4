//! [`Structure`]: which on-media data structure a transfer belongs to, as in the paper's Figure 1.

use serde::{Deserialize, Serialize};

/// The data structure that a transfer over the host link carries. Every transfer names one, so that traffic
/// can be broken down and the sums balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// Superblock, group descriptors, checkpoint packs.
    Superblock,
    /// Block and inode bitmaps, segment tables.
    Bitmap,
    /// Inodes (ext4 inode table, F2FS inode nodes).
    Inode,
    /// Directory entries.
    Dentry,
    /// Extents, indirect nodes, address tables: where file data lies.
    DataPointer,
    /// Journal and undo-log blocks.
    Journal,
    /// Per-inode metadata logs (NOVA) and other logs that are the structure itself.
    Log,
    /// File content.
    Data,
}

impl Structure {
    /// Number of structures.
    pub const COUNT: usize = 8;
    /// All structures in the order of reports.
    pub const ALL: [Structure; Structure::COUNT] = [
        Structure::Superblock,
        Structure::Bitmap,
        Structure::Inode,
        Structure::Dentry,
        Structure::DataPointer,
        Structure::Journal,
        Structure::Log,
        Structure::Data,
    ];

    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Structure::Superblock => "superblock",
            Structure::Bitmap => "bitmap",
            Structure::Inode => "inode",
            Structure::Dentry => "dentry",
            Structure::DataPointer => "data_pointer",
            Structure::Journal => "journal",
            Structure::Log => "log",
            Structure::Data => "data",
        }
    }

    /// Whether the structure is metadata: everything but file content.
    pub fn is_metadata(self) -> bool {
        self != Structure::Data
    }
}
