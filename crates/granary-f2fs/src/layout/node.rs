//! Node blocks: inodes, direct nodes (addresses), indirect nodes (node numbers), each with a footer.
//!
//! ```text
//!   inode   header 360 | 873 addresses, or inline content | xattrs 200 | 5 node numbers | footer 24
//!   direct  1018 addresses                                                                     | footer 24
//!   indirect 1018 node numbers                                                                 | footer 24
//!   footer  nid 4 | inode 4 | flags 4 (bits 0-2: FSYNC, DENTRY, COLD; bits 3-: place in the tree) |
//!           checkpoint version 8 | next block of the log 4
//!   inline content: address 0 stays free, 3488 B follow
//! ```
//!
//! The inode's five node numbers lead to two direct nodes, two trees of one level of indirect nodes, one of
//! two. Places in the tree are numbered depth first: inode 0, direct nodes 1 and 2, first indirect node 3,
//! its children 4 to 1021, and so on. The last place is the node of extended attributes, which the inode
//! names elsewhere.

use super::{BlockBytes, NULL_ADDR, corrupt, le16, le32, le64, put16, put32, put64};
use granary_fs::{Attr, FileKind, Result, Time, flag, mode};

/// The root directory.
pub const ROOT_INO: u32 = 3;
/// First number that files get; 1 and 2 are the kernel's node and meta inodes.
pub const FIRST_NID: u32 = 4;
/// Addresses of an inode (923 less 50 for inline xattrs).
pub const INODE_ADDRS: usize = 873;
/// Addresses or node numbers of other nodes.
pub const NODE_ADDRS: usize = 1018;
/// Where an inode's addresses begin.
pub const ADDRS_AT: usize = 360;
/// Where inline content begins: after address 0.
pub const INLINE_AT: usize = ADDRS_AT + 4;
/// Where extended attributes begin: behind the addresses.
pub const XATTR_AT: usize = ADDRS_AT + 4 * INODE_ADDRS;
/// The place of the node of extended attributes (`XATTR_NODE_OFFSET`).
pub const XATTR_PLACE: u32 = u32::MAX >> 3;
/// Where the number of that node lies in the inode.
const XATTR_NID: usize = 328;
/// Where the generation lies, behind the name.
const GENERATION: usize = NAME_AT + NAME_BYTES;
/// Where the inode flags lie, behind the cuts.
const FLAGS: usize = 358;
/// Where the name lies, and its room.
pub(crate) const NAME_AT: usize = 70;
pub(crate) const NAME_BYTES: usize = 255;
/// Bytes of inline content.
pub const INLINE_BYTES: usize = (INODE_ADDRS - 1) * 4;
/// Where the inode's five node numbers begin.
pub const NIDS_AT: usize = 4052;
/// Where the footer begins.
pub(crate) const FOOTER: usize = 4072;
/// Blocks that the tree reaches.
pub const MAX_BLOCKS: u64 = INODE_ADDRS as u64
    + 2 * NODE_ADDRS as u64
    + 2 * (NODE_ADDRS * NODE_ADDRS) as u64
    + (NODE_ADDRS * NODE_ADDRS * NODE_ADDRS) as u64;

/// Largest file: the reach of the node tree, 4 TiB.
pub const MAX_FILE_SIZE: u64 = MAX_BLOCKS * 4096;

/// Footer flag: written by an fsync.
pub const FSYNC: u32 = 1;
/// Footer flag: roll-forward recovery must enter the inode's name.
pub const DENTRY: u32 = 2;
/// Footer flag: not a directory's.
pub const COLD: u32 = 4;

/// `inline` bit: content is inline data.
pub const INLINE_DATA: u8 = 1;
/// `inline` bit: content is inline directory entries.
pub const INLINE_DENTRY: u8 = 2;
/// `advise` bit: the name and parent in the inode may be old (`FADVISE_LOST_PINO`).
pub const LOST_PARENT: u8 = 1;
/// `advise` bit: file content goes to the cold log.
pub const COLD_DATA: u8 = 2;

/// Fields of an inode's header beside [`Attr`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// [`INLINE_DATA`], [`INLINE_DENTRY`].
    pub inline: u8,
    /// [`LOST_PARENT`], [`COLD_DATA`].
    pub advise: u8,
    /// Levels of a directory's hash table in use.
    pub depth: u32,
    /// The directory that the inode was last entered in.
    pub parent: u32,
    /// Blocks taken, reserved ones and nodes (but not the inode) included.
    pub blocks: u64,
    /// Size on media.
    pub size: u64,
    /// The node of extended attributes; 0 = none.
    pub xattr: u32,
    /// Generation, 24 bits; 0: made before they were kept.
    pub generation: u32,
}

