//! [`Geometry`]: where the areas lie, and how mkfs chooses it.
//!
//! ```text
//!   0      S         2S        3S
//!   | sb | CP pack | CP pack | SIT copy 0, 1 | NAT copy 0, 1 | SSA | main: main_segs segments of S blocks |
//! ```
//!
//! S is 512 blocks (2 MiB) as in the kernel; drives too small for that many segments get smaller ones, which
//! the kernel would refuse.

use crate::layout::checkpoint::{BITMAP_BYTES, PAYLOAD_BYTES};
use crate::layout::nat::NAT_ENTRIES;
use crate::layout::sit::SIT_ENTRIES;

/// The shape of a file system; all numbers in blocks unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks in all.
    pub blocks: u32,
    /// Blocks in a segment, a power of two, 16 to 512.
    pub seg_blocks: u32,
    /// Blocks of one copy of the segment information table.
    pub sit_blocks: u32,
    /// Blocks of one copy of the node address table.
    pub nat_blocks: u32,
    /// Blocks of the segment summary area.
    pub ssa_blocks: u32,
    /// Segments of the main area.
    pub main_segs: u32,
    /// Blocks of a checkpoint pack that hold the bitmap of SIT copies (`cp_payload`); 0: it is in the header.
    pub payload: u32,
}

/// Smallest segment.
pub const MIN_SEGMENT: u32 = 16;
/// Largest segment: a SIT entry has 512 bits.
pub const MAX_SEGMENT: u32 = 512;
/// NAT blocks that the header's bitmap has at least room for: with less the SIT's goes elsewhere (mkfs.f2fs's
/// MAX_SIT_BITMAP_SIZE_IN_CKPT, 64 B less than the header takes).
const LEAST_NAT: u32 = 512;
/// Blocks of a pack beside payload and orphans: header, six summaries, footer.
const PACK: u32 = 8;
/// Least main segments: six logs, what cleaning needs, and something to use.
pub const MIN_MAIN: u32 = 24;

