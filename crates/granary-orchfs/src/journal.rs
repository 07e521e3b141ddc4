//! A journal: a ring of groups on the NVM that one library appends to and the kernel's part digests.
//!
//! ```text
//!   positions grow for ever; position p lies at byte p mod size of the ring
//!   head ........ tail ........ head + size
//!   digested      groups that count       free
//! ```
//!
//! Invariants: `head` moves only after everything before it is durable at home and the checkpoint slot says
//! so. A group is appended as a whole before anything counts (one fence, checksum). Numbers that a group
//! frees are given back when `head` passes it.
//!
//! How much waits: the daemon is woken at one segment ([`SEGMENT`]) and digests piece by piece ([`PIECE`]). A
//! process that is faster than the daemon digests a piece itself where two segments wait. So nobody who needs
//! a journal waits for more than that, however long the ring is.
//!
//! Source: OrchFS section 4 (journals on NVM, digested asynchronously); segments of 1 MiB in the released
//! code, of which a ring here is one chain.

use crate::layout::Area;
use crate::record::{Group, HEAD, LARGEST_GROUP, Record};
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_pm::Pm;
use granary_sim::sync::Mutex;
use granary_units::Payload;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const JOURNAL: Structure = Structure::Journal;

/// Bytes that wait before the daemon is woken; in a ring shorter than two of these half of the ring. 1 MiB is
/// the released code's `LOG_SEGMENT_SIZE` (config/log_config.h): a LibFS was to hand over each segment when
/// it is full (`memlog_to_dev` in LibFS/lib_log.c) and KernelFS to digest it then (`submit_log_segment` in
/// KernelFS/log.c). Both are comments there, and `digest_log` is empty.
const SEGMENT: u64 = 1 << 20;
/// Bytes that are digested at a time; of a short ring an eighth. A choice by measurement: while a piece's
/// stores are on their way to the DIMM, every other fence waits for them. With 256 KiB the 99th percentile of
/// a create or mkdir is 200 to 300 us, with 64 KiB 70 to 100 us, and the throughput is the same within 1 %.
const PIECE: u64 = 64 << 10;

/// State that waits for a digest.
#[derive(Default)]
struct Pending {
    /// (position behind the group, area and number that it frees).
    frees: VecDeque<(u64, Area, u64)>,
    /// Inodes with records, and the position behind the last.
    inodes: FxHashMap<u64, u64>,
    /// (position behind the group, when it was appended).
    appended: VecDeque<(u64, u64)>,
}

/// See the module.
pub struct Journal {
    /// First byte of the ring.
    base: u64,
    size: u64,
    era: u64,
    head: AtomicU64,
    tail: AtomicU64,
    pending: parking_lot::Mutex<Pending>,
    /// Held while a group is appended.
    pub append: Mutex<()>,
    /// Held while groups are digested.
    pub digest: Mutex<()>,
    /// Held while its undo slot is in use.
    pub undo: Mutex<()>,
}

impl Journal {
    /// The ring at `base`, digested up to `head`, with nothing behind that.
    pub fn new(base: u64, size: u64, era: u64, head: u64) -> Journal {
        Journal {
            base,
            size,
            era,
            head: AtomicU64::new(head),
            tail: AtomicU64::new(head),
            pending: Default::default(),
            append: Mutex::new(()),
            digest: Mutex::new(()),
            undo: Mutex::new(()),
        }
    }

    /// Where what is not digested begins.
    pub fn head(&self) -> u64 {
        self.head.load(Relaxed)
    }

    /// Behind the last group.
    pub fn tail(&self) -> u64 {
        self.tail.load(Relaxed)
    }

    /// Bytes that wait for a digest.
    pub fn used(&self) -> u64 {
        self.tail() - self.head()
    }

    /// Bytes that may wait until the daemon is woken.
    fn segment(&self) -> u64 {
        SEGMENT.min(self.size / 2)
    }

    /// Whether a digest should come before somebody has to wait for it.
    pub fn is_due(&self) -> bool {
        self.used() > self.segment()
    }

    /// Most bytes that ever wait for a digest: two segments. The rest of a longer ring stays free.
    pub fn most(&self) -> u64 {
        2 * self.segment()
    }

    /// Whether a group of so many bytes may be appended without a digest.
    pub fn has_room(&self, len: usize) -> bool {
        self.used() + len as u64 <= self.most()
    }

    /// Bytes that are digested at a time.
    pub fn piece(&self) -> u64 {
        PIECE.min(self.size / 8)
    }

    /// Behind the last record of an inode that is not digested.
    pub fn pending_end(&self, ino: u64) -> Option<u64> {
        self.pending.lock().inodes.get(&ino).copied().filter(|position| *position > self.head())
    }

