//! Directory blocks: entries in a chain that fills the block, as ext2's.
//!
//! ```text
//!   inode 8 | length of the entry 2 | length of the name 1 | kind 1 | name        rounded up to 8
//! ```
//!
//! An entry without inode is free; the room behind a name belongs to its entry until another needs it.
//! Entries never move, so positions in a directory stay valid.

use super::{BLOCK_SIZE, BlockBytes, corrupt, le16, le64, put16, put64};
use granary_fs::{FileKind, Result};

const HEAD: usize = 12;

/// Bytes that an entry of such a name needs.
pub fn needed(name: usize) -> usize {
    (HEAD + name).next_multiple_of(8)
}

/// An entry in use, or free (`ino` 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent<'a> {
    /// Byte of the block.
    pub at: usize,
    /// Its length.
    pub len: usize,
    /// Inode; 0: free.
    pub ino: u64,
    /// Kind of the inode; `None` where the code is none.
    pub kind: Option<FileKind>,
    /// The name.
    pub name: &'a [u8],
}

impl Dirent<'_> {
    /// Bytes that another entry can have of it.
    pub fn room(&self) -> usize {
        if self.ino == 0 { self.len } else { self.len - needed(self.name.len()) }
    }

    /// Whether the name is one that a path can have.
    pub fn has_good_name(&self) -> bool {
        !self.name.is_empty() && !self.name.contains(&0) && !self.name.contains(&b'/')
    }
}

/// Every entry of a block, in order; `Corrupt` ends it.
pub fn entries(b: &BlockBytes) -> impl Iterator<Item = Result<Dirent<'_>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= BLOCK_SIZE {
            return None;
        }
        let entry = entry(b, at);
        at = entry.as_ref().map_or(BLOCK_SIZE, |e| at + e.len);
        Some(entry)
    })
}

/// The entry at a byte of the block.
///
/// # Errors
/// `Corrupt` where its lengths are impossible.
pub fn entry(b: &BlockBytes, at: usize) -> Result<Dirent<'_>> {
    let wrong = || corrupt(format!("a directory block has an impossible entry at byte {at}"));
    if !at.is_multiple_of(8) || at + HEAD > BLOCK_SIZE {
        return Err(wrong());
    }
    let (ino, len, name) = (le64(b, at), le16(b, at + 8) as usize, b[at + 10] as usize);
    let fits = len >= HEAD && len.is_multiple_of(8) && at + len <= BLOCK_SIZE;
    if !fits || ino != 0 && needed(name) > len {
        return Err(wrong());
    }
    let name = if ino == 0 { &[][..] } else { &b[at + HEAD..at + HEAD + name] };
    Ok(Dirent { at, len, ino, kind: FileKind::from_code(b[at + 11]), name })
}

fn put(b: &mut BlockBytes, at: usize, len: usize, ino: u64, kind: FileKind, name: &[u8]) {
    put64(b, at, ino);
    put16(b, at + 8, len as u16);
    b[at + 10] = name.len() as u8;
    b[at + 11] = kind.code();
    b[at + HEAD..at + HEAD + name.len()].copy_from_slice(name);
}

/// A block without entries.
pub fn empty() -> Box<BlockBytes> {
    let mut b = Box::new([0; BLOCK_SIZE]);
    put16(&mut b[..], 8, BLOCK_SIZE as u16);
    b
}

/// The first block of a new directory.
pub fn first_block(ino: u64, parent: u64) -> Box<BlockBytes> {
    let mut b = empty();
    put(&mut b, 0, needed(1), ino, FileKind::Dir, b".");
    put(&mut b, needed(1), BLOCK_SIZE - needed(1), parent, FileKind::Dir, b"..");
    b
}

/// Enters a name where there is room; the byte where it is then, `None`: there is none.
///
/// # Errors
/// `Corrupt`.
pub fn insert(b: &mut BlockBytes, name: &[u8], ino: u64, kind: FileKind) -> Result<Option<usize>> {
    let want = needed(name.len());
    let mut found = None;
    for e in entries(b) {
        let e = e?;
        if e.room() >= want {
            found = Some((e.at, e.len, if e.ino == 0 { 0 } else { needed(e.name.len()) }));
            break;
        }
    }
    let Some((at, len, used)) = found else { return Ok(None) };
    if used > 0 {
        put16(b, at + 8, used as u16);
    }
    put(b, at + used, len - used, ino, kind, name);
    Ok(Some(at + used))
}

/// Removes the entry at a byte: its room goes to the entry before it.
///
/// # Errors
/// `Corrupt`.
pub fn remove(b: &mut BlockBytes, at: usize) -> Result<()> {
    let (mut before, mut len) = (None, 0);
    for e in entries(b) {
        let e = e?;
        if e.at == at {
            len = e.len;
            break;
        }
        before = Some((e.at, e.len));
    }
    if len == 0 {
        return Err(corrupt(format!("a directory block has no entry at byte {at}")));
    }
    match before {
        Some((b_at, b_len)) => put16(b, b_at + 8, (b_len + len) as u16),
        None => put64(b, at, 0),
    }
    Ok(())
}

/// Lets the entry at a byte stand for another inode.
pub fn repoint(b: &mut BlockBytes, at: usize, ino: u64, kind: FileKind) {
    put64(b, at, ino);
    b[at + 11] = kind.code();
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;
    use std::collections::BTreeMap;

    /// Names come and go at random: the block holds what a map holds, entries do not move, and all its bytes
    /// are in the chain.
    #[test]
    fn a_block_is_a_map() {
        let (mut b, mut map, mut rng) = (empty(), BTreeMap::new(), Stream::new(1, "dirent"));
        for step in 0..5000u64 {
            let name = vec![b'a' + (step % 26) as u8; 1 + rng.below(200) as usize];
            if map.contains_key(&name) || rng.below(3) == 0 {
                let Some(victim) = map.keys().nth(rng.below(map.len().max(1) as u64) as usize).cloned()
                else {
                    continue;
                };
                let (_, at) = map.remove(&victim).expect("there");
                remove(&mut b, at).expect("sound");
            } else if let Some(at) = insert(&mut b, &name, step + 1, FileKind::File).expect("sound") {
                map.insert(name, (step + 1, at));
            }
            let all: Vec<_> = entries(&b).map(|e| e.expect("sound")).collect();
            assert_eq!(all.iter().map(|e| e.len).sum::<usize>(), BLOCK_SIZE);
            let held: BTreeMap<_, _> =
                all.iter().filter(|e| e.ino != 0).map(|e| (e.name.to_vec(), (e.ino, e.at))).collect();
            assert_eq!(held, map);
        }
        assert!(map.len() > 10);
    }
}
