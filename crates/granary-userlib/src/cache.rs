//! Copies of the server's answers: attributes of paths, pages of files.
//!
//! ```text
//!   copy: what was told | its version ── is this the present version? ── yes: it is the answer, no command
//! ```
//!
//! `granary_direct::versions` is why such a copy is right. A version is of one connection; copies of another
//! connection do not count. Whether the server still lives is checked once in each tick of the kernel's
//! clock: without a server nothing changes, and a new one takes longer than that to begin.
//!
//! Everything is allocated only once. Each copy has its place, with a lock that nobody waits for: a thread
//! that finds it taken asks the server. Pages take memory when they are used, 16 MiB at most.

use crate::file::Source;
use crate::{alive, versions};
use granary_direct::versions::Watched;
use granary_direct::{Answer, Attributes, PathPlace};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};

/// Paths that are remembered: those of a large source tree's busiest part.
const PATHS: usize = 512;
/// The longest path that is remembered, with its base: PATH_MAX is rare.
const LONGEST: usize = 400;
/// Pages that are remembered.
const PAGES: usize = 4096;
/// Their size.
pub const PAGE: usize = 4096;

/// Something with a lock that nobody waits for.
struct Kept<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the cell is touched only by the thread that has taken it. A child of a fork that finds it taken
// never touches it.
unsafe impl<T: Send> Sync for Kept<T> {}

impl<T> Kept<T> {
    const fn new(value: T) -> Kept<T> {
        Kept { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Calls `f` with it; `None`: somebody else has it, perhaps this thread below a signal.
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.taken.swap(true, Acquire) {
            return None;
        }
        // SAFETY: taken by this call alone.
        let done = f(unsafe { &mut *self.value.get() });
        self.taken.store(false, Release);
        Some(done)
    }
}

struct Path {
    epoch: u32,
    ino: u64,
    follow: bool,
    base: usize,
    len: usize,
    text: [u8; LONGEST],
    told: Answer,
}

static PATHS_KEPT: [Kept<Path>; PATHS] = [const {
    Kept::new(Path {
        epoch: 0,
        ino: 0,
        follow: false,
        base: 0,
        len: 0,
        text: [0; LONGEST],
        told: Answer {
            result: 0,
            pos: 0,
            names: 0,
            version: 0,
            slot: 0,
            spare: 0,
            attributes: Attributes::NONE,
        },
    })
}; PATHS];

impl Path {
    fn is_of(&self, place: &PathPlace<'_>, follow: bool) -> bool {
        let base = place.base.len();
        self.len == base + place.path.len()
            && (self.base, self.ino, self.follow) == (base, place.ino, follow)
            && self.text[..base] == *place.base
            && self.text[base..self.len] == *place.path
    }
}

/// FNV-1a of the words of a path: cheap, and no more than a place in the table.
fn kept_at(place: &PathPlace<'_>, follow: bool) -> &'static Kept<Path> {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let begin = 0xcbf2_9ce4_8422_2325 ^ place.ino ^ u64::from(follow);
    let hash = place.base.iter().chain(place.path).fold(begin, step);
    &PATHS_KEPT[(hash ^ (hash >> 32)) as usize % PATHS]
}

/// The node at a path, if it is remembered and still current: its attributes, or that there is nothing.
pub fn path(place: &PathPlace<'_>, follow: bool) -> Option<Answer> {
    let epoch = alive::connection()?;
    let told = kept_at(place, follow)
        .with(|kept| (kept.epoch == epoch && kept.is_of(place, follow)).then_some(kept.told))??;
    let is_current = |what, version| versions::is_current(epoch, what, version);
    let same = is_current(Watched::Names, told.names)
        && (told.result < 0 || is_current(Watched::Attributes(told.slot), told.version));
    same.then_some(told)
}

/// Remembers the answer for a path.
pub fn keep_path(place: &PathPlace<'_>, follow: bool, told: &Answer, epoch: u32) {
    let (base, len) = (place.base.len(), place.base.len() + place.path.len());
    let is_told = told.names != 0 && (told.result < 0 || told.version != 0);
    if !is_told || len > LONGEST {
        return;
    }
    kept_at(place, follow).with(|kept| {
        kept.text[..base].copy_from_slice(place.base);
        kept.text[base..len].copy_from_slice(place.path);
        (kept.epoch, kept.ino, kept.follow, kept.base, kept.len) = (epoch, place.ino, follow, base, len);
        kept.told = *told;
    });
}

/// The key of a page that is remembered.
struct Page {
    serial: u64,
    epoch: u32,
    number: u64,
    slot: u32,
    version: u64,
    /// Bytes that the file has of it.
    len: usize,
}

static PAGES_KEPT: [Kept<Page>; PAGES] =
    [const { Kept::new(Page { serial: 0, epoch: 0, number: 0, slot: 0, version: 0, len: 0 }) }; PAGES];
/// Where their bytes are, in the same order; null: nowhere yet.
static BYTES: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// The memory of pages, which is mapped when it is first used: large pages if the system has some to spare,
/// since a page anywhere among 16 MiB costs a walk through the page tables else.
fn memory() -> Option<*mut u8> {
    const LARGE: usize = 2 << 20;
    let there = BYTES.load(Acquire);
    if !there.is_null() {
        return Some(there);
    }
    let (size, how) = (PAGES * PAGE, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: fresh memory at an address that the kernel chooses.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), size + LARGE, how, MapFlags::PRIVATE) }.ok()?;
    let at = at.cast::<u8>();
    // SAFETY: within the mapping, which is larger by so much.
    let first = unsafe { at.add(at.align_offset(LARGE).min(LARGE)) };
    // SAFETY: advice about memory of this function's alone. Where it is not taken small pages serve.
    let _ = unsafe { madvise(first.cast(), size, Advice::LinuxHugepage) };
    match BYTES.compare_exchange(std::ptr::null_mut(), first, AcqRel, Acquire) {
        Ok(_) => Some(first),
        Err(other) => {
            // SAFETY: exactly the mapping made above, which nobody knows.
            let _ = unsafe { munmap(at.cast(), size + LARGE) };
            Some(other)
        }
    }
}

