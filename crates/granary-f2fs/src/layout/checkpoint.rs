//! The checkpoint pack: the point to which a power loss goes back.
//!
//! ```text
//!   header | payload | orphan blocks | compact data summaries (1-3), or 3 data summary blocks
//!          | 3 node summary blocks (at unmount only) | footer
//! ```
//!
//! Header and footer are equal; a pack counts if both are whole and of one version. The higher version wins.
//! With full summary blocks (not compact) the NAT journal follows in the hot-data summary block
//! (offset 3584), the SIT journal in the cold-data one. The payload is the bitmap of SIT copies where the
//! header has no room for it.

use super::{BLOCK_SIZE, BlockBytes, corrupt, le16, le32, le64, put16, put32, put64};
use granary_fs::Result;

/// "F2CP".
const MAGIC: u32 = u32::from_le_bytes(*b"F2CP");
/// Where the version bitmaps begin.
const BITMAPS: usize = 192;
/// Where the checksum is.
const CHECKSUM: usize = BLOCK_SIZE - 4;
/// Bytes for the bitmaps that say which copies of SIT and NAT blocks count.
pub const BITMAP_BYTES: usize = CHECKSUM - BITMAPS - 2;
/// Bytes of bitmap in a payload block.
pub const PAYLOAD_BYTES: usize = CHECKSUM;

/// Inode numbers in an orphan block.
pub const ORPHANS_PER_BLOCK: usize = 1020;

/// `flags`: written by unmount.
pub const UMOUNT: u32 = 1;
/// `flags`: data summaries are compact.
pub const COMPACT: u32 = 4;

/// One of the six logs as the checkpoint has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPlace {
    /// Open segment.
    pub segno: u32,
    /// Next block to be written in it.
    pub next: u16,
    /// It fills holes of a dirty segment (SSR).
    pub ssr: bool,
}

/// The header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Grows with every checkpoint; node footers carry it.
    pub version: u64,
    /// Blocks that users may take.
    pub user_blocks: u64,
    /// Blocks taken, reserved ones included.
    pub valid_blocks: u64,
    /// Nodes.
    pub valid_nodes: u32,
    /// Inodes.
    pub valid_inodes: u32,
    /// Reserved segments.
    pub reserved: u32,
    /// Over-provisioned segments, reserved ones included.
    pub overprovision: u32,
    /// Free segments.
    pub free_segs: u32,
    /// [`UMOUNT`], [`COMPACT`].
    pub flags: u32,
    /// Blocks of the pack.
    pub pack_blocks: u32,
    /// Orphan blocks.
    pub orphan_blocks: u32,
    /// Where to look for free node numbers.
    pub next_nid: u32,
    /// Seconds that the file system was mounted.
    pub elapsed: u64,
    /// Blocks that hold `sit_copies`; 0: the header does.
    pub payload: u32,
    /// The logs.
    pub logs: [LogPlace; 6],
    /// Copies of SIT blocks that count, then of NAT blocks.
    pub sit_copies: Vec<u8>,
    /// See `sit_copies`.
    pub nat_copies: Vec<u8>,
}

impl Checkpoint {
    /// The header block.
    pub fn encode(&self) -> Box<BlockBytes> {
        let mut b = Box::new([0; BLOCK_SIZE]);
        let (sit, nat) = (self.sit_copies.len(), self.nat_copies.len());
        let here = if self.payload == 0 { sit } else { 0 };
        assert!(here + nat <= BITMAP_BYTES + 2, "bitmaps of {here} + {nat} bytes");
        put32(&mut b[..], 0, MAGIC);
        put32(&mut b[..], 4, self.flags);
        for (i, v) in [self.version, self.user_blocks, self.valid_blocks, self.elapsed].iter().enumerate() {
            put64(&mut b[..], 8 + 8 * i, *v);
        }
        let words = [
            self.valid_nodes,
            self.valid_inodes,
            self.reserved,
            self.overprovision,
            self.free_segs,
            self.pack_blocks,
            self.orphan_blocks,
            self.next_nid,
            sit as u32,
            nat as u32,
        ];
        for (i, v) in words.iter().enumerate() {
            put32(&mut b[..], 40 + 4 * i, *v);
        }
        for (i, l) in self.logs.iter().enumerate() {
            put32(&mut b[..], 80 + 8 * i, l.segno);
            put16(&mut b[..], 84 + 8 * i, l.next);
            put16(&mut b[..], 86 + 8 * i, l.ssr as u16);
        }
        put32(&mut b[..], 128, self.payload);
        b[BITMAPS..BITMAPS + here].copy_from_slice(&self.sit_copies[..here]);
        b[BITMAPS + here..BITMAPS + here + nat].copy_from_slice(&self.nat_copies);
        let sum = crc32c::crc32c(&b[..CHECKSUM]);
        put32(&mut b[..], CHECKSUM, sum);
        b
    }