    /// Appends a group and waits until it counts. The caller holds `append` and has made room. `clock`:
    /// [`crate::pools::Pools::clock`].
    ///
    /// # Errors
    /// The drive's.
    pub fn append(
        &self,
        pm: &Pm,
        group: &Group,
        inodes: &[u64],
        freed: &[(Area, u64)],
        clock: u64,
    ) -> Result<()> {
        let tail = self.tail();
        let bytes = group.encode(tail, self.era);
        debug_assert!(bytes.len() <= LARGEST_GROUP && self.has_room(bytes.len()));
        let mut b = pm.batch();
        let first = ((self.size - tail % self.size) as usize).min(bytes.len());
        b.stream(self.base + tail % self.size, Payload::Bytes(&bytes[..first]), JOURNAL)?;
        if first < bytes.len() {
            b.stream(self.base, Payload::Bytes(&bytes[first..]), JOURNAL)?;
        }
        b.fence()?;
        let end = tail + bytes.len() as u64;
        {
            let mut pending = self.pending.lock();
            pending.frees.extend(freed.iter().map(|(area, number)| (end, *area, *number)));
            pending.inodes.extend(inodes.iter().map(|ino| (*ino, end)));
            pending.appended.push_back((end, clock));
        }
        self.tail.store(end, Relaxed);
        Ok(())
    }

    fn load(&self, pm: &Pm, position: u64, out: &mut [u8]) -> Result<()> {
        let first = ((self.size - position % self.size) as usize).min(out.len());
        let (a, b) = out.split_at_mut(first);
        pm.load(self.base + position % self.size, a, JOURNAL)?;
        if b.is_empty() { Ok(()) } else { pm.load(self.base, b, JOURNAL) }
    }

    /// The group at a position: it, and the position behind it. `None`: no whole group begins there.
    ///
    /// # Errors
    /// `Corrupt` where a whole group holds no records; the drive's.
    pub fn group_at(&self, pm: &Pm, position: u64) -> Result<Option<(Group, u64)>> {
        let mut head = [0; HEAD];
        self.load(pm, position, &mut head)?;
        let Some(len) = Group::announced(&head, position, self.era) else { return Ok(None) };
        if len as u64 > self.size {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        self.load(pm, position, &mut bytes)?;
        Ok(Group::decode(&bytes)?.map(|group| (group, position + len as u64)))
    }

    /// The groups that are not digested, each with the position behind it, up to the one that reaches `until`
    /// or the tail; and where the last one ends. Bytes that are no group end them; the tail counts as that
    /// end.
    ///
    /// # Errors
    /// The drive's.
    pub fn groups(&self, pm: &Pm, until: u64) -> Result<(Vec<(Group, u64)>, u64)> {
        let (tail, mut at, mut groups) = (self.tail(), self.head(), Vec::new());
        while at < tail {
            if at >= until {
                return Ok((groups, at));
            }
            match self.group_at(pm, at) {
                Ok(Some((group, next))) if next <= tail => {
                    groups.push((group, next));
                    at = next;
                }
                Ok(_) | Err(FsError::Corrupt(_)) => break,
                Err(e) => return Err(e),
            }
        }
        Ok((groups, tail))
    }

    /// Recovery: the records committed behind the head, up to the first group that `sound` refuses. The tail
    /// is set there.
    ///
    /// # Errors
    /// The drive's.
    pub fn recover(&self, pm: &Pm, mut sound: impl FnMut(&Group) -> bool) -> Result<Vec<Record>> {
        self.tail.store(self.head() + self.size, Relaxed);
        let (groups, _) = self.groups(pm, u64::MAX)?;
        let whole = groups.into_iter().take_while(|(group, _)| sound(group));
        let (mut records, mut end) = (Vec::new(), self.head());
        for (group, next) in whole {
            records.extend(group.records);
            end = next;
        }
        self.tail.store(end, Relaxed);
        Ok(records)
    }

    /// Inodes with records behind a position.
    pub fn pending_behind(&self, position: u64) -> Vec<u64> {
        self.pending.lock().inodes.iter().filter(|(_, end)| **end > position).map(|(ino, _)| *ino).collect()
    }

    /// Drops the frees of groups behind `position`: their numbers stay taken.
    pub fn forget(&self, position: u64) {
        self.pending.lock().frees.retain(|(end, ..)| *end <= position);
    }

    /// Everything before `position` is digested, durably: when the last of those groups was appended, and
    /// what they freed, which can be used again.
    pub fn digested(&self, position: u64) -> (u64, Vec<(Area, u64)>) {
        self.head.store(position, Relaxed);
        let mut pending = self.pending.lock();
        pending.inodes.retain(|_, end| *end > position);
        let count = pending.frees.iter().take_while(|(end, ..)| *end <= position).count();
        let groups = pending.appended.iter().take_while(|(end, _)| *end <= position).count();
        let last = pending.appended.drain(..groups).next_back().map_or(0, |(_, clock)| clock);
        (last, pending.frees.drain(..count).map(|(_, area, number)| (area, number)).collect())
    }

    /// Numbers that wait for a digest.
    pub fn waiting(&self, area: Area) -> u64 {
        self.pending.lock().frees.iter().filter(|(_, a, _)| *a == area).count() as u64
    }
}
