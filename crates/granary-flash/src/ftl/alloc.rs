//! Where the next page goes: planes in turn, one open block per plane and stream, least-worn free blocks
//! first.
//!
//! ```text
//!   host, apart:  order[cursor], [cursor+1]...  first plane with room in its open block, or with a free
//!                                               block
//!                                               beyond the one that belongs to gc; a cursor for each stream
//!   gc copies:    the victim's own plane        its open gc block, else a free block, else any other plane
//! ```
//!
//! Invariant: outside gc every plane in good health has at least one free block. A victim with a stale page
//! fits in the open gc block and one free block, and gives a free block back; so gc of a plane can always
//! finish what it began. Blocks lost in the middle of gc are made up for by other planes.
//!
//! Cold data goes to the most worn free block, which then rests with it.
//!
//! Planes may fill unequally (a host that only overwrites what lies in some planes): a plane without room is
//! passed over.

use super::Ftl;
use super::gc::{Effort, Job};
use crate::counters::Cause;
use crate::error::FlashError;
use crate::medium::{BlockNo, Medium, Oob};
use granary_units::{Nanos, Page, Ppa};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Streams of data, each of which fills an open block of its own. Data that gc moves has outlived its
/// neighbours: it is kept apart from new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// New data, except for [`Stream::Apart`].
    Host,
    /// Live pages of gc victims and of failing blocks.
    Gc,
    /// Data that static wear leveling found lying still.
    Cold,
    /// New data that is kept apart from the rest ([`crate::Placement`]).
    Apart,
}

impl Stream {
    pub(crate) const COUNT: usize = 4;
    pub(crate) const ALL: [Stream; Stream::COUNT] = [Stream::Host, Stream::Gc, Stream::Cold, Stream::Apart];

    /// Whether its data comes from another flash block.
    pub(crate) fn moves(self) -> bool {
        matches!(self, Stream::Gc | Stream::Cold)
    }
}

/// The block that a stream is filling in a plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) block: u32,
    /// Pages programmed; all of them where there is no open block, so that "has room" is one comparison.
    pub(crate) used: u32,
}

impl Open {
    pub(crate) const NONE: Open = Open { block: u32::MAX, used: u32::MAX };

    pub(crate) fn is_open(&self) -> bool {
        self.block != u32::MAX
    }
}

/// Free blocks of a plane, least erased first (dynamic wear leveling), of equals the lowest number.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeBlocks(BinaryHeap<Reverse<u64>>);

impl FreeBlocks {
    pub(crate) fn new(blocks: impl Iterator<Item = (u32, u32)>) -> FreeBlocks {
        FreeBlocks(blocks.map(|(block, erases)| Reverse(key(block, erases))).collect::<Vec<_>>().into())
    }

    pub(crate) fn push(&mut self, block: u32, erases: u32) {
        self.0.push(Reverse(key(block, erases)));
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.0.pop().map(|Reverse(k)| k as u32)
    }

    fn pop_most_erased(&mut self) -> Option<u32> {
        let &Reverse(most) = self.0.iter().min()?;
        self.0.retain(|&Reverse(k)| k != most);
        Some(most as u32)
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|&Reverse(k)| k as u32)
    }
}

fn key(block: u32, erases: u32) -> u64 {
    (erases as u64) << 32 | block as u64
}

/// The FTL's state of one plane.
#[derive(Clone, Debug)]
pub(crate) struct Plane {
    pub(crate) free: FreeBlocks,
    pub(crate) open: [Open; Stream::COUNT],
    /// The block that gc is emptying.
    pub(crate) job: Option<Job>,
    /// Blocks with a failed program whose data must move before they are marked bad.
    pub(crate) retiring: Vec<u32>,
    /// Gc goes on until the plane has `gc_stop` free blocks.
    pub(crate) collecting: bool,
    /// Erases since static wear leveling last looked.
    pub(crate) erases_unlooked: u32,
    /// Block of the plane (0 to blocks_per_plane - 1) where static wear leveling looks next.
    pub(crate) wear_hand: u32,
    /// Most erases of a block of this plane.
    pub(crate) most_erases: u32,
}

impl<M: Medium> Ftl<M> {
    /// The stream that new data for `cause` belongs to; `overwrites`: its page has content.
    #[inline]
    pub(super) fn stream_of(&self, cause: Cause, overwrites: bool) -> Stream {
        let has_second = self.config.has_second_stream();
        match has_second && self.policies.placement.is_apart(cause, overwrites) {
            true => Stream::Apart,
            false => Stream::Host,
        }
    }

    /// The plane that takes the next page of a stream of new data, with room in its open block.
    #[inline]
    pub(super) fn next_plane(&mut self, now: Nanos, stream: Stream) -> Result<u32, FlashError> {
        let mut at = self.cursors[stream as usize];
        let mut plane = self.order[at as usize];
        if self.planes[plane as usize].open[stream as usize].used >= self.config.geometry.pages_per_block {
            at = self.search_plane(now, stream)?;
            plane = self.order[at as usize];
        }
        self.cursors[stream as usize] = if at + 1 == self.order.len() as u32 { 0 } else { at + 1 };
        Ok(plane)
    }

