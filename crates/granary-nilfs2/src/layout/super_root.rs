//! The super root: the last block of a log that has everything. It leads to all of a checkpoint.
//!
//! ```text
//!   0 magic 4 | crc 4 | checkpoint 8 | age of the file system 8, ns
//!   64 inode of DAT 128 | of cpfile 128 | of sufile 128
//! ```

use super::inode::{DiskInode, INODE};
use super::{BLOCK_SIZE, BlockBytes, CPFILE_INO, DAT_INO, SUFILE_INO, corrupt, le32, le64, put32, put64};
use granary_fs::Result;

/// "ROOT".
const MAGIC: u32 = u32::from_le_bytes(*b"ROOT");
const INODES: usize = 64;
const END: usize = INODES + 3 * INODE;

/// A super root.
#[derive(Clone, Debug)]
pub struct SuperRoot {
    /// Number of the checkpoint.
    pub cno: u64,
    /// Nanoseconds that the file system had been mounted.
    pub age: u64,
    /// Inodes of DAT, cpfile and sufile.
    pub inodes: [DiskInode; 3],
}

impl SuperRoot {
    /// The block.
    pub fn encode(&self) -> Box<BlockBytes> {
        let mut b = Box::new([0; BLOCK_SIZE]);
        put32(&mut b[..], 0, MAGIC);
        put64(&mut b[..], 8, self.cno);
        put64(&mut b[..], 16, self.age);
        self.inodes.iter().enumerate().for_each(|(i, inode)| inode.store(&mut b[INODES + i * INODE..]));
        let sum = crc32c::crc32c(&b[8..END]);
        put32(&mut b[..], 4, sum);
        b
    }

    /// Reads and checks one.
    ///
    /// # Errors
    /// `Corrupt` where it is none.
    pub fn parse(b: &BlockBytes) -> Result<SuperRoot> {
        if le32(b, 0) != MAGIC || le32(b, 4) != crc32c::crc32c(&b[8..END]) {
            return Err(corrupt("no super root, or its checksum is wrong"));
        }
        let inode = |i: usize, ino| DiskInode::parse(&b[INODES + i * INODE..], ino);
        let (cno, age) = (le64(b, 8), le64(b, 16));
        if cno == 0 || cno > u64::MAX / 2 || age > u64::MAX / 2 {
            return Err(corrupt(format!("a super root of checkpoint {cno} at age {age}")));
        }
        Ok(SuperRoot { cno, age, inodes: [inode(0, DAT_INO)?, inode(1, CPFILE_INO)?, inode(2, SUFILE_INO)?] })
    }
}
