//! Reading: each piece from its master (invariant C1), and where a file has data at all.

use crate::fs::Spfs;
use crate::tier::Tier;
use granary_device::Structure;
use granary_fs::{Call, FsError, Result};
use granary_pm::BLOCK;
use granary_units::Dest;
use granary_vfs::{NodeRef, Through};

/// Bytes loaded at once where nobody wants them.
const SCRATCH: usize = 64 << 10;

/// A run of bytes of a tiered file that has one master.
pub enum Run {
    /// Persistent memory, from this byte address on; so many bytes.
    Memory(u64, u64),
    /// The lower file; so many bytes.
    Lower(u64),
    /// Nobody: zeros; so many bytes.
    Zero(u64),
}

impl Tier {
    /// Master of the bytes from `at` on, up to `end`. All extents are known.
    pub fn run(&self, at: u64, end: u64) -> Run {
        let lcn = (at / BLOCK) as u32;
        if let Some((start, piece)) = self.covering(lcn) {
            let inside = at - u64::from(start) * BLOCK;
            let len = (u64::from(piece.len) * BLOCK - inside).min(end - at);
            if piece.is_zeros() {
                return Run::Zero(len);
            }
            return Run::Memory(u64::from(piece.pcn) * BLOCK + inside, len);
        }
        let next = self.next_start(lcn).map_or(u64::MAX, |start| u64::from(start) * BLOCK);
        match self.limit.checked_sub(at).filter(|left| *left > 0) {
            Some(left) => Run::Lower(left.min(end.min(next) - at)),
            None => Run::Zero(end.min(next) - at),
        }
    }
}

/// Which way bytes go below: as the program asked.
pub fn through(call: &Call<'_>) -> Through {
    if call.direct { Through::Direct } else { Through::Cache }
}

impl Spfs {
    /// Reads what one extent has wholly, which one search of the table finds.
    pub(crate) fn read_by_search(&self, t: &Tier, pos: u64, mut dest: Dest<'_>) -> Result<bool> {
        let Some(e) = self.store.search(t.number, (pos / BLOCK) as u32)? else { return Ok(false) };
        let inside = pos - u64::from(e.lcn) * BLOCK;
        if inside + dest.len() as u64 > u64::from(e.len) * BLOCK {
            return Ok(false);
        }
        if e.pcn == 0 {
            dest.zero();
            return Ok(true);
        }
        self.load_bytes(u64::from(e.pcn) * BLOCK + inside, dest).map(|()| true)
    }

    pub(crate) fn read_tiered(
        &self,
        call: &Call<'_>,
        below: Option<&NodeRef>,
        t: &Tier,
        pos: u64,
        mut dest: Dest<'_>,
    ) -> Result<()> {
        let end = pos + dest.len() as u64;
        let mut at = pos;
        while at < end {
            let done = (at - pos) as usize;
            at += match t.run(at, end) {
                Run::Memory(from, n) => {
                    self.load_bytes(from, dest.part(done, n as usize))?;
                    n
                }
                Run::Lower(n) => {
                    let aligned = at.is_multiple_of(BLOCK) && n.is_multiple_of(BLOCK);
                    let way = if aligned { through(call) } else { Through::Cache };
                    let below = below.ok_or(FsError::Stale)?;
                    self.read_below(call, below, at, dest.part(done, n as usize), way)?;
                    n
                }
                Run::Zero(n) => {
                    dest.part(done, n as usize).zero();
                    n
                }
            };
        }
        Ok(())
    }

    /// Reads from the lower file; what it does not reach is zero.
    pub(crate) fn read_below(
        &self,
        call: &Call<'_>,
        below: &NodeRef,
        pos: u64,
        mut dest: Dest<'_>,
        way: Through,
    ) -> Result<()> {
        let len = dest.len();
        let n = self.lower.read(&call.as_root(), below, pos, dest.part(0, len), way)?;
        dest.part(n, len - n).zero();
        Ok(())
    }

    /// Loads bytes of persistent memory.
    pub(crate) fn load_bytes(&self, at: u64, dest: Dest<'_>) -> Result<()> {
        match dest {
            Dest::Bytes(bytes) => self.store.pm.load(at, bytes, Structure::Data),
            Dest::Discard(len) => {
                let mut scratch = vec![0; len.min(SCRATCH)];
                (0..len).step_by(SCRATCH).try_for_each(|done| {
                    let n = SCRATCH.min(len - done);
                    self.store.pm.load(at + done as u64, &mut scratch[..n], Structure::Data)
                })
            }
        }
    }
}