    /// The place in the order of the next plane with room.
    fn search_plane(&mut self, now: Nanos, stream: Stream) -> Result<u32, FlashError> {
        let planes = self.order.len() as u32;
        for i in 0..planes {
            let at = (self.cursors[stream as usize] + i) % planes;
            let plane = self.order[at as usize];
            // Leaves gc its block.
            if self.room(plane, stream, 1) {
                return Ok(at);
            }
            // Passed over: let its gc go on, so that it can take part again.
            self.gc_step(now, plane, Effort::Share)?;
        }
        // No plane has a free page for the host: this write has to wait for whole blocks.
        while let Some(plane) = self.most_gain() {
            let finished = self.gc_step(now, plane, Effort::WholeBlock)?;
            if self.room(plane, stream, 1) {
                let at = self.order.iter().position(|&p| p == plane);
                return Ok(at.expect("every plane is in the order") as u32);
            }
            if !finished {
                break;
            }
        }
        self.read_only = true;
        Err(FlashError::ReadOnly { lost_blocks: self.lost_blocks })
    }

    /// The plane whose gc frees most pages for the fewest copies.
    fn most_gain(&self) -> Option<u32> {
        (0..self.planes.len() as u32)
            .filter_map(|p| Some((self.gain_of(p)?, p)))
            .max_by_key(|&(gain, p)| (gain, std::cmp::Reverse(p)))
            .map(|(_, p)| p)
    }

    /// The plane and the open block that take a page moved out of a block of plane `home`, for `stream` if
    /// possible.
    pub(super) fn destination(&mut self, home: u32, stream: Stream) -> Option<(u32, Stream)> {
        if stream == Stream::Cold && self.room(home, Stream::Cold, 1) {
            return Some((home, Stream::Cold));
        }
        if self.room(home, Stream::Gc, 0) {
            return Some((home, Stream::Gc));
        }
        // Only after blocks were lost: borrow where one is to spare, then wherever there is any.
        let planes = self.planes.len() as u32;
        let others = || (home + 1..home + planes).map(|p| p % planes);
        let other = others()
            .find(|&p| self.room(p, Stream::Gc, 1))
            .or_else(|| others().find(|&p| self.room(p, Stream::Gc, 0)))?;
        Some((other, Stream::Gc))
    }

    /// Whether the stream's open block in the plane has room, after opening one if that leaves `keep` free
    /// blocks.
    fn room(&mut self, plane: u32, stream: Stream, keep: u32) -> bool {
        let p = &mut self.planes[plane as usize];
        if p.open[stream as usize].used < self.config.geometry.pages_per_block {
            return true;
        }
        if p.free.len() <= keep {
            return false;
        }
        let block = if stream == Stream::Cold { p.free.pop_most_erased() } else { p.free.pop() };
        p.open[stream as usize] = block.map_or(Open::NONE, |block| Open { block, used: 0 });
        if let Some(youngest) = block.and_then(|b| self.youngest.get_mut(b as usize)) {
            *youngest = 0;
        }
        block.is_some()
    }

    /// Programs the next page of the plane's open block and maps it. `None` where the program failed: the
    /// block is then closed for good, and another page must be found.
    #[inline]
    pub(super) fn append(
        &mut self,
        now: Nanos,
        plane: u32,
        stream: Stream,
        lpa: u32,
        page: &Page,
        cause: Cause,
    ) -> Result<Option<Nanos>, FlashError> {
        let per_block = self.config.geometry.pages_per_block;
        let open = self.planes[plane as usize].open[stream as usize];
        let ppa = open.block * per_block + open.used;
        let programmed = self.nand.program(now, Ppa(ppa), page, Oob { lpa, seq: self.seq + 1 });
        let done = match programmed {
            Ok(done) => Some(done),
            Err(FlashError::ProgramFailed { .. }) => None,
            Err(e) => return Err(e),
        };
        self.seq += 1;
        self.counters.program_pages[cause as usize] += 1;
        let open = &mut self.planes[plane as usize].open[stream as usize];
        open.used += 1;
        let (block, full) = (open.block, open.used == per_block);
        if done.is_some() {
            self.map(lpa, block, ppa);
            if full {
                self.planes[plane as usize].open[stream as usize] = Open::NONE;
                self.close(block, stream);
            }
        } else {
            self.retire_open(plane, stream);
        }
        Ok(done)
    }

    /// A program of the stream's open block has failed: its data is to move, then it goes out of service.
    pub(super) fn retire_open(&mut self, plane: u32, stream: Stream) {
        let p = &mut self.planes[plane as usize];
        let open = std::mem::replace(&mut p.open[stream as usize], Open::NONE);
        p.retiring.push(open.block);
        self.lose_block();
    }

    /// A block is full: gc may empty it from now on.
    pub(super) fn close(&mut self, block: u32, stream: Stream) {
        self.valid.offer(block);
        if !stream.moves()
            && let Some(youngest) = self.youngest.get_mut(block as usize)
        {
            *youngest = self.seq;
        }
    }

    /// Counts a block out of service.
    pub(super) fn lose_block(&mut self) {
        self.read_only |= self.spare_blocks() == 0;
        self.lost_blocks += 1;
    }

    /// Puts an erased block among the free ones of its plane.
    pub(super) fn add_free(&mut self, block: u32) {
        let erases = self.nand.header(BlockNo(block)).erases;
        let plane = self.config.geometry.plane_of(block);
        self.planes[plane as usize].free.push(block, erases);
    }
}
