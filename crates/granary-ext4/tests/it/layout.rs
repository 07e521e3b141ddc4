//! Every structure of the format is read back as it was written, and refuses bytes that are none.

use granary_device::Structure;
use granary_ext4::layout::extent::{self, ExtentEntry};
use granary_ext4::layout::group::GroupDesc;
use granary_ext4::layout::htree::{self, Form, name_hash};
use granary_ext4::layout::inode::RawInode;
use granary_ext4::layout::journal::{
    LogSuper, REVOKES, Record, TAGS, Tag, commit, descriptor, parse, revoke,
};
use granary_ext4::layout::superblock::{MAGIC, Superblock, VERSION};
use granary_ext4::layout::{BLOCK_SIZE, dirent};
use granary_fs::{FileKind, FsError};
use granary_sim::rng::Stream;
use std::collections::BTreeMap;

const ZERO: [u8; BLOCK_SIZE] = [0; BLOCK_SIZE];

fn flip(block: &[u8; BLOCK_SIZE], at: usize) -> [u8; BLOCK_SIZE] {
    let mut b = *block;
    b[at] ^= 0x40;
    b
}

#[test]
fn superblock_descriptor_and_inode_round_trip_and_notice_damage() {
    let sb = Superblock {
        magic: MAGIC.into(),
        version: VERSION.into(),
        blocks: 2_097_152.into(),
        last_orphan: 77.into(),
        ..Superblock::default()
    };
    let mut b = ZERO;
    sb.store(&mut b);
    let read = Superblock::parse(&b).expect("sound");
    assert_eq!((read.blocks.get(), read.last_orphan.get()), (2_097_152, 77));
    for at in 0..size_of::<Superblock>() {
        assert!(Superblock::parse(&flip(&b, at)).is_err(), "byte {at}");
    }
    let desc = GroupDesc { inode_table: 1234.into(), free_blocks: 9.into(), ..GroupDesc::default() };
    let mut b = ZERO;
    desc.store(&mut b, 65);
    assert_eq!(GroupDesc::parse(&b, 65).expect("sound").free_blocks.get(), 9);
    assert!(GroupDesc::parse(&b, 64).is_err() && GroupDesc::parse(&b, 1).is_err(), "another group's");
    for at in 64..128 {
        assert!(GroupDesc::parse(&flip(&b, at), 65).is_err(), "byte {at}");
    }
    let mut b = ZERO;
    assert_eq!(RawInode::at(&b, 3).verify(20), Err(FsError::Stale));
    let raw = RawInode::at_mut(&mut b, 3);
    (raw.mode, raw.links, raw.size) = (0o100644.into(), 1.into(), (1 << 40).into());
    raw.seal(20);
    assert!(RawInode::at(&b, 3).verify(20).is_ok());
    assert!(RawInode::at(&b, 3).verify(21).is_err(), "another inode's");
    assert!(RawInode::at(&flip(&b, 3 * 256 + 100), 3).verify(20).is_err());
}

#[test]
fn journal_records_round_trip_and_notice_damage() {
    let tag = |i: u64| Tag {
        home: i << 33 | 5,
        what: Structure::ALL[i as usize % 8],
        escaped: i.is_multiple_of(3),
    };
    let tags: Vec<Tag> = (0..TAGS as u64).map(tag).collect();
    let blocks: Vec<u64> = (0..REVOKES as u64).map(|i| i << 20).collect();
    let records = [
        (descriptor(7, &tags), Record::Descriptor(tags.clone())),
        (descriptor(7, &tags[..1]), Record::Descriptor(tags[..1].to_vec())),
        (revoke(7, &blocks), Record::Revoke(blocks.clone())),
        (commit(7, 300, 12), Record::Commit),
    ];
    for (page, record) in records {
        let b = page.to_bytes();
        assert_eq!(parse(&b), Some((7, record)));
        for at in (0..28).filter(|at| *at < 24) {
            assert_eq!(parse(&flip(&b, at)), None, "byte {at}");
        }
    }
    let log = LogSuper { len: 16384, sequence: 99, start: 5 };
    assert_eq!(LogSuper::parse(&log.page().to_bytes()), Some(log));
    assert_eq!(LogSuper::parse(&ZERO), None);
    assert_eq!(parse(&ZERO), None);
}