/// Writes the header but for the name.
pub fn encode(b: &mut BlockBytes, attr: &Attr, x: &Extra) {
    put16(b, 0, (attr.kind.code() as u16) << 12 | attr.mode);
    b[2] = x.advise;
    b[3] = x.inline;
    for (i, v) in [attr.uid, attr.gid, attr.nlink].into_iter().enumerate() {
        put32(b, 4 + 4 * i, v);
    }
    put64(b, 16, x.size);
    put64(b, 24, x.blocks);
    for (i, t) in [attr.atime, attr.ctime, attr.mtime].into_iter().enumerate() {
        put64(b, 32 + 8 * i, t.0 as u64);
    }
    for (i, v) in [x.depth, x.parent, attr.rdev].into_iter().enumerate() {
        put32(b, 56 + 4 * i, v);
    }
    b[GENERATION..GENERATION + 3].copy_from_slice(&x.generation.to_le_bytes()[..3]);
    put32(b, XATTR_NID, x.xattr);
    b[FLAGS] = attr.flags;
}

/// Reads the header of inode `ino`.
///
/// # Errors
/// `Corrupt` where it makes no sense.
pub fn decode(b: &BlockBytes, ino: u32) -> Result<(Attr, Extra)> {
    let head = le16(b, 0);
    let kind = FileKind::from_code((head >> 12) as u8)
        .ok_or_else(|| corrupt(format!("inode {ino} has mode {head:#o}")))?;
    let time = |i: usize| Time(le64(b, 32 + 8 * i) as i64);
    let x = Extra {
        advise: b[2],
        inline: b[3],
        size: le64(b, 16),
        blocks: le64(b, 24),
        depth: le32(b, 56),
        parent: le32(b, 60),
        xattr: le32(b, XATTR_NID),
        generation: u32::from_le_bytes([b[GENERATION], b[GENERATION + 1], b[GENERATION + 2], 0]),
    };
    let attr = Attr {
        kind,
        mode: head & mode::ALL,
        uid: le32(b, 4),
        gid: le32(b, 8),
        nlink: le32(b, 12),
        size: x.size,
        blocks: x.blocks.saturating_mul(8),
        atime: time(0),
        ctime: time(1),
        mtime: time(2),
        rdev: le32(b, 64),
        flags: b[FLAGS] & flag::ALL,
    };
    let dir = kind == FileKind::Dir;
    let wrong = x.size > MAX_BLOCKS * 4096
        || x.depth > super::dentry::LEVELS
        || x.inline & INLINE_DENTRY != 0 && !dir
        || x.inline & INLINE_DATA != 0 && (dir || x.size > INLINE_BYTES as u64 && kind == FileKind::Symlink);
    if wrong {
        return Err(corrupt(format!("inode {ino} is impossible: {attr:?}, {x:?}")));
    }
    Ok((attr, x))
}

/// The name under which the inode was created.
pub fn name(b: &BlockBytes) -> &[u8] {
    let len = (le16(b, 68) as usize).min(NAME_BYTES);
    &b[NAME_AT..NAME_AT + len]
}

/// Writes the name.
pub fn set_name(b: &mut BlockBytes, name: &[u8]) {
    put16(b, 68, name.len() as u16);
    b[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
}

/// A node's footer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Its number.
    pub nid: u32,
    /// Its inode.
    pub ino: u32,
    /// [`FSYNC`], [`DENTRY`], [`COLD`].
    pub flags: u32,
    /// Place in the tree.
    pub place: u32,
    /// Version of the checkpoint before it was written.
    pub version: u64,
    /// Where the log went on.
    pub next: u32,
}

impl Footer {
    /// The footer of a node block.
    pub fn read(b: &BlockBytes) -> Footer {
        let flags = le32(b, FOOTER + 8);
        Footer {
            nid: le32(b, FOOTER),
            ino: le32(b, FOOTER + 4),
            flags: flags & 7,
            place: flags >> 3,
            version: le64(b, FOOTER + 12),
            next: le32(b, FOOTER + 20),
        }
    }

    /// Writes it.
    pub fn store(&self, b: &mut BlockBytes) {
        put32(b, FOOTER, self.nid);
        put32(b, FOOTER + 4, self.ino);
        put32(b, FOOTER + 8, self.flags | self.place << 3);
        put64(b, FOOTER + 12, self.version);
        put32(b, FOOTER + 20, self.next);
    }
}

/// Where address `ofs` of a node lies in its block.
pub fn addr_at(place: u32, ofs: usize) -> usize {
    if place == 0 { ADDRS_AT + 4 * ofs } else { 4 * ofs }
}

/// Address `ofs` of an inode (`place` 0) or direct node.
pub fn addr(b: &BlockBytes, place: u32, ofs: usize) -> u32 {
    le32(b, addr_at(place, ofs))
}

/// Addresses that a node at this place has.
pub fn addrs(place: u32) -> usize {
    if place == 0 { INODE_ADDRS } else { NODE_ADDRS }
}

/// The addresses of a node from `from` on that are not [`NULL_ADDR`], each with its number. Most nodes have
/// few.
pub fn used(b: &BlockBytes, place: u32, from: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
    const SOME: usize = 16;
    let area = &b[addr_at(place, from)..addr_at(place, addrs(place))];
    let chunks = area.chunks(4 * SOME).enumerate();
    let with_some = chunks.filter(|(_, chunk)| chunk.iter().fold(0, |any, byte| any | byte) != 0);
    with_some
        .flat_map(move |(n, chunk)| {
            (0..chunk.len() / 4).map(move |i| (from + n * SOME + i, le32(chunk, 4 * i)))
        })
        .filter(|(_, at)| *at != NULL_ADDR)
}