/// Calls `f` with what is known of the place of a page, and with the place; `None`: somebody else has it.
fn with_page<R>(source: Source, number: u64, f: impl FnOnce(&mut Page, &mut [u8; PAGE]) -> R) -> Option<R> {
    // Pages of one file lie side by side, those of the next one elsewhere: 2^64 divided by the golden ratio.
    let first = source.serial.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let index = first.wrapping_add(number) as usize % PAGES;
    let memory = memory()?;
    PAGES_KEPT[index].with(|page| {
        // SAFETY: within the memory; of this index, which is taken, and of no other.
        f(page, unsafe { &mut *memory.add(index * PAGE).cast::<[u8; PAGE]>() })
    })
}

/// Reads within one page, if it is remembered and still so: how many bytes there are.
fn read_in_page(source: Source, pos: u64, to: &mut [u8]) -> Option<usize> {
    let (number, at) = (pos / PAGE as u64, (pos % PAGE as u64) as usize);
    with_page(source, number, |page, bytes| {
        let is_it = (page.serial, page.epoch, page.number) == (source.serial, source.epoch, number);
        if !is_it || !versions::is_current(source.epoch, Watched::Contents(page.slot), page.version) {
            return None;
        }
        let n = page.len.saturating_sub(at).min(to.len());
        to[..n].copy_from_slice(&bytes[at..][..n]);
        Some(n)
    })?
}

/// Reads within one page; a read over more is asked for, since pages may be of different moments.
pub fn read(source: Source, pos: u64, to: &mut [u8]) -> Option<usize> {
    let within = PAGE - (pos % PAGE as u64) as usize;
    if to.len() <= within { read_in_page(source, pos, to) } else { None }
}

/// Remembers the pages that these bytes have whole; `end`: the file ends behind them. `bytes` copies from an
/// offset of them.
pub fn keep(
    source: Source,
    told: &Answer,
    pos: u64,
    len: usize,
    end: bool,
    mut bytes: impl FnMut(usize, &mut [u8]),
) {
    if told.version == 0 {
        return;
    }
    let mut at = (pos.next_multiple_of(PAGE as u64) - pos) as usize;
    while at < len && (len - at >= PAGE || end) {
        let part = (len - at).min(PAGE);
        let number = (pos + at as u64) / PAGE as u64;
        with_page(source, number, |page, to| {
            (page.serial, page.epoch, page.number) = (source.serial, source.epoch, number);
            (page.slot, page.version, page.len) = (told.slot, told.version, part);
            bytes(at, &mut to[..part]);
        });
        at += part;
    }
}
