//! Records of a journal, and groups of them.
//!
//! ```text
//!   group    0 position in the journal 8 | 8 era 8 | 16 bytes 4 | 20 CRC-32C (itself zero) 4 | 24 process 4
//!            28 records 4 | 32 epoch 8 | records
//!   record   kind 3 bits, length / 8: 10, offset / 8: 10, number: 41 | that many bytes
//! ```
//!
//! A record says which bytes of which inode, node or directory page become what: replaying it twice is
//! replaying it once. A group is an operation: it counts as a whole or, where its checksum is wrong, not at
//! all. It is padded to lines of 64 B.
//!
//! Rules of OrchFS's consistency (section 4): an entry of an O-ELN is one record, and a size is in the group
//! of the units below it.

use crate::layout::{Area, Layout, dentry, inode, nodes};
use crate::unit::Word;
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::corrupt;

/// Bytes of a group's head.
pub const HEAD: usize = 40;
/// Groups are this long, or twice, or ...
pub const LINE: usize = 64;
/// No group is longer: 40 blocks of a write, each with eight entries of 72 B and a word of 16, take 24 KiB; a
/// punched hole that cuts seven index nodes at both ends 8 KiB.
pub const LARGEST_GROUP: usize = 32 * 1024;

/// A change of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Area that is changed.
    pub area: Area,
    /// Its number.
    pub number: u64,
    /// First byte of it; a multiple of 8, as is the number of bytes.
    pub at: usize,
    /// The new bytes.
    pub bytes: Vec<u8>,
}

const AREAS: [Area; 5] = [Area::Inode, Area::Index, Area::Append, Area::Over, Area::Page];

impl Record {
    /// Bytes that it takes in a group.
    pub fn len(&self) -> usize {
        8 + self.bytes.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (len, at) = (self.bytes.len() as u64 / 8, self.at as u64 / 8);
        let word = (self.area as u64 + 1) << 61 | len << 51 | at << 41 | self.number;
        out.extend(word.to_le_bytes());
        out.extend(&self.bytes);
    }

    /// Checks that the record is possible: its numbers exist, its words, headers and entries are valid. Its
    /// writer may be hostile.
    ///
    /// # Errors
    /// `Corrupt` says why it is refused.
    pub fn verify(&self, layout: &Layout) -> Result<()> {
        let (at, end) = (self.at, self.at + self.bytes.len());
        let bad = |why: &str| {
            Err(corrupt(format!(
                "a record for {} {}, bytes {at}..{end}: {why}",
                self.area.name(),
                self.number
            )))
        };
        if !layout.has(self.area, self.number) || self.bytes.is_empty() || end as u64 > self.area.size() {
            return bad("there is no such thing");
        }
        let word = |b: &[u8]| -> Result<()> {
            let (area, number) = match Word::parse(u64_at(b, 0))? {
                Word::None => return Ok(()),
                Word::Block(base) => (Area::Block, base.block),
                Word::Append(eln) => (Area::Append, eln),
                Word::Over(eln) => (Area::Over, eln),
                Word::Index(node) => (Area::Index, node),
            };
            match layout.has(area, number) {
                true => Ok(()),
                false => Err(corrupt(format!("a record names {} {number}", area.name()))),
            }
        };
        let page = |page: u64| page == 0 || layout.has(Area::Page, page);
        match self.area {
            Area::Inode if at == 0 && end >= inode::HEAD => {
                if inode::kind(&self.bytes)?.is_none() {
                    return Ok(());
                }
                let target = u32_at(&self.bytes, 36) as usize;
                if u64_at(&self.bytes, 0) != self.number || end > inode::HEAD && target > end - inode::HEAD {
                    return bad("it is another inode's");
                }
                if target > inode::INLINE
                    || u64_at(&self.bytes, inode::LENGTH) > crate::geometry::MAX_FILE_SIZE
                {
                    return bad("no inode is so long");
                }
                let pages = [inode::FIRST, inode::ATTRIBUTES].map(|at| u64_at(&self.bytes, at));
                if !pages.into_iter().all(page) {
                    return bad("it has pages that there are not");
                }
                word(&self.bytes[inode::ROOT..])
            }
            Area::Inode if (at, end) == (inode::ROOT, inode::ROOT + 8) => word(&self.bytes),
            Area::Inode if (at, end - at) == inode::STAMPS => {
                match u64_at(&self.bytes, inode::LENGTH - at) <= crate::geometry::MAX_FILE_SIZE {
                    true => Ok(()),
                    false => bad("no file is so long"),
                }
            }
            Area::Index if at >= nodes::BODY && end <= nodes::BODY + 512 => {
                self.bytes.chunks_exact(8).try_for_each(word)
            }
            Area::Append if at >= nodes::BODY => {
                match self.bytes.chunks_exact(8).all(|b| page(u64_at(b, 0))) {
                    true => Ok(()),
                    false => bad("it has a page that there is not"),
                }
            }
            Area::Over if at == nodes::BODY && end == at + 8 => match Word::parse(u64_at(&self.bytes, 0))? {
                Word::Block(base) if layout.has(Area::Block, base.block) => Ok(()),
                _ => bad("it is over no SSD block"),
            },
            Area::Over if at >= nodes::SLOTS && at.is_multiple_of(nodes::SLOT) => {
                for b in self.bytes.chunks(nodes::SLOT) {
                    if b.len() < nodes::SLOT || !page(nodes::parse_slot(b)?.page) {
                        return bad("an entry is torn, or has a page that there is not");
                    }
                }
                Ok(())
            }
            Area::Page if (at, end) == (dentry::NEXT, dentry::NEXT + 8) => {
                if page(u64_at(&self.bytes, 0)) {
                    Ok(())
                } else {
                    bad("it goes on in a page that there is not")
                }
            }
            Area::Page if at >= dentry::UNIT && at.is_multiple_of(dentry::UNIT) => {
                match u64_at(&self.bytes, 0) {
                    0 => Ok(()),
                    ino if !layout.has(Area::Inode, ino) => bad("it names an inode that there is not"),
                    _ if !self.bytes.len().is_multiple_of(dentry::UNIT) => bad("it is no entry"),
                    _ => match dentry::parse(&self.bytes, 0)? {
                        Some((_, units)) if units * dentry::UNIT == self.bytes.len() => Ok(()),
                        _ => bad("it is no entry"),
                    },
                }
            }
            _ => bad("nobody writes these bytes"),
        }
    }
}