/// The way from the inode to a block: for each node after the inode, the pointer to follow and its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Nodes after the inode.
    pub depth: usize,
    /// `slots[0]`: which of the inode's five numbers; then pointers of indirect nodes.
    pub slots: [usize; 3],
    /// Places of the nodes.
    pub places: [u32; 3],
    /// The address in the last node.
    pub ofs: usize,
}

const N: u64 = NODE_ADDRS as u64;

/// The way to block `index`, which the tree reaches.
pub fn path(index: u64) -> Path {
    assert!(index < MAX_BLOCKS, "block {index} of a file");
    let Some(mut rest) = index.checked_sub(INODE_ADDRS as u64) else {
        return Path { ofs: index as usize, ..Path::default() };
    };
    for slot in 0..2 {
        if rest < N {
            let (slots, places) = ([slot, 0, 0], [1 + slot as u32, 0, 0]);
            return Path { depth: 1, slots, places, ofs: rest as usize };
        }
        rest -= N;
    }
    for tree in 0..2u64 {
        if rest < N * N {
            let first = 3 + tree * (N + 1);
            let child = rest / N;
            return Path {
                depth: 2,
                slots: [2 + tree as usize, child as usize, 0],
                places: [first as u32, (first + 1 + child) as u32, 0],
                ofs: (rest % N) as usize,
            };
        }
        rest -= N * N;
    }
    let first = 3 + 2 * (N + 1);
    let (outer, inner) = (rest / (N * N), rest / N % N);
    let middle = first + 1 + outer * (N + 1);
    Path {
        depth: 3,
        slots: [4, outer as usize, inner as usize],
        places: [first as u32, middle as u32, (middle + 1 + inner) as u32],
        ofs: (rest % N) as usize,
    }
}

const _: () = assert!(XATTR_NID >= NAME_AT + NAME_BYTES && XATTR_NID + 4 <= ADDRS_AT);

/// Whether the node at a place holds content or addresses of it: fsync writes it with a mark.
pub fn is_direct(place: u32) -> bool {
    place == XATTR_PLACE || first_index(place).is_some()
}

/// First block that the node at a place has the address of; `None` for indirect nodes.
pub fn first_index(place: u32) -> Option<u64> {
    let (place, two, n1) = (place as u64, 2, N + 1);
    let direct = match place {
        0 => return Some(0),
        1 | 2 => place - 1,
        _ => {
            let trees = place - 3;
            if trees < 2 * n1 {
                let child = (trees % n1).checked_sub(1)?;
                two + trees / n1 * N + child
            } else {
                let inner = trees - 2 * n1;
                let below = inner.checked_sub(1)?;
                let child = (below % n1).checked_sub(1)?;
                if below / n1 >= N {
                    return None;
                }
                two + 2 * N + below / n1 * N + child
            }
        }
    };
    Some(INODE_ADDRS as u64 + direct * N)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_the_blocks_of_the_paths_through_it() {
        let edges = [0, 872, 873, 1890, 1891, 2908, 2909, 2909 + N * N - 1, 2909 + N * N, MAX_BLOCKS - 1];
        let spread = (0..1000u64).map(|i| i * 1_057_001);
        for index in edges.into_iter().chain(spread).filter(|i| *i < MAX_BLOCKS) {
            let p = path(index);
            let place = if p.depth == 0 { 0 } else { p.places[p.depth - 1] };
            assert_eq!(first_index(place).map(|f| f + p.ofs as u64), Some(index), "{p:?}");
            for indirect in p.places.iter().take(p.depth.saturating_sub(1)) {
                assert_eq!(first_index(*indirect), None);
            }
        }
    }

    /// The addresses that are set are found with their numbers, wherever they begin and end.
    #[test]
    fn used_addresses_are_those_that_are_set() {
        for place in [0, 1] {
            let last = addrs(place) - 1;
            let mut b = [0xff; 4096];
            b[addr_at(place, 0)..addr_at(place, last + 1)].fill(0);
            let set = [0, 1, 17, 500, last];
            for ofs in set {
                put32(&mut b, addr_at(place, ofs), 7 + ofs as u32);
            }
            for from in [0, 1, 2, 18, 500, 501, last, last + 1] {
                let all: Vec<_> = used(&b, place, from).collect();
                let wanted: Vec<_> =
                    set.into_iter().filter(|o| *o >= from).map(|o| (o, 7 + o as u32)).collect();
                assert_eq!(all, wanted, "from {from} at {place}");
            }
        }
    }

    #[test]
    fn the_kernels_numbers_fit_the_block() {
        assert_eq!((INLINE_BYTES, XATTR_AT + 200, NIDS_AT + 20), (3488, NIDS_AT, FOOTER));
        assert!(first_index(XATTR_PLACE).is_none() && is_direct(XATTR_PLACE) && !is_direct(3));
    }
}
