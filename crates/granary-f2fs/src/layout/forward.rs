//! Fields of an inode that fsync writes for roll-forward recovery alone.
//!
//! ```text
//!   332  renamed: inode 4 | its directory 4 | length of its name 2      the name itself: behind the inode's
//!                                                                       own
//!   342  cuts: {first block 4, place in the warm log 4} x 2             place 0: none
//! ```
//!
//! *Renamed*: the file that media have under the name of this one has moved on since. Counts in a copy with
//! the dentry mark. *Cuts*: nodes that begin at the block or behind it and lie in the log before the place,
//! or in the checkpoint, are gone. Both mean nothing once a checkpoint has the inode.

use super::node::{NAME_AT, NAME_BYTES, name};
use super::{BlockBytes, le16, le32, put16, put32};

const RENAMED_AT: usize = 332;
const CUTS_AT: usize = 342;
/// Cuts that an inode can tell.
pub const MAX_CUTS: usize = 2;

/// A file that has left a name, and where it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The file.
    pub ino: u32,
    /// Its directory.
    pub parent: u32,
    /// Its name.
    pub name: Vec<u8>,
}

impl Renamed {
    /// Whether there is room for it in an inode with a name of `own` bytes.
    pub fn fits(&self, own: usize) -> bool {
        self.name.len() <= NAME_BYTES.saturating_sub(own)
    }
}

/// The file that had this inode's name, as the inode tells.
pub fn renamed(b: &BlockBytes) -> Option<Renamed> {
    let (ino, parent, len) = (le32(b, RENAMED_AT), le32(b, RENAMED_AT + 4), le16(b, RENAMED_AT + 8) as usize);
    let (from, end) = (NAME_AT + name(b).len(), NAME_AT + NAME_BYTES);
    let there = ino != 0 && len > 0 && from + len <= end;
    there.then(|| Renamed { ino, parent, name: b[from..from + len].to_vec() })
}

/// Writes it, which fits, or takes it away.
pub fn set_renamed(b: &mut BlockBytes, to: Option<&Renamed>) {
    let from = NAME_AT + name(b).len();
    b[from..NAME_AT + NAME_BYTES].fill(0);
    b[RENAMED_AT..CUTS_AT].fill(0);
    if let Some(r) = to {
        put32(b, RENAMED_AT, r.ino);
        put32(b, RENAMED_AT + 4, r.parent);
        put16(b, RENAMED_AT + 8, r.name.len() as u16);
        b[from..from + r.name.len()].copy_from_slice(&r.name);
    }
}

/// A cut that took nodes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// First block that went.
    pub block: u32,
    /// Where the warm log went on then.
    pub at: u32,
}

/// The cuts of one file since the last checkpoint, as far as they matter: later ones are behind earlier ones,
/// in the file, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts(pub Vec<Cut>);

impl Cuts {
    /// One more.
    pub fn add(&mut self, cut: Cut) {
        self.0.retain(|c| c.block < cut.block);
        self.0.push(cut);
    }

    /// Whether an inode can tell them all.
    pub fn fit(&self) -> bool {
        self.0.len() <= MAX_CUTS
    }

    /// Those that an inode tells.
    pub fn read(b: &BlockBytes) -> Cuts {
        let cut = |n: usize| Cut { block: le32(b, CUTS_AT + 8 * n), at: le32(b, CUTS_AT + 8 * n + 4) };
        Cuts((0..MAX_CUTS).map(cut).filter(|c| c.at != 0).collect())
    }

    /// Writes them, which fit.
    pub fn store(&self, b: &mut BlockBytes) {
        b[CUTS_AT..CUTS_AT + 8 * MAX_CUTS].fill(0);
        for (n, cut) in self.0.iter().enumerate() {
            put32(b, CUTS_AT + 8 * n, cut.block);
            put32(b, CUTS_AT + 8 * n + 4, cut.at);
        }
    }
}

const _: () = assert!(super::node::MAX_BLOCKS <= u32::MAX as u64);
const _: () = assert!(CUTS_AT + 8 * MAX_CUTS <= super::node::ADDRS_AT);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::node::set_name;

    #[test]
    fn what_is_written_is_read_and_touches_nothing_else() {
        let mut b = [0xff; 4096];
        set_name(&mut b, b"own");
        let before = b;
        let r = Renamed { ino: 7, parent: 8, name: vec![b'x'; 252] };
        assert!(r.fits(3) && !r.fits(4));
        let cuts = Cuts(vec![Cut { block: 0, at: 9 }, Cut { block: 5, at: 11 }]);
        set_renamed(&mut b, Some(&r));
        cuts.store(&mut b);
        assert_eq!((renamed(&b), Cuts::read(&b), name(&b)), (Some(r), cuts, &b"own"[..]));
        assert_eq!((&b[..NAME_AT], &b[360..]), (&before[..NAME_AT], &before[360..]));
        set_renamed(&mut b, None);
        Cuts::default().store(&mut b);
        assert_eq!((renamed(&b), Cuts::read(&b)), (None, Cuts::default()));
    }

    /// A cut hides those behind it, and none before it.
    #[test]
    fn only_cuts_that_matter_are_kept() {
        let mut cuts = Cuts::default();
        for (block, at) in [(50, 1), (80, 2), (80, 3), (90, 4)] {
            cuts.add(Cut { block, at });
        }
        assert_eq!(cuts.0.iter().map(|c| (c.block, c.at)).collect::<Vec<_>>(), [(50, 1), (80, 3), (90, 4)]);
        assert!(!cuts.fit());
        cuts.add(Cut { block: 50, at: 5 });
        assert_eq!(cuts.0, [Cut { block: 50, at: 5 }]);
        assert!(cuts.fit());
    }
}
