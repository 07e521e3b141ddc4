//! Properties of the media format.

use super::*;
use crate::journal::Bitmap;
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
        blocks: U64::new(g.blocks()),
        inodes: U64::new(g.inodes()),
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
        place: U32::ZERO,
        grown: U32::ZERO,
        growing: U32::ZERO,
        added: Default::default(),
        crc: U32::ZERO,
    }
}

#[test]
fn structs_have_the_sizes_of_the_specification() {
    assert_eq!(size_of::<Superblock>(), 384);
    assert_eq!(size_of::<InodeRecord>(), 128);
    assert_eq!(size_of::<Extent>(), 16);
    assert_eq!(size_of::<DentryHead>(), 12);
    assert_eq!(std::mem::offset_of!(InodeRecord, hot_crc), 60);
    assert_eq!(std::mem::offset_of!(InodeRecord, uid), 96);
    assert_eq!(std::mem::offset_of!(InodeRecord, cold_crc), 124);
    assert_eq!((dentry::slots_for(1), dentry::slots_for(52), dentry::slots_for(53)), (1, 1, 2));
    assert_eq!((extent::SLOTS_PER_EXTENT_BLOCK, POINTERS_PER_INDEX, orphan::PLACES), (256, 959, 960));
    assert_eq!(dentry::MAX_SLOTS, 5);
}

#[test]
fn a_superblock_survives_the_round_trip_and_no_flipped_bit_does() {
    let block = sample().to_block();
    let read = Superblock::read(&block, 0).expect("just written");
    assert!(read.agrees(&sample()) && read.next_tx.get() == 9);
    assert!(Superblock::read(&block, 8191).is_err(), "a copy says where it is");
    for bit in 0..Superblock::SIZE * 8 {
        let mut bad = block;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::read(&bad, 0).is_err(), "bit {bit}");
    }
}

/// An inode record of any bytes reads and writes back the same.
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
fn a_name_survives_the_round_trip_its_slots_leave_no_rest_and_no_flipped_bit_stays_unseen() {
    for len in 1..=255usize {
        let name: Vec<u8> = (0..len).map(|i| i as u8 + 1).collect();
        let slots = dentry::slots_for(len) as usize;
        let mut area = vec![0xff; slots * SLOT_SIZE];
        dentry::write_entry(&mut area, 4711, 77, 0o10, &name);
        let head = DentryHead::read(&area);
        assert_eq!((head.ino.get(), head.kind.get(), head.stride()), (77, 0o10, Some(slots as u32)));
        assert_eq!(dentry::name(&area, &head), name);
        assert!(area[12 + len..].iter().all(|&b| b == 0));
        assert!(head.is_sound(&area, 4711) && !head.is_sound(&area, 4712));
        for bit in 0..(12 + len) * 8 {
            let mut bad = area.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let head = DentryHead::read(&bad);
            let fits = head.stride() == Some(slots as u32);
            assert!(!fits || !head.is_sound(&bad, 4711), "bit {bit} of a name of {len} bytes");
        }
        dentry::point_at(&mut area, 4711, 78, 0o4);
        let head = DentryHead::read(&area);
        assert!(head.is_sound(&area, 4711) && (head.ino.get(), head.kind.get()) == (78, 0o4));
    }
    let stride = |n: u32| {
        let mut area = [0xff; SLOT_SIZE];
        dentry::write_free(&mut area, 9, n);
        let head = DentryHead::read(&area);
        assert!(head.is_free() && (head.stride().is_none() || head.is_sound(&area, 9)));
        head.stride()
    };
    assert_eq!((stride(0), stride(3), stride(6)), (None, Some(3), None));
}