/// Insert, remove and find in a directory block agree with a map, until it is full.
#[test]
fn a_directory_block_keeps_its_entries() {
    let mut s = Stream::new(1, "dirent");
    for first in [true, false] {
        let (mut b, mut model) = (ZERO, BTreeMap::new());
        let from = if first { dirent::AFTER_DOTS } else { 0 };
        if first {
            dirent::init_first(&mut b, 5, 2);
            assert_eq!(dirent::parent(&b).expect("sound"), 2);
        } else {
            dirent::init(&mut b);
        }
        let mut refused = 0;
        for i in 0..5000u32 {
            let name: Vec<u8> = (0..1 + s.below(60)).map(|_| b'a' + s.below(3) as u8).collect();
            if s.chance(0.7) && !model.contains_key(&name) {
                if dirent::insert(&mut b, from, &name, i + 100, FileKind::File).expect("sound").is_some() {
                    model.insert(name, i + 100);
                } else {
                    refused += 1;
                }
            } else if let Some(name) = model.keys().nth(s.below(model.len().max(1) as u64) as usize).cloned()
            {
                let found = dirent::find(&b, from, &name).expect("sound").0.expect("it is there");
                assert_eq!(Some(found.ino), model.remove(&name));
                dirent::remove(&mut b, from, found.at).expect("sound");
            }
            let mut all = BTreeMap::new();
            dirent::each(&b, from, |e| all.insert(e.name.to_vec(), e.ino).is_none()).expect("sound");
            assert_eq!(all, model);
        }
        assert!(refused > 0, "it was never full");
    }
}

/// The parsers take any bytes, and end with an answer or an error.
#[test]
fn parsers_take_any_bytes() {
    let mut s = Stream::new(2, "noise");
    for round in 0..3000 {
        let mut b = ZERO;
        // Noise, or a sound block with a few bytes changed.
        if round % 2 == 0 {
            b.iter_mut().for_each(|x| *x = s.next_u64() as u8);
        } else {
            match round % 3 {
                0 => dirent::init_first(&mut b, 5, 2),
                1 => htree::init_node(&mut b, 3),
                _ => extent::init(&mut b, extent::BLOCK_MAX, 0),
            }
        }
        for _ in 0..4 {
            b[s.below(64) as usize] = s.next_u64() as u8;
        }
        let _ = dirent::find(&b, 0, b"name");
        let _ = dirent::each(&b, 0, |_| true);
        let _ = dirent::insert(&mut b.clone(), 0, b"name", 1, FileKind::Dir);
        let _ = dirent::parent(&b);
        let _ = htree::levels(&b);
        for form in [Form::Root, Form::Node] {
            if let Ok(i) = htree::search(&b, form, s.next_u64() as u32) {
                htree::child(&b, form, i);
            }
        }
        if extent::validate(&b, None).is_ok() {
            extent::search(&b, s.next_u64() as u32).map(|i| extent::entry(&b, i));
        }
        let _ = (Superblock::parse(&b), parse(&b), LogSuper::parse(&b));
    }
}

#[test]
fn an_extent_node_keeps_its_entries_in_order() {
    let mut b = ZERO;
    extent::init(&mut b, extent::BLOCK_MAX, 0);
    for key in (0..680).step_by(4).chain((2..680).step_by(4)) {
        let i = extent::search(&b, key).map_or(0, |i| i + 1);
        extent::insert(
            &mut b,
            i,
            ExtentEntry { key, len: 32767, start: (key as u64) << 36, unwritten: key.is_multiple_of(3) },
        );
    }
    assert!(extent::full(&b) && extent::count(&b) == 340);
    let mut half = ZERO;
    extent::init(&mut half, extent::BLOCK_MAX, 0);
    extent::split(&mut b, 100, &mut half);
    assert_eq!((extent::count(&b), extent::count(&half)), (100, 240));
    for i in 0..340u32 {
        let (node, at) = if i < 100 { (&b, i) } else { (&half, i - 100) };
        assert_eq!(
            extent::entry(node, at as usize),
            ExtentEntry { key: 2 * i, len: 32767, start: (i as u64) << 37, unwritten: i.is_multiple_of(3) }
        );
    }
    assert_eq!((extent::search(&half, 199), extent::search(&half, 201)), (None, Some(0)));
}

#[test]
fn an_index_leads_each_hash_to_its_leaf_and_hashes_spread() {
    let mut b = ZERO;
    dirent::init_first(&mut b, 5, 2);
    htree::init_root(&mut b, 0, 1);
    assert_eq!(dirent::parent(&b).expect("sound"), 2, "the dots stay");
    for i in 1..Form::Root.limit() {
        htree::insert(&mut b, Form::Root, i, i as u32 * 10, i as u32 + 1);
    }
    assert_eq!(htree::count(&b, Form::Root).expect("sound"), 507);
    for hash in 0..5080 {
        let i = htree::search(&b, Form::Root, hash).expect("sound");
        assert_eq!(htree::child(&b, Form::Root, i), (hash / 10).min(506) + 1);
    }
    let mut node = ZERO;
    assert_eq!(htree::split(&mut b, Form::Root, 300, &mut node), 3000);
    assert_eq!(htree::search(&node, Form::Node, 3015).expect("sound"), 1);
    let mut buckets = [0u32; 64];
    for i in 0..64_000 {
        let (major, _) = name_hash(9, format!("name{i}").as_bytes());
        assert_eq!(major & 1, 0);
        buckets[(major >> 26) as usize] += 1;
    }
    assert!(buckets.iter().all(|n| (850..1150).contains(n)), "{buckets:?}");
}