/// A group as it lies in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Process that wrote it.
    pub process: u32,
    /// The epoch of leases in which it was written.
    pub epoch: u64,
    /// Its records, in order.
    pub records: Vec<Record>,
}

impl Group {
    /// Bytes that records take as a group.
    pub fn size(records: &[Record]) -> usize {
        (HEAD + records.iter().map(Record::len).sum::<usize>()).next_multiple_of(LINE)
    }

    /// As it is to lie at this position of a journal.
    pub fn encode(&self, position: u64, era: u64) -> Vec<u8> {
        let mut b = vec![0; HEAD];
        self.records.iter().for_each(|record| record.encode(&mut b));
        b.resize(b.len().next_multiple_of(LINE), 0);
        let len = b.len() as u32;
        put_u64(&mut b, 0, position);
        put_u64(&mut b, 8, era);
        put_u32(&mut b, 16, len);
        put_u32(&mut b, 24, self.process);
        put_u32(&mut b, 28, self.records.len() as u32);
        put_u64(&mut b, 32, self.epoch);
        let crc = crc32c::crc32c(&b);
        put_u32(&mut b, 20, crc);
        b
    }

    /// Bytes of the group with this head, where one can begin at this position.
    pub fn announced(head: &[u8], position: u64, era: u64) -> Option<usize> {
        let len = u32_at(head, 16) as usize;
        let sane = (LINE..=LARGEST_GROUP).contains(&len) && len.is_multiple_of(LINE);
        (u64_at(head, 0) == position && u64_at(head, 8) == era && sane).then_some(len)
    }

    /// Reads a group; `None` where it is not whole: it was never committed.
    ///
    /// # Errors
    /// `Corrupt` where it is whole, but what it holds are no records.
    pub fn decode(bytes: &[u8]) -> Result<Option<Group>> {
        let mut plain = bytes.to_vec();
        put_u32(&mut plain, 20, 0);
        if u32_at(bytes, 20) != crc32c::crc32c(&plain) {
            return Ok(None);
        }
        let (mut at, mut records) = (HEAD, Vec::new());
        for _ in 0..u32_at(bytes, 28) {
            let bad = || corrupt("a group of a journal is cut off");
            let word =
                u64::from_le_bytes(bytes.get(at..at + 8).ok_or_else(bad)?.try_into().expect("8 bytes"));
            let (len, offset) = ((word >> 51 & 0x3ff) as usize * 8, (word >> 41 & 0x3ff) as usize * 8);
            let area = (word >> 61).checked_sub(1).and_then(|n| AREAS.get(n as usize)).ok_or_else(bad)?;
            let payload = bytes.get(at + 8..at + 8 + len).ok_or_else(bad)?;
            let number = word & ((1 << 41) - 1);
            records.push(Record { area: *area, number, at: offset, bytes: payload.to_vec() });
            at += 8 + len;
        }
        Ok(Some(Group { process: u32_at(bytes, 24), epoch: u64_at(bytes, 32), records }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    fn random_record(random: &mut Stream) -> Record {
        let area = AREAS[random.below(5) as usize];
        let len = 8 * (1 + random.below(40) as usize);
        let bytes = (0..len).map(|_| random.below(256) as u8).collect();
        Record { area, number: random.below(1 << 41), at: 8 * random.below(512) as usize, bytes }
    }

    #[test]
    fn groups_come_back_and_torn_ones_do_not() {
        let mut random = Stream::new(3, "groups");
        for _ in 0..200 {
            let records: Vec<Record> = (0..random.below(9)).map(|_| random_record(&mut random)).collect();
            let group = Group { process: 7, epoch: 1 << 40, records };
            let bytes = group.encode(640, 5);
            assert_eq!(bytes.len(), Group::size(&group.records));
            assert_eq!(Group::announced(&bytes, 640, 5), Some(bytes.len()));
            assert_eq!((Group::announced(&bytes, 704, 5), Group::announced(&bytes, 640, 4)), (None, None));
            assert_eq!(Group::decode(&bytes), Ok(Some(group)));
            let mut torn = bytes.clone();
            let at = random.below(bytes.len() as u64) as usize;
            torn[at] ^= 1 << random.below(8);
            assert_eq!(Group::decode(&torn), Ok(None));
        }
    }
}