    /// The payload blocks: [`PAYLOAD_BYTES`] of bitmap each, CRC-32C 4 (begun with the version).
    pub fn encode_payload(&self) -> impl Iterator<Item = Box<BlockBytes>> {
        let parts = self.sit_copies.chunks(PAYLOAD_BYTES).take(self.payload as usize);
        parts.map(|part| {
            let mut b = Box::new([0; BLOCK_SIZE]);
            b[..part.len()].copy_from_slice(part);
            let sum = self.payload_sum(&b);
            put32(&mut b[..], CHECKSUM, sum);
            b
        })
    }

    /// Takes the bitmap over from payload blocks.
    ///
    /// # Errors
    /// `Corrupt` where one is damaged, or of another checkpoint.
    pub fn take_payload<'b>(&mut self, blocks: impl Iterator<Item = &'b BlockBytes>) -> Result<()> {
        let mut bitmap = Vec::new();
        for b in blocks {
            if le32(b, CHECKSUM) != self.payload_sum(b) {
                return Err(corrupt("a payload block of a checkpoint is damaged"));
            }
            bitmap.extend_from_slice(&b[..PAYLOAD_BYTES]);
        }
        bitmap.truncate(self.sit_copies.len());
        self.sit_copies.copy_from_slice(&bitmap);
        Ok(())
    }

    fn payload_sum(&self, b: &BlockBytes) -> u32 {
        crc32c::crc32c_append(self.version as u32, &b[..CHECKSUM])
    }

    /// Reads and checks a header or footer. Of one with payload the bitmap of SIT copies is all zeros, until
    /// [`Checkpoint::take_payload`].
    ///
    /// # Errors
    /// `Corrupt` where it is none.
    pub fn parse(b: &BlockBytes) -> Result<Checkpoint> {
        if le32(b, 0) != MAGIC || le32(b, CHECKSUM) != crc32c::crc32c(&b[..CHECKSUM]) {
            return Err(corrupt("no checkpoint, or its checksum is wrong"));
        }
        let word = |i: usize| le32(b, 40 + 4 * i);
        let (sit, nat) = (word(8) as usize, word(9) as usize);
        let payload = le32(b, 128);
        let here = if payload == 0 { sit } else { 0 };
        let apart = payload == 0 || sit.div_ceil(PAYLOAD_BYTES) == payload as usize && payload < 512;
        if !apart || here > BITMAP_BYTES || nat > BITMAP_BYTES || here + nat > BITMAP_BYTES + 2 {
            return Err(corrupt(format!(
                "checkpoint with bitmaps of {sit} + {nat} bytes, {payload} blocks of payload"
            )));
        }
        let mut logs = [LogPlace::default(); 6];
        for (i, l) in logs.iter_mut().enumerate() {
            let at = 80 + 8 * i;
            *l = LogPlace { segno: le32(b, at), next: le16(b, at + 4), ssr: le16(b, at + 6) != 0 };
        }
        Ok(Checkpoint {
            flags: le32(b, 4),
            version: le64(b, 8),
            user_blocks: le64(b, 16),
            valid_blocks: le64(b, 24),
            elapsed: le64(b, 32),
            valid_nodes: word(0),
            valid_inodes: word(1),
            reserved: word(2),
            overprovision: word(3),
            free_segs: word(4),
            pack_blocks: word(5),
            orphan_blocks: word(6),
            next_nid: word(7),
            payload,
            logs,
            sit_copies: if payload == 0 { b[BITMAPS..BITMAPS + sit].to_vec() } else { vec![0; sit] },
            nat_copies: b[BITMAPS + here..BITMAPS + here + nat].to_vec(),
        })
    }
}

/// An orphan block: numbers 4 B each, then at 4080 their count 4, zero 8, CRC-32C 4.
pub fn encode_orphans(inos: &[u32]) -> Box<BlockBytes> {
    let mut b = Box::new([0; BLOCK_SIZE]);
    for (i, ino) in inos.iter().enumerate() {
        put32(&mut b[..], 4 * i, *ino);
    }
    put32(&mut b[..], 4080, inos.len() as u32);
    let sum = crc32c::crc32c(&b[..CHECKSUM]);
    put32(&mut b[..], CHECKSUM, sum);
    b
}

/// The numbers of an orphan block.
///
/// # Errors
/// `Corrupt` where it is none.
pub fn parse_orphans(b: &BlockBytes) -> Result<Vec<u32>> {
    let n = le32(b, 4080) as usize;
    if n > ORPHANS_PER_BLOCK || le32(b, CHECKSUM) != crc32c::crc32c(&b[..CHECKSUM]) {
        return Err(corrupt("an orphan block is damaged"));
    }
    Ok((0..n).map(|i| le32(b, 4 * i)).collect())
}