impl Geometry {
    /// The shape for a drive of `blocks` blocks; `None` where it is too small, or the segments are
    /// impossible. Of a drive above 16 TiB, which 32-bit block numbers reach, what lies below.
    pub fn plan(blocks: u64, segment: Option<u32>) -> Option<Geometry> {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX - 1);
        let seg = segment.unwrap_or_else(|| {
            let mut s = MAX_SEGMENT;
            while s > MIN_SEGMENT && blocks / s < 120 {
                s /= 2;
            }
            s
        });
        if !seg.is_power_of_two() || !(MIN_SEGMENT..=MAX_SEGMENT).contains(&seg) {
            return None;
        }
        let segs = blocks / seg;
        let rest = segs.checked_sub(3)?;
        let sit = rest.div_ceil(SIT_ENTRIES as u32);
        let all = (BITMAP_BYTES * 8) as u32;
        let (payload, room) = match sit <= all - LEAST_NAT {
            true => (0, all - sit),
            false => (payload_of(sit), all),
        };
        // Room for every block to be a node, as far as the bitmap reaches; whole segments.
        let nat = (rest * seg).div_ceil(NAT_ENTRIES as u32).next_multiple_of(seg).min(room / seg * seg);
        let ssa = rest;
        let meta = (2 * sit + 2 * nat + ssa).div_ceil(seg);
        let main_segs = rest.checked_sub(meta)?;
        let geo = Geometry {
            blocks: segs * seg,
            seg_blocks: seg,
            sit_blocks: sit,
            nat_blocks: nat,
            ssa_blocks: meta * seg - 2 * sit - 2 * nat,
            main_segs,
            payload,
        };
        geo.is_sane().then_some(geo)
    }

    /// The same with the SIT's bitmap in blocks of its own; `None` where a pack has no room for them.
    pub fn with_payload(self) -> Option<Geometry> {
        let geo = Geometry { payload: payload_of(self.sit_blocks), ..self };
        geo.is_sane().then_some(geo)
    }

    /// Whether the numbers fit together.
    pub fn is_sane(&self) -> bool {
        let s = self.seg_blocks as u64;
        let bitmap = |blocks: u32| blocks.div_ceil(8) as u64;
        let in_header = bitmap(self.nat_blocks) + if self.payload == 0 { bitmap(self.sit_blocks) } else { 0 };
        let meta = 3 * s + 2 * (self.sit_blocks as u64 + self.nat_blocks as u64) + self.ssa_blocks as u64;
        (MIN_SEGMENT..=MAX_SEGMENT).contains(&self.seg_blocks)
            && self.seg_blocks.is_power_of_two()
            && self.main_segs >= MIN_MAIN
            && self.nat_blocks > 0
            && self.blocks < u32::MAX
            && self.ssa_blocks >= self.main_segs
            && self.sit_blocks as u64 * SIT_ENTRIES as u64 >= self.main_segs as u64
            && in_header <= BITMAP_BYTES as u64 + 1
            && [0, payload_of(self.sit_blocks)].contains(&self.payload)
            && self.payload + PACK < self.seg_blocks
            && meta + self.main_segs as u64 * s <= self.blocks as u64
    }

    /// First block of CP pack 0 or 1.
    pub fn pack(&self, n: usize) -> u64 {
        self.seg_blocks as u64 * (1 + n as u64)
    }

    /// Block `n` of copy `copy` of the SIT.
    pub fn sit(&self, n: u32, copy: bool) -> u64 {
        3 * self.seg_blocks as u64 + copy as u64 * self.sit_blocks as u64 + n as u64
    }

    /// Block `n` of copy `copy` of the NAT.
    pub fn nat(&self, n: u32, copy: bool) -> u64 {
        self.sit(0, false) + 2 * self.sit_blocks as u64 + copy as u64 * self.nat_blocks as u64 + n as u64
    }

    /// The summary block of a segment.
    pub fn ssa(&self, segno: u32) -> u64 {
        self.nat(0, false) + 2 * self.nat_blocks as u64 + segno as u64
    }

    /// First block of the main area.
    pub fn main(&self) -> u32 {
        self.ssa(self.ssa_blocks) as u32
    }

    /// First block of a segment.
    pub fn start(&self, segno: u32) -> u32 {
        self.main() + segno * self.seg_blocks
    }

    /// Whether a block lies in the main area.
    pub fn in_main(&self, addr: u32) -> bool {
        addr >= self.main() && addr - self.main() < self.main_segs * self.seg_blocks
    }

    /// Segment and place in it of a block of the main area.
    pub fn place(&self, addr: u32) -> (u32, u32) {
        let n = addr - self.main();
        (n / self.seg_blocks, n % self.seg_blocks)
    }

    /// Node numbers that the NAT has room for.
    pub fn nids(&self) -> u32 {
        self.nat_blocks * NAT_ENTRIES as u32
    }

    /// Reserved and over-provisioned segments, both counted in the second number. The rule is mkfs.f2fs's: of
    /// all ratios up to 10 % the one that leaves most; reserved are 2 (100 / ratio + 1) + 6. Where that is
    /// more than a third of a (tiny) main area: a fixed handful.
    pub fn reserved(&self) -> (u32, u32) {
        let main = self.main_segs;
        let mut best: Option<(u32, u32)> = None;
        for tenth_percent in 1..=100u32 {
            let reserved = 2 * (1000 / tenth_percent + 1) + 6;
            if reserved >= main {
                continue;
            }
            let all = reserved + ((main - reserved) as u64 * tenth_percent as u64 / 1000) as u32;
            if best.is_none_or(|b| all < b.1) {
                best = Some((reserved, all));
            }
        }
        match best {
            Some(b) if b.1 <= main / 3 => b,
            _ => (9, 9 + main / 10),
        }
    }
}

/// Payload blocks for the bitmap of so many SIT blocks.
fn payload_of(sit_blocks: u32) -> u32 {
    sit_blocks.div_ceil(8).div_ceil(PAYLOAD_BYTES as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_gib_has_the_kernels_checkpoint_packs() {
        let geo = Geometry::plan(2 << 20, None).expect("large enough");
        assert_eq!((geo.pack(0), geo.pack(1), geo.seg_blocks), (512, 1024, 512));
        assert!(geo.reserved().1 < geo.main_segs / 20);
    }

    #[test]
    fn every_size_has_a_sane_shape_or_none() {
        for mib in 1..3000u64 {
            if let Some(geo) = Geometry::plan(mib * 256, None) {
                assert!(geo.is_sane() && geo.reserved().1 < geo.main_segs - 8, "{geo:?}");
            }
        }
        assert!(Geometry::plan(16 * 256, None).is_some(), "16 MiB is enough");
        assert!(Geometry::plan(256 << 20, None).is_some(), "1 TiB is not too much");
    }

    /// Linux goes to 16 TiB, and so do block numbers of 32 bits.
    #[test]
    fn large_drives_have_their_bitmap_in_blocks_of_its_own() {
        for (gib, payload) in
            [(3100u64, 0), (3500, 1), (4096, 2), (8192, 3), (15 << 10, 5), (16 << 10, 5), (64 << 10, 5)]
        {
            let geo = Geometry::plan(gib << 18, None).expect("a shape");
            assert_eq!(geo.payload, payload, "{gib} GiB: {geo:?}");
            assert!(
                geo.nids() > 230_000 && geo.main_segs as u64 * 2 > gib.min(16 << 10) * 1024 / 100 * 97,
                "{geo:?}"
            );
        }
        for gib in (10..16 << 10).step_by(10) {
            assert!(Geometry::plan(gib << 18, None).is_some(), "{gib} GiB");
        }
    }
}
