//! [`GivenUp`]: names that were given up since the last checkpoint, and the present places of their inodes.
//!
//! ```text
//!   fsync of a new file    recovery will enter its name, and take it from whoever has it on media
//!     who has it on media    nobody, or who is gone by now     nothing to tell
//!                            one file, elsewhere by now        the new file's inode tells where
//!                                                              (layout/forward.rs)
//!                            more than one, a directory        a checkpoint
//! ```
//!
//! The kernel's recovery takes the name and forgets the file that had it, although it was renamed and lives
//! on. Everything here is a superset: who may have a name on media must be in it, others may be.

use crate::layout::forward::Renamed;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Only a checkpoint can tell recovery what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclear;

#[derive(Default)]
struct Left {
    /// Inodes that gave the name up.
    inos: BTreeSet<u32>,
    /// A directory did.
    by_dir: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct GivenUp {
    names: BTreeMap<(u32, Vec<u8>), Left>,
    /// Inodes that gave a name up and have another: the last that it got by a rename, where it never had two.
    places: FxHashMap<u32, Option<(u32, Vec<u8>)>>,
}

impl GivenUp {
    /// A file was renamed. `only`: it has no other name. Where it had one since the last checkpoint, nobody
    /// can tell which of the names on media became which.
    pub fn moved(&mut self, ino: u32, from: (u32, &[u8]), to: (u32, &[u8]), only: bool) {
        self.names.entry((from.0, from.1.to_vec())).or_default().inos.insert(ino);
        let place = self.places.entry(ino).or_insert_with(|| Some(Default::default()));
        *place = place.take().filter(|_| only).map(|_| (to.0, to.1.to_vec()));
    }

    /// A file lost one of its names, but not the last.
    pub fn unlinked(&mut self, ino: u32, from: (u32, &[u8])) {
        self.names.entry((from.0, from.1.to_vec())).or_default().inos.insert(ino);
        self.places.insert(ino, None);
    }

    /// A directory that the last checkpoint has was renamed or removed.
    pub fn by_dir(&mut self, from: (u32, &[u8])) {
        self.names.entry((from.0, from.1.to_vec())).or_default().by_dir = true;
    }

    /// A file lost its last name.
    pub fn gone(&mut self, ino: u32) {
        self.places.remove(&ino);
    }

    /// From now on the log has a new file under a name.
    pub fn taken(&mut self, parent: u32, name: &[u8]) {
        self.names.remove(&(parent, name.to_vec()));
    }

    /// A checkpoint has everything.
    pub fn clear(&mut self) {
        self.names.clear();
        self.places.clear();
    }

    /// Inodes that live on and may have the name on media.
    fn living(&self, parent: u32, name: &[u8], on_media: &dyn Fn(u32) -> bool) -> Result<Vec<u32>, Unclear> {
        match self.names.get(&(parent, name.to_vec())) {
            None => Ok(Vec::new()),
            Some(left) if left.by_dir => Err(Unclear),
            Some(left) => {
                let all = left.inos.iter().copied();
                Ok(all.filter(|ino| self.places.contains_key(ino) && on_media(*ino)).collect())
            }
        }
    }

    /// The file that may have the name of the new file `ino` on media, with its present place: the new file
    /// must tell of it. `on_media`: whether a checkpoint or an fsync has an inode; `has_dir`: whether the
    /// last checkpoint has a directory.
    pub fn displaced(
        &self,
        ino: u32,
        parent: u32,
        name: &[u8],
        on_media: &dyn Fn(u32) -> bool,
        has_dir: &dyn Fn(u32) -> bool,
    ) -> Result<Option<Renamed>, Unclear> {
        let mut living = self.living(parent, name, on_media)?;
        living.retain(|other| *other != ino);
        let moved = match living[..] {
            [] => return Ok(None),
            [moved] => moved,
            _ => return Err(Unclear),
        };
        let Some(Some((dir, now))) = self.places.get(&moved) else { return Err(Unclear) };
        let renamed = Renamed { ino: moved, parent: *dir, name: now.clone() };
        // Any other inode that has that name on media must be gone, too.
        let others = self.living(*dir, now, on_media)?;
        let clear = others.iter().all(|other| *other == moved);
        if clear && has_dir(*dir) && renamed.fits(name.len()) { Ok(Some(renamed)) } else { Err(Unclear) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(g: &GivenUp, ino: u32, name: &str) -> Result<Option<(u32, u32, String)>, Unclear> {
        let told = g.displaced(ino, 3, name.as_bytes(), &|_| true, &|_| true)?;
        Ok(told.map(|r| (r.ino, r.parent, String::from_utf8(r.name).expect("ascii"))))
    }

    #[test]
    fn a_new_file_tells_where_the_one_before_it_is() {
        let mut g = GivenUp::default();
        assert_eq!(ask(&g, 9, "a"), Ok(None));
        g.moved(5, (3, b"a"), (4, b"b"), true);
        g.moved(5, (4, b"b"), (4, b"c"), true);
        assert_eq!(ask(&g, 9, "a"), Ok(Some((5, 4, "c".into()))));
        assert_eq!(g.displaced(9, 3, b"a", &|_| false, &|_| true), Ok(None), "media never had it");
        assert_eq!(g.displaced(9, 3, b"a", &|_| true, &|_| false), Err(Unclear), "its directory is new");
        g.gone(5);
        assert_eq!(ask(&g, 9, "a"), Ok(None));
    }

    /// Two files under one name, a chain of renames, directories, hard links, names too long: a checkpoint.
    #[test]
    fn what_an_inode_cannot_tell_is_unclear() {
        let mut g = GivenUp::default();
        g.moved(5, (3, b"a"), (3, b"b"), true);
        g.moved(6, (3, b"a"), (3, b"c"), true);
        assert_eq!(ask(&g, 9, "a"), Err(Unclear));
        g.taken(3, b"a");
        g.moved(7, (3, b"a"), (3, b"c"), true);
        assert_eq!(ask(&g, 9, "a"), Ok(Some((7, 3, "c".into()))));
        g.moved(6, (3, b"c"), (3, b"d"), true);
        assert_eq!(ask(&g, 9, "a"), Err(Unclear), "media may have 6 where 7 is");
        g.by_dir((3, b"x"));
        assert_eq!(ask(&g, 9, "x"), Err(Unclear));
        g.unlinked(8, (3, b"h"));
        assert_eq!(ask(&g, 9, "h"), Err(Unclear));
        g.moved(10, (3, b"short"), (3, &[b'x'; 251]), true);
        assert_eq!(ask(&g, 9, "short"), Err(Unclear));
        g.clear();
        assert_eq!(ask(&g, 9, "a"), Ok(None));
        g.unlinked(5, (3, b"a"));
        g.moved(5, (4, b"b"), (4, b"c"), true);
        assert_eq!(ask(&g, 9, "a"), Err(Unclear), "media have it at 4/b, too, and a is not what became c");
        g.clear();
        g.moved(5, (3, b"a"), (4, b"b"), false);
        g.moved(5, (4, b"c"), (4, b"d"), true);
        assert_eq!(ask(&g, 9, "a"), Err(Unclear), "one of two names");
    }
}
