//! Properties of the media format.

use super::*;
use crate::layout::superblock::{CLEAN, MAGIC, VERSION};
use granary_sim::rng::Stream;
use granary_units::PAGE_SIZE;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{I64, U32, U64};

fn sample() -> Superblock {
    let g = Geometry::new(8192, 16384, 64).expect("room");
    Superblock {
        magic: MAGIC,
        version: U32::new(VERSION),
        state: U32::new(CLEAN),
        uuid: [7; 16],
        blocks: U64::new(g.blocks),
        inodes: U64::new(g.inodes),
        orphans: U64::new(g.orphans),
        inode_bitmap: U64::new(g.inode_bitmap),
        block_bitmap: U64::new(g.block_bitmap),
        inode_table: U64::new(g.inode_table),
        data: U64::new(g.data),
        journal: U32::new(g.journal as u32),
        journal_blocks: U32::new(g.journal_blocks as u32),
        next_tx: U32::new(9),
        root: U32::new(1),
        mounts: U64::new(3),
        made: I64::new(5),
        reserved: U32::ZERO,
        crc: U32::ZERO,
    }
}

#[test]
fn structs_have_the_sizes_of_the_specification() {
    assert_eq!(size_of::<Superblock>(), 128);
    assert_eq!(size_of::<InodeRecord>(), 128);
    assert_eq!(size_of::<Extent>(), 16);
    assert_eq!(size_of::<DentryHead>(), 8);
    assert_eq!(std::mem::offset_of!(InodeRecord, inline), inode::INLINE_AT);
    assert_eq!(std::mem::offset_of!(InodeRecord, uid), 96);
    assert_eq!((dentry::slots_for(1), dentry::slots_for(56), dentry::slots_for(57)), (1, 1, 2));
    assert_eq!(dentry::MAX_SLOTS, 5);
}

#[test]
fn a_superblock_survives_the_round_trip_and_no_flipped_bit_does() {
    let block = sample().to_block();
    let read = Superblock::read(&block).expect("just written");
    assert_eq!((read.geometry(), read.next_tx.get()), (sample().geometry(), 9));
    for bit in 0..Superblock::SIZE * 8 {
        let mut bad = block;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::read(&bad).is_err(), "bit {bit}");
    }
}

/// Whatever is in its bytes, an inode record reads and writes back the same.
#[test]
fn an_inode_record_is_its_bytes() {
    let mut s = Stream::new(1, "inode");
    let mut block = [0u8; PAGE_SIZE];
    block.iter_mut().for_each(|b| *b = s.next_u64() as u8);
    for at in (0..PAGE_SIZE).step_by(INODE_SIZE) {
        assert_eq!(InodeRecord::read(&block, at).as_bytes(), &block[at..at + INODE_SIZE]);
    }
}

#[test]
fn a_name_survives_the_round_trip_and_its_slots_leave_no_rest() {
    for len in 1..=255usize {
        let name: Vec<u8> = (0..len).map(|i| i as u8 + 1).collect();
        let slots = dentry::slots_for(len) as usize;
        let mut area = vec![0xff; slots * SLOT_SIZE];
        dentry::write_entry(&mut area, 77, 0o10, &name);
        let head = DentryHead::read(&area);
        assert_eq!((head.ino.get(), head.kind.get(), head.stride()), (77, 0o10, Some(slots as u32)));
        assert_eq!(dentry::name(&area, &head), name);
        assert!(area[8 + len..].iter().all(|&b| b == 0));
    }
    assert_eq!(DentryHead::free(3).stride(), Some(3));
    assert_eq!(DentryHead::free(0).stride(), None);
    assert_eq!(DentryHead::free(6).stride(), None);
}

/// Flipping bits agrees with a plain array of booleans, and the mask names exactly the lines that changed.
#[test]
fn bitmap_flips_agree_with_an_array() {
    let mut s = Stream::new(2, "bitmap");
    let (mut block, mut model) = ([0u8; PAGE_SIZE], vec![false; 32768]);
    for _ in 0..2000 {
        let from = s.below(32768);
        let len = 1 + s.below((32768 - from).min(2000));
        let set = s.chance(0.5);
        let range = from as usize..(from + len) as usize;
        let clean = model[range.clone()].iter().all(|&b| b != set);
        let before = block;
        assert_eq!(bitmap::flip(&mut block, from, len, set), clean);
        model[range].fill(set);
        let mask = bitmap::line_mask(from, len);
        for line in 0..64 {
            let bytes = line * 64..line * 64 + 64;
            assert!(mask >> line & 1 == 1 || before[bytes.clone()] == block[bytes]);
        }
        assert!(mask >> (from / 512) & 1 == 1 && mask >> ((from + len - 1) / 512) & 1 == 1);
    }
    for (i, word) in bitmap::words(&block).enumerate() {
        assert!((0..64).all(|b| (word >> b & 1 == 1) == model[i * 64 + b]));
    }
}

#[test]
fn the_areas_follow_each_other_and_hold_what_they_must() {
    for (blocks, ratio) in [(64, 16384), (8192, 4096), (8 << 20, 16384), (u32::MAX as u64, 16384)] {
        let g = Geometry::new(blocks, ratio, Geometry::default_journal(blocks)).expect("room");
        assert!(0 < g.orphans && g.orphans < g.inode_bitmap && g.inode_bitmap < g.block_bitmap);
        assert!((g.block_bitmap - g.inode_bitmap) * bitmap::BITS_PER_BLOCK >= g.inodes);
        assert!((g.inode_table - g.block_bitmap) * bitmap::BITS_PER_BLOCK >= g.blocks);
        assert_eq!((g.journal - g.inode_table) * INODES_PER_BLOCK, g.inodes);
        assert_eq!(g.data - g.journal, g.journal_blocks);
        assert!(g.data < g.blocks && g.inode_place((g.inodes - 1) as u32).0.0 < g.data);
    }
    assert!(Geometry::new(63, 16384, 16).is_none() && Geometry::new(1 << 32, 16384, 16).is_none());
    assert!(Geometry::new(64, 128, 16).is_none(), "no room for data");
    assert!(Geometry::new(64, 16384, 15).is_none() && Geometry::new(64, 16384, 64).is_none());
}
