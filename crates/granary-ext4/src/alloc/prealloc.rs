//! Preallocation: runs that are taken from the search but not from the bitmaps.
//!
//! ```text
//!   small files (<= 16 blocks)   one run of 512 blocks per CPU, handed out block by block
//!   larger files                 one window per file: logical..logical+len at start
//! ```
//!
//! In memory only: after a power loss the blocks are simply free.

use super::Groups;
use granary_fs::Result;
use granary_sim::cpu_id;

/// Files up to this many blocks share the locality groups' runs (`s_mb_stream_request`).
pub(super) const STREAM: u32 = 16;
/// Blocks of a locality group's run (`s_mb_group_prealloc`).
const GROUP_RUN: u32 = 512;
/// Largest window of a file in blocks (8 MiB).
const WINDOW: u32 = 2048;

/// Free blocks that lie together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub start: u64,
    pub len: u32,
}

/// A file's window.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilePrealloc {
    logical: u32,
    start: u64,
    len: u32,
}

/// Where the window that holds logical block `at` ends, for a file that reaches `blocks` blocks: powers of
/// two up to 1 MiB, then aligned windows of 2, 4 and 8 MiB (`ext4_mb_normalize_request`).
fn window_end(at: u32, blocks: u32) -> u32 {
    let aligned = |n: u32| (at / n + 1).saturating_mul(n);
    match blocks {
        0..=256 => blocks.next_power_of_two(),
        257..=1024 => aligned(512),
        1025..=2048 => aligned(1024),
        _ => aligned(WINDOW),
    }
}

impl Groups {
    /// Takes up to `want` blocks from this CPU's run, near `goal` where a new one is needed.
    pub(super) fn take_small(&self, goal: u64, want: u32) -> Result<Option<Run>> {
        let slot = &self.locality[cpu_id(self.locality.len())];
        let mut run = slot.lock().take();
        if run.is_none_or(|r| r.len < want) {
            if let Some(r) = run.take() {
                self.release_run(r);
            }
            run = self.claim(goal, GROUP_RUN)?;
        }
        let Some(r) = run else { return Ok(None) };
        let n = want.min(r.len);
        let rest = Run { start: r.start + n as u64, len: r.len - n };
        // Another task of the same CPU may have brought a run meanwhile.
        let surplus = if rest.len > 0 { slot.lock().replace(rest) } else { None };
        if let Some(s) = surplus {
            self.release_run(s);
        }
        Ok(Some(Run { start: r.start, len: n }))
    }

    /// Takes up to `want` blocks for logical block `at` from the file's window, or from a new one near
    /// `goal`.
    pub(super) fn take_large(
        &self,
        ino: u32,
        at: u32,
        want: u32,
        blocks: u32,
        goal: u64,
    ) -> Result<Option<Run>> {
        let old = {
            let mut all = self.file_preallocs.lock();
            match all.get(&ino).copied() {
                Some(p) if p.logical == at && p.len > 0 => {
                    let n = want.min(p.len);
                    let rest = FilePrealloc { logical: at + n, start: p.start + n as u64, len: p.len - n };
                    if rest.len > 0 {
                        all.insert(ino, rest)
                    } else {
                        all.remove(&ino)
                    };
                    return Ok(Some(Run { start: p.start, len: n }));
                }
                Some(_) => all.remove(&ino),
                None => None,
            }
        };
        if let Some(p) = old {
            self.release_run(Run { start: p.start, len: p.len });
        }
        let len = (window_end(at, blocks.max(at + want)).saturating_sub(at)).clamp(want, WINDOW.max(want));
        let Some(r) = self.claim(goal, len)? else { return Ok(None) };
        let n = want.min(r.len);
        if r.len > n {
            let rest = FilePrealloc { logical: at + n, start: r.start + n as u64, len: r.len - n };
            let raced = self.file_preallocs.lock().insert(ino, rest);
            if let Some(p) = raced {
                self.release_run(Run { start: p.start, len: p.len });
            }
        }
        Ok(Some(Run { start: r.start, len: n }))
    }

    /// Gives a file's window back.
    pub fn discard(&self, ino: u32) {
        let p = self.file_preallocs.lock().remove(&ino);
        if let Some(p) = p {
            self.release_run(Run { start: p.start, len: p.len });
        }
    }

    /// Gives every preallocation back: space is short. Returns whether there was any.
    pub(super) fn discard_all(&self) -> bool {
        let windows = std::mem::take(&mut *self.file_preallocs.lock());
        let mut runs: Vec<Run> = windows.values().map(|p| Run { start: p.start, len: p.len }).collect();
        runs.extend(self.locality.iter().filter_map(|slot| slot.lock().take()));
        for r in &runs {
            self.release_run(*r);
        }
        !runs.is_empty()
    }
}