/// A sealed line says so; with any bit flipped, or in another place, it does not.
#[test]
fn every_flipped_bit_of_a_sealed_line_is_seen() {
    let mut s = Stream::new(7, "line");
    let mut block = [0u8; PAGE_SIZE];
    block.iter_mut().for_each(|b| *b = s.next_u64() as u8);
    line::seal(&mut block, 99, 0b1001);
    assert_eq!(line::damaged(&block, 99, 0b1001), 0);
    assert_eq!(line::damaged(&block, 98, 0b1001), 0b1001);
    for bit in 0..512 {
        block[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(line::damaged(&block, 99, 0b1001), 1, "bit {bit}");
        block[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(line::damaged_or_zero(&[0; PAGE_SIZE], 5), 0);
}

#[test]
fn slots_and_pointers_survive_their_block_and_leave_the_checksums_alone() {
    let mut block = [0u8; PAGE_SIZE];
    let e = |n: u32| Extent::new((n as u64) << 48 | 5, n + 1, 3 * n);
    (0..SLOTS_PER_EXTENT_BLOCK).for_each(|n| e(n).write_to(&mut block, n));
    assert!((0..SLOTS_PER_EXTENT_BLOCK).all(|n| Extent::in_block(&block, n) == e(n)));
    assert!(block.chunks(64).all(|l| l[60..] == [0; 4]));
    let mut block = [0u8; PAGE_SIZE];
    (0..=POINTERS_PER_INDEX).for_each(|n| extent::set_pointer(&mut block, n, n + 7));
    assert!((0..=POINTERS_PER_INDEX).all(|n| extent::pointer(&block, n) == n + 7));
    assert!(block.chunks(64).all(|l| l[60..] == [0; 4]));
    assert_eq!((extent::slot_lines(0), extent::slot_lines(5), extent::slot_lines(256)), (0, 0b11, u64::MAX));
    assert_eq!((extent::pointer_lines(16, false), extent::pointer_lines(1, true)), (0b11, 1 << 63 | 1));
}

/// Flipping bits agrees with a plain array of booleans, and the mask names exactly the lines that changed.
#[test]
fn bitmap_flips_agree_with_an_array() {
    let mut s = Stream::new(2, "bitmap");
    let (mut block, mut model) = ([0u8; PAGE_SIZE], vec![false; 30720]);
    for _ in 0..2000 {
        let from = s.below(30720);
        let len = 1 + s.below((30720 - from).min(2000));
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
        assert!(mask >> (from / 480) & 1 == 1 && mask >> ((from + len - 1) / 480) & 1 == 1);
    }
    for (i, word) in bitmap::words(&block).enumerate() {
        assert!((0..64).all(|b| (word >> b & 1 == 1) == model[i * 64 + b]));
    }
    let mut again = [0; PAGE_SIZE];
    bitmap::put_words(&mut again, &bitmap::words(&block).collect::<Vec<_>>());
    assert_eq!(again, block);
}

#[test]
fn the_areas_follow_each_other_and_hold_what_they_must() {
    for (blocks, ratio) in [(64, 16384), (8192, 4096), (8 << 20, 16384), (u32::MAX as u64, 16384)] {
        let g = Geometry::new(blocks, ratio, Geometry::default_journal(blocks)).expect("room");
        assert!(0 < g.orphans && g.orphans < g.inode_bitmap && g.inode_bitmap < g.block_bitmap);
        assert!((g.block_bitmap - g.inode_bitmap) * bitmap::BITS_PER_BLOCK >= g.inodes());
        assert!((g.inode_table - g.block_bitmap) * bitmap::BITS_PER_BLOCK >= g.blocks());
        assert_eq!((g.journal - g.inode_table) * INODES_PER_BLOCK, g.inodes());
        assert_eq!(g.data - g.journal, g.journal_blocks);
        assert!(g.data < g.blocks() && g.inode_place((g.inodes() - 1) as u32).0.0 < g.data);
    }
    assert!(Geometry::new(63, 16384, 16).is_none() && Geometry::new(1 << 32, 16384, 16).is_none());
    assert!(Geometry::new(64, 128, 16).is_none(), "no room for data");
    assert!(Geometry::new(64, 16384, 15).is_none() && Geometry::new(64, 16384, 64).is_none());
}

/// However a file system grows, every bitmap block and every block of the inode table has a place of its own,
/// in front of its part's data, and what the superblock says gives the same geometry again.
#[test]
fn segments_follow_each_other_and_nothing_moves() {
    let mut random = Stream::new(3, "segments");
    for round in 0..50u64 {
        let blocks = 64 + random.below(if round % 2 == 0 { 2_000 } else { 200_000 });
        let Some(g) = Geometry::new(blocks, 4096 << random.below(4), Geometry::default_journal(blocks))
        else {
            continue;
        };
        let areas =
            [g.orphans, g.inode_bitmap, g.block_bitmap, g.inode_table, g.journal, g.journal_blocks, g.data];
        let again = Geometry::from_areas(areas, g.first_blocks, g.first_inodes);
        let mut sb = Superblock { blocks: U64::new(g.blocks()), inodes: U64::new(g.inodes()), ..sample() };
        let mut places: Vec<(u64, Vec<u64>)> = Vec::new();
        let list = |g: &Geometry| -> Vec<u64> {
            let bitmap = |w| (0..g.bitmap_blocks(w)).map(move |n| g.bitmap_block(w, n).0);
            let table = (0..g.inodes() / INODES_PER_BLOCK).map(|n| g.table_block(n).0.0);
            bitmap(Bitmap::Inodes).chain(bitmap(Bitmap::Blocks)).chain(table).collect()
        };
        for _ in 0..random.below(6) {
            let more = g.blocks() + 1 + random.below(100_000);
            let Some(s) = g.next_segment(more) else { continue };
            places.push((g.blocks(), list(&g)));
            g.add(s);
            again.add(Segment::new(s.start, s.end, s.first_inode, s.inodes));
            sb = sb.with(&s);
        }
        let mut all = list(&g);
        assert_eq!(all, list(&again));
        assert!(all.iter().all(|&lba| g.is_metadata(lba) && !g.has_data(lba, 1)));
        for (end, before) in places {
            assert!(before.iter().all(|lba| all.contains(lba)), "what was there up to {end} has moved");
        }
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n, "two things in one block");
        assert!(g.copies().all(|c| !g.is_metadata(c) && !g.has_data(c, 1)));
        let data = (0..g.blocks()).filter(|&lba| g.has_data(lba, 1)).count() as u64;
        assert_eq!(data, g.data_blocks());
        assert_eq!(sb.grown.get() as usize, g.segments().count());
    }
}
